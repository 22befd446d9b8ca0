// Package replica is how the active's lock table reaches the standbys: one
// stream of records for each reign, in which every change of the table has a
// position.
//
//	shards --Append--> Log --+--> Sender --frames--> Receiver --> Sink, the copy
//	                         +--> Sender --frames--> Receiver --> Sink
//	shards --Rows----> Source --^
//
// A standby that knows the beginning gets the rest, as long as the active
// still has it; any other gets a snapshot: rows of the table and the records
// since, in one order. The active never waits for a standby, and never keeps
// more than a fixed amount for it: who is too slow starts anew.
//
// It does no I/O, starts nothing and reads no clock. Only Log is safe for
// concurrent use.
//
//   - place.go: reigns and places
//   - codec.go: records as bytes
//   - frame.go: frames as bytes
//   - log.go: what the active keeps of its stream
//   - sender.go, source.go: the active's side of a link
//   - receiver.go: the standby's side
package replica
