// Package host runs a node of a cluster: it gives a member (package member)
// its time, its links (package peer), its disk (package fencing), and the lock
// table of a node (package node).
//
// One goroutine, the loop, calls the member; all others post to it. The loop
// also makes the heartbeats, and takes the lock of every shard when the role
// changes: a node whose loop or table is stuck loses its role.
//
//   - host.go: the loop and what is posted to it
//   - terms.go: whether the nodes ask the same of clients
//   - world.go: what the member reaches the outside by
//   - clock_linux.go, clock_other.go: the clock
package host
