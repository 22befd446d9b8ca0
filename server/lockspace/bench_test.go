package lockspace

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

// hold makes n keys held besides those that a benchmark uses.
func hold(s *Space, n int) {
	var key []byte
	for i := range n {
		key = fmt.Appendf(key[:0], "accounts/persons/%07d", i)
		s.Acquire(0, Acquire{Session: 1, Key: key, Lease: time.Hour})
		s.Effects()
	}
}

// BenchmarkUncontended is an acquire and a release.
func BenchmarkUncontended(b *testing.B) {
	for _, bb := range []struct {
		name       string
		keys, held int
		nonce      bool
	}{
		{"1key", 1, 0, false},
		{"1000keys", 1000, 0, false},
		{"1000keys/1Mheld", 1000, 1_000_000, false},
		{"1Mkeys/1Mheld", 1_000_000, 1_000_000, false},
		{"1key/nonce", 1, 0, true},
		{"1000keys/nonce", 1000, 0, true},
	} {
		b.Run(bb.name, func(b *testing.B) {
			s := New(roomy())
			hold(s, bb.held)
			c := cycle{nonce: bb.nonce, tokens: uint64(bb.held)}
			keys := manyKeys(bb.keys)
			next := 0
			b.ReportAllocs()
			for b.Loop() {
				c.key = keys[next]
				if next++; next == len(keys) {
					next = 0
				}
				c.uncontended(s)
			}
		})
	}
}

// BenchmarkHandOver is a release that grants to the next in line, and an
// acquire that joins the line.
func BenchmarkHandOver(b *testing.B) {
	for _, waiters := range []int{1, 1000, 100_000} {
		for _, nonce := range []bool{false, true} {
			name := fmt.Sprint(waiters)
			if nonce {
				name += "/nonce"
			}
			b.Run(name, func(b *testing.B) {
				s, c := New(roomy()), cycle{key: keyOf(0), nonce: nonce}
				c.lineUp(s, waiters)
				b.ReportAllocs()
				for b.Loop() {
					c.handOver(s)
				}
			})
		}
	}
}

// BenchmarkKeep renews one of many leases.
func BenchmarkKeep(b *testing.B) {
	for _, held := range []int{1, 1000, 1_000_000} {
		b.Run(fmt.Sprint(held), func(b *testing.B) {
			s := New(roomy())
			for i := range held {
				s.Acquire(0, Acquire{Session: 1, Key: keyOf(i)})
				s.Effects()
			}
			keys := manyKeys(min(held, 1000))
			next, now := 0, Time(0)
			b.ReportAllocs()
			for b.Loop() {
				if _, ok := s.Keep(now, 1, keys[next], uint64(next+1), time.Hour); !ok {
					b.Fatal("not held")
				}
				s.Effects()
				now++
				if next++; next == len(keys) {
					next = 0
				}
			}
		})
	}
}

// BenchmarkExpire ends leases, 256 to a call; one operation is one lease.
func BenchmarkExpire(b *testing.B) {
	const n = 1_000_000
	s, now := New(roomy()), Time(0)
	b.ReportAllocs()
	for b.Loop() {
		if s.Held() == 0 {
			b.StopTimer()
			hold(s, n)
			now += Time(time.Hour)
			b.StartTimer()
		}
		s.Advance(now, 1)
		s.Effects()
	}
}

// BenchmarkMemory reports the bytes that the table needs for each of many.
func BenchmarkMemory(b *testing.B) {
	const n = 1_000_000
	measure := func(name, unit string, fill func(s *Space)) {
		b.Run(name, func(b *testing.B) {
			var per float64
			for b.Loop() {
				s := New(roomy())
				before := heapInUse()
				fill(s)
				per = float64(heapInUse()-before) / n
				runtime.KeepAlive(s)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(per, unit)
		})
	}
	measure("held", "bytes/key", func(s *Space) {
		var key []byte
		for i := range n {
			key = fmt.Appendf(key[:0], "orders/customer/%08d", i) // 24 bytes
			s.Acquire(0, Acquire{Session: 1, Key: key})
			s.Effects()
		}
	})
	measure("held/nonce", "bytes/key", func(s *Space) {
		var key []byte
		for i := range n {
			key = fmt.Appendf(key[:0], "orders/customer/%08d", i)
			s.Acquire(0, Acquire{Session: 1, Key: key, Nonce: nonceOf(i)})
			s.Effects()
		}
	})
	measure("waiters", "bytes/waiter", func(s *Space) { lineUp(s, keyOf(0), n, false) })
	measure("waiters/nonce", "bytes/waiter", func(s *Space) { lineUp(s, keyOf(0), n, true) })
	measure("spent", "bytes/nonce", func(s *Space) {
		s.cfg.MaxSpent = n
		for i := range n {
			s.Cancel(0, []byte("k"), nonceOf(i))
			s.Effects()
		}
	})
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
