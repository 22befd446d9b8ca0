package cluster

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// Settings that should be the same everywhere and are not are in the view, and
// logged once. Nothing is known of a peer that is not reached.
func TestDifferences(t *testing.T) {
	cfg := usual()
	m, now, _ := linked(t, 100)
	says := func(want ...string) {
		t.Helper()
		got := m.View().PeerViews[0].Differs
		ok := len(got) == len(want)
		for i := range min(len(got), len(want)) {
			ok = ok && strings.HasPrefix(got[i], want[i])
		}
		if !ok {
			t.Errorf("differs in %q, want %q", got, want)
		}
	}
	const replication, timeout = "--replication is sync there and async here", "--failure-timeout is 7s there and 1s here"
	says("--failure-timeout is 0s there")
	same := Status{Boot: 100, Beat: 10, Echo: m.beat, FailureTimeout: uint64(cfg.FailureTimeout)}
	m.Receive(now, 1, &same)
	says()
	other := same
	other.Beat, other.Sync, other.FailureTimeout = 11, true, uint64(7*time.Second)
	m.Receive(now, 1, &other)
	says(replication, timeout)
	m.LinkDown(now, 1, true, 1, true)
	m.LinkDown(now, 1, false, 2, true)
	says()

	// A process that comes anew is looked at anew.
	m.Actions()
	fresh := other
	fresh.Boot = 200
	m.LinkUp(now, 1, true, 3, &fresh)
	var logged []string
	for _, a := range m.Actions() {
		if s, ok := a.(Say); ok && s.Text == "a peer has other settings" {
			logged = append(logged, s.Attrs[1].Value.String())
		}
	}
	if len(logged) != 2 || !strings.HasPrefix(logged[0], replication) || !strings.HasPrefix(logged[1], timeout) {
		t.Errorf("logged %q", logged)
	}
}

// A node knows for how long clients have neither been served nor sent on by one
// that has the table.
func TestIdle(t *testing.T) {
	w := newWorld(2, usual(), t.Fatalf)
	idle := func(id int) time.Duration { return w.nodes[id].m.View().Idle }
	within := func(what string, got, least, most time.Duration) {
		t.Helper()
		if got < least || got > most {
			t.Errorf("%s: idle for %v, want %v to %v", what, got, least, most)
		}
	}
	const tick = 100 * time.Millisecond // and a little
	w.nodes[0].how = "fails"
	w.nodes[0].start(w.cfg.FailureTimeout)
	w.tick(5*time.Second, true)
	within("it can't become active", idle(0), 5*time.Second-tick, 5*time.Second+tick)
	w.nodes[0].how = "ok"
	w.tick(3*time.Second, true)
	within("it serves", idle(0), 0, 0)

	w.stalled[[2]int{0, 1}] = true
	w.nodes[1].start(w.cfg.FailureTimeout)
	w.tick(4*time.Second, true)
	if v := w.nodes[1].m.View(); v.Mode != "redirect" || v.Complete {
		t.Fatalf("%+v", v)
	}
	within("it copies", idle(1), 4*time.Second-tick, 4*time.Second+tick)
	delete(w.stalled, [2]int{0, 1})
	w.tick(time.Second, true)
	within("it has the table", idle(1), 0, 0)
	w.nodes[1].how = "fails"
	w.nodes[0].crash()
	w.tick(2*time.Second, true)
	within("nobody serves", idle(1), 2*time.Second-tick, 2*time.Second+tick)
	if !slices.Contains([]Role{Standby, Candidate}, w.nodes[1].m.Role()) {
		t.Errorf("it is %v", w.nodes[1].m.Role())
	}
}
