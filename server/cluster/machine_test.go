package cluster

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/stile-lock/stile/server/replica"
)

func newMachine(cfg Config) *Machine {
	cfg.Order, cfg.Boot = []uint8{0, 1, 2}, 1
	cfg.Place = func() replica.Place { return replica.Place{} }
	m := New(cfg, origin)
	m.Actions()
	return m
}

func bans(actions []Action) (boots []uint64) {
	for _, a := range actions {
		if b, ok := a.(Ban); ok {
			boots = append(boots, b.Boot)
		}
	}
	return boots
}

// linked returns a machine that has links with a process of node 1, and a
// function that has that process echo what it was sent.
func linked(t *testing.T, boot uint64) (m *Machine, now Time, echo func(now Time)) {
	t.Helper()
	m = newMachine(usual())
	now = origin + 10*time.Millisecond
	m.LinkUp(now, 1, true, 1, &Status{Boot: boot, Beat: 1})
	m.LinkUp(now, 1, false, 2, &Status{Boot: boot, Beat: 2})
	beat := uint64(2)
	echo = func(now Time) {
		beat++
		m.Receive(now, 1, &Status{Boot: boot, Beat: beat, Echo: m.beat})
	}
	echo(now)
	if m.byID[1].reached != live {
		t.Fatal("there is no live link")
	}
	m.Actions()
	return m, now, echo
}

// Of two live processes with one id the newer one is turned away, as soon as
// the older one has shown that it lives.
func TestTwins(t *testing.T) {
	m, now, echo := linked(t, 100)
	m.LinkUp(now+50*time.Millisecond, 1, false, 3, &Status{Boot: 200, Beat: 1})
	if got := bans(m.Actions()); got != nil {
		t.Errorf("turned away %v, though the older one may be dead", got)
	}
	if p := m.byID[1]; p.boot != 100 || p.reached != live {
		t.Errorf("the link of the older one is void: boot %d, %d", p.boot, p.reached)
	}
	m.Tick(now + 110*time.Millisecond)
	m.Tick(now + 160*time.Millisecond)
	echo(now + 170*time.Millisecond)
	if got := bans(m.Actions()); !slices.Equal(got, []uint64{200}) {
		t.Errorf("turned away %v, want 200", got)
	}
	if p := m.byID[1]; p.boot != 100 || p.reached != live {
		t.Errorf("boot %d, %d", p.boot, p.reached)
	}
}

// A process that takes the place of one that has ended is no such case.
func TestReplaced(t *testing.T) {
	m, now, _ := linked(t, 100)
	m.LinkUp(now+10*time.Millisecond, 1, false, 3, &Status{Boot: 200, Beat: 1})
	m.LinkDown(now+20*time.Millisecond, 1, false, 2, false)
	m.LinkDown(now+20*time.Millisecond, 1, true, 1, false)
	m.LinkUp(now+30*time.Millisecond, 1, true, 4, &Status{Boot: 200, Beat: 2})
	m.Receive(now+40*time.Millisecond, 1, &Status{Boot: 200, Beat: 3, Echo: m.beat})
	if got := bans(m.Actions()); got != nil {
		t.Errorf("turned away %v", got)
	}
	if p := m.byID[1]; p.boot != 200 || p.reached != live {
		t.Errorf("boot %d, %d", p.boot, p.reached)
	}
	// What the first one dialed arrives late.
	m.LinkUp(now+50*time.Millisecond, 1, false, 5, &Status{Boot: 100, Beat: 9})
	m.Tick(now + 100*time.Millisecond)
	m.Tick(now + 150*time.Millisecond)
	m.Receive(now+160*time.Millisecond, 1, &Status{Boot: 200, Beat: 4, Echo: m.beat})
	if got := bans(m.Actions()); got != nil {
		t.Errorf("turned away %v", got)
	}
	if p := m.byID[1]; p.boot != 200 || p.reached != live {
		t.Errorf("boot %d, %d", p.boot, p.reached)
	}
}

// A beat is echoed only while the connection stands that it came on.
func TestEchoEndsWithTheLink(t *testing.T) {
	m, now, _ := linked(t, 100)
	last := func() (s *Status) {
		for _, a := range m.Actions() {
			if send, ok := a.(Send); ok && send.Peer == 1 {
				s, _ = send.Msg.(*Status)
			}
		}
		return s
	}
	m.Receive(now+60*time.Millisecond, 1, &Status{Boot: 100, Beat: 50, Echo: m.beat, Ask: 1})
	if s := last(); s == nil || s.Echo != 50 || s.Answer != 1 {
		t.Fatalf("told %+v", s)
	}
	m.LinkDown(now+70*time.Millisecond, 1, false, 2, false)
	m.Tick(now + 170*time.Millisecond)
	if s := last(); s == nil || s.Echo != 0 {
		t.Errorf("told %+v", s)
	}
}

// Who answers with a hello that can't be read is there: no reason to become
// active beside it.
func TestBadHello(t *testing.T) {
	m := newMachine(usual())
	now := origin
	dials := func() (of2 bool) {
		for _, a := range m.Actions() {
			if d, ok := a.(Dial); ok && d.Peer == 1 {
				m.DialFailed(now, 1, true, false)
			} else if ok {
				of2 = true
			}
		}
		return of2
	}
	m.DialFailed(now, 1, true, false)
	m.BadHello(now, 2, true)
	heard := 0
	for now < origin+10*time.Second {
		now += 25 * time.Millisecond
		m.Tick(now)
		if dials() {
			m.BadHello(now, 2, true)
			heard++
		}
		// One that comes in from there changes nothing.
		m.BadHello(now, 2, false)
		if m.Role() != Joining || m.View().PeerViews[1].Reached || !m.View().PeerViews[1].There {
			t.Fatalf("after %v: %+v", now-origin, m.View())
		}
	}
	if heard < 10 {
		t.Errorf("it was dialed %d times", heard)
	}
	for m.Role() == Joining && now < origin+11*time.Second {
		now += 25 * time.Millisecond
		m.Tick(now)
		if dials() {
			m.DialFailed(now, 2, true, false)
		}
	}
	if m.Role() != Candidate {
		t.Errorf("when nobody is there any more: %+v", m.View())
	}
}

// A clock that goes back stands still.
func TestTimeNeverGoesBack(t *testing.T) {
	m := newMachine(usual())
	m.Tick(origin + 50*time.Millisecond)
	m.Tick(origin)
	if m.now != origin+50*time.Millisecond {
		t.Errorf("it is %v", m.now)
	}
	m.Tick(origin + 100*time.Millisecond)
	for _, a := range m.Actions() {
		if s, ok := a.(Say); ok && s.Text == "this node was paused" {
			t.Error("it thinks that it was paused")
		}
	}
}

// Two heartbeats never have the same number, also within one moment.
func TestBeatsRise(t *testing.T) {
	m := newMachine(usual())
	last := uint64(0)
	for range 10 {
		if b := m.Hello().Beat; b <= last {
			t.Errorf("beat %d after %d", b, last)
		} else {
			last = b
		}
	}
}

// A status of a process before, or one that was overtaken by a later one,
// changes nothing.
func TestOldStatus(t *testing.T) {
	m := newMachine(usual())
	m.LinkUp(origin, 1, true, 1, &Status{Boot: 7, Beat: 10})
	m.LinkUp(origin, 1, false, 2, &Status{Boot: 7, Beat: 11})
	for _, s := range []*Status{
		{Boot: 6, Beat: 20, Stopping: true, Known: replica.Epoch{N: 9}},
		{Boot: 7, Beat: 11, Stopping: true, Known: replica.Epoch{N: 9}},
		{Boot: 7, Beat: 5, Stopping: true, Known: replica.Epoch{N: 9}},
	} {
		m.Receive(origin, 1, s)
		if m.byID[1].st.Stopping || m.known.N != 0 {
			t.Errorf("%+v was taken", s)
		}
	}
	m.Receive(origin, 1, &Status{Boot: 7, Beat: 12, Stopping: true})
	if !m.byID[1].st.Stopping {
		t.Error("the next one was not taken")
	}
}

// An echo of a beat that was never sent proves nothing.
func TestForeignEcho(t *testing.T) {
	m := newMachine(usual())
	m.LinkUp(origin+10, 1, false, 2, &Status{Boot: 7, Beat: 11})
	m.Receive(origin+20, 1, &Status{Boot: 7, Beat: 12, Echo: uint64(time.Hour)})
	if e := m.byID[1].echo; e != 0 {
		t.Errorf("echo %v", e)
	}
	m.Receive(origin+20, 1, &Status{Boot: 7, Beat: 13, Echo: uint64(origin) - 5}) // of a process before
	if e := m.byID[1].echo; e != 0 {
		t.Errorf("echo %v", e)
	}
}

// What is told of nodes that are none of the cluster, or of connections that
// are over, does no harm.
func TestUnknown(t *testing.T) {
	m := newMachine(usual())
	m.LinkUp(origin, 0, false, 1, &Status{Boot: 9, Beat: 1}) // itself
	m.LinkDown(origin, 9, true, 1, true)
	m.DialFailed(origin, 9, true, false)
	m.Heard(origin, 9)
	m.FeedEnded(origin, 9, 0)
	m.Receive(origin, 9, &Go{})
	m.StoredEpoch(origin, replica.Epoch{}, nil)
	m.TookEpoch(origin, 99, replica.Epoch{N: 5}, 0, nil)
	m.LinkDown(origin, 1, true, 77, true)
	m.DialFailed(origin, 1, true, false)
	m.DialFailed(origin, 1, true, false)
	if len(m.peers) != 2 {
		t.Errorf("%d peers", len(m.peers))
	}
}

// TestSameAgain: the same events cause the same actions.
func TestSameAgain(t *testing.T) {
	run := func() string {
		cfg := usual()
		cfg.Sync, cfg.Takeback = true, time.Second
		w := newWorld(4, cfg, t.Fatalf)
		w.hidden = map[string]bool{}
		for _, n := range w.nodes {
			n.start(cfg.FailureTimeout)
		}
		w.tick(time.Second, true)
		w.cut[[2]int{0, 1}], w.cut[[2]int{0, 2}], w.cut[[2]int{1, 0}] = "silent", "silent", "silent"
		w.tick(3*time.Second, true)
		w.nodes[3].crash()
		clear(w.cut)
		w.tick(time.Second, true)
		w.nodes[3].start(cfg.FailureTimeout)
		w.nodes[1].asleep = w.now + 2*time.Second
		w.tick(10*time.Second, true)
		return w.out.String()
	}
	first := run()
	for range 3 {
		if diff := cmp.Diff(first, run()); diff != "" {
			t.Fatalf("another time:\n%s", diff)
		}
	}
}

// TestAnyMessage: whatever a node is sent, it lives on, and the cluster comes
// to rest.
func TestAnyMessage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := usual()
		cfg.Sync = rapid.Bool().Draw(t, "sync")
		var w *world
		w = newWorld(3, cfg, func(format string, args ...any) { t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), w.tail()) })
		for _, n := range w.nodes {
			n.start(cfg.FailureTimeout)
		}
		w.tick(500*time.Millisecond, true)
		for range rapid.IntRange(1, 10).Draw(t, "messages") {
			n := w.nodes[rapid.IntRange(0, 2).Draw(t, "to")]
			from := uint8(rapid.IntRange(0, 4).Draw(t, "from"))
			msg := genMessage(t)
			if s, ok := msg.(*Status); ok {
				if p := n.m.byID[from]; p != nil {
					s.Boot, s.Beat = p.boot, p.theirBeat+1
				}
				s.FailureTimeout = uint64(cfg.FailureTimeout)
			}
			w.printf("---- %d gets %T %+v from %d", n.id, msg, msg, from)
			n.m.Receive(w.now, from, msg)
			n.carry()
			w.tick(25*time.Millisecond*time.Duration(rapid.IntRange(0, 20).Draw(t, "ticks")), true)
			if n.m == nil {
				n.start(cfg.FailureTimeout)
			}
		}
		w.tick(8*time.Second, true)
		w.activeNode(t)
	})
}
