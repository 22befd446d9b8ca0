package cluster

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stile-lock/stile/client"
	"github.com/stile-lock/stile/conformance/cluster/rig"
	"github.com/stile-lock/stile/protocol/invariants"
)

// stiled is the binary under test, built once.
var stiled string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	// The tests mostly wait. More of them at once would be in each other's way
	// where there are few cores.
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		f.Value.Set("3")
	}
	dir, err := os.MkdirTemp("", "stile-cluster-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	stiled = filepath.Join(dir, "stiled")
	// Built as the tests are.
	args := []string{"build", "-o", stiled}
	if raceEnabled {
		args = append(args, "-race")
	}
	if invariants.Enabled {
		args = append(args, "-tags", "invariants")
	}
	build := exec.Command("go", append(args, "./cmd/stiled")...)
	build.Dir = filepath.Join("..", "..", "server")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building stiled: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// Timings of most tests. The default is a second; half of it is still far
// above what a busy machine does to a heartbeat.
const (
	heartbeat      = 100 * time.Millisecond
	failureTimeout = 500 * time.Millisecond
)

var fast = []string{"--heartbeat=100ms", "--failure-timeout=500ms", "--boot-grace=500ms", "--takeback=500ms"}

// cluster is one that ends with the test.
type cluster struct {
	*rig.Cluster
	t *testing.T
}

// newCluster chooses the addresses; it starts no node.
func newCluster(t *testing.T, nodes int, relays bool, flags ...string) *cluster {
	t.Helper()
	c, err := rig.New(rig.Options{
		Binary: stiled, Nodes: nodes, Relays: relays, Dir: t.TempDir(),
		Flags: append(append([]string(nil), fast...), flags...),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		logs := c.Logs()
		c.Close()
		if t.Failed() {
			t.Logf("the nodes wrote:\n%s", logs)
		}
		for _, bad := range []string{"panic:", "fatal error:", "DATA RACE", "goroutine "} {
			if i := strings.Index(logs, bad); i >= 0 {
				t.Errorf("a node wrote %q:\n%s", bad, logs[i:min(len(logs), i+4000)])
				break
			}
		}
	})
	return &cluster{c, t}
}

// startCluster starts one and waits until node 1 serves and the others follow
// it.
func startCluster(t *testing.T, nodes int, relays bool, flags ...string) *cluster {
	t.Helper()
	c := newCluster(t, nodes, relays, flags...)
	ok(t, c.StartAll())
	c.settled(1)
	return c
}

func (c *cluster) settled(id int) {
	c.t.Helper()
	if _, err := c.WaitSettled(id, rig.Patience); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) active(id int) time.Duration {
	c.t.Helper()
	took, err := c.WaitActive(id, rig.Patience)
	ok(c.t, err)
	return took
}

func (c *cluster) start(id int, flags ...string) {
	c.t.Helper()
	ok(c.t, c.Node(id).Start(flags...))
}

// stop asks a node to stop, and expects it to end well.
func (c *cluster) stop(id int) {
	c.t.Helper()
	status, err := c.Node(id).Stop(rig.Patience)
	ok(c.t, err)
	if status != 0 {
		c.t.Errorf("node %d ended with status %d", id, status)
	}
}

func (c *cluster) status(id int) rig.Status {
	c.t.Helper()
	s, err := c.Node(id).Status()
	ok(c.t, err)
	return s
}

// load starts one with the usual settings.
func (c *cluster) load(change ...func(*rig.Load)) *rig.Load {
	c.t.Helper()
	l := &rig.Load{Addrs: c.Addrs(), Workers: 6, Keys: 3, Prefix: "load/", Hold: 3 * time.Millisecond, Lease: 20 * time.Second, RetryFor: 10 * time.Second}
	for _, f := range change {
		f(l)
	}
	ok(c.t, l.Start())
	c.t.Cleanup(l.Abort)
	return l
}

// client dials all nodes.
func (c *cluster) client(opts ...client.Option) *client.Client {
	c.t.Helper()
	cl, err := client.Dial(c.t.Context(), c.Addrs(), append([]client.Option{client.RetryFor(rig.Patience)}, opts...)...)
	ok(c.t, err)
	c.t.Cleanup(func() { cl.Close() })
	return cl
}

// dial makes a raw connection to what a node advertises.
func (c *cluster) dial(id int) *rig.Conn {
	c.t.Helper()
	conn, err := rig.Dial(c.Node(id).Advertise)
	ok(c.t, err)
	c.t.Cleanup(func() { conn.Close() })
	return conn
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func until(t *testing.T, what string, cond func() bool) time.Duration {
	t.Helper()
	took, err := rig.Until(rig.Patience, what, func() (bool, error) { return cond(), nil })
	ok(t, err)
	return took
}

// ask asks one line and returns the answer.
func ask(t *testing.T, conn *rig.Conn, format string, args ...any) string {
	t.Helper()
	answer, err := conn.Ask(rig.Patience, format, args...)
	if err != nil {
		t.Fatalf("%s: %v", fmt.Sprintf(format, args...), err)
	}
	return answer
}
