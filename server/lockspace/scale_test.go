package lockspace

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stile-lock/stile/protocol"
	"github.com/stile-lock/stile/protocol/invariants"
)

// roomy is a configuration whose limits are never met.
func roomy() Config {
	n := uint64(0)
	return Config{
		DefaultLease: 30 * time.Second, MaxLease: 24 * time.Hour,
		ReattachGrace: time.Second, SpentFor: 10 * time.Second, MaxSpent: 65536,
		MaxWaitersPerKey: math.MaxInt,
		Seed:             1,
		NextToken:        func() (uint64, bool) { n++; return n, true },
	}
}

// keyOf is one of many keys, 24 bytes long.
func keyOf(i int) []byte { return fmt.Appendf(nil, "orders/customer/%08d", i) }

func nonceOf(i int) Nonce { return MakeNonce(fmt.Appendf(nil, "0123456789abcdef-%d", i)) }

// lineUp makes session 1 hold the key and n others, from 2 on, wait for it.
func lineUp(s *Space, key []byte, n int, nonces bool) {
	for i := range n + 1 {
		a := Acquire{Session: Session(i + 1), Key: key, MayQueue: true}
		if nonces {
			a.Nonce = nonceOf(i)
		}
		s.Acquire(0, a)
		s.Effects()
	}
}

// counted is a value that counts how often a heap has moved it.
type counted struct {
	slot  int32
	moves *int
}

func (c *counted) setSlot(i int32) { c.slot = i; *c.moves++ }

// TestHeapMoves counts what 100,000 removals from anywhere in a heap cost.
func TestHeapMoves(t *testing.T) {
	const n = 100_000
	moves := 0
	var h heap[*counted]
	all := make([]*counted, n)
	for i := range all {
		all[i] = &counted{moves: &moves}
		h.push(int64(i), uint64(i), all[i])
	}
	if moves > 2*n {
		t.Errorf("%d moves for %d pushes in order", moves, n)
	}
	moves = 0
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(n) {
		h.remove(all[i].slot)
	}
	levels := int(math.Ceil(math.Log2(n) / 2))
	if moves > n*levels {
		t.Errorf("%d moves for %d removals, more than %d for each", moves, n, levels)
	}
	t.Logf("%.2f moves for each of %d removals", float64(moves)/n, n)
}

// TestHeap compares heaps, with and without room for the newest, with a list.
func TestHeap(t *testing.T) {
	for _, most := range []int{0, 1, 5, 32} {
		random := rand.New(rand.NewPCG(1, uint64(most)))
		h := heap[*counted]{most: most}
		moves, seq := 0, uint64(0)
		var all []item[*counted]
		first := func() int {
			least := 0
			for i := range all {
				if h.less(&all[i], &all[least]) {
					least = i
				}
			}
			return least
		}
		for step := range 30_000 {
			size := []int{3, 40, 300}[step/10_000]
			at := random.Int64N(50)
			if random.IntN(2) == 0 {
				at = int64(step) // as leases mostly do: the newest end last
			}
			switch n := random.IntN(10); {
			case len(all) == 0 || n < 5 && len(all) < size:
				seq++
				it := item[*counted]{at, seq, &counted{moves: &moves}}
				h.push(it.at, it.seq, it.v)
				all = append(all, it)
			case n < 7:
				i := random.IntN(len(all))
				if random.IntN(2) == 0 {
					i = first()
				}
				h.remove(all[i].v.slot)
				all = slices.Delete(all, i, i+1)
			case n < 8:
				i := random.IntN(len(all))
				h.move(all[i].v.slot, at)
				all[i].at = at
			case n == 8 && step%50 == 0:
				for i := range all {
					all[i].at = random.Int64N(50)
					h.items[all[i].v.slot].at = all[i].at
				}
				h.reorder()
			}
			if h.len() != len(all) || !h.ordered() {
				t.Fatalf("%d items, want %d, in order: %v", h.len(), len(all), h.ordered())
			}
			if len(all) > 0 && h.items[0] != all[first()] {
				t.Fatalf("%v is first, want %v", h.items[0], all[first()])
			}
			for _, it := range all {
				if h.items[it.v.slot] != it {
					t.Fatalf("%v is not in its slot %d", it, it.v.slot)
				}
			}
		}
	}
}

// TestScale does each of many things once with n of them and once with ten
// times as many. What takes a step for every other waiter would take a
// hundred times as long then; what should take no more than the logarithm
// takes ten to twenty times as long, caches included.
func TestScale(t *testing.T) {
	key := []byte("k")
	tests := []struct {
		name string
		// prepare builds the state and returns what is measured.
		prepare func(s *Space, n int) func()
	}{
		{"drop each in random order", func(s *Space, n int) func() {
			lineUp(s, key, n, false)
			order := rand.New(rand.NewPCG(1, 2)).Perm(n)
			return func() {
				for _, i := range order {
					s.Drop(0, Session(i+2))
					s.Effects()
				}
			}
		}},
		{"detach each in random order, and let the grace end", func(s *Space, n int) func() {
			lineUp(s, key, n, true)
			order := rand.New(rand.NewPCG(1, 2)).Perm(n)
			return func() {
				for _, i := range order {
					s.Drop(0, Session(i+2))
					s.Effects()
				}
				for s.Advance(Time(time.Second), 256) {
					s.Effects()
				}
			}
		}},
		{"cancel each in random order", func(s *Space, n int) func() {
			lineUp(s, key, n, true)
			order := rand.New(rand.NewPCG(1, 2)).Perm(n)
			return func() {
				for _, i := range order {
					s.Cancel(0, key, nonceOf(i+1))
					s.Effects()
				}
			}
		}},
		{"take each place over", func(s *Space, n int) func() {
			lineUp(s, key, n, true)
			order := rand.New(rand.NewPCG(1, 2)).Perm(n)
			return func() {
				for _, i := range order {
					s.Acquire(0, Acquire{Session: Session(n + i + 2), Key: key, Nonce: nonceOf(i + 1), MayQueue: true})
					s.Effects()
				}
				s.EndSessions(0, Refused, protocol.CodeStopping)
				s.Effects()
			}
		}},
		{"hand over from one to the next", func(s *Space, n int) func() {
			lineUp(s, key, n, false)
			return func() {
				for i := range n {
					s.Release(0, key, uint64(i+1))
					s.Effects()
				}
			}
		}},
		{"one session's waiters, dropped at once", func(s *Space, n int) func() {
			for range n + 1 {
				s.Acquire(0, Acquire{Session: 1, Key: key, MayQueue: true})
				s.Effects()
			}
			return func() {
				s.Drop(0, 1)
				s.Effects()
			}
		}},
		{"answers held back and let go at once", func(s *Space, n int) func() {
			for i := range n + 2 {
				a := Acquire{Session: 1, Key: key, MayQueue: true}
				if i > 1 {
					a.Wait = ms
				}
				s.Acquire(0, a)
				s.Effects()
			}
			return func() {
				for s.Advance(Time(ms), 256) {
					s.Effects()
				}
				s.Effects()
				s.Release(Time(ms), key, 1)
				if got := len(s.Effects()); got != n+1 {
					panic(got)
				}
			}
		}},
		{"limits that pass together, and one on the way to the next", func(s *Space, n int) func() {
			for i := range n + 1 {
				s.Acquire(0, Acquire{Session: Session(i + 1), Key: key, Wait: ms, MayQueue: true})
				s.Effects()
			}
			return func() {
				s.Release(Time(ms), key, 1)
				s.Effects()
			}
		}},
	}
	small := 10_000
	if raceEnabled || invariants.Enabled {
		small = 1_000
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			measure := func(n int) time.Duration {
				s := New(roomy())
				work := tt.prepare(s, n)
				runtime.GC()
				start := time.Now()
				work()
				took := time.Since(start)
				if got := s.Waiting(); got != 0 {
					t.Fatalf("%d still wait", got)
				}
				return took
			}
			// The least of several times, since a machine has other things to
			// do as well.
			few, many := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
			ratio := 0.0
			for range 6 {
				few, many = min(few, measure(small)), min(many, measure(10*small))
				ratio = float64(many) / float64(few)
				if ratio < 50 || invariants.Enabled { // the checks cost what they cost
					t.Logf("%d: %v, %d: %v", small, few, 10*small, many)
					return
				}
			}
			t.Errorf("ten times as many take %.0f times as long", ratio)
		})
	}
}

// TestMillionLeases ends a million leases, 256 to a call.
func TestMillionLeases(t *testing.T) {
	n := 1_000_000
	if raceEnabled || invariants.Enabled {
		n = 100_000
	}
	s := New(roomy())
	key := keyOf(0)
	for i := range n {
		key = fmt.Appendf(key[:0], "orders/customer/%08d", i)
		s.Acquire(Time(i), Acquire{Session: 1, Key: key, Lease: time.Second})
		s.Effects()
	}
	if got := s.Held(); got != n {
		t.Fatalf("%d keys held, want %d", got, n)
	}
	if got, want := s.Next(), Time(time.Second); got != want {
		t.Fatalf("Next is %v, want %v", got, want)
	}
	calls := 1
	for ; s.Advance(Time(n)+Time(time.Second), 256); calls++ {
		s.Effects()
	}
	if want := (n + 255) / 256; calls != want {
		t.Errorf("%d calls of Advance, want %d", calls, want)
	}
	nothingLeft(t, s)
}

// TestAllocs: a table in steady use allocates nothing.
func TestAllocs(t *testing.T) {
	if raceEnabled || invariants.Enabled {
		t.Skip("test builds may allocate")
	}
	const runs = 5000
	check := func(t *testing.T, f func()) {
		t.Helper()
		for range 5000 { // until pools and maps have their size
			f()
		}
		if got := testing.AllocsPerRun(runs, f); got != 0 {
			t.Errorf("%v allocations", got)
		}
	}
	t.Run("acquire and release", func(t *testing.T) {
		s, c := New(roomy()), cycle{key: []byte("k")}
		check(t, func() { c.uncontended(s) })
	})
	t.Run("many keys", func(t *testing.T) {
		s, c := New(roomy()), cycle{}
		keys := manyKeys(1000)
		check(t, func() {
			c.key = keys[c.tokens%uint64(len(keys))]
			c.uncontended(s)
		})
	})
	t.Run("recorded", func(t *testing.T) {
		cfg := roomy()
		cfg.MaxSpent, cfg.Record = 1000, true
		s, c := New(cfg), cycle{key: []byte("k"), nonce: true}
		copied := New(cfg)
		copied.Follow(0)
		lease := time.Minute
		check(t, func() {
			c.acquire(s)
			c.tokens++
			s.Effects()
			apply(copied, s.Changes(), 1)
			lease, _ = s.Keep(0, 1, c.key, c.tokens, lease)
			apply(copied, s.Changes(), 1)
			s.Release(0, c.key, c.tokens)
			apply(copied, s.Changes(), 1)
		})
	})
	t.Run("hand over, recorded", func(t *testing.T) {
		cfg := roomy()
		cfg.MaxSpent, cfg.Record = 1000, true
		s, c := New(cfg), cycle{key: []byte("k"), nonce: true}
		copied := New(cfg)
		copied.Follow(0)
		for range 11 {
			c.acquire(s)
			s.Effects()
			apply(copied, s.Changes(), 1)
		}
		c.tokens = 1
		check(t, func() {
			s.Release(0, c.key, c.tokens)
			s.Effects()
			apply(copied, s.Changes(), 2)
			c.tokens++
			c.acquire(s)
			s.Effects()
			apply(copied, s.Changes(), 1)
		})
	})
	t.Run("snapshot portion", func(t *testing.T) {
		s := New(roomy())
		lineUp(s, []byte("k"), 100_000, true)
		n, rows := s.Snapshot(false), make([]Change, 0, 2)
		check(t, func() {
			if rows, _ = n.Next(0, 2, rows); len(rows) != 2 {
				t.Fatal("no rows")
			}
		})
	})
	t.Run("held and served", func(t *testing.T) {
		s, session := New(roomy()), Session(1)
		key := []byte("k")
		s.Acquire(0, Acquire{Session: 1, Key: key, Lease: time.Hour})
		s.Effects()
		check(t, func() {
			session++
			s.Hold(0, Acquire{Session: session, Key: key, Wait: protocol.NoQueue}, Never)
			s.Serve(0)
			if len(s.Effects()) != 1 {
				t.Fatal("not served")
			}
		})
	})
	t.Run("nonce", func(t *testing.T) {
		cfg := roomy()
		cfg.MaxSpent = 1000
		s, c := New(cfg), cycle{key: []byte("k"), nonce: true}
		check(t, func() { c.uncontended(s) })
	})
	t.Run("keep", func(t *testing.T) {
		s, c := New(roomy()), cycle{key: []byte("k")}
		c.acquire(s)
		check(t, func() { s.Keep(0, 1, c.key, 1, time.Minute); s.Effects() })
	})
	for _, waiters := range []int{1, 100} {
		t.Run(fmt.Sprintf("hand over with %d waiters", waiters), func(t *testing.T) {
			s, c := New(roomy()), cycle{key: []byte("k")}
			c.lineUp(s, waiters)
			check(t, func() { c.handOver(s) })
		})
	}
	t.Run("wait, time out, held back", func(t *testing.T) {
		s, now := New(roomy()), Time(0)
		key := []byte("k")
		s.Acquire(0, Acquire{Session: 1, Key: key, Lease: time.Hour})
		s.Effects()
		check(t, func() {
			for _, wait := range []time.Duration{2 * ms, ms} {
				s.Acquire(now, Acquire{Session: 2, Key: key, Wait: wait, MayQueue: true})
				s.Effects()
			}
			now += Time(2 * ms)
			s.Keep(now, 1, key, 1, time.Hour)
			s.Effects()
			s.Advance(now, 256)
			if len(s.Effects()) != 2 {
				t.Fatal("not timed out")
			}
		})
	})
	t.Run("queue up and drop", func(t *testing.T) {
		s, session := New(roomy()), Session(1)
		key := []byte("k")
		s.Acquire(0, Acquire{Session: 1, Key: key, Lease: time.Hour})
		s.Effects()
		check(t, func() {
			session++
			s.Acquire(0, Acquire{Session: session, Key: key, MayQueue: true})
			s.Effects()
			s.Drop(0, session)
			s.Effects()
		})
	})
}

// apply makes changes on a copy, and wants so many of them.
func apply(s *Space, changes []Change, want int) {
	if len(changes) != want {
		panic(fmt.Sprintf("%d changes, want %d", len(changes), want))
	}
	for i := range changes {
		s.Apply(0, &changes[i])
	}
}

func manyKeys(n int) [][]byte {
	keys := make([][]byte, n)
	for i := range keys {
		keys[i] = keyOf(i)
	}
	return keys
}

// cycle is a piece of steady load, for the allocation tests and the
// benchmarks.
type cycle struct {
	key    []byte
	nonce  bool
	tokens uint64 // the token that is released next, as roomy counts them
	asked  uint64
	number [16]byte
}

func (c *cycle) acquire(s *Space) {
	c.asked++
	a := Acquire{Session: Session(c.asked%1000 + 1), Key: c.key, MayQueue: true}
	if c.nonce {
		for i, n := 0, c.asked; i < len(c.number); i, n = i+1, n>>4 {
			c.number[i] = "0123456789abcdef"[n&15]
		}
		a.Nonce = MakeNonce(c.number[:])
	}
	s.Acquire(0, a)
}

// uncontended acquires and releases.
func (c *cycle) uncontended(s *Space) {
	c.acquire(s)
	c.tokens++
	effects := s.Effects()
	if len(effects) != 1 || effects[0].Token != c.tokens {
		panic("not granted")
	}
	if !s.Release(0, c.key, c.tokens) {
		panic("not released")
	}
	s.Effects()
}

// lineUp makes one hold the key and n wait for it.
func (c *cycle) lineUp(s *Space, n int) {
	for range n + 1 {
		c.acquire(s)
		s.Effects()
	}
	c.tokens = 1
}

// handOver releases, so that the next in line gets the key, and joins the
// line again.
func (c *cycle) handOver(s *Space) {
	if !s.Release(0, c.key, c.tokens) || len(s.Effects()) != 1 {
		panic("not handed over")
	}
	c.tokens++
	c.acquire(s)
	s.Effects()
}

// After a burst of spent nonces the memory goes back, and the next ones are
// remembered as before.
func TestSpentNoncesAfterALull(t *testing.T) {
	for _, n := range []int{1, keptPool, keptPool + 1, 5000} {
		s := New(Config{
			DefaultLease: time.Minute, MaxLease: time.Hour, ReattachGrace: time.Second,
			SpentFor: 10 * time.Second, MaxSpent: 65536, MaxWaitersPerKey: 10,
			NextToken: func() (uint64, bool) { return 1, true },
		})
		now := Time(0)
		for round := range 3 {
			for i := range n {
				s.Cancel(now, []byte("k"), MakeNonce(fmt.Appendf(nil, "%d-%d", round, i)))
			}
			now += Time(time.Minute)
			s.Advance(now, n+1)
			if s.spent.n != 0 {
				t.Fatalf("%d nonces are remembered after a minute", s.spent.n)
			}
		}
		s.Cancel(now, []byte("k"), MakeNonce([]byte("last")))
		s.Acquire(now, Acquire{Session: 1, Key: []byte("k"), Nonce: MakeNonce([]byte("last"))})
		if e := s.Effects(); len(e) != 1 || e[0].Kind != Refused || e[0].Code != protocol.CodeSpent {
			t.Errorf("after %d: %+v", n, e)
		}
	}
}
