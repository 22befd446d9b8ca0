package lockspace

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// filedEntries are entries by number, in a table.
type filedEntries struct {
	table table[entry, *entry]
	all   map[int]*entry
	hash  func(i int) uint32
}

func (f *filedEntries) has(i int) bool {
	for e := f.table.first(f.hash(i)); e != nil; e = e.next {
		if e == f.all[i] {
			return true
		}
	}
	return false
}

// TestTable compares a table with a map, while it grows and shrinks.
func TestTable(t *testing.T) {
	for name, hash := range map[string]func(int) uint32{
		"spread":    func(i int) uint32 { return uint32(mixed(uint64(i))) },
		"counted":   func(i int) uint32 { return uint32(i) },
		"low bits":  func(i int) uint32 { return uint32(i) & 3 },
		"high bits": func(i int) uint32 { return uint32(i) << 20 },
	} {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			f := filedEntries{all: map[int]*entry{}, hash: hash}
			s := New(roomy())
			for _, most := range []int{1, 10, 70, 3000, 100, 0} {
				for step := range 6000 {
					i := random.IntN(most + most/4 + 1)
					if e := f.all[i]; e != nil && (most == 0 || random.IntN(3) == 0) {
						f.table.remove(e)
						if delete(f.all, i); e.next != nil {
							t.Fatal("a record that is out of the table leads into it")
						}
					} else if e == nil && most > 0 {
						e := &entry{hash: hash(i)}
						f.all[i] = e
						f.table.add(e)
					}
					if step%500 == 0 {
						f.table.check(s)
					}
				}
				for i := len(f.all); i > most; { // down to the next size
					for j, e := range f.all {
						f.table.remove(e)
						delete(f.all, j)
						break
					}
					i--
				}
				f.table.check(s)
				if f.table.len() != len(f.all) {
					t.Fatalf("%d records, want %d", f.table.len(), len(f.all))
				}
				for i := range 4000 {
					if f.has(i) != (f.all[i] != nil) {
						t.Fatalf("record %d: found %v", i, f.has(i))
					}
				}
				seen := 0
				f.table.all(func(*entry) { seen++ })
				if seen != len(f.all) {
					t.Fatalf("%d records are seen, want %d", seen, len(f.all))
				}
			}
			if n := len(f.table.segments); n > 1 {
				t.Errorf("%d segments are left for nothing", n)
			}
		})
	}
}

// TestTableSteps counts the records that one call looks at, at the most.
func TestTableSteps(t *testing.T) {
	const n = 200_000
	var f table[entry, *entry]
	entries := make([]entry, n)
	for i := range entries {
		entries[i].hash = uint32(mixed(uint64(i)))
		before := f.buckets
		if f.add(&entries[i]); f.buckets > before+1 && before > 0 {
			t.Fatalf("%d buckets were added by one call", f.buckets-before)
		}
	}
	most := 0
	for i := range f.buckets {
		length := 0
		head, _ := f.at(i)
		for e := *head; e != nil; e = e.next {
			length++
		}
		most = max(most, length)
	}
	// Those that are not split yet have twice their share.
	if most > 16 {
		t.Errorf("%d records in a bucket", most)
	}
	for i := range entries {
		before := f.buckets
		if f.remove(&entries[i]); before-f.buckets > 16 {
			t.Fatalf("%d buckets were taken away by one call", before-f.buckets)
		}
	}
}

// TestSpentNonces compares the spent nonces with a list, through growth,
// shrinking, and places whose 32 bits come round.
func TestSpentNonces(t *testing.T) {
	fps := map[string]func(i uint64) fingerprint{
		"spread":          func(i uint64) fingerprint { return fingerprint{Hi: mixed(i), Lo: mixed(^i)} },
		"one high half":   func(i uint64) fingerprint { return fingerprint{Hi: 7, Lo: mixed(i)} },
		"one low half":    func(i uint64) fingerprint { return fingerprint{Hi: mixed(i), Lo: 7} },
		"counted, low":    func(i uint64) fingerprint { return fingerprint{Lo: i} },
		"counted, high":   func(i uint64) fingerprint { return fingerprint{Hi: i << 32} },
		"halves alike":    func(i uint64) fingerprint { return fingerprint{Hi: i, Lo: i} },
		"halves opposite": func(i uint64) fingerprint { return fingerprint{Hi: i, Lo: ^i} },
	}
	for name, fp := range fps {
		for _, first := range []uint64{0, math.MaxUint32 - 500, 5 << 32} {
			t.Run(fmt.Sprint(name, "/", first), func(t *testing.T) {
				random := rand.New(rand.NewPCG(3, first))
				s := New(roomy())
				q := &s.spent
				q.first, q.next = first, first
				var list []uint64 // the numbers of those that are spent, the oldest first
				number := uint64(0)
				for step, most := range []int{3, 200, 3000, 100, 2000, 0} {
					for range 4000 {
						switch {
						case len(list) < most && random.IntN(3) > 0 || len(list) == 0 && most > 0:
							q.push(fp(number), Time(step))
							list = append(list, number)
							number++
						case len(list) > 0 && random.IntN(4) == 0:
							// From anywhere: old ones more often, as on a copy.
							i := random.IntN(1 + random.IntN(len(list)))
							v := q.find(fp(list[i]))
							if v == nil || v.fp != fp(list[i]) {
								t.Fatalf("number %d is not found", list[i])
							}
							q.drop(v)
							list = slices.Delete(list, i, i+1)
						case len(list) > 0:
							q.pop()
							list = list[1:]
						}
						if q.n != len(list) {
							t.Fatalf("%d are spent, want %d", q.n, len(list))
						}
						if len(list) > 0 {
							if got := q.at(q.first).fp; got != fp(list[0]) {
								t.Fatalf("the oldest is %v, want number %d", got, list[0])
							}
						}
						if i := uint64(random.Int64N(int64(number + 10))); (q.find(fp(i)) != nil) != slices.Contains(list, i) {
							t.Fatalf("number %d: found %v", i, q.find(fp(i)) != nil)
						}
						q.shrink()
					}
					q.check(s)
				}
				if len(q.ring) > keptPool {
					t.Errorf("a ring of %d is left for nothing", len(q.ring))
				}
			})
		}
	}
}

// TestPairHash spreads pairs that a client may choose so that they share as
// much as it can make them share.
func TestPairHash(t *testing.T) {
	const n, buckets = 1 << 16, 1 << 17
	for name, fp := range map[string]func(i uint64) fingerprint{
		"counted, low":     func(i uint64) fingerprint { return fingerprint{Lo: i} },
		"counted, high":    func(i uint64) fingerprint { return fingerprint{Hi: i} },
		"low, upper bits":  func(i uint64) fingerprint { return fingerprint{Hi: 99, Lo: i << 48} },
		"high, upper bits": func(i uint64) fingerprint { return fingerprint{Hi: i << 48, Lo: 99} },
		"halves alike":     func(i uint64) fingerprint { return fingerprint{Hi: i, Lo: i} },
		"halves opposite":  func(i uint64) fingerprint { return fingerprint{Hi: i, Lo: ^i} },
		"of one key": func(i uint64) fingerprint {
			nonce := MakeNonce(fmt.Appendf(nil, "%d", i))
			return fingerprintOf([]byte("k"), &nonce)
		},
	} {
		for seed := range uint64(4) {
			h, count := newPairHash(seed), make([]int, buckets)
			longest := 0
			for i := range uint64(n) {
				b := h.of(fp(i)) % buckets
				count[b]++
				longest = max(longest, count[b])
			}
			if longest > 10 { // by chance, 8 at the most
				t.Errorf("%s, seed %d: %d in a bucket", name, seed, longest)
			}
		}
	}
	// Two seeds have nothing to do with each other: what meets under one does
	// not meet under another.
	a, b, met := newPairHash(1), newPairHash(2), 0
	first := map[uint32]uint64{}
	for i := range uint64(n) {
		fp := fingerprint{Lo: i}
		at := a.of(fp) % buckets
		if j, ok := first[at]; ok && b.of(fp)%buckets == b.of(fingerprint{Lo: j})%buckets {
			met++
		}
		first[at] = i
	}
	if met > 5 {
		t.Errorf("%d pairs meet under both seeds", met)
	}
}

// TestSpentGivesMemoryBack: a burst of spent nonces costs no memory once it is
// forgotten, though others are spent all the while.
func TestSpentGivesMemoryBack(t *testing.T) {
	s := New(roomy())
	number := 0
	cancel := func(now Time) {
		s.Cancel(now, []byte("k"), nonceOf(number))
		s.Advance(now, math.MaxInt)
		number++
	}
	for range 50_000 {
		cancel(0)
	}
	burst := len(s.spent.ring)
	for i := range 200 {
		cancel(Time(i) * Time(time.Second/10))
	}
	if got := len(s.spent.ring); got > burst/32 {
		t.Errorf("a ring of %d after a burst of 50,000, %d in it", got, s.spent.n)
	}
}

// BenchmarkGrow adds a key to a table, and reports the longest that one
// took.
func BenchmarkGrow(b *testing.B) {
	for _, n := range []int{16_000, 160_000} { // a shard's share of 1 and 10 million
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			entries := make([]entry, n)
			for i := range entries {
				entries[i].hash = uint32(mixed(uint64(i)))
			}
			grow, shrink := make([]time.Duration, 0, b.N), make([]time.Duration, 0, b.N)
			b.ResetTimer()
			for range b.N {
				var f table[entry, *entry]
				var up, down time.Duration
				for i := range entries {
					start := time.Now()
					f.add(&entries[i])
					up = max(up, time.Since(start))
				}
				for i := range entries {
					start := time.Now()
					f.remove(&entries[i])
					down = max(down, time.Since(start))
				}
				grow, shrink = append(grow, up), append(shrink, down)
			}
			slices.Sort(grow)
			slices.Sort(shrink)
			b.ReportMetric(float64(grow[len(grow)/2].Microseconds()), "µs-longest-add")
			b.ReportMetric(float64(shrink[len(shrink)/2].Microseconds()), "µs-longest-remove")
		})
	}
}
