package cluster

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stile-lock/stile/client"
	"github.com/stile-lock/stile/conformance/cluster/rig"
	"github.com/stile-lock/stile/conformance/testca"
)

// tlsFlags issue a certificate to a node.
func tlsFlags(c *cluster, ca *testca.CA, id int) []string {
	host, _, _ := net.SplitHostPort(c.Node(id).Advertise)
	cert, key := ca.Issue(fmt.Sprintf("node%d", id), host)
	return []string{"--tls-cert", cert, "--tls-key", key}
}

// startTLS starts three nodes that know each other by certificates alone.
func startTLS(t *testing.T, ca *testca.CA, flags ...string) *cluster {
	t.Helper()
	c := newCluster(t, 3, false, append([]string{"--tls-client-ca", ca.File}, flags...)...)
	for _, n := range c.Nodes() {
		c.start(n.ID, tlsFlags(c, ca, n.ID)...)
	}
	c.settled(1)
	return c
}

// A cluster over mutual TLS hands over, fails over, and takes nodes back, and
// clients follow from node to node.
func TestMutualTLS(t *testing.T) {
	t.Parallel()
	ca := testca.New(t, "ours")
	c := startTLS(t, ca, "--replication=sync")
	secure := client.TLS(&tls.Config{RootCAs: ca.Pool, Certificates: []tls.Certificate{ca.Pair("client")}})
	lock, err := c.client(secure).Acquire(t.Context(), "held", client.Lease(time.Minute))
	ok(t, err)
	l := c.load(func(l *rig.Load) { l.Options = []client.Option{secure} })
	done := func() {
		t.Helper()
		before := l.Done()
		until(t, "the load goes on", func() bool { return l.Done() > before+50 })
	}
	done()
	c.stop(1) // a handoff
	c.settled(2)
	done()
	c.Node(2).Kill() // a failover
	c.settled(3)
	done()
	// Both return with certificates that were made meanwhile.
	c.start(1, tlsFlags(c, ca, 1)...)
	c.start(2, tlsFlags(c, ca, 2)...)
	c.settled(1)
	done()
	ok(t, lock.Keep(t.Context(), time.Minute))
	ok(t, lock.Release(t.Context()))
	ops := l.Stop()
	noneFailed(t, ops)
	judge(t, l, ops, true)
}

// A node with a certificate of another authority, with another secret, or with
// a client's certificate gets nothing, both sides say why, and those who serve
// go on.
func TestStrangeNodesOverTLS(t *testing.T) {
	t.Parallel()
	ca, other := testca.New(t, "ours"), testca.New(t, "other")
	secret := func(text string) string {
		name := filepath.Join(t.TempDir(), "secret")
		ok(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	c := startTLS(t, ca, "--cluster-secret-file", secret("ours"))
	for _, tt := range []struct {
		name         string
		flags        []string
		says, theirs string // in the logs of node 3, and of node 1
	}{
		{"another authority", append(tlsFlags(c, other, 3), "--tls-client-ca", other.File), "its certificate is refused", "a TLS handshake failed"},
		{"another authority that knows ours", append(tlsFlags(c, other, 3), "--tls-client-ca", both(t, ca, other)), "refuses this node's certificate", "a TLS handshake failed"},
		{"another secret", append(tlsFlags(c, ca, 3), "--cluster-secret-file", secret("other")), "another cluster secret", "does not know the cluster's secret"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &cluster{c.Cluster, t}
			c.Node(3).Kill()
			before := c.Node(1).Count(tt.theirs)
			c.start(3, tt.flags...)
			until(t, "node 3 says "+tt.says, func() bool { return c.Node(3).Said(tt.says) })
			// It is logged every 10 s at most.
			until(t, "node 1 says "+tt.theirs, func() bool { return before > 0 || c.Node(1).Count(tt.theirs) > before })
			time.Sleep(3 * failureTimeout)
			if s := c.status(3); s.Serves() {
				t.Errorf("node 3 serves, though it hears that others are there: %+v", s.Cluster)
			}
			for _, p := range c.status(1).Cluster.Peers {
				if p.ID == 2 && p.Fed {
					t.Error("it is fed")
				}
			}
			c.active(1) // on a busy machine it may be paused for a moment
		})
	}
	c.Node(3).Kill()
	c.start(3, tlsFlags(c, ca, 3)...)
	c.settled(1)
}

// A node that speaks TLS beside nodes that do not, or the other way round, is
// there and can't be spoken with. So it does not become active beside them, nor
// do two of its kind, and it says why in its log, in its status and to whoever
// asks whether it is ready. Those who serve go on, and take over from each other.
func TestTLSOnOneSide(t *testing.T) {
	t.Parallel()
	ca := testca.New(t, "ours")
	for _, tt := range []struct {
		name            string
		secure          bool // the misfits
		problem, theirs string
	}{
		{"plain beside TLS", false, "does not speak as a node", "does not speak TLS"},
		{"TLS beside plain", true, "does not speak TLS", "all nodes have --tls-cert"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCluster(t, 3, false)
			flags := func(id int, secure bool) []string {
				if !secure {
					return nil
				}
				return append(tlsFlags(c, ca, id), "--tls-client-ca", ca.File)
			}
			for id := 1; id <= 3; id++ {
				c.start(id, flags(id, !tt.secure)...)
			}
			c.settled(1)
			waits := func(id int) {
				t.Helper()
				until(t, "the node knows why it waits", func() bool { return strings.Contains(c.status(id).Cluster.Why, "there can be no link") })
				if s := c.status(id); s.Serves() || s.Cluster.Role != "joining" {
					t.Errorf("node %d: %+v", id, s.Cluster)
				}
				resp, err := http.Get("http://" + c.Node(id).Admin + "/readyz")
				ok(t, err)
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				ok(t, err)
				if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), "there can be no link") {
					t.Errorf("node %d: /readyz is %d %s", id, resp.StatusCode, body)
				}
				if text := "a peer is there that it has no link with"; c.Node(id).Count(text) != 1 {
					t.Errorf("node %d says %d times: %s", id, c.Node(id).Count(text), text)
				}
				if p := c.status(id).Cluster.Peers[0]; !p.There || !strings.Contains(p.Problem, tt.problem) {
					t.Errorf("node %d says of node 1: %+v", id, p)
				}
			}
			c.Node(3).Kill()
			ok(t, c.Node(3).Wipe())
			c.start(3, flags(3, tt.secure)...)
			time.Sleep(6 * failureTimeout)
			waits(3)
			if p := c.status(1).Cluster.Peers[1]; !p.There || !strings.Contains(p.Problem, tt.theirs) {
				t.Errorf("node 1 says of node 3: %+v", p)
			}
			c.active(1)
			if got := c.BecameActive(); got != 1 {
				t.Errorf("%d times one became active", got)
			}
			// The misfit keeps nobody from taking over.
			c.Node(1).Kill()
			c.active(2)
			// And two misfits are no better than one.
			c.start(1, flags(1, tt.secure)...)
			time.Sleep(6 * failureTimeout)
			c.active(2)
			if s, got := c.status(1), c.BecameActive(); s.Serves() || got != 2 {
				t.Errorf("node 1: %+v, %d times one became active", s.Cluster, got)
			}
			for _, id := range []int{1, 3} {
				c.Node(id).Kill()
				c.start(id, flags(id, !tt.secure)...)
			}
			c.settled(1)
		})
	}
}

// both is a file with both authorities.
func both(t *testing.T, a, b *testca.CA) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "both.pem")
	var all []byte
	for _, ca := range []*testca.CA{a, b} {
		text, err := os.ReadFile(ca.File)
		ok(t, err)
		all = append(all, text...)
	}
	ok(t, os.WriteFile(name, all, 0o600))
	return name
}

// Certificates that the peers would refuse are refused at the start.
func TestCertificateOfAnotherHost(t *testing.T) {
	t.Parallel()
	ca := testca.New(t, "ours")
	c := newCluster(t, 3, false)
	cert, key := ca.Issue("node1", "n1.test")
	refuses(t, 2, c.Node(1).Args("--tls-cert", cert, "--tls-key", key, "--tls-client-ca", ca.File), "the peers dial this node as 127.0.1.1")
}

// All nodes change to certificates of a new authority, one file and one SIGHUP
// after the other, while the cluster serves.
func TestNewAuthority(t *testing.T) {
	t.Parallel()
	old, next := testca.New(t, "old"), testca.New(t, "next")
	trusted := both(t, old, old)
	c := newCluster(t, 3, false, "--tls-client-ca", trusted)
	flags := map[int][]string{}
	for _, n := range c.Nodes() {
		flags[n.ID] = tlsFlags(c, old, n.ID)
		c.start(n.ID, flags[n.ID]...)
	}
	c.settled(1)
	l := c.load(func(l *rig.Load) {
		l.Options = []client.Option{client.TLS(&tls.Config{RootCAs: old.Pool, Certificates: []tls.Certificate{old.Pair("client")}})}
	})
	reload := func(id int) {
		t.Helper()
		before := c.Node(id).Count("SIGHUP: read anew")
		c.Node(id).Signal(syscall.SIGHUP)
		until(t, "the files are read", func() bool { return c.Node(id).Count("SIGHUP: read anew") > before })
	}
	text, err := os.ReadFile(both(t, old, next))
	ok(t, err)
	ok(t, os.WriteFile(trusted, text, 0o600))
	for id := 1; id <= 3; id++ {
		reload(id)
	}
	for id := 1; id <= 3; id++ {
		host, _, _ := net.SplitHostPort(c.Node(id).Advertise)
		next.IssueTo(flags[id][1], flags[id][3], "node", host)
		reload(id)
	}
	if n := c.BecameActive(); n != 1 {
		t.Errorf("nodes became active %d times", n)
	}
	noneFailed(t, l.Stop())
	// New links work, too.
	c.Node(3).Kill()
	c.start(3, flags[3]...)
	c.settled(1)
	if logs := c.Logs(); strings.Contains(logs, "can't be used") || strings.Contains(logs, "TLS handshake failed") {
		t.Error("something went wrong")
	}
}
