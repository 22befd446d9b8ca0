package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stile-lock/stile/conformance/cluster/rig"
	"github.com/stile-lock/stile/conformance/suite"
)

// scenario is all the state of one scenario.
type scenario struct {
	w *suite.World
	t *target
	c *rig.Cluster

	names  map[string]int // "one" to the id of the node
	active int            // the id of the node that serves, as far as was seen; 0: none yet
	paused map[int]bool
	event  moment        // the newest thing that was done to a node or the network
	outage time.Duration // from then until a node was seen to serve

	conns  map[place]*conn
	asks   map[ask]moment
	held   map[ask]held
	many   map[string][]held // what somebody took in one go
	probes int

	mu     sync.Mutex
	grants []rig.Grant // all that was seen, but for polls and load

	polls *polls
	load  *load
}

// moment is when the suite did something: from just before to just after.
type moment struct{ before, after time.Duration }

// order are the names of the nodes in the feature files.
var order = []string{"one", "two", "three"}

// label is what a node is called in reports.
func (s *scenario) label(id int) string {
	for name, n := range s.names {
		if n == id {
			return "node " + name
		}
	}
	return fmt.Sprintf("node %d", id)
}

// node finds a node by what a step calls it.
func (s *scenario) node(text string) (*rig.Node, error) {
	if s.c == nil {
		return nil, fmt.Errorf("there is no cluster yet")
	}
	id := s.active
	if name, ok := strings.CutPrefix(text, "node "); ok {
		id = s.names[name]
	}
	if id == 0 {
		return nil, fmt.Errorf("it is not known which node %q is", text)
	}
	return s.c.Node(id), nil
}

// labelOf is the node with an address, as clients know it.
func (s *scenario) labelOf(addr string) string {
	for _, n := range s.c.Nodes() {
		if n.Advertise == addr {
			return s.label(n.ID)
		}
	}
	return addr
}

// open chooses the addresses of the scenario's cluster, whose nodes have their
// names by their place in the list until it is known which one serves.
func (s *scenario) open() error {
	c, err := s.t.open(strings.ReplaceAll(strings.Trim(s.w.Prefix, "/"), "/", "-"))
	if err != nil {
		return s.w.NotJudged("%v", err)
	}
	s.c = c
	s.w.Cleanup(func(context.Context) {
		s.t.keepLogs(c, s.w.Scenario.ID)
		c.Close()
	})
	for i, name := range order {
		s.names[name] = i + 1
		s.w.Note("", "node %d listens on %s and is known as %s", i+1, c.Node(i+1).Listen, c.Node(i+1).Advertise)
	}
	return nil
}

// startAtOnce starts all nodes and waits until they listen.
func (s *scenario) startAtOnce() error {
	if err := s.open(); err != nil {
		return err
	}
	return s.startAll()
}

func (s *scenario) startAll() error {
	s.event.before = s.w.Now()
	for _, n := range s.c.Nodes() {
		if err := s.launch(n); err != nil {
			return err
		}
	}
	s.event.after = s.w.Now()
	for _, n := range s.c.Nodes() {
		if err := s.listens(n); err != nil {
			return err
		}
	}
	return nil
}

func (s *scenario) launch(n *rig.Node) error {
	s.w.Note("", "%s is started", s.label(n.ID))
	if err := n.Launch(); err != nil {
		return s.w.NotJudged("%s can't be started: %v", s.label(n.ID), err)
	}
	return nil
}

func (s *scenario) listens(n *rig.Node) error {
	if err := n.WaitListens(s.t.StartWithin); err != nil {
		return s.w.Fail(s.label(n.ID)+" to listen after its start", err.Error())
	}
	return nil
}

// serves starts a cluster, and waits until one node serves and the others
// redirect to it: that one is node one from now on.
func (s *scenario) serves() error {
	if err := s.open(); err != nil {
		return err
	}
	// The first of the list first: another one that serves meanwhile would give
	// it the role later, in the middle of the scenario.
	for _, n := range s.c.Nodes() {
		if err := s.launch(n); err != nil {
			return err
		}
		if err := s.listens(n); err != nil {
			return err
		}
	}
	if err := s.find(s.t.StartWithin); err != nil {
		return err
	}
	if first := s.c.Node(1); s.active != first.ID {
		if _, err := s.becomes(first, suite.Settled); err != nil {
			return err
		}
		// Where priority means nothing, another one goes on.
		if err := s.find(s.t.StartWithin); err != nil {
			return err
		}
	}
	if err := s.follow(s.t.StartWithin); err != nil {
		return err
	}
	s.names["one"] = s.active
	others := []string{"two", "three"}
	for _, n := range s.c.Nodes() {
		if n.ID != s.active {
			s.names[others[0]] = n.ID
			others = others[1:]
		}
	}
	s.w.Note("", "node %d serves, and is called one", s.active)
	return s.w.Sleep(suite.Joined)
}

// alive are the nodes that run and are not paused.
func (s *scenario) alive() (list []*rig.Node) {
	for _, n := range s.c.Nodes() {
		if n.Running() && !s.paused[n.ID] {
			list = append(list, n)
		}
	}
	return list
}

// find waits until a node grants, which is the active then. All nodes that live
// are asked at the same time: one may hold what it is asked.
func (s *scenario) find(limit time.Duration) error {
	type found struct {
		id  int
		at  time.Duration
		err error
	}
	list := s.alive()
	results := make(chan found, len(list))
	done := make(chan struct{})
	var last [nodes + 1]string
	for _, n := range list {
		s.probes++
		probe := &probe{s: s, n: n, key: fmt.Sprintf("find/%d/%d", n.ID, s.probes), pause: suite.ProbeEvery, done: done}
		go func() {
			at, err := probe.untilGranted(limit)
			last[n.ID] = probe.last
			results <- found{n.ID, at, err}
		}()
	}
	var first *found
	for range list {
		r := <-results
		if r.err == nil && r.at > 0 && first == nil {
			first = &r
			close(done)
		}
	}
	if s.w.Context().Err() != nil {
		return s.w.Stopped()
	}
	if first == nil {
		close(done)
		var seen []string
		for _, n := range list {
			seen = append(seen, fmt.Sprintf("%s: %s", s.label(n.ID), last[n.ID]))
		}
		return s.w.Fail(fmt.Sprintf("one of the nodes that live to grant a free key within %v", limit), "none did; the last that was seen: "+strings.Join(seen, "; "))
	}
	s.active, s.outage = first.id, first.at-s.event.before
	s.w.Note("", "%s serves, %.3f s after the last event", s.label(first.id), s.outage.Seconds())
	return nil
}

// follow waits until the others redirect to the active.
func (s *scenario) follow(limit time.Duration) error {
	end := s.w.Now() + limit
	want := s.c.Node(s.active).Advertise
	for _, n := range s.alive() {
		if n.ID == s.active {
			continue
		}
		for {
			a, err := s.once(n, "A "+s.w.Key("follow")+" -1 1", max(end-s.w.Now(), suite.AtOnce))
			if err == nil && a.op == 'M' && a.addr == want {
				break
			}
			if s.w.Now() > end {
				seen := a.text
				if err != nil {
					seen = err.Error()
				}
				return s.w.Fail(fmt.Sprintf("%s to redirect to %s, which serves, within %v", s.label(n.ID), s.label(s.active), limit), seen)
			}
			if err := s.w.Sleep(suite.ProbeEvery); err != nil {
				return err
			}
		}
	}
	return nil
}

// within waits for a node that serves, and says no if that took too long since
// the last event.
func (s *scenario) within() error {
	return s.find(s.event.before + s.t.FailoverWithin - s.w.Now())
}

func (s *scenario) isActive(what string) error {
	n, err := s.node(what)
	if err != nil {
		return err
	}
	return s.w.Expect(n.ID == s.active, what+" to be the one that serves", s.label(s.active)+" serves")
}

// becomes waits until a certain node serves, for a time. It returns "" then, and
// else what was seen last.
func (s *scenario) becomes(n *rig.Node, limit time.Duration) (string, error) {
	s.probes++
	probe := &probe{s: s, n: n, key: fmt.Sprintf("becomes/%d", s.probes), pause: suite.ProbeEvery}
	at, err := probe.untilGranted(limit)
	if err != nil || at == 0 {
		return probe.last, err
	}
	s.active = n.ID
	return "", nil
}

func (s *scenario) takesBack(what string) error {
	n, err := s.node(what)
	if err != nil {
		return err
	}
	last, err := s.becomes(n, suite.TakenBack)
	if err != nil {
		return err
	}
	return s.w.Expect(last == "", fmt.Sprintf("%s to serve within %v", what, suite.TakenBack), "it does not; the last that was seen: "+last)
}

// do does something to a node.
func (s *scenario) do(what, how string) error {
	n, err := s.node(what)
	if err != nil {
		return err
	}
	if how != "started" && !n.Running() {
		return s.w.Fail(what+" to run until it is "+how, "its process has ended by itself; the end of what it wrote:\n"+n.Tail(10))
	}
	s.event.before = s.w.Now()
	if how != "started" {
		s.w.Note("", "%s is %s", s.label(n.ID), how)
	}
	switch how {
	case "killed":
		n.Kill()
		s.forget(n)
	case "asked to stop":
		n.Terminate()
	case "paused":
		n.Pause()
		s.paused[n.ID] = true
	case "resumed":
		n.Resume()
		delete(s.paused, n.ID)
	case "started", "killed and started at once":
		if n.Running() {
			n.Kill()
			s.forget(n)
		}
		if err := s.launch(n); err != nil {
			return err
		}
		s.event.after = s.w.Now()
		return s.listens(n)
	}
	s.event.after = s.w.Now()
	return nil
}

func (s *scenario) killAll() error {
	s.event.before = s.w.Now()
	// The active last, so that nobody takes over.
	list := s.alive()
	slices.SortStableFunc(list, func(a, b *rig.Node) int {
		switch {
		case a.ID == s.active:
			return 1
		case b.ID == s.active:
			return -1
		}
		return 0
	})
	for _, n := range list {
		s.w.Note("", "%s is killed", s.label(n.ID))
		n.Kill()
		s.forget(n)
	}
	s.event.after = s.w.Now()
	return nil
}

// forget makes people open new connections to a node whose process is gone.
func (s *scenario) forget(n *rig.Node) {
	for p := range s.conns {
		if p.node == n.ID {
			delete(s.conns, p)
		}
	}
}

func (s *scenario) ends(what string) error {
	n, err := s.node(what)
	if err != nil {
		return err
	}
	if _, err := n.Wait(suite.Stopped); err != nil {
		return s.w.Fail(fmt.Sprintf("%s to end within %v of the signal", what, suite.Stopped), err.Error())
	}
	s.forget(n)
	return nil
}

// cut cuts the network in one of its ways.
func (s *scenario) cut(from, how, to string) error {
	a, err := s.node("node " + from)
	if err != nil {
		return err
	}
	var others []int
	for _, name := range strings.Split(to, " and ") {
		n, err := s.node("node " + name)
		if err != nil {
			return err
		}
		others = append(others, n.ID)
	}
	s.event.before = s.w.Now()
	s.w.Note("", "node %s %s node %s", from, how, to)
	switch how {
	case "is cut off from":
		s.c.Net.Partition([]int{a.ID}, others)
	case "can't reach":
		s.c.Net.CutOneWay(a.ID, others[0])
	case "is reset by":
		s.c.Net.Refuse(a.ID, others[0])
	}
	s.event.after = s.w.Now()
	return nil
}

func (s *scenario) cutOff(from, to string) error { return s.cut(from, "is cut off from", to) }

func (s *scenario) heal() error {
	s.event.before = s.w.Now()
	s.w.Note("", "the network is whole again")
	s.c.Net.Heal()
	s.event.after = s.w.Now()
	return nil
}
