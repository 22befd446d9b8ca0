// Package certify has no code but its test: it certifies the reference node,
// the Go client, and the examples in Python, by the program that everybody
// uses. `make conformance` keeps the certificates that it writes.
package certify
