// Package lockspace is the lock table: holders, queues, leases, waits and
// nonces, as a pure state machine. It does no I/O, starts nothing and reads
// no clock: a request and the time come in, and effects, the answers to
// requests that have ended, go out.
//
// A [Space] is one shard of the table; whoever owns it calls it from one
// goroutine at a time, and every key always goes to the same Space. The
// files:
//
//   - space.go: acquire, release, keep, cancel, drop, undo, advance
//   - line.go: the queue of a key, and the turn of each answer
//   - nonce.go: what is known of a nonce, and how long
//   - spent.go: those that are spent
//   - table.go: the hash table that entries, names and turns are found in
//   - deadlines.go: the heap that leases, waits and lines are kept in
//   - effect.go: what goes out
//   - change.go, record.go: what a copy of the table on another node is told
//   - held.go: acquires that nobody may decide on for the moment
//   - standby.go: the copy, and how it comes to serve
//   - snapshot.go: the whole table, in portions
//   - adopt.go: what two tables that parted make of each other
//   - stats.go: what has happened, in numbers
//   - list.go: what is in the table, for people
//   - digest.go: the table in a form that can be compared
//   - check.go: the invariants, checked in test builds
//
// SPEC.md of the protocol module says what a client may rely on.
package lockspace
