package load

import (
	"math"
	"math/rand/v2"
)

// digits are those of the number in a key: 5 bits each, so that a key is made
// and read without a division.
const digits = "abcdefghijklmnopqrstuvwxyz234567"

var digitOf = func() (of [256]int8) {
	for i := range of {
		of[i] = -1
	}
	for i := range digits {
		of[digits[i]] = int8(i)
	}
	return of
}()

func keyDigits(keys int) int {
	n := 1
	for keys > 1<<(5*n) {
		n++
	}
	return n
}

// Space is a set of keys, all of one length, that are counted from 0.
type Space struct {
	prefix []byte
	digits int
	keys   int
}

// NewSpace returns the space of the given number of keys. Spaces with different
// marks have no key in common.
func NewSpace(keys, length int, mark byte) Space {
	s := Space{digits: keyDigits(keys), keys: keys}
	for len(s.prefix)+s.digits < length {
		s.prefix = append(s.prefix, mark)
	}
	return s
}

// Append appends key i.
func (s *Space) Append(dst []byte, i int) []byte {
	dst = append(dst, s.prefix...)
	for d := s.digits - 1; d >= 0; d-- {
		dst = append(dst, digits[i>>(5*d)&31])
	}
	return dst
}

// Key returns key i.
func (s *Space) Key(i int) string { return string(s.Append(nil, i)) }

// Index returns the number of a key, or -1 if it is none of the space.
func (s *Space) Index(key []byte) int {
	if len(key) != len(s.prefix)+s.digits || string(key[:len(s.prefix)]) != string(s.prefix) {
		return -1
	}
	i := 0
	for _, b := range key[len(s.prefix):] {
		d := digitOf[b]
		if d < 0 {
			return -1
		}
		i = i<<5 | int(d)
	}
	if i >= s.keys {
		return -1
	}
	return i
}

// chooser chooses the keys of one connection.
type chooser struct {
	p     *Plan
	rng   *rand.Rand
	zipf  *zipf
	first int // slot of the connection's first request, over all connections
	part  int // keys of one slot, where slots share none
}

func newChooser(p *Plan, connection int, rng *rand.Rand) chooser {
	c := chooser{p: p, rng: rng, first: connection * p.Depth, part: p.Keys / p.Slots()}
	if p.Skew > 0 {
		c.zipf = newZipf(p.Keys, p.Skew)
	}
	return c
}

// next returns a key for a slot of the connection, and whether others may want
// it at the same time.
func (c *chooser) next(slot int) (key int, contended bool) {
	switch {
	case c.p.Contended > 0 && c.rng.Float64() < c.p.Contended:
		return c.p.Keys + c.rng.IntN(c.p.HotKeys), true
	case c.zipf != nil:
		return c.zipf.next(c.rng), true
	case c.p.Shared:
		return c.rng.IntN(c.p.Keys), true
	default:
		return (c.first+slot)*c.part + c.rng.IntN(c.part), false
	}
}

// zipf draws ranks 0 to n-1, rank k with a probability in proportion to
// (k+1)^-s, for any s above 0. It inverts the integral of the density and rejects
// what lies outside of the histogram (Hörmann and Derflinger, 1996).
type zipf struct {
	s, n         float64
	low, high    float64 // the integral from the first to the last rank
	alwaysWithin float64
}

func newZipf(n int, s float64) *zipf {
	z := &zipf{s: s, n: float64(n)}
	z.low = z.integral(1.5) - 1
	z.high = z.integral(z.n + 0.5)
	z.alwaysWithin = 2 - z.inverse(z.integral(2.5)-z.density(2))
	return z
}

func (z *zipf) density(x float64) float64 { return math.Exp(-z.s * math.Log(x)) }

func (z *zipf) integral(x float64) float64 {
	if z.s == 1 {
		return math.Log(x)
	}
	return math.Expm1((1-z.s)*math.Log(x)) / (1 - z.s)
}

func (z *zipf) inverse(y float64) float64 {
	if z.s == 1 {
		return math.Exp(y)
	}
	return math.Exp(math.Log1p(max(y*(1-z.s), -1)) / (1 - z.s))
}

func (z *zipf) next(rng *rand.Rand) int {
	for {
		u := z.high + rng.Float64()*(z.low-z.high)
		x := z.inverse(u)
		k := min(max(math.Floor(x+0.5), 1), z.n)
		if k-x <= z.alwaysWithin || u >= z.integral(k+0.5)-z.density(k) {
			return int(k) - 1
		}
	}
}
