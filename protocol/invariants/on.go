//go:build invariants

// Package invariants holds the checks that test builds make (build tag
// "invariants") and that cost nothing in a release.
package invariants

// Enabled is a constant, so that the compiler drops what depends on it.
const Enabled = true

// Scribble overwrites b in test builds.
func Scribble(b []byte) {
	for i := range b {
		b[i] = 0xAA
	}
}
