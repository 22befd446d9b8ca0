package lockspace

import (
	"time"

	"github.com/stile-lock/stile/protocol"
)

// Kind says how an acquire ended.
type Kind uint8

const (
	// Granted: the answer is A key token lease.
	Granted Kind = iota + 1
	// TimedOut: the answer is T key.
	TimedOut
	// Refused: the answer is E A key code.
	Refused
	// Moved: the answer is M A key addr, and the caller knows the address.
	Moved
)

// Effect is the answer to one acquire. Effects come in the order in which
// they must reach each session: for one session and one key, in the order of
// the requests.
type Effect struct {
	Session Session
	Tag     uint64
	Kind    Kind
	Code    protocol.Code // Refused

	// Key is valid until the next call of a method of the Space.
	Key []byte

	Token uint64        // Granted
	Lease time.Duration // Granted: what is left of it, whole milliseconds

	// Repeat marks a grant that was made, and answered, before: a nonce
	// asked again. Its loss undoes nothing.
	Repeat bool

	// Freed is when the key became free that went to this request at once,
	// for a lease that ended the end of it. Never: it did not stand in line, or
	// the answer had to wait for its turn.
	Freed Time

	// Place is what Undo needs to give a granted request its place back.
	Place Place
}

// Place is a request's place in line: when it arrived and until when it
// wants to wait.
type Place struct {
	arrival uint64
	until   Time
	asked   time.Duration
	since   Time // when it was asked first, on whatever node, as far as this one knows
}
