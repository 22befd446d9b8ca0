//go:build invariants

// Package invariants holds the checks that test builds make (build tag
// "invariants") and that cost nothing in a release.
package invariants

// Enabled is a constant, so that the compiler drops what depends on it.
const Enabled = true

// Scribble overwrites b in test builds. It copies rather than loops: the race
// detector looks at every single store.
func Scribble(b []byte) {
	if len(b) == 0 {
		return
	}
	b[0] = 0xAA
	for n := 1; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}
