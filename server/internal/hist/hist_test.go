package hist

import (
	"math"
	"slices"
	"testing"
	"time"
	"unsafe"
)

func TestBounds(t *testing.T) {
	if !slices.IsSorted(Bounds[:]) {
		t.Errorf("not in order: %v", Bounds)
	}
	if size := unsafe.Sizeof(Shared{}); size%64 != 0 {
		t.Errorf("a Shared has %d bytes: not whole cache lines", size)
	}
}

// Each bound, and what is one below and one above it, and all powers of two.
func TestBucket(t *testing.T) {
	try := []time.Duration{math.MinInt64, -1, 0, 1, math.MaxInt64}
	for _, b := range Bounds {
		try = append(try, b-1, b, b+1)
	}
	for n := range 63 {
		try = append(try, 1<<n-1, 1<<n, 1<<n+1)
	}
	for _, d := range try {
		want := slices.IndexFunc(Bounds[:], func(b time.Duration) bool { return d <= b })
		if want < 0 {
			want = len(Bounds)
		}
		if got := bucket(d); got != want {
			t.Errorf("%v is in bucket %d, want %d", d, got, want)
		}
	}
}

func TestCounts(t *testing.T) {
	var c, other Counts
	var s Shared
	for _, d := range []time.Duration{0, time.Millisecond, time.Millisecond, 2 * time.Hour, -time.Second} {
		c.Observe(d)
		s.Observe(d)
	}
	other.Observe(time.Minute)
	s.AddTo(&other)
	c.Observe(time.Minute)
	if c != other || c.Count() != 6 || c.N[0] != 2 || c.N[len(Bounds)] != 1 {
		t.Errorf("%+v, %+v", c, other)
	}
	if want := float64(2*time.Hour + 2*time.Millisecond + time.Minute); c.Sum != want {
		t.Errorf("the sum is %v, want %v", c.Sum, want)
	}
	var sum Counts
	sum.Add(&c)
	sum.Add(&c)
	if sum.Count() != 12 || sum.Sum != 2*c.Sum {
		t.Errorf("added twice: %+v", sum)
	}
	if n := testing.AllocsPerRun(100, func() { c.Observe(time.Second); s.Observe(time.Second) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkObserve(b *testing.B) {
	var c Counts
	d := time.Duration(0)
	for b.Loop() {
		c.Observe(d)
		d = (d + 12345) & (1<<30 - 1)
	}
}
