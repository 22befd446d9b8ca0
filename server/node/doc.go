// Package node wires one node together: connections at the edge, the lock
// table (package lockspace) within, timers and tokens beside it.
//
// The way of a request: a connection's reader cuts its bytes into lines,
// parses each in place, and calls the shard of the key under the shard's
// lock. The effects are appended to the buffers of the connections they
// belong to, still under that lock, which keeps their order. When the reader
// has no whole line left it flushes every connection it touched, one write
// each, and reads on.
//
//   - node.go: the node, its sessions, its status
//   - shard.go: the lock table's shards, their timers, delivery of effects
//   - conn.go: the reader of a connection, and its end
//   - request.go: what each op does
//   - outbound.go: the answers of a connection on their way to the kernel
//   - listen.go: accepting, limits on connections, idle ones
//
// Locks, in the order in which they may be taken together:
//
//	shard.mu, then outbound.mu
//
// No system call that can block is made under either of them.
package node
