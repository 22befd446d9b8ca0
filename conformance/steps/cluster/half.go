// Package cluster has the steps of the cluster half: it starts nodes of
// anybody's server by a command line, breaks them and the network between
// them, and judges what clients see.
//
// half.go makes the half; template.go reads the command line; nodes.go has the
// cluster of one scenario; clients.go what its clients do and see; polls.go
// those who ask all nodes at all times; steps.go names the steps.
package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cucumber/godog"

	"github.com/stile-lock/stile/conformance/cluster/rig"
	"github.com/stile-lock/stile/conformance/lines"
	"github.com/stile-lock/stile/conformance/report"
	"github.com/stile-lock/stile/conformance/suite"
	"github.com/stile-lock/stile/features"
	"github.com/stile-lock/stile/protocol"
)

// Options say how nodes are started, and what they can't say of themselves.
type Options struct {
	Launch *Template
	Secret string // that clients give; "" if none is asked for
	// FailoverWithin is how long nobody may serve after the active has failed.
	FailoverWithin time.Duration
	// StartWithin is how long a cluster may take until it serves.
	StartWithin time.Duration
	// Logs is a directory for what the nodes write, a file for each scenario;
	// "" for none.
	Logs string
}

// Usual values of the options.
const (
	FailoverWithin = 2 * time.Second
	StartWithin    = 10 * time.Second
)

// nodes is how many a cluster has: one that fails, one that takes over, and
// one that sees both.
const nodes = 3

// Half judges clusters of such nodes.
func Half(o Options) suite.Half {
	if o.FailoverWithin == 0 {
		o.FailoverWithin = FailoverWithin
	}
	if o.StartWithin == 0 {
		o.StartWithin = StartWithin
	}
	t := &target{Options: o}
	return suite.Half{
		Name: "cluster", Title: "a cluster", FS: features.Cluster(),
		Prepare: t.prepare, Register: t.register, Close: t.close,
		// Each has three processes that mostly wait. Where many of them start
		// at once, the machine makes nodes late, and the suite blames them.
		Concurrency: 5,
		TimeLimit:   time.Minute,
	}
}

type target struct {
	Options
	dir string // for the nodes' state
}

// clientName is the suite's in a hello, for the nodes' logs.
const clientName = "stile-conformance"

func (t *target) close() error {
	if t.dir == "" {
		return nil
	}
	return os.RemoveAll(t.dir)
}

// open chooses the addresses of a cluster. It starts nothing.
func (t *target) open(name string) (*rig.Cluster, error) {
	dir := filepath.Join(t.dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	var c *rig.Cluster
	c, err := rig.New(rig.Options{
		Nodes: nodes, Relays: true, Dir: dir,
		Command: func(n *rig.Node) []string { return t.Launch.command(n, c.Addrs()) },
	})
	if err != nil {
		return nil, fmt.Errorf("the loopback addresses 127.0.1.1 to 127.0.1.%d are needed for the nodes: %w", nodes, err)
	}
	return c, nil
}

// prepare starts a cluster once, to see what its nodes can do, and from where
// they dial each other.
func (t *target) prepare(ctx context.Context) (found suite.Target, err error) {
	found = suite.Target{
		Target: report.Target{Name: t.Launch.text},
		Judged: []string{"cluster"}, Missing: map[string]string{}, Has: map[string]bool{},
	}
	if t.Logs != "" {
		if err := os.MkdirAll(t.Logs, 0o755); err != nil {
			return found, err
		}
	}
	if t.dir, err = os.MkdirTemp("", "stile-conformance-"); err != nil {
		return found, err
	}
	c, err := t.open("prepare")
	if err != nil {
		return found, err
	}
	defer func() {
		t.keepLogs(c, "prepare")
		c.Close()
	}()
	for _, n := range c.Nodes() {
		if err := n.Launch(); err != nil {
			return found, fmt.Errorf("%q can't be started: %w", strings.Join(t.Launch.command(n, c.Addrs()), " "), err)
		}
	}
	for _, n := range c.Nodes() {
		if err := n.WaitListens(t.StartWithin); err != nil {
			return found, fmt.Errorf("%w\nIt was started with: %s", err, strings.Join(t.Launch.command(n, c.Addrs()), " "))
		}
	}
	// Not through the relays, so that whoever calls them is a node.
	if err := t.waitServes(ctx, c); err != nil {
		return found, err
	}
	if err := t.hello(&found, c.Node(1).Listen); err != nil {
		return found, err
	}
	calls := c.Net.Callers()
	switch {
	case len(calls) == 0:
		found.Missing["partitions"] = "no node has dialed another one at its advertised address, so nothing between them can be cut"
	case slices.ContainsFunc(calls, func(pair [2]int) bool { return pair[0] == rig.Clients }):
		found.Missing["partitions"] = "a node dials the others from another address than 127.0.1.I, so the relays can't tell who calls: it should dial from the loopback address that it listens on"
	}
	if found.Missing["partitions"] != "" {
		found.Has["partitions"] = false
	}
	return found, nil
}

// waitServes waits until a node grants.
func (t *target) waitServes(ctx context.Context, c *rig.Cluster) error {
	last := "nothing"
	for end := time.Now().Add(t.StartWithin); time.Now().Before(end); {
		for _, n := range c.Nodes() {
			if ctx.Err() != nil {
				return errors.New("interrupted")
			}
			a, err := t.ask(n.Listen, "A conformance/prepare -1 1")
			switch {
			case err != nil:
				last = err.Error()
			case a.Op == 'A':
				return nil
			case a.Code == protocol.CodeUnauthorized:
				return errors.New("the nodes ask for a secret: give --secret-file")
			default:
				last = fmt.Sprintf("%c %s", a.Op, a.CodeName)
			}
		}
		time.Sleep(suite.ProbeEvery)
	}
	return fmt.Errorf("no node of a new cluster has granted a free key within %v; the last answer: %s\n%s", t.StartWithin, last, c.Logs())
}

// hello asks what a node can do.
func (t *target) hello(found *suite.Target, addr string) error {
	a, err := t.ask(addr, "H 1 "+clientName+secretField(t.Secret))
	if err != nil {
		return err
	}
	if a.Op != 'H' {
		return nil // it has core, and what a cluster is
	}
	found.Hello = "H 1 ADDR " + string(a.Profiles)
	for _, p := range strings.Split(string(a.Profiles), ",") {
		if p == "-" || !slices.Contains(suite.Profiles, p) {
			continue
		}
		found.Profiles = append(found.Profiles, p)
		found.Has[p] = true
		if p != "core" && p != "cluster" {
			found.Judged = append(found.Judged, p)
		}
	}
	return nil
}

func secretField(secret string) string {
	if secret == "" {
		return ""
	}
	return " " + secret
}

// ask asks one line over a connection of its own.
func (t *target) ask(addr, line string) (a protocol.Answer, err error) {
	nc, err := net.DialTimeout("tcp", addr, suite.Answer)
	if err != nil {
		return a, err
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(suite.Answer))
	in := bufio.NewReader(lines.Bounded(nc, 1<<16))
	requests := []string{line}
	if t.Secret != "" {
		requests = []string{"H 1 " + clientName + secretField(t.Secret), line}
	}
	for _, l := range requests {
		if _, err := fmt.Fprintf(nc, "%s\n", l); err != nil {
			return a, err
		}
		text, err := in.ReadString('\n')
		if err != nil {
			return a, err
		}
		if err := protocol.ParseAnswer([]byte(strings.TrimSuffix(text, "\n")), &a); err != nil {
			return a, fmt.Errorf("%q is no answer (SPEC.md 2.4)", text)
		}
		if a.Op == 'E' && a.For == 'H' && a.Code != protocol.CodeUnknownOp {
			return a, fmt.Errorf("a node refuses a hello: %q", text)
		}
	}
	return a, nil
}

func (t *target) keepLogs(c *rig.Cluster, name string) {
	if t.Logs != "" {
		os.WriteFile(filepath.Join(t.Logs, strings.ReplaceAll(name, "/", "-")+".log"), []byte(c.Logs()), 0o644)
	}
}

func (t *target) register(sc *godog.ScenarioContext, w *suite.World) {
	s := &scenario{
		w: w, t: t, names: map[string]int{}, paused: map[int]bool{}, conns: map[place]*conn{},
		asks: map[ask]moment{}, held: map[ask]held{}, many: map[string][]held{},
	}
	s.steps(sc)
}
