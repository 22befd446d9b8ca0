package cluster

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestComesToRest lets anything happen to a cluster, ends it all, and demands
// that one node is active and all others follow it: the one with the highest
// priority, if roles are taken back.
func TestComesToRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := usual()
		cfg.Sync = rapid.Bool().Draw(t, "sync")
		if rapid.Bool().Draw(t, "take back") {
			cfg.Takeback = time.Second
		}
		n := rapid.IntRange(1, 4).Draw(t, "nodes")
		var w *world
		w = newWorld(n, cfg, func(format string, args ...any) {
			t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), w.tail())
		})
		for _, n := range w.nodes {
			n.start(cfg.FailureTimeout)
		}
		for range rapid.IntRange(1, 30).Draw(t, "faults") {
			w.fault(t)
		}
		w.out.WriteString("---- all is well from here on\n")
		w.wellAgain()
		w.tick(20*time.Second, true)
		active := w.activeNode(t)
		if cfg.Takeback >= 0 && active.id != 0 {
			w.tick(3*time.Minute, true) // it may have to wait longer
			if active = w.activeNode(t); active.id != 0 {
				t.Fatalf("%d has the role, and 0 does not get it back\n%s", active.id, w.tail())
			}
		}
		for _, n := range w.nodes {
			switch {
			case n == active && n.mode == Serve && n.m.Committed() >= n.place.Pos:
			case n == active:
				t.Fatalf("%d is active, but in mode %v, and answers up to %d of %v\n%s", n.id, n.mode, n.m.Committed(), n.place, w.tail())
			case n.m.role != Standby || n.mode != Redirect || int(n.modeTo) != active.id:
				t.Fatalf("%d is %v, in mode %s, while %d is active\n%s", n.id, n.m.role, n.showMode(), active.id, w.tail())
			case len(n.feeds) > 0 || slices.ContainsFunc(n.m.View().PeerViews, func(p PeerView) bool { return p.Fed }):
				t.Fatalf("%d feeds others, by its own word or in truth, while %d is active\n%s", n.id, active.id, w.tail())
			case n.place != active.place || active.m.byID[uint8(n.id)].acked != n.place:
				t.Fatalf("%d is at %v, acknowledged %v, while %d is at %v\n%s", n.id, n.place,
					active.m.byID[uint8(n.id)].acked, active.id, active.place, w.tail())
			case n.m.known != active.m.known || less(n.disk, n.m.known) || active.m.epoch != active.m.known:
				t.Fatalf("%d knows %v and has stored %v, %d uses %v\n%s", n.id, n.m.known, n.disk, active.id, active.m.epoch, w.tail())
			}
		}
	})
}

// fault does something bad, or lets time pass.
func (w *world) fault(t *rapid.T) {
	a := w.nodes[rapid.IntRange(0, len(w.nodes)-1).Draw(t, "node")]
	b := w.nodes[rapid.IntRange(0, len(w.nodes)-1).Draw(t, "other")]
	switch what := rapid.IntRange(0, 19).Draw(t, "fault"); {
	case what < 7:
		w.tick(25*time.Millisecond*time.Duration(rapid.IntRange(1, 120).Draw(t, "ticks")), true)
	case what == 7:
		w.tick(25*time.Millisecond*time.Duration(rapid.IntRange(1, 6).Draw(t, "ticks")), false)
	case what < 10 && a.m != nil:
		a.crash()
		w.printf("---- crash %d", a.id)
	case what < 12 && a.m == nil:
		w.printf("---- boot %d", a.id)
		a.start(w.cfg.FailureTimeout)
	case what == 12 && a != b:
		w.printf("---- silent %d %d", a.id, b.id)
		w.cut[[2]int{a.id, b.id}] = "silent"
		if rapid.Bool().Draw(t, "both ways") {
			w.cut[[2]int{b.id, a.id}] = "silent"
		}
	case what == 13 && a != b:
		w.printf("---- reset %d %d", a.id, b.id)
		w.reset(a, b)
	case what == 14:
		w.printf("---- links up")
		clear(w.cut)
	case what == 15 && a.m != nil:
		a.asleep = w.now + 25*time.Millisecond*time.Duration(rapid.IntRange(1, 100).Draw(t, "ticks"))
		w.printf("---- pause %d until %v", a.id, (a.asleep - origin).Seconds())
	case what == 16:
		a.how = rapid.SampledFrom([]string{"ok", "slow", "fails"}).Draw(t, "disk")
		w.printf("---- disk %d %s", a.id, a.how)
	case what == 17 && a.m != nil && a.m.role == Active && a.mode == Serve:
		a.place.Pos += uint64(rapid.SampledFrom([]int{1, 10, 2000}).Draw(t, "records"))
	case what == 18 && a.up() && w.now-origin > 2*time.Second:
		w.printf("---- stop %d", a.id)
		a.m.Stop(w.now)
		a.carry()
	case what == 19 && a != b:
		k := [2]int{a.id, b.id}
		w.stalled[k] = !w.stalled[k]
		w.printf("---- stall %d %d %t", a.id, b.id, w.stalled[k])
	}
}

// wellAgain ends all faults.
func (w *world) wellAgain() {
	clear(w.cut)
	clear(w.stalled)
	for _, n := range w.nodes {
		n.how, n.asleep = "ok", 0
		if n.m != nil && n.m.stopping {
			n.crash()
		}
		if n.m == nil {
			n.start(w.cfg.FailureTimeout)
		}
	}
}

func (w *world) activeNode(t *rapid.T) *node {
	var found *node
	for _, n := range w.nodes {
		if n.m.role != Active {
			continue
		}
		if found != nil {
			t.Fatalf("%d and %d are active\n%s", found.id, n.id, w.tail())
		}
		found = n
	}
	if found == nil {
		t.Fatalf("nobody is active\n%s", w.tail())
	}
	return found
}

// tail is the end of what happened.
func (w *world) tail() string {
	all := w.out.String()
	return all[max(0, len(all)-6000):]
}
