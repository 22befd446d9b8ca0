package rig

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stile-lock/stile/conformance/ports"
)

// Options say what a cluster is made of.
type Options struct {
	Binary string // stiled
	Nodes  int
	Relays bool
	Dir    string   // for state directories
	Flags  []string // for every node; later ones win
	// Name is what stands in the list of peers for 127.0.0.1:port, on which
	// all nodes listen then. Not with Relays.
	Name func(addr string) string
	// Command makes the command line of a node, in place of Binary and its
	// flags: a node of somebody else's, of which nothing is known but that it
	// listens.
	Command func(*Node) []string
}

// Cluster is some nodes on loopback, running or not.
type Cluster struct {
	Net   *Network
	opts  Options
	nodes []*Node
	given []string // addresses whose ports are its own

	mu  sync.Mutex
	old []string // logs of processes that have ended
}

// Node is one node of a cluster.
type Node struct {
	ID        int    // counted from 1
	Listen    string // of the process itself
	Advertise string // in the list of peers
	Admin     string
	Peers     string // if it has another list than the others

	c *Cluster
	p *process // nil: not running
}

// New chooses the addresses of a cluster. It starts no node.
func New(o Options) (*Cluster, error) {
	if err := Supported(); err != nil {
		return nil, err
	}
	c := &Cluster{Net: newNetwork(), opts: o}
	for id := 1; id <= o.Nodes; id++ {
		n := &Node{ID: id, c: c}
		for _, addr := range []*string{&n.Listen, &n.Admin} {
			var err error
			if *addr, err = ports.Addr(o.ip(id)); err != nil {
				c.Close()
				return nil, err
			}
			c.given = append(c.given, *addr)
		}
		n.Advertise = n.Listen
		if o.Name != nil {
			n.Advertise = o.Name(n.Listen)
		}
		if o.Relays {
			l, err := ports.Listen(o.ip(id))
			if err != nil {
				c.Close()
				return nil, err
			}
			c.given = append(c.given, l.Addr().String())
			c.Net.relay(l, id, n.Listen)
			n.Advertise = l.Addr().String()
		}
		c.nodes = append(c.nodes, n)
	}
	return c, nil
}

func (o Options) ip(id int) string {
	if o.Name != nil {
		return "127.0.0.1"
	}
	return fmt.Sprintf("127.0.1.%d", id)
}

// Close ends everything.
func (c *Cluster) Close() {
	for _, n := range c.nodes {
		if n.p != nil {
			n.Kill()
		}
	}
	c.Net.close()
	for _, addr := range c.given {
		ports.Free(addr)
	}
	c.given = nil
}

// Node returns node id, counted from 1.
func (c *Cluster) Node(id int) *Node { return c.nodes[id-1] }

// Nodes returns all, in order.
func (c *Cluster) Nodes() []*Node { return c.nodes }

// Addrs is the list of peers, as clients take it, too.
func (c *Cluster) Addrs() string {
	addrs := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		addrs[i] = n.Advertise
	}
	return strings.Join(addrs, ",")
}

// Logs is what all processes have written.
func (c *Cluster) Logs() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	logs := slices.Clone(c.old)
	for _, n := range c.nodes {
		if n.p != nil {
			logs = append(logs, n.logs())
		}
	}
	return strings.Join(logs, "\n")
}

func (n *Node) logs() string {
	return fmt.Sprintf("== node %d, %s\n%s", n.ID, n.Advertise, strings.Join(n.p.log(), "\n"))
}

// Tail is the end of what the present process has written.
func (n *Node) Tail(lines int) string {
	log := n.p.log()
	return strings.Join(log[max(0, len(log)-lines):], "\n")
}

// StartAll starts all nodes that do not run.
func (c *Cluster) StartAll() error {
	for _, n := range c.nodes {
		if n.p == nil {
			if err := n.Start(); err != nil {
				return err
			}
		}
	}
	return nil
}

// StateDir is where the node keeps its epoch.
func (n *Node) StateDir() string { return filepath.Join(n.c.opts.Dir, fmt.Sprintf("node%d", n.ID)) }

// Wipe loses the node's disk.
func (n *Node) Wipe() error { return os.RemoveAll(n.StateDir()) }

// Args are the arguments that the node is started with.
func (n *Node) Args(flags ...string) []string {
	peers := n.Peers
	if peers == "" {
		peers = n.c.Addrs()
	}
	args := []string{"--listen", n.Listen, "--admin", n.Admin, "--peers", peers, "--state-dir", n.StateDir()}
	if n.Advertise != n.Listen {
		args = append(args, "--advertise", n.Advertise)
	}
	return append(append(args, n.c.opts.Flags...), flags...)
}

// Start starts the node, and returns when it listens. Flags given here win.
func (n *Node) Start(flags ...string) error {
	if err := n.Launch(flags...); err != nil {
		return err
	}
	return n.WaitListens(Patience)
}

// WaitListens waits until a node that was launched listens. Its error has what
// the node wrote, if it ended instead.
func (n *Node) WaitListens(limit time.Duration) error {
	_, err := Until(limit, fmt.Sprintf("node %d listens", n.ID), func() (bool, error) {
		if n.p.ended() {
			return false, fmt.Errorf("node %d did not start:\n%s", n.ID, strings.Join(n.p.log(), "\n"))
		}
		if n.c.opts.Command == nil {
			return n.p.said("stiled listens"), nil
		}
		conn, err := net.DialTimeout("tcp", n.Listen, time.Second)
		if err != nil {
			return false, nil
		}
		return true, conn.Close()
	})
	return err
}

// Launch starts the node and waits for nothing.
func (n *Node) Launch(flags ...string) error {
	command := append([]string{n.c.opts.Binary}, n.Args(flags...)...)
	if n.c.opts.Command != nil {
		command = n.c.opts.Command(n)
	}
	p, err := launch(command[0], command[1:]...)
	if err != nil {
		return err
	}
	n.c.mu.Lock()
	n.p = p
	n.c.mu.Unlock()
	return nil
}

// Running reports whether the node's process is there.
func (n *Node) Running() bool { return n.p != nil && !n.p.ended() }

func (n *Node) bury() {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	n.c.old = append(n.c.old, n.logs())
	n.p = nil
}

// Kill ends the node as kill -9 does.
func (n *Node) Kill() {
	n.p.kill()
	n.bury()
}

// Pause stops the process, and whatever it started, without its noticing, as
// SIGSTOP does. When it returns, nothing of the process goes on.
func (n *Node) Pause() {
	signalGroup(n.p.cmd.Process, pause)
	Until(Patience, "the process has stopped", func() (bool, error) { return n.p.ended() || stopped(n.p.cmd.Process), nil })
}

// Resume lets a paused process go on.
func (n *Node) Resume() { signalGroup(n.p.cmd.Process, resume) }

// Signal sends the process a signal.
func (n *Node) Signal(s os.Signal) { n.p.signal(s) }

// Pid is the id of the process.
func (n *Node) Pid() int { return n.p.cmd.Process.Pid }

// Terminate asks the node to stop, and returns at once.
func (n *Node) Terminate() { n.p.signal(terminate) }

// Wait waits for the node's own end, and returns its exit status.
func (n *Node) Wait(limit time.Duration) (int, error) {
	status, err := n.p.wait(limit)
	if err == nil {
		n.bury()
	}
	return status, err
}

// Stop is Terminate and Wait.
func (n *Node) Stop(limit time.Duration) (int, error) {
	n.Terminate()
	return n.Wait(limit)
}

// Said reports whether a line of the present process's log has the text.
func (n *Node) Said(text string) bool { return n.p.said(text) }

// Count is how many lines of the present process's log have the text.
func (n *Node) Count(text string) (count int) {
	for _, line := range n.p.log() {
		if strings.Contains(line, text) {
			count++
		}
	}
	return count
}

// BecameActive counts the promotions in the logs of all processes, those that
// have ended, too.
func (c *Cluster) BecameActive() int { return strings.Count(c.Logs(), `"this node is active"`) }

// Status is what a node says of itself.
type Status struct {
	Held, Waiting, Connections int
	Epoch                      uint32
	Cluster                    struct {
		ID              int
		Role, Why, Mode string
		Place           string
		Active          int
		Unfit, Stopping bool
		Syncing         bool
		Peers           []PeerStatus
	}
}

// PeerStatus is how a node sees another one.
type PeerStatus struct {
	ID           int
	Role         string
	Reached, Fed bool
	There        bool   // not reached, and yet it answers
	Problem      string // why it is not reached
	Lag          *int   // nil: it has nothing of the active's reign
}

// Lag is a peer's lag, -1 if it has nothing of the active's reign.
func Lag(p PeerStatus) int {
	if p.Lag == nil {
		return -1
	}
	return *p.Lag
}

// Serves reports whether the node answers clients as the active.
func (s Status) Serves() bool { return s.Cluster.Role == "active" && s.Cluster.Mode == "serve" }

var statusClient = http.Client{
	Timeout:   time.Second,
	Transport: &http.Transport{DisableKeepAlives: true},
}

// Status asks a node. A node that does not run, or is paused, is an error.
func (n *Node) Status() (s Status, err error) {
	resp, err := statusClient.Get("http://" + n.Admin + "/status")
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	return s, json.NewDecoder(resp.Body).Decode(&s)
}

// Until polls until ok, and returns how long that took.
func Until(limit time.Duration, what string, ok func() (bool, error)) (time.Duration, error) {
	start := time.Now()
	for pause := time.Millisecond; ; pause = min(2*pause, 16*time.Millisecond) {
		done, err := ok()
		took := time.Since(start)
		switch {
		case err != nil:
			return took, err
		case done:
			return took, nil
		case took > limit:
			return took, fmt.Errorf("not within %v: %s", limit, what)
		}
		time.Sleep(pause)
	}
}

// WaitActive waits until the node serves.
func (c *Cluster) WaitActive(id int, limit time.Duration) (time.Duration, error) {
	return Until(limit, fmt.Sprintf("node %d is active", id), func() (bool, error) {
		s, err := c.Node(id).Status()
		return err == nil && s.Serves(), nil
	})
}

// WaitSettled waits until the node serves, and every other one that runs
// follows it and has the whole table.
func (c *Cluster) WaitSettled(id int, limit time.Duration) (time.Duration, error) {
	var last string
	took, err := Until(limit, fmt.Sprintf("node %d is active and the others follow it", id), func() (bool, error) {
		s, err := c.Node(id).Status()
		if err != nil || !s.Serves() {
			last = fmt.Sprintf("node %d: role %q, mode %q, why %q, %v", id, s.Cluster.Role, s.Cluster.Mode, s.Cluster.Why, err)
			return false, nil
		}
		for _, p := range s.Cluster.Peers {
			n := c.nodes[p.ID]
			if !n.Running() {
				continue
			}
			if !p.Reached || !p.Fed || p.Lag == nil || *p.Lag > 100 {
				last = fmt.Sprintf("node %d sees %+v, which lacks %d records", id, p, Lag(p))
				return false, nil
			}
			ps, err := n.Status()
			if err != nil || ps.Cluster.Role != "standby" || ps.Cluster.Active != id-1 || ps.Cluster.Syncing {
				last = fmt.Sprintf("node %d: %+v, %v", n.ID, ps.Cluster, err)
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		err = fmt.Errorf("%w; last: %s", err, last)
	}
	return took, err
}
