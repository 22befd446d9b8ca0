package protocol

import "time"

// Limits of the wire (SPEC.md 2.2 to 2.7). All are in bytes.
const (
	// MaxLine is the longest line, its LF (and CR, if any) included.
	MaxLine = 1024
	// MaxKey is the longest key.
	MaxKey = 255
	// MaxNonce is the longest nonce.
	MaxNonce = 32
	// MaxAddr is the longest address in a redirect or a hello.
	MaxAddr = 261
	// MaxName is the longest client name in a hello.
	MaxName = 64
	// MaxSecret is the longest secret in a hello.
	MaxSecret = 255
)

// Version is the one protocol version this package speaks, as it stands in a
// hello.
const Version = "1"

// MaxSeconds is the longest duration the wire can carry.
const MaxSeconds = 999_999_999*time.Second + 999*time.Millisecond

// NoQueue is the value of [Request.Wait] that stands as -1 on the wire: the
// server grants at once or answers T; the request never waits in the queue
// (SPEC.md 4.1).
const NoQueue time.Duration = -1

// MaxUnanswered is how many requests one connection may have unanswered
// before a server that keeps to the specification may close it. A server may
// allow more and never fewer than 1,024 (SPEC.md 3.6).
const MaxUnanswered = 4096

// Op is the byte that a line starts with.
type Op byte

// The ops of requests, each also the op of its good answer, and the three ops
// that only answers have.
const (
	OpAcquire Op = 'A'
	OpRelease Op = 'R'
	OpKeep    Op = 'K'
	OpCancel  Op = 'C'
	OpPing    Op = 'P'
	OpHello   Op = 'H'

	OpTimeout Op = 'T' // answers an acquire
	OpMoved   Op = 'M' // answers any request: ask the node at Addr
	OpError   Op = 'E' // answers any request
)

// String returns the op as it stands on the wire, or "?" for none.
func (o Op) String() string {
	if o == 0 {
		return "?"
	}
	return string(rune(o))
}

// Request is one parsed request line. Which fields have a meaning depends on
// Op; [ParseRequest] zeroes the others.
type Request struct {
	Op Op

	// Key is the key of A, R, K and C, the word of P, the version of H.
	Key []byte

	// Wait (A) limits the waiting: 0 is no limit, [NoQueue] is -1.
	// Whole milliseconds.
	Wait time.Duration

	// Lease (A, K) is the lease asked for; 0 asks for the server's default.
	// Whole milliseconds.
	Lease time.Duration

	// Token (R, K) names the grant. Never 0.
	Token uint64

	// Nonce (A, C) names a logical acquire; empty in an A without one.
	Nonce []byte

	// Name and Secret (H) are the client's; Secret is empty if none was sent.
	Name   []byte
	Secret []byte
}

// Answer is one parsed answer line. Which fields have a meaning depends on
// Op; [ParseAnswer] zeroes the others.
type Answer struct {
	Op Op

	// For is the op of the request that is answered: A for A and T, the
	// second field of M and E, else Op. It is 0 where the line has "?".
	For Op

	// Key is the key, word or version of the request that is answered.
	// It is nil where the line has "?".
	Key []byte

	// Token (A, R, K) is the fencing token of the grant.
	Token uint64

	// Lease (A, K) is what was left of the lease when the answer took its
	// place in the stream (SPEC.md 3.3). Whole milliseconds; 0 is possible.
	Lease time.Duration

	// Nonce (C) is the nonce that was cancelled.
	Nonce []byte

	// Addr (M) is where to ask instead. (H) is the node that answers.
	Addr []byte

	// Profiles (H) is the comma-separated list, or "-" for none.
	Profiles []byte

	// Code (E) is the error's code, [CodeUnknown] where the registry has no
	// such code; CodeName is its name as received.
	Code     Code
	CodeName []byte

	// Text (E) is for people and may be empty. No program compares it. It
	// may have any byte but LF: escape it before a terminal sees it.
	Text []byte
}
