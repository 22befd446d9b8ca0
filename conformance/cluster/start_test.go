package cluster

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stile-lock/stile/client"
	"github.com/stile-lock/stile/conformance/cluster/rig"
)

// remains checks for a time that node 1 and nobody else serves.
func (c *cluster) remains(p *rig.Prober, from time.Time, d time.Duration) {
	c.t.Helper()
	time.Sleep(time.Until(from.Add(d)))
	if givers := rig.Givers(p.Grants(), from); len(givers) != 1 || givers[0] != 1 {
		c.t.Errorf("nodes %v gave grants, want node 1 alone", givers)
	}
}

// Three nodes that start at once have one active, soon.
func TestColdStart(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, false)
	p := c.ProbeEvery(10 * time.Millisecond)
	for _, n := range c.Nodes() {
		ok(t, n.Launch())
	}
	took := c.active(1)
	c.settled(1)
	t.Logf("active after %v", took)
	if took > 3*time.Second {
		t.Errorf("active after %v", took)
	}
	c.remains(p, time.Now(), 2*failureTimeout)
	p.Stop()
	// Where the first node is slow to listen, another one does not wait for it.
	if n := c.BecameActive(); n > 2 {
		t.Errorf("nodes became active %d times", n)
	}
	if err := rig.CheckTokens(p.Grants(), true); err != nil {
		t.Error(err)
	}
}

// A node whose peers are not there serves alone: at once where connections are
// refused, after the grace where nothing is heard.
func TestAloneAtStart(t *testing.T) {
	t.Parallel()
	t.Run("refused", func(t *testing.T) {
		c := newCluster(t, 3, false)
		c.start(2)
		if took := c.active(2); took > 2*time.Second {
			t.Errorf("active after %v", took)
		}
	})
	t.Run("silent", func(t *testing.T) {
		c := newCluster(t, 3, true, "--boot-grace=800ms")
		c.Net.Partition([]int{2}, []int{1, 3})
		start := time.Now()
		c.start(2)
		c.active(2)
		took := time.Since(start)
		t.Logf("active after %v", took)
		if took < 800*time.Millisecond || took > 800*time.Millisecond+4*failureTimeout {
			t.Errorf("active after %v with a boot grace of 0.8 s", took)
		}
	})
}

// A standby answers every request about a lock with the address that the list
// of peers has for the active, and knows no other.
func TestRedirect(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, true)
	for _, id := range []int{2, 3} {
		conn := c.dial(id)
		for _, line := range []string{"A k -1 5", "A k 0 5", "A k 3 5 nonce1", "R k 1", "K k 1 5", "C k nonce1"} {
			want := fmt.Sprintf("M %.1s k %s", line, c.Node(1).Advertise)
			if got := ask(t, conn, "%s", line); got != want {
				t.Errorf("node %d: %q: got %q, want %q", id, line, got, want)
			}
		}
		if got := ask(t, conn, "P word"); got != "P word" {
			t.Errorf("node %d: got %q", id, got)
		}
		if got, want := ask(t, conn, "H 1 me"), "H 1 "+c.Node(id).Advertise+" "; !strings.HasPrefix(got, want) {
			t.Errorf("node %d: got %q, want %q and its profiles", id, got, want)
		}
	}
	for _, opts := range [][]client.Option{nil, {client.RetryFor(rig.Patience)}} {
		cl, err := client.Dial(t.Context(), c.Node(3).Advertise, opts...)
		ok(t, err)
		lock, err := cl.Acquire(t.Context(), "k", client.Wait(5*time.Second))
		ok(t, err)
		ok(t, lock.Keep(t.Context(), time.Minute))
		ok(t, lock.Release(t.Context()))
		cl.Close()
	}
}

// refuses runs node 1 with arguments that it must refuse.
func refuses(t *testing.T, status int, args []string, say ...string) {
	t.Helper()
	got, stderr, err := rig.Run(rig.Patience, stiled, args...)
	ok(t, err)
	if got != status {
		t.Errorf("it ended with status %d, want %d:\n%s", got, status, stderr)
	}
	for _, text := range say {
		if !strings.Contains(stderr, text) {
			t.Errorf("it does not say %q:\n%s", text, stderr)
		}
	}
	if strings.Contains(stderr, "this node is active") {
		t.Errorf("it was active:\n%s", stderr)
	}
}

// A node that finds itself in no entry of the list, or twice, is an error of
// the settings.
func TestNotItsOwnPeer(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, false)
	one, two, three := c.Node(1), c.Node(2).Listen, c.Node(3).Listen
	_, port, _ := net.SplitHostPort(one.Listen)
	for name, peers := range map[string]string{
		"missing":             two + "," + three,
		"a longer port":       one.Listen + "0," + two,
		"another host":        "127.0.1.11:" + port + "," + two,
		"twice":               one.Listen + "," + two + "," + one.Listen,
		"twice in other ways": one.Listen + "," + two + ",127.0.1.1:0" + port,
		"an id twice":         one.Listen + "#1," + two + "#1",
		"no port":             "127.0.1.1," + two,
		"the address of all":  "0.0.0.0:" + port + "," + two,
	} {
		t.Run(name, func(t *testing.T) {
			one.Peers = peers
			refuses(t, 2, one.Args(), "--peers")
		})
	}
}

// Names are compared as names, whatever they are written like, and clients are
// told what stands in the list.
func TestNames(t *testing.T) {
	t.Parallel()
	named := func(host string) func(addr string) string {
		return func(addr string) string {
			_, port, _ := net.SplitHostPort(addr)
			return host + ":" + port
		}
	}
	for _, host := range []string{"localhost", "LOCALHOST"} {
		t.Run(host, func(t *testing.T) {
			c, err := rig.New(rig.Options{Binary: stiled, Nodes: 2, Dir: t.TempDir(), Flags: fast, Name: named(host)})
			ok(t, err)
			t.Cleanup(c.Close)
			// One that is not told its name does not guess it.
			refuses(t, 2, c.Node(1).Args("--advertise="), "give --advertise "+c.Node(1).Advertise)
			ok(t, c.StartAll())
			if _, err := c.WaitSettled(1, rig.Patience); err != nil {
				t.Fatalf("%v\n%s", err, c.Logs())
			}
			conn, err := rig.Dial(c.Node(2).Listen)
			ok(t, err)
			defer conn.Close()
			if got, want := ask(t, conn, "A k -1 1"), "M A k "+c.Node(1).Advertise; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
	// The same node by name and by address is two, for the ids' sake.
	t.Run("mixed", func(t *testing.T) {
		c, err := rig.New(rig.Options{Binary: stiled, Nodes: 2, Dir: t.TempDir(), Flags: fast, Name: named("localhost")})
		ok(t, err)
		t.Cleanup(c.Close)
		ok(t, c.Node(1).Start())
		c.Node(2).Peers = c.Node(1).Listen + "," + c.Node(2).Listen
		refuses(t, 1, c.Node(2).Args("--advertise="), "localhost", c.Node(1).Listen)
	})
}

// A node that starts with a list that does not go with that of a node which
// runs says so, with both lists, and ends. The others take no notice.
func TestOtherList(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, false)
	c.start(1)
	c.start(2)
	c.active(1)
	p := c.ProbeEvery(10 * time.Millisecond)
	from := time.Now()
	one, two, three := c.Node(1).Listen, c.Node(2).Listen, c.Node(3).Listen
	for _, list := range []string{
		three + "," + two + "," + one,
		two + "," + one + "," + three,
		one + "#0," + two + "#5," + three + "#2",
	} {
		c.Node(3).Peers = list
		// Both, in the form with ids.
		refuses(t, 1, c.Node(3).Args(), "peers list", one+"#0,"+two+"#1,"+three+"#2", strings.Split(list, ",")[0])
	}
	// One that lacks a node in the end goes with it.
	c.Node(3).Peers = ""
	c.start(3)
	c.settled(1)
	c.remains(p, from, 0)
	p.Stop()
	if n := c.BecameActive(); n != 1 {
		t.Errorf("nodes became active %d times", n)
	}
}

// Two processes with the address of one node: the newer one ends, the older
// one does not feel it.
func TestOneIdentityTwice(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, true)
	p := c.ProbeEvery(10 * time.Millisecond)
	from := time.Now()
	one := c.Node(1)

	t.Run("at the same address", func(t *testing.T) {
		refuses(t, 1, one.Args("--state-dir", t.TempDir()), one.Listen)
	})
	t.Run("with the same disk", func(t *testing.T) {
		refuses(t, 1, one.Args("--listen=127.0.1.1:0", "--admin=127.0.1.1:0"), one.StateDir())
	})
	t.Run("behind the same address", func(t *testing.T) {
		refuses(t, 1, one.Args("--listen=127.0.1.1:0", "--admin=127.0.1.1:0", "--state-dir", t.TempDir()), "id of this node")
	})
	c.settled(1)
	c.remains(p, from, 0)
	p.Stop()
	if gap := rig.Gap(p.Grants(), from, time.Now()); gap > failureTimeout {
		t.Errorf("%v without a grant", gap)
	}
	if n := c.BecameActive(); n != 1 {
		t.Errorf("nodes became active %d times", n)
	}
}

// A node with another secret than the others, or none, gets no data, gives no
// grant beside them, and everybody's log says why.
func TestOtherSecret(t *testing.T) {
	t.Parallel()
	write := func(t *testing.T, name, secret string) string {
		file := filepath.Join(t.TempDir(), name)
		ok(t, os.WriteFile(file, []byte(secret+"\n"), 0o600))
		return "--cluster-secret-file=" + file
	}
	for name, flags := range map[string]func(t *testing.T) []string{
		"another": func(t *testing.T) []string { return []string{write(t, "other", "not-what-the-others-have")} },
		"none":    func(t *testing.T) []string { return []string{"--cluster-secret-file="} },
	} {
		t.Run(name, func(t *testing.T) {
			secret := write(t, "secret", "the-secret-of-this-cluster")
			c := newCluster(t, 3, false, secret)
			c.start(1)
			c.start(2)
			c.active(1)
			p := c.ProbeEvery(10 * time.Millisecond)
			from := time.Now()
			ok(t, c.Node(3).Launch(flags(t)...))
			until(t, "node 3 says why", func() bool { return c.Node(3).Said("secret;") || c.Node(3).Said("cluster secret") })
			until(t, "node 1 says why", func() bool { return c.Node(1).Said("does not know the cluster's secret") })
			c.remains(p, from, 5*failureTimeout)
			p.Stop()
			if s := c.status(1); s.Cluster.Peers[1].ID == 2 && s.Cluster.Peers[1].Reached {
				t.Error("node 1 has a link to node 3")
			}
			if strings.Contains(c.Logs(), "the-secret-of-this-cluster") {
				t.Error("a log has the secret")
			}
		})
	}
}
