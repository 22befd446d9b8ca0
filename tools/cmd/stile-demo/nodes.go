package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/stile-lock/stile/conformance/ports"
)

// node is a stiled that the demo started.
type node struct {
	name   string
	addr   string
	stiled string
	args   []string
	cmd    *exec.Cmd
	news   *news
}

// nodes is a cluster.
type nodes struct {
	all  []*node
	dir  string
	news *news
}

// news is what the nodes log of their roles.
type news struct {
	mu      sync.Mutex
	active  string // the node that said so last
	changed chan struct{}
}

func (n *news) is(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.active = name
	close(n.changed)
	n.changed = make(chan struct{})
}

func startCluster(ctx context.Context, stiled string, count int) (*nodes, error) {
	dir, err := os.MkdirTemp("", "stile-demo-")
	if err != nil {
		return nil, err
	}
	ns := &nodes{dir: dir, news: &news{changed: make(chan struct{})}}
	for i := range count {
		addr, err := ports.Addr("127.0.0.1")
		if err != nil {
			ns.kill()
			return nil, err
		}
		ns.all = append(ns.all, &node{name: fmt.Sprintf("node %d", i+1), addr: addr, stiled: stiled, news: ns.news})
	}
	for i, n := range ns.all {
		n.args = []string{
			"--listen", n.addr, "--peers", ns.addrs(), "--admin=",
			"--state-dir", filepath.Join(dir, fmt.Sprint(i+1)), "--log-format", "json",
		}
		if err := n.start(ctx); err != nil {
			ns.kill()
			return nil, err
		}
		step("%s listens on %s", n.name, n.addr)
	}
	return ns, nil
}

// addrs is the list that the nodes take as peers, and the clients as well.
func (ns *nodes) addrs() string {
	var addrs []string
	for _, n := range ns.all {
		addrs = append(addrs, n.addr)
	}
	return strings.Join(addrs, ",")
}

// waitActive waits until the node says that it is active.
func (ns *nodes) waitActive(ctx context.Context, i int) error {
	for {
		ns.news.mu.Lock()
		active, changed := ns.news.active, ns.news.changed
		ns.news.mu.Unlock()
		if active == ns.all[i].name {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%s did not become active: %w", ns.all[i].name, ctx.Err())
		}
	}
}

// stop ends the nodes in good order, the active first.
func (ns *nodes) stop() error {
	for _, n := range ns.all {
		if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			return err
		}
		if err := n.cmd.Wait(); err != nil {
			return fmt.Errorf("%s stopped badly: %w", n.name, err)
		}
	}
	return nil
}

// kill ends what still runs, and removes what it left.
func (ns *nodes) kill() {
	for _, n := range ns.all {
		n.kill()
	}
	os.RemoveAll(ns.dir)
}

func (n *node) start(ctx context.Context) error {
	n.cmd = exec.CommandContext(ctx, n.stiled, n.args...)
	logs, err := n.cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := n.cmd.Start(); err != nil {
		return fmt.Errorf("%w: run `make build` first", err)
	}
	type line struct{ Level, Msg, Why, Error string }
	in := bufio.NewScanner(logs)
	up := make(chan error, 1)
	go func() {
		for in.Scan() {
			var l line
			json.Unmarshal(in.Bytes(), &l)
			switch {
			case l.Msg == "stiled listens":
				up <- nil
			case l.Msg == "this node is active":
				step("%s is active: %s", n.name, l.Why)
				n.news.is(n.name)
			case l.Msg == "this node is no longer active":
				step("%s is not active any more: %s", n.name, l.Why)
			case l.Level == "ERROR":
				step("%s: %s %s", n.name, l.Msg, l.Error)
			}
		}
		select {
		case up <- errors.New(n.name + " ended before it served"):
		default:
		}
	}()
	return <-up
}

// kill is kill -9.
func (n *node) kill() {
	if n.cmd != nil && n.cmd.Process != nil && n.cmd.ProcessState == nil {
		n.cmd.Process.Kill()
		n.cmd.Wait()
	}
}
