// Package hist counts durations in buckets: fixed arrays of numbers that cost
// an addition or two, and are made into histograms for people when somebody
// looks. It reads no clock.
package hist

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Bounds are the buckets: number i counts what is at most Bounds[i] and more
// than the bound before; what is longer than the last goes into one more.
var Bounds = [...]time.Duration{
	10 * time.Microsecond, 25 * time.Microsecond, 50 * time.Microsecond,
	100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	1 * time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	1 * time.Second, 2500 * time.Millisecond, 5 * time.Second,
	10 * time.Second, 30 * time.Second, 1 * time.Minute,
	5 * time.Minute, 15 * time.Minute, 1 * time.Hour,
}

const buckets = len(Bounds) + 1

// first is, by the length in bits of a duration, the first bucket that it may
// belong to.
var first = func() (table [65]uint8) {
	for n := range table {
		least := time.Duration(0)
		if n > 0 {
			least = time.Duration(uint64(1) << (n - 1))
		}
		if n > 63 {
			least = 0 // below zero, as a Duration
		}
		for table[n] < uint8(len(Bounds)) && Bounds[table[n]] < least {
			table[n]++
		}
	}
	return table
}()

// bucket is the number of the bucket of d. What is below 0 counts as 0.
func bucket(d time.Duration) int {
	if d <= Bounds[0] {
		return 0
	}
	i := int(first[bits.Len64(uint64(d))])
	for i < len(Bounds) && d > Bounds[i] {
		i++
	}
	return i
}

// Counts is a histogram. The zero value is empty; its owner guards it.
type Counts struct {
	N [buckets]uint64
	// Sum is in nanoseconds. A float, since days of a million leases are more
	// than an int64 has.
	Sum float64
}

// Observe counts d.
func (c *Counts) Observe(d time.Duration) {
	c.N[bucket(d)]++
	if d > 0 {
		c.Sum += float64(d)
	}
}

// Add adds what another one has counted.
func (c *Counts) Add(o *Counts) {
	for i := range c.N {
		c.N[i] += o.N[i]
	}
	c.Sum += o.Sum
}

// Count is how many durations were counted.
func (c *Counts) Count() (n uint64) {
	for _, b := range c.N {
		n += b
	}
	return n
}

// Shared is a histogram that many may count in at once. Let those who count
// often have one each: it is fast as long as a processor has it to itself.
type Shared struct {
	n   [buckets]atomic.Uint64
	sum atomic.Uint64 // nanoseconds
	_   [6]uint64     // the next one begins on another cache line
}

// Observe counts d.
func (s *Shared) Observe(d time.Duration) {
	s.n[bucket(d)].Add(1)
	if d > 0 {
		s.sum.Add(uint64(d))
	}
}

// AddTo adds what was counted to c.
func (s *Shared) AddTo(c *Counts) {
	for i := range s.n {
		c.N[i] += s.n[i].Load()
	}
	c.Sum += float64(s.sum.Load())
}
