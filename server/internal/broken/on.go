//go:build invariants

package broken

import "sync/atomic"

var rule atomic.Pointer[string]

// Rule reports whether the rule is to be broken.
func Rule(name string) bool {
	r := rule.Load()
	return r != nil && *r == name
}

// Break breaks a rule from now on, none if the name is empty.
func Break(name string) { rule.Store(&name) }

// Enabled reports whether rules can be broken in this build.
const Enabled = true
