package load

import (
	"net"
	"time"
)

// Wire is one protocol on one connection. Its methods are called by one
// goroutine at a time, and none but Open may allocate.
type Wire interface {
	// Open says what must be said before the load, and waits for the answer.
	Open(c net.Conn) error

	// Acquire, Release and Cancel append a request.
	Acquire(out []byte, s *Slot) []byte
	Release(out []byte, s *Slot) []byte
	Cancel(out []byte, s *Slot) []byte

	// Next reads one answer from the front of in and returns its length, 0 if
	// there is no whole one. An error is an answer that has no place here.
	Next(in []byte, a *Answer) (n int, err error)
}

// Traits are what servers differ in.
type Traits struct {
	Ordered bool // answers come in the order of the requests, and may name no key
	Fenced  bool // grants have tokens that rise
	Queues  bool // an acquire waits in line, where the server else says Busy
	Cancels bool // what waits can be cancelled
}

// Slot is a place for one pair on a connection, from its acquire to the answer
// to its release.
type Slot struct {
	Key    int
	Serial uint64 // of the acquire; no other one of the run has it
	Token  uint64 // of the grant; the serial if the server has no tokens

	due     int64 // from when the latency of what is awaited counts
	sent    int64 // the acquire
	until   int64 // the earliest instant at which the lease can end
	floor   uint64
	next    int32 // in the chain of its bucket
	awaits  awaited
	busy    bool // from the acquire to the end of the pair
	givenUp bool // by us: the grant will not be held
	granted bool
	entered bool // the ledger has the grant
}

type awaited uint8

const (
	awaitsAcquire awaited = 1 << iota
	awaitsRelease
	awaitsCancel
)

// What an answer says.
type What uint8

// An acquire is answered Granted, TimedOut or Busy; a release Released or
// NotHeld; a cancel Cancelled.
const (
	Granted What = iota
	TimedOut
	Busy
	Released
	NotHeld
	Cancelled
)

func (w What) String() string {
	return [...]string{"granted", "timed out", "busy", "released", "not held", "cancelled"}[w]
}

func (w What) answers() awaited {
	switch w {
	case Granted, TimedOut, Busy:
		return awaitsAcquire
	case Released, NotHeld:
		return awaitsRelease
	}
	return awaitsCancel
}

// Answer is one parsed answer.
type Answer struct {
	What   What
	Key    int    // -1: it names none
	Token  uint64 // 0: it names none
	Serial uint64 // of a Cancelled, 0: it names none
	// Lease is what is left of the lease of a Granted. Where the protocol does
	// not tell, it is what was asked for.
	Lease time.Duration
}
