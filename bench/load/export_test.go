package load

import "math/rand/v2"

// Virtual has a run wait by the runtime's clock alone, which a test can move.
func Virtual(w Wires) Wires {
	w.virtual = true
	return w
}

// VirtualLockers does the same for a client library.
func VirtualLockers(l Lockers) Lockers {
	l.virtual = true
	return l
}

// Draw draws ranks by Zipf's law, and counts each.
func Draw(n int, s float64, count int) []int {
	z, rng := newZipf(n, s), rand.New(rand.NewPCG(1, 2))
	drawn := make([]int, n)
	for range count {
		drawn[z.next(rng)]++
	}
	return drawn
}
