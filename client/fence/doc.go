// Package fence guards what a lock protects.
//
// A lock alone cannot stop a holder that was paused for longer than its lease
// and does not know that somebody else holds the key by now. Its token can:
// every later grant has a greater one, so whatever the lock protects remembers
// the greatest token it has seen and refuses lower ones (SPEC.md 8.3). An
// equal one is the same grant again: a holder may write as often as it likes.
//
// Choose the guard by where the data is:
//
//   - in this process: [Guard];
//   - in PostgreSQL or SQLite: package fencesql, one statement in the writer's
//     own transaction;
//   - behind HTTP: package fencehttp, which carries the grant from the holder
//     to the server and refuses stale ones there;
//   - in Redis: package fenceredis, one script that checks and writes.
//
// All of them take a [Grant], which is a key with the token it was granted
// with. A lock of the client is one as it is, so nobody has to hold a key in
// one hand and a token in the other.
//
// # Read behind the guard, too
//
// A holder that reads, computes and writes must show its token before it
// reads, not only when it writes. Otherwise this can happen: the holder S
// reads and is paused; its lease ends, F is granted and reads the same; S
// wakes up and writes, and is let through, as F has shown its greater token
// nowhere yet; F writes, and what S wrote is lost. If F shows its token first,
// S is either refused or F reads what S wrote.
//
// So either read and write in one guarded step (one Do, one transaction that
// begins with the check), or begin with a check of its own, then read, work,
// and write behind a second check. A check counts once it is remembered: in a
// database, once its transaction has committed, also where that only reads.
//
// # What a guard cannot do
//
// It compares tokens. It does not know whether a lease has ended: a holder
// whose lease is over may write for as long as no later one has been here,
// which does no harm. And it believes what it is told: whoever can name any
// token can shut out everybody else, so authenticate writers as usual.
package fence
