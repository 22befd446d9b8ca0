//go:build !invariants

package broken

// Rule reports whether the rule is to be broken.
func Rule(string) bool { return false }

// Break does nothing in this build.
func Break(string) {}

// Enabled reports whether rules can be broken in this build.
const Enabled = false
