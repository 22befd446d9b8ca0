// Package realnode holds tests that bring the real stiled and the real Go
// client together, over TCP on loopback: the two know each other by SPEC.md
// alone.
package realnode
