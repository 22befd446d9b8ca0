package lockspace

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// list looks at the table in portions, and compares with the model.
func (g *rig) list(portion, most int) {
	g.t.Helper()
	seen := map[string]Holding{}
	l := g.space.List()
	for more := true; more; {
		n := 0
		more = l.Next(portion, func(h *Holding) {
			n++
			if _, twice := seen[string(h.Key)]; twice {
				g.t.Fatalf("%q is listed twice", h.Key)
			}
			seen[string(h.Key)] = *h
		})
		if n > portion {
			g.t.Fatalf("%d keys, asked for %d", n, portion)
		}
	}
	if len(seen) != len(g.model.grants) {
		g.t.Fatalf("%d keys are listed, want %d", len(seen), len(g.model.grants))
	}
	for _, m := range g.model.grants {
		h, first, ok := g.space.Look([]byte(m.key), most)
		if l := seen[m.key]; !ok || l.Token != h.Token || l.Since != h.Since || l.Until != h.Until || l.Waiting != h.Waiting || l.Holder != h.Holder {
			g.t.Fatalf("%q is listed as %+v, and looks like %+v, %v", m.key, l, h, ok)
		}
		var line []Queued // with a connection
		waiting := 0
		for _, r := range g.model.line {
			if r.key != m.key {
				continue
			}
			if waiting++; r.session != 0 && len(line) < most {
				line = append(line, Queued{Session: r.session, Since: r.since, Until: r.until})
			}
		}
		if h.Token != m.token || h.Until != m.ends || h.Since > g.observer.now || h.Waiting != waiting {
			g.t.Fatalf("%q looks like %+v, want token %d until %v and %d waiting", m.key, h, m.token, m.ends, waiting)
		}
		if diff := cmp.Diff(line, first); diff != "" {
			g.t.Fatalf("the line of %q (-model +space):\n%s", m.key, diff)
		}
	}
	if _, _, ok := g.space.Look([]byte("never used"), 1); ok {
		g.t.Fatalf("a key that was never used is held")
	}
}

// A key that is held all the while is listed, whatever happens meanwhile.
func TestListWhileItChanges(t *testing.T) {
	s := New(roomy())
	const n = 1000
	tokens := map[int]uint64{}
	acquire := func(i int) {
		s.Acquire(0, Acquire{Session: 1, Key: keyOf(i)})
		tokens[i] = s.Effects()[0].Token
	}
	for i := range n {
		acquire(i)
	}
	var listed []string
	l := s.List()
	for k, more := 0, true; more; k++ {
		more = l.Next(7, func(h *Holding) { listed = append(listed, string(h.Key)) })
		for i := k % 10; i < n; i += 10 {
			if i%2 == 1 { // the odd ones come and go
				s.Release(0, keyOf(i), tokens[i])
				s.Effects()
				acquire(i)
			}
		}
		acquire(n + k)
	}
	for i := 0; i < n; i += 2 {
		if c := len(slices.DeleteFunc(slices.Clone(listed), func(k string) bool { return k != string(keyOf(i)) })); c != 1 {
			t.Errorf("%s is listed %d times", keyOf(i), c)
		}
	}
}

// The first of a long line come in order, those of the copy from before a
// promotion before the others.
func TestLookAtLine(t *testing.T) {
	s := New(roomy())
	key := keyOf(0)
	s.Acquire(0, Acquire{Session: 1, Key: key, Lease: time.Hour})
	s.Effects()
	for i := range 500 {
		// They leave in no order, so that the heap is a heap and no list.
		s.Acquire(Time(i), Acquire{Session: Session(i + 2), Key: key, MayQueue: true})
		s.Effects()
	}
	for i := 0; i < 500; i += 3 {
		s.Drop(500, Session((i*7)%500+2))
		s.Effects()
	}
	for _, most := range []int{0, 1, 10, 1000} {
		h, first, ok := s.Look(key, most)
		if !ok || len(first) != min(most, h.Waiting) || h.Waiting != s.Waiting() {
			t.Fatalf("asked for %d, got %d of %d, %v", most, len(first), h.Waiting, ok)
		}
		if !slices.IsSortedFunc(first, func(a, b Queued) int { return int(a.Since - b.Since) }) {
			t.Errorf("not in the order of the line: %v", first)
		}
		for _, q := range first {
			if q.Until != Never || q.Since != Time(q.Session-2) {
				t.Errorf("%+v", q)
			}
		}
	}
}

// What a copy knows of a key, and what the node knows that is promoted with it.
func TestLookAtCopy(t *testing.T) {
	cfg := roomy()
	cfg.Record = true
	active, standby := New(cfg), New(cfg)
	standby.Follow(0)
	do := func(a Acquire, now Time) {
		a.Key, a.MayQueue = []byte("k"), true
		active.Acquire(now, a)
		active.Effects()
		changes := active.Changes()
		for i := range changes {
			standby.Apply(now, &changes[i])
		}
	}
	do(Acquire{Session: 1, Lease: time.Minute}, 10)
	do(Acquire{Session: 2, Nonce: nonceOf(1), Wait: time.Second}, 20)
	do(Acquire{Session: 3}, 30) // has no nonce: its place is not replicated
	h, first, ok := standby.Look([]byte("k"), 10)
	want := Holding{Key: []byte("k"), Token: 1, Since: 10, Until: 10 + Time(time.Minute), Waiting: 1}
	if diff := cmp.Diff(want, h); diff != "" || !ok {
		t.Error(ok, diff)
	}
	if diff := cmp.Diff([]Queued{{Since: 20, Until: 20 + Time(time.Second)}}, first); diff != "" {
		t.Error(diff)
	}
	standby.Promote(40, 0)
	standby.Acquire(50, Acquire{Session: 9, Key: []byte("k"), MayQueue: true})
	standby.Effects()
	standby.Changes()
	h, first, _ = standby.Look([]byte("k"), 10)
	if h.Holder != 0 || h.Waiting != 2 || len(first) != 2 || first[0].Session != 0 || first[1].Session != 9 {
		t.Errorf("%+v, %+v", h, first)
	}
}

func TestStats(t *testing.T) {
	s := New(roomy())
	at := func(now time.Duration, f func(now Time)) []Effect {
		f(Time(now))
		return slices.Clone(s.Effects())
	}
	acquire := func(now time.Duration, session Session, wait time.Duration) []Effect {
		return at(now, func(now Time) {
			s.Acquire(now, Acquire{Session: session, Key: []byte("k"), Wait: wait, Lease: time.Second, MayQueue: true})
		})
	}
	acquire(0, 1, 0)
	acquire(100*ms, 2, 0)
	acquire(100*ms, 3, -1)
	if got := at(300*ms, func(now Time) { s.Release(now, []byte("k"), 1) }); got[0].Freed != Time(300*ms) {
		t.Errorf("released: %+v", got)
	}
	acquire(400*ms, 4, 0)
	// The lease ends at 1.3 s; nobody looks until later.
	if got := at(1500*ms, func(now Time) { s.Advance(now, 9) }); got[0].Token != 3 || got[0].Freed != Time(1300*ms) {
		t.Errorf("expired: %+v", got)
	}
	acquire(1600*ms, 5, 0)
	if got := at(1700*ms, func(now Time) { s.Break(now, []byte("k"), 3) }); got[0].Token != 4 || got[0].Freed != Time(1700*ms) {
		t.Errorf("broken: %+v", got)
	}
	if got := acquire(1800*ms, 6, 10*ms); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	at(1900*ms, func(now Time) { s.Advance(now, 9) })
	at(1900*ms, func(now Time) { s.Undo(now, 5, []byte("k"), 4, Place{}) })
	if got := acquire(2000*ms, 7, 0); got[0].Freed != Never {
		t.Errorf("at once: %+v", got)
	}
	want := Stats{}
	want.Granted[Immediate], want.Granted[HandedOver] = 2, 3
	want.Ended[Released], want.Ended[Expired], want.Ended[Broken], want.Ended[Undone] = 1, 1, 1, 1
	want.TimedOut[AtOnce], want.TimedOut[AtLimit] = 1, 1
	for _, d := range []time.Duration{0, 0, 200 * ms, 1100 * ms, 100 * ms} {
		want.Wait.Observe(d)
	}
	for _, d := range []time.Duration{300 * ms, 1200 * ms, 200 * ms} {
		want.Hold.Observe(d)
	}
	if diff := cmp.Diff(want, *s.Stats()); diff != "" {
		t.Error(diff)
	}
	var sum Stats
	sum.Add(&want)
	sum.Add(&want)
	if sum.Granted[HandedOver] != 6 || sum.Ended[Undone] != 2 || sum.TimedOut[AtLimit] != 2 || sum.Hold.Count() != 6 || sum.Wait.Count() != 10 {
		t.Errorf("twice: %+v", sum)
	}
	for k := range grantKinds {
		if k.String() == "" {
			t.Errorf("grant kind %d has no name", k)
		}
	}
	for k := range endKinds {
		if k.String() == "" {
			t.Errorf("end kind %d has no name", k)
		}
	}
	for k := range timeoutKinds {
		if k.String() == "" {
			t.Errorf("timeout kind %d has no name", k)
		}
	}
}

// BenchmarkList looks at every key of a large table, 256 at a time.
func BenchmarkList(b *testing.B) {
	const n = 100_000
	s := New(roomy())
	hold(s, n)
	var longest time.Duration
	for b.Loop() {
		l, seen := s.List(), 0
		for more := true; more; {
			start := time.Now()
			more = l.Next(256, func(*Holding) { seen++ })
			longest = max(longest, time.Since(start))
		}
		if seen != n {
			b.Fatal(fmt.Sprint(seen, " keys"))
		}
	}
	b.ReportMetric(float64(longest.Nanoseconds()), "ns-longest")
}
