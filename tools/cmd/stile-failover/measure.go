package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/stile-lock/stile/client"
	"github.com/stile-lock/stile/conformance/cluster/rig"
)

// The nodes run with their defaults, which these are.
const (
	heartbeat      = 200 * time.Millisecond
	failureTimeout = time.Second
)

// splitFor is how long a partition lasts after the other side has an active.
const splitFor = 1500 * time.Millisecond

type report struct {
	flags
	dir    string
	random *rand.Rand

	mu      sync.Mutex
	cluster *rig.Cluster // the one that runs
	closed  bool

	spans  []*span
	lost   []*lost
	split  *split
	missed int
}

type lost struct {
	rig.Lost
	name                       string
	sync                       bool
	worstGrants, worstReleases int
}

type split struct {
	rig.Counts
	grants, twice int
}

func (r *report) run() error {
	do := map[string]func() error{
		"kill": r.kill, "partition": r.partition, "stop": r.stop,
		"lost":  func() error { return r.lose("replication async", false) },
		"sync":  func() error { return r.lose("replication sync", true) },
		"split": r.splitBrain,
	}
	for _, name := range r.Only {
		fmt.Fprintf(os.Stderr, "stile-failover: %s\n", name)
		err := do[name]()
		if err != nil && r.cluster != nil {
			err = fmt.Errorf("%s: %w\n%s", name, err, r.cluster.Logs())
		}
		r.end()
		if err != nil {
			return err
		}
	}
	return nil
}

// begin starts three nodes and waits until the first serves.
func (r *report) begin(relays bool, flags ...string) (*rig.Cluster, error) {
	dir, err := os.MkdirTemp(r.dir, "")
	if err != nil {
		return nil, err
	}
	c, err := rig.New(rig.Options{Binary: r.Stiled, Nodes: 3, Relays: relays, Dir: filepath.Join(dir), Flags: flags})
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.cluster = c
	closed := r.closed
	r.mu.Unlock()
	if closed {
		return nil, fmt.Errorf("interrupted")
	}
	if err := c.StartAll(); err != nil {
		return nil, err
	}
	_, err = c.WaitSettled(1, rig.Patience)
	return c, err
}

func (r *report) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cluster != nil {
		r.cluster.Close()
		r.cluster = nil
	}
}

func (r *report) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.end()
}

// sometime waits until a moment that has nothing to do with any heartbeat.
func (r *report) sometime() {
	time.Sleep(heartbeat + time.Duration(r.random.Int64N(int64(2*heartbeat))))
}

// watch is both ways of looking at a cluster.
type watch struct {
	prober *rig.Prober
	client *rig.Load
	stalls *rig.Stalls
}

func watchCluster(c *rig.Cluster) (*watch, error) {
	w := &watch{
		stalls: rig.WatchStalls(),
		prober: c.Probe(),
		// Each acquire takes a new key, so that nothing but the service is seen.
		client: &rig.Load{
			Addrs: c.Addrs(), Workers: 1, Keys: 1 << 30, Prefix: "client/", Hold: time.Millisecond, Lease: time.Second,
			RetryFor: rig.Patience, Options: []client.Option{client.Name("stile-failover")},
		},
	}
	return w, w.client.Start()
}

// measured is the figures of a time.
func (w *watch) measure(s *span, from time.Time) {
	to := time.Now()
	ops := w.client.Ops()
	s.stall = max(s.stall, w.stalls.Worst(from, to))
	s.probe = append(s.probe, rig.Gap(w.prober.Grants(), from, to))
	s.client = append(s.client, rig.Gap(rig.Grants(ops), from, to))
	for _, o := range ops {
		if o.Kind == rig.Acquire && o.Return.After(from) && !o.Return.After(to) {
			s.acquires++
			if o.Err != nil {
				s.failed++
			}
		}
	}
}

// after waits until both see grants again, and a moment longer.
func (w *watch) after(event time.Time) error {
	_, err := rig.Until(rig.Patience, "clients are granted locks again", func() (bool, error) {
		g, o := w.prober.Grants(), rig.Grants(w.client.Ops())
		return len(g) > 0 && g[len(g)-1].Sent.After(event) && len(o) > 0 && o[len(o)-1].Sent.After(event), nil
	})
	time.Sleep(2 * heartbeat)
	return err
}

func (w *watch) end() {
	w.prober.Stop()
	w.client.Stop()
	w.stalls.Stop()
}

// rounds does the same again and again, each time to a new cluster: something
// happens to node 1, node 2 serves, node 1 comes back and gets the role again.
// In an old cluster it would get it later each time, as one that flaps.
func (r *report) rounds(s, back *span, relays bool, happen, mend func(*rig.Cluster) error) error {
	r.spans = append(r.spans, s, back)
	for range r.Rounds {
		c, err := r.begin(relays)
		if err != nil {
			return err
		}
		if err := r.round(c, s, back, happen, mend); err != nil {
			return err
		}
		if err := r.keep(c, s, back); err != nil {
			return err
		}
		r.end()
	}
	return nil
}

// keep writes the log of a round, with its figures on top.
func (r *report) keep(c *rig.Cluster, s, back *span) error {
	if r.Logs == "" {
		return nil
	}
	if err := os.MkdirAll(r.Logs, 0o755); err != nil {
		return err
	}
	var b strings.Builder
	for _, s := range []*span{s, back} {
		i := len(s.probe) - 1
		fmt.Fprintf(&b, "%s: %s without a grant, %s for the Go client\n", strings.TrimSpace(s.name), show(s.probe[i]), show(s.client[i]))
	}
	name := fmt.Sprintf("%s-%02d.log", strings.ReplaceAll(s.name, " ", "-"), len(s.probe))
	return os.WriteFile(filepath.Join(r.Logs, name), []byte(b.String()+c.Logs()+"\n"), 0o644)
}

func (r *report) round(c *rig.Cluster, s, back *span, happen, mend func(*rig.Cluster) error) error {
	w, err := watchCluster(c)
	if err != nil {
		return err
	}
	defer w.end()
	r.sometime()
	at := time.Now()
	if err := happen(c); err != nil {
		return err
	}
	if _, err := c.WaitActive(2, rig.Patience); err != nil {
		return err
	}
	if err := w.after(time.Now()); err != nil {
		return err
	}
	w.measure(s, at)
	at = time.Now()
	if err := mend(c); err != nil {
		return err
	}
	if _, err := c.WaitSettled(1, rig.Patience); err != nil {
		return err
	}
	if err := w.after(time.Now()); err != nil {
		return err
	}
	w.measure(back, at)
	return nil
}

func restart(c *rig.Cluster) error { return c.Node(1).Start() }

func (r *report) kill() error {
	return r.rounds(
		&span{name: "kill -9 of the active", aim: aim{150 * time.Millisecond, 500 * time.Millisecond}},
		&span{name: "  its return", noneMayFail: true}, false,
		func(c *rig.Cluster) error { c.Node(1).Kill(); return nil }, restart)
}

func (r *report) stop() error {
	return r.rounds(
		&span{name: "SIGTERM of the active", aim: aim{worst: 50 * time.Millisecond}, noneMayFail: true},
		&span{name: "  its return", noneMayFail: true}, false,
		func(c *rig.Cluster) error {
			status, err := c.Node(1).Stop(rig.Patience)
			if err == nil && status != 0 {
				err = fmt.Errorf("the node ended with status %d", status)
			}
			return err
		}, restart)
}

// partition cuts node 1 off from everybody, without a word.
func (r *report) partition() error {
	return r.rounds(
		&span{name: "silent cut of the active from all", aim: aim{worst: failureTimeout + 300*time.Millisecond}},
		&span{name: "  its return"}, true,
		func(c *rig.Cluster) error { c.Net.Partition([]int{1}, []int{rig.Clients, 2, 3}); return nil },
		func(c *rig.Cluster) error { c.Net.Heal(); return nil })
}

// lose kills the active while it answers as fast as it can.
func (r *report) lose(name string, sync bool) error {
	var flags []string
	if sync {
		flags = []string{"--replication=sync"}
	}
	l := &lost{name: name, sync: sync}
	r.lost = append(r.lost, l)
	for i := range r.Rounds {
		c, err := r.begin(false, flags...)
		if err != nil {
			return err
		}
		b, err := rig.StartBulk(c.Node(1), fmt.Sprintf("bulk/%d", i), 4, 32)
		if err != nil {
			return err
		}
		r.sometime()
		c.Node(1).Kill()
		b.Wait()
		if _, err := c.WaitActive(2, rig.Patience); err != nil {
			return err
		}
		got, err := b.Lost(c.Node(2))
		if err != nil {
			return err
		}
		l.Add(got)
		l.worstGrants, l.worstReleases = max(l.worstGrants, got.LostGrants), max(l.worstReleases, got.LostReleases)
		r.end()
	}
	return nil
}

// splitBrain has clients on both sides of a partition use the same resource.
func (r *report) splitBrain() error {
	s := new(split)
	r.split = s
	for i := range r.Rounds {
		c, err := r.begin(true)
		if err != nil {
			return err
		}
		resource := new(rig.Resource)
		load := func(addrs string, opts ...client.Option) (*rig.Load, error) {
			l := &rig.Load{
				Addrs: addrs, Workers: 4, Keys: 3, Prefix: fmt.Sprintf("split/%d/", i), Hold: 5 * time.Millisecond,
				Lease: 500 * time.Millisecond, RetryFor: rig.Patience, Options: opts, Resource: resource,
			}
			return l, l.Start()
		}
		// These are on the side of node 1, whatever the relays do.
		one, err := load(c.Node(1).Listen)
		if err != nil {
			return err
		}
		r.sometime()
		c.Net.Partition([]int{1}, []int{rig.Clients, 2, 3})
		if _, err = c.WaitActive(2, rig.Patience); err != nil {
			return err
		}
		other, err := load(c.Node(2).Advertise + "," + c.Node(3).Advertise)
		if err != nil {
			return err
		}
		time.Sleep(splitFor)
		c.Net.Heal()
		_, err = c.WaitSettled(1, rig.Patience)
		ops := append(one.Stop(), other.Stop()...)
		if err != nil {
			return err
		}
		grants := rig.Grants(ops)
		s.grants += len(grants)
		seen := map[uint64]bool{}
		for _, g := range grants {
			if seen[g.Token] {
				s.twice++
			}
			seen[g.Token] = true
		}
		n := resource.Count()
		s.Writes, s.Stale, s.Backwards = s.Writes+n.Writes, s.Stale+n.Stale, s.Backwards+n.Backwards
		s.Overlaps, s.Overlapped = s.Overlaps+n.Overlaps, s.Overlapped+n.Overlapped
		r.end()
	}
	return nil
}
