// Package broken lets tests break one rule of the cluster from within, to
// prove that its simulator notices. It is empty in a build without the tag
// invariants: nothing can be broken there, and the compiler leaves the
// questions out.
package broken
