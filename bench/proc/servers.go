package proc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Node is a node of Stile.
type Node struct {
	*Process
	Addr, Admin string
}

// Status is the part of a node's /status that matters here.
type Status struct {
	Connections, Held, Waiting int
	Cluster                    *struct {
		Role, Mode string
		Syncing    bool
		Peers      []struct {
			Reached, Fed bool
			Lag          *int // nil: it has nothing of the active's reign
		}
	}
}

var adminClient = http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// Status asks the node.
func (n *Node) Status() (s Status, err error) {
	resp, err := adminClient.Get("http://" + n.Admin + "/status")
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	return s, json.NewDecoder(resp.Body).Decode(&s)
}

// Nodes are the nodes of a cluster, in the order of their list, or one that is
// alone.
type Nodes struct {
	All []*Node
	dir string
}

// Active is the node that serves.
func (n *Nodes) Active() *Node { return n.All[0] }

// Stop ends all nodes, the standbys first, so that none takes over.
func (n *Nodes) Stop() error {
	var errs []error
	for i := len(n.All) - 1; i >= 0; i-- {
		errs = append(errs, n.All[i].Stop())
	}
	return errors.Join(append(errs, os.RemoveAll(n.dir))...)
}

// Kill ends all nodes at once: those who wait get no answer.
func (n *Nodes) Kill() {
	for _, node := range n.All {
		node.Process.Kill()
	}
	os.RemoveAll(n.dir)
}

// StartNodes starts a node, or a cluster of several, and waits until it serves and
// every standby has the table.
func StartNodes(ctx context.Context, stiled string, count int, flags ...string) (*Nodes, error) {
	dir, err := os.MkdirTemp("", "stile-bench-")
	if err != nil {
		return nil, err
	}
	nodes := &Nodes{dir: dir}
	if err := nodes.start(ctx, stiled, count, flags...); err != nil {
		return nil, errors.Join(err, nodes.Stop())
	}
	return nodes, nil
}

func (nodes *Nodes) start(ctx context.Context, stiled string, count int, flags ...string) error {
	addrs, err := FreeAddrs(2 * count)
	if err != nil {
		return err
	}
	listen := addrs[:count]
	for i, addr := range listen {
		admin := addrs[count+i]
		args := []string{"--listen", addr, "--admin", admin, "--state-dir", filepath.Join(nodes.dir, fmt.Sprint(i)),
			"--max-connections", "30000", "--log-level", "warn"}
		if count > 1 {
			args = append(args, "--peers", strings.Join(listen, ","))
		}
		p, err := Start(stiled, append(args, flags...)...)
		if err != nil {
			return err
		}
		nodes.All = append(nodes.All, &Node{Process: p, Addr: addr, Admin: admin})
	}
	for _, n := range nodes.All {
		if err := n.WaitListens(ctx, n.Admin); err != nil {
			return err
		}
	}
	active := nodes.Active()
	return active.Wait(ctx, "serves, and all standbys follow", func() bool {
		s, err := active.Status()
		if err != nil || count > 1 && s.Cluster == nil {
			return false
		}
		if count == 1 {
			return true
		}
		if s.Cluster.Role != "active" || s.Cluster.Mode != "serve" {
			return false
		}
		following := 0
		for _, p := range s.Cluster.Peers {
			if p.Reached && p.Fed && p.Lag != nil {
				following++
			}
		}
		if following < count-1 {
			return false
		}
		for _, standby := range nodes.All[1:] {
			if s, err := standby.Status(); err != nil || s.Cluster == nil || s.Cluster.Role != "standby" || s.Cluster.Syncing {
				return false
			}
		}
		return true
	})
}

// Server is a server of another kind.
type Server struct {
	*Process
	Addr string
	dir  string
}

// Stop ends the server and removes what it left.
func (s *Server) Stop() error {
	return errors.Join(s.Process.Stop(), os.RemoveAll(s.dir))
}

// StartEcho starts the echo server of a stile-bench.
func StartEcho(ctx context.Context, stileBench string) (*Server, error) {
	return start(ctx, func(addr, _, _ string) []string {
		return []string{stileBench, "echo-server", "--listen", addr}
	})
}

// StartRedis starts a Redis that writes nothing to the disk, as Stile does not
// either.
func StartRedis(ctx context.Context, redis string) (*Server, error) {
	return start(ctx, func(addr, _, dir string) []string {
		host, port, _ := net.SplitHostPort(addr)
		return []string{redis, "--bind", host, "--port", port, "--dir", dir, "--save", "", "--appendonly", "no", "--maxclients", "20000"}
	})
}

// StartEtcd starts an etcd of one member.
func StartEtcd(ctx context.Context, etcd string) (*Server, error) {
	return start(ctx, func(addr, peer, dir string) []string {
		return []string{etcd, "--name", "one", "--data-dir", filepath.Join(dir, "data"),
			"--listen-client-urls", "http://" + addr, "--advertise-client-urls", "http://" + addr,
			"--listen-peer-urls", "http://" + peer, "--initial-advertise-peer-urls", "http://" + peer,
			"--initial-cluster", "one=http://" + peer}
	})
}

// start starts a server whose command has its address, and one more.
func start(ctx context.Context, command func(addr, other, dir string) []string) (*Server, error) {
	addrs, err := FreeAddrs(2)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "stile-bench-")
	if err != nil {
		return nil, err
	}
	args := command(addrs[0], addrs[1], dir)
	p, err := Start(args[0], args[1:]...)
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	s := &Server{Process: p, Addr: addrs[0], dir: dir}
	if err := s.WaitListens(ctx, s.Addr); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}
