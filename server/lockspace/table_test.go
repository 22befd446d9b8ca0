package lockspace

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

func checkTable(t *testing.T, table *table, want map[*entry]bool) {
	t.Helper()
	if table.n != len(want) {
		t.Fatalf("%d entries are counted, want %d", table.n, len(want))
	}
	seen := 0
	for e := range table.all() {
		if seen++; !want[e] {
			t.Fatal("an entry is in the table that should not be")
		}
	}
	for e := range want {
		found := 0
		for at := table.first(e.hash); at != nil; at = at.next {
			if at == e {
				found++
			}
		}
		if found != 1 {
			t.Fatalf("an entry is found %d times", found)
		}
	}
	if seen != len(want) {
		t.Fatalf("%d entries are listed, want %d", seen, len(want))
	}
}

// Whatever comes and goes, the table has what was added and not dropped.
func TestTable(t *testing.T) {
	for name, hash := range map[string]func(*rand.Rand) uint64{
		"any":       (*rand.Rand).Uint64,
		"few":       func(r *rand.Rand) uint64 { return r.Uint64N(7) },
		"high bits": func(r *rand.Rand) uint64 { return r.Uint64() << 60 },
	} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			table, want := newTable(), map[*entry]bool{}
			var list []*entry
			for phase := range 8 {
				adds := 7 // of 10
				if phase%2 == 1 {
					adds = 3
				}
				for range 1500 {
					if rng.IntN(10) < adds {
						e := &entry{hash: hash(rng)}
						table.add(e)
						list, want[e] = append(list, e), true
					} else if len(list) > 0 {
						i := rng.IntN(len(list))
						e := list[i]
						table.drop(e)
						if e.next != nil {
							t.Fatal("a dropped entry is still linked")
						}
						list[i] = list[len(list)-1]
						list = list[:len(list)-1]
						delete(want, e)
					}
				}
				checkTable(t, &table, want)
			}
			for _, e := range list {
				table.drop(e)
			}
			if table.n != 0 || len(table.buckets) != minBuckets {
				t.Errorf("%d entries and %d buckets are left", table.n, len(table.buckets))
			}
		})
	}
}

// A table that was large gives its memory back.
func TestTableShrinks(t *testing.T) {
	table := newTable()
	var all []*entry
	for range 100_000 {
		e := &entry{hash: rand.Uint64()}
		table.add(e)
		all = append(all, e)
	}
	for _, e := range all[10:] {
		table.drop(e)
	}
	if c := cap(table.buckets); c > 4*keptPool {
		t.Errorf("%d buckets are kept for 10 entries", c)
	}
}

// The set has the pairs that were pushed and not taken out, in their order,
// whatever the clients have chosen.
func TestSpentSet(t *testing.T) {
	for name, pair := range map[string]func(*rand.Rand) fingerprint{
		"any":      func(r *rand.Rand) fingerprint { return fingerprint{Hi: r.Uint64(), Lo: r.Uint64()} },
		"one low":  func(r *rand.Rand) fingerprint { return fingerprint{Hi: r.Uint64(), Lo: 1} },
		"one high": func(r *rand.Rand) fingerprint { return fingerprint{Hi: 1, Lo: r.Uint64()} },
		"one sum": func(r *rand.Rand) fingerprint {
			x := r.Uint64()
			return fingerprint{Hi: x, Lo: bits.RotateLeft64(x, 32)}
		},
		"counted": func(r *rand.Rand) fingerprint { return fingerprint{Hi: 0, Lo: r.Uint64N(1 << 16)} },
	} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(3, 4))
			q := spentSet{seed: rng.Uint64()}
			var want []fingerprint
			var gone, shifts uint64
			at := map[fingerprint]bool{}
			longest := 0
			for i := range 60_000 {
				switch op := rng.IntN(100); {
				case op < 52:
					fp := pair(rng)
					if q.has(fp) != at[fp] {
						t.Fatalf("step %d: a pair is known: %v, want %v", i, q.has(fp), at[fp])
					}
					if !at[fp] {
						q.push(spentNonce{fp, Time(i)})
						want, at[fp] = append(want, fp), true
					}
				case op < 95 && len(want) > 0:
					if q.front().fp != want[0] {
						t.Fatalf("step %d: the oldest is another", i)
					}
					delete(at, want[0])
					q.pop()
					want = want[1:]
					gone++
				case len(want) > 0:
					n := rng.IntN(min(len(want), 20))
					fp := want[n]
					if !q.remove(fp) || q.remove(fp) {
						t.Fatalf("step %d: a pair was not removed once", i)
					}
					want = append(want[:n:n], want[n+1:]...)
					delete(at, fp)
					gone++
					shifts++
				}
				if q.n != len(want) || q.popped != gone || q.shifts != shifts {
					t.Fatalf("step %d: %d pairs, %d went, %d shifts; want %d, %d, %d", i, q.n, q.popped, q.shifts, len(want), gone, shifts)
				}
			}
			for i, fp := range want {
				if q.at(i).fp != fp {
					t.Fatalf("pair %d is another", i)
				}
				slot, there := q.slot(fp)
				if !there {
					t.Fatalf("pair %d is not in the index", i)
				}
				longest = max(longest, (slot-q.home(fp))&(len(q.index)-1))
			}
			if longest > 40 {
				t.Errorf("a pair is %d slots from its home", longest)
			}
		})
	}
}

// When all of many nonces have been spent, the map that they were found by is
// given back; that of a few is kept.
func TestClaimsGiveBack(t *testing.T) {
	for n, gone := range map[int]bool{10: false, 2 * keptPool: true} {
		token := uint64(0)
		s := New(Config{
			DefaultLease: time.Minute, MaxLease: time.Hour, ReattachGrace: time.Second,
			SpentFor: 10 * time.Second, MaxSpent: 65536, MaxWaitersPerKey: 10,
			NextToken: func() (uint64, bool) { token++; return token, true },
		})
		was := reflect.ValueOf(s.claims).Pointer()
		for i := range n {
			s.Acquire(0, Acquire{Session: 1, Key: fmt.Append(nil, i), Nonce: MakeNonce(fmt.Append(nil, i))})
			s.Effects()
		}
		for i := range n {
			s.Release(1, fmt.Append(nil, i), uint64(i+1))
			s.Effects()
		}
		s.Advance(Time(time.Minute), n+1)
		if len(s.claims) != 0 {
			t.Errorf("%d nonces are still claimed", len(s.claims))
		}
		if is := reflect.ValueOf(s.claims).Pointer() != was; is != gone {
			t.Errorf("after %d nonces the map was given back: %v, want %v", n, is, gone)
		}
	}
}
