package config

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stile-lock/stile/server/peers"
)

// know makes names of nodes known, instead of those that the network knows.
func know(t *testing.T, hosts map[string]string) {
	was := lookupIP
	t.Cleanup(func() { lookupIP = was })
	lookupIP = func(_ context.Context, _, host string) ([]netip.Addr, error) {
		if ip, err := netip.ParseAddr(host); err == nil {
			return []netip.Addr{ip}, nil
		}
		if ip, ok := hosts[host]; ok {
			return []netip.Addr{netip.MustParseAddr(ip)}, nil
		}
		return nil, errors.New("no such host")
	}
}

var nodes = map[string]string{"localhost": "127.0.0.1", "node1": "10.0.0.1", "one": "10.0.0.1", "node2": "10.0.0.2", "node3": "10.0.0.3"}

func TestPeers(t *testing.T) {
	clean(t)
	know(t, nodes)
	secret := "--cluster-secret-file=" + file(t, "among-us\n")
	const three = "--peers=node1:5625,node2:5625,node3:5625"
	for _, tt := range []struct {
		args []string
		list string
		self int
	}{
		{nil, "", -1},
		{[]string{"--peers="}, "", -1},
		{[]string{"--peers=127.0.0.1:5625"}, "127.0.0.1:5625#0", 0},
		{[]string{"--peers=127.0.0.1:5625", "--listen=[::ffff:127.0.0.1]:05625"}, "127.0.0.1:5625#0", 0},
		{[]string{"--peers=127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", "--listen=127.0.0.1:2"}, "127.0.0.1:1#0,127.0.0.1:2#1,127.0.0.1:3#2", 1},
		{[]string{"--peers=localhost:1, localhost:2", "--listen=LOCALHOST:2"}, "localhost:1#0,localhost:2#1", 1},
		{[]string{"--peers=127.0.0.1:80,127.0.0.1:81", "--listen=127.0.0.1:http"}, "127.0.0.1:80#0,127.0.0.1:81#1", 0},
		// The flag again goes on with the list.
		{[]string{"--peers=127.0.0.1:1", "--peers=127.0.0.1:2,127.0.0.1:3", "--listen=127.0.0.1:3"}, "127.0.0.1:1#0,127.0.0.1:2#1,127.0.0.1:3#2", 2},
		{[]string{"--peers=10.0.0.1:5625#3,10.0.0.2:5625#1", "--listen=10.0.0.2:5625", secret, "--insecure"}, "10.0.0.1:5625#3,10.0.0.2:5625#1", 1},
		{[]string{three, "--listen=:5625", "--advertise=node2:5625", secret, "--insecure"}, "node1:5625#0,node2:5625#1,node3:5625#2", 1},
		{[]string{three, "--listen=0.0.0.0:7000", "--advertise=NODE3.:5625", secret, "--insecure"}, "node1:5625#0,node2:5625#1,node3:5625#2", 2},
		{[]string{three, "--listen=127.0.0.1:0", "--advertise=node1:5625"}, "node1:5625#0,node2:5625#1,node3:5625#2", 0},
		{[]string{"--peers=node1:5625,node10:5625", "--advertise=node10:5625"}, "node1:5625#0,node10:5625#1", 1},
		// As behind a proxy on loopback: others have their own addresses there.
		{[]string{"--peers=127.0.1.1:5625,127.0.1.2:5625", "--listen=127.0.0.1:5625", "--advertise=127.0.1.2:5625"}, "127.0.1.1:5625#0,127.0.1.2:5625#1", 1},
		{[]string{"--peers=node1:5625,node2:5625", "--listen=127.0.0.1:5625", "--advertise=node1:5625"}, "node1:5625#0,node2:5625#1", 0},
	} {
		c := parse(t, tt.args...)
		if c.PeerList.String() != tt.list || c.Self != tt.self {
			t.Errorf("%q: %v, this is %d, want %s and %d", tt.args, c.PeerList, c.Self, tt.list, tt.self)
		}
	}
	c := parse(t, "--peers=Node1.:5625#4,node2:5625", "--advertise=node1:5625")
	if want := (peers.Peer{ID: 4, Addr: "Node1.:5625"}); c.PeerList[c.Self] != want {
		t.Errorf("this is %v, want %v", c.PeerList[c.Self], want)
	}
}

func TestPeersFromFileAndEnvironment(t *testing.T) {
	clean(t)
	const want = "10.0.0.1:1#0,127.0.0.1:5625#7"
	for _, content := range []string{
		"peers: 10.0.0.1:1,127.0.0.1:5625#7\n",
		"peers: \"10.0.0.1:1, 127.0.0.1:5625#7\"\n",
		"peers: >\n  10.0.0.1:1,\n  127.0.0.1:5625#7\n",
		"peers:\n- 10.0.0.1:1\n- 127.0.0.1:5625#7\n",
		"peers: [10.0.0.1:1, '127.0.0.1:5625#7']\n",
	} {
		if c := parse(t, "--config", file(t, content)); c.PeerList.String() != want || c.Self != 1 {
			t.Errorf("%q: %v, this is %d", content, c.PeerList, c.Self)
		}
	}
	for _, content := range []string{"peers:\n", "peers: ''\n", "peers: []\n"} {
		if c := parse(t, "--config", file(t, content)); c.PeerList != nil || c.Self != -1 {
			t.Errorf("%q: %v, this is %d", content, c.PeerList, c.Self)
		}
	}
	list := file(t, "peers:\n- 10.0.0.9:9\n- 10.0.0.8:8\n")
	t.Setenv("STILE_PEERS", "10.0.0.1:1,127.0.0.1:5625#7")
	if c := parse(t, "--config", list); c.PeerList.String() != want {
		t.Errorf("environment over file: %v", c.PeerList)
	}
	// A flag replaces what the environment and the file say, and adds nothing.
	if c := parse(t, "--config", list, "--peers=127.0.0.1:5625"); c.PeerList.String() != "127.0.0.1:5625#0" {
		t.Errorf("flag over all: %v", c.PeerList)
	}
}

func TestPeersThatAreWrong(t *testing.T) {
	clean(t)
	know(t, nodes)
	secret := file(t, "open-sesame\n")
	const three = "--peers=node1:5625,node2:5625,node3:5625"
	for _, tt := range []struct {
		args  []string
		parts []string
	}{
		{[]string{"--peers=,"}, []string{"--peers", "entry 1 is empty"}},
		{[]string{"--peers=127.0.0.1:5625,"}, []string{"--peers", "entry 2 is empty"}},
		{[]string{"--peers=127.0.0.1:5625", "--peers="}, []string{"--peers", "entry 2 is empty"}},
		{[]string{"--peers=127.0.0.1"}, []string{"--peers", `"127.0.0.1"`, "host:port"}},
		{[]string{`--peers=127.0.0.1:5625\,b:2`}, []string{"--peers", "host:port"}},
		{[]string{"--peers=127.0.0.1:5625,0.0.0.0:5625"}, []string{"--peers", "entry 2", "unspecified"}},
		{[]string{"--peers=127.0.0.1:5625,a:1#16"}, []string{"--peers", "entry 2", "0 to 15"}},
		{[]string{"--peers=127.0.0.1:5625,LOCALHOST:1,localhost:1"}, []string{"--peers", "entry 2", "entry 3", "same address"}},
		{[]string{"--peers=127.0.0.1:5625" + strings.Repeat(",127.0.0.1:5625", 16)}, []string{"--peers", "at most 16"}},

		// Which of them is this node?
		{[]string{three}, []string{"--peers", "127.0.0.1:5625", "in no entry", "node1:5625#0,node2:5625#1,node3:5625#2", "--advertise"}},
		{[]string{three, "--advertise=node4:5625"}, []string{"--peers", "node4:5625", "in no entry"}},
		{[]string{three, "--advertise=node2:5626"}, []string{"node2:5626", "in no entry", "another port"}},
		{[]string{"--peers=node10:5625", "--advertise=node1:5625"}, []string{"in no entry"}},
		{[]string{"--peers=localhost:5625"}, []string{"in no entry", "entry 1", "give --advertise localhost:5625"}},
		{[]string{three, "--listen=:5625", "--insecure"}, []string{"--listen :5625", "give --advertise"}},
		{[]string{three, "--listen=0.0.0.0:5625", "--insecure"}, []string{"--listen 0.0.0.0:5625", "give --advertise"}},
		{[]string{three, "--listen=[::]:5625", "--insecure"}, []string{"--listen [::]:5625", "give --advertise"}},
		{[]string{three, "--listen=[::ffff:0.0.0.0]:5625", "--insecure"}, []string{"--listen [::ffff:0.0.0.0]:5625 does not tell", "give --advertise"}},
		{[]string{"--peers=127.0.0.1:5625", "--listen=127.0.0.1:0"}, []string{"--listen 127.0.0.1:0", "free port", "--advertise"}},
		{[]string{"--peers=node1:5625,10.0.0.1:5625", "--advertise=node1:5625"}, []string{"--peers", "twice", "entry 1, node1:5625", "entry 2, 10.0.0.1:5625"}},
		{[]string{"--peers=node1:5625,one:5625", "--advertise=one:5625"}, []string{"twice", "10.0.0.1:5625"}},
		{[]string{"--peers=127.0.0.1:5625,localhost:5625"}, []string{"twice", "entry 1", "entry 2"}},
		{[]string{"--peers=node1:5625,127.0.0.1:7000", "--advertise=node1:5625", "--listen=127.0.0.1:7000"}, []string{"--peers", "twice", "entry 1", "--advertise node1:5625", "entry 2", "--listen 127.0.0.1:7000"}},

		{[]string{"--min-in-sync=1"}, []string{"--min-in-sync 1", "needs --peers"}},
		{[]string{"--min-in-sync=1", "--replication=sync"}, []string{"--min-in-sync 1", "needs --peers"}},
		{[]string{"--min-in-sync=1", three, "--advertise=node1:5625"}, []string{"--min-in-sync 1", "needs --replication sync"}},
		{[]string{"--min-in-sync=3", three, "--advertise=node1:5625", "--replication=sync"}, []string{"--min-in-sync 3", "0 to 2"}},
		{[]string{"--min-in-sync=1", "--peers=127.0.0.1:5625", "--replication=sync"}, []string{"--min-in-sync 1", "0 to 0"}},

		// Who has lost the list must not serve beside the others.
		{[]string{"--cluster-secret-file", secret}, []string{"--cluster-secret-file " + secret, "no --peers", "give it the list of --peers, or remove --cluster-secret-file"}},
		{[]string{"--cluster-secret-file", secret, "--peers="}, []string{"--cluster-secret-file", "no --peers"}},
		{[]string{"--replication=sync"}, []string{"--replication sync", "no --peers", "remove --replication sync"}},

		// A secret for each of the two.
		{[]string{three, "--listen=10.0.0.1:5625", "--advertise=node1:5625"}, []string{"--listen 10.0.0.1:5625", "--secret-file"}},
		{[]string{three, "--listen=10.0.0.1:5625", "--advertise=node1:5625", "--cluster-secret-file", secret}, []string{"--listen", "give --secret-file"}},
		{[]string{three, "--listen=10.0.0.1:5625", "--advertise=node1:5625", "--secret-file", secret}, []string{"--listen 10.0.0.1:5625", "give --cluster-secret-file", "--insecure"}},
		{[]string{three, "--listen=:5625", "--advertise=node1:5625", "--secret-file", secret}, []string{"--listen :5625", "give --cluster-secret-file"}},
	} {
		refused(t, tt.args, tt.parts...)
	}
}

func TestClusterWarnings(t *testing.T) {
	clean(t)
	know(t, nodes)
	secret := file(t, "open-sesame\n")
	beyond := func(more ...string) []string {
		return append(more, "--peers=node1:5625,node2:5625", "--listen=:5625", "--advertise=node1:5625")
	}
	for _, tt := range []struct {
		args []string
		want []string // a part of each warning
	}{
		{nil, nil},
		{[]string{"--peers=127.0.0.1:1,127.0.0.1:5625"}, nil},
		{[]string{"--peers=127.0.0.1:1,127.0.0.1:5625", "--replication=sync", "--min-in-sync=1"}, nil},
		{[]string{"--peers=127.0.0.1:1,127.0.0.1:5625", "--insecure"}, nil},
		{beyond("--secret-file="+secret, "--cluster-secret-file="+secret), nil},
		{beyond("--secret-file="+secret, "--insecure"), []string{"INSECURE: :5625 is reachable from other machines, and whoever reaches it can join the cluster"}},
		{beyond("--cluster-secret-file="+secret, "--insecure"), []string{"asks for no secret"}},
		{beyond("--insecure"), []string{"asks for no secret", "join the cluster"}},
		{[]string{"--replication=sync", "--peers=127.0.0.1:5625"}, []string{"--replication sync changes nothing"}},
		{[]string{"--heartbeat=300ms", "--takeback=manual"}, []string{"--takeback, --heartbeat: of no effect without --peers"}},
		{[]string{"--sync-timeout=2s"}, []string{"--sync-timeout: of no effect"}},
		{[]string{"--failure-timeout=2s"}, []string{"--failure-timeout: of no effect"}},
		{[]string{"--boot-grace=2s"}, []string{"--boot-grace: of no effect"}},
		{[]string{"--boot-grace=1s", "--takeback=auto", "--sync-timeout=1s", "--heartbeat=200ms", "--failure-timeout=1s", "--replication=async", "--min-in-sync=0", "--cluster-secret-file="}, nil},
		{[]string{"--peers=127.0.0.1:5625", "--cluster-secret-file=" + secret, "--takeback=manual"}, nil},
		{[]string{"--peers=node1:5625,node2:5625", "--advertise=node1:5625"}, []string{"--listen 127.0.0.1:5625 is reachable from this machine only"}},
		{[]string{"--peers=127.0.1.1:5625,127.0.1.2:5625", "--advertise=127.0.1.1:5625"}, nil},
		{[]string{"--peers=node1:5625", "--advertise=node1:5625"}, nil},
		{[]string{"--peers=unknown1:5625,unknown2:5625", "--advertise=unknown1:5625"}, nil},
	} {
		c := parse(t, tt.args...)
		ok := len(c.Warnings) == len(tt.want)
		for i := range min(len(c.Warnings), len(tt.want)) {
			ok = ok && strings.Contains(c.Warnings[i], tt.want[i])
		}
		if !ok {
			t.Errorf("%q: warnings %q, want %q", tt.args, c.Warnings, tt.want)
		}
	}
}

// A name server that does not answer costs a start 2 s, whatever the number
// of names.
func TestLookupsEnd(t *testing.T) {
	clean(t)
	was := lookupIP
	t.Cleanup(func() { lookupIP = was })
	asked := 0
	lookupIP = func(ctx context.Context, _, _ string) ([]netip.Addr, error) {
		asked++
		if until, ok := ctx.Deadline(); !ok || time.Until(until) > lookupTime {
			t.Errorf("a lookup until %v", until)
		}
		return nil, context.DeadlineExceeded
	}
	c := parse(t, "--peers=node1:5625,node2:5625,node3:5625", "--advertise=node2:5625")
	if c.Self != 1 || asked == 0 {
		t.Errorf("this is %d; %d lookups", c.Self, asked)
	}
}
