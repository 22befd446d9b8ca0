package client

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stile-lock/stile/protocol"
)

// The errors of this package, to be matched with [errors.Is]. The errors that
// methods return are of type [*Error] and wrap one of these, a [*ServerError],
// [errors.ErrUnsupported], or the error of the context.
var (
	// ErrTimeout: the key was not granted within the limit on waiting.
	ErrTimeout = errors.New("not granted within the limit on waiting")

	// ErrNotHeld: the server knows no such grant, or its lease has ended.
	ErrNotHeld = errors.New("not held")

	// ErrLeaseLost: the lease ended, or may have ended, while the lock was
	// held. An error that wraps it matches ErrNotHeld too.
	ErrLeaseLost error = leaseLost{}

	// ErrReleased is the cause of a lock's context after its release.
	ErrReleased = errors.New("released")

	// ErrNoConnection: no server could be reached. The message lists every
	// address with its reason.
	ErrNoConnection = errors.New("no connection to any server")

	// ErrNoActive: servers answered, but none of them serves at the moment
	// or knows one that does. The message lists every address with its reason.
	ErrNoActive = errors.New("no active server known")

	// ErrUndelivered: no server confirmed the release within five seconds.
	// It may have happened; if not, the lease ends the lock.
	ErrUndelivered = errors.New("not confirmed by any server within 5 seconds")

	// ErrClosed: the client was closed.
	ErrClosed = errors.New("client is closed")

	// ErrBadKey: the key is one that the protocol cannot carry.
	ErrBadKey = errors.New("bad key: a key is 1 to 255 bytes, each above 0x20 and not 0x7F, and not the single byte \"?\"")

	// ErrInvalid: an argument or an option is outside what is allowed.
	ErrInvalid = errors.New("invalid argument")
)

type leaseLost struct{}

func (leaseLost) Error() string        { return "lease lost" }
func (leaseLost) Is(target error) bool { return target == ErrNotHeld }

// Outcome tells what became of a request. See [OutcomeOf].
type Outcome uint8

const (
	// MayHaveHappened: the request may have taken effect; nobody can say.
	MayHaveHappened Outcome = iota

	// DidNotHappen: the request definitely changed nothing.
	DidNotHappen

	// Happened: the request took effect.
	Happened
)

// String returns the outcome in words.
func (o Outcome) String() string {
	switch o {
	case DidNotHappen:
		return "did not happen"
	case Happened:
		return "happened"
	}
	return "may have happened"
}

// OutcomeOf tells what became of the call that returned err:
//
//   - [Happened] for nil;
//   - what the [*Error] says that err is or wraps;
//   - [MayHaveHappened] for any other error, as nothing is known about it.
//
// For an acquire that [MayHaveHappened] the caller does not hold the lock: a
// grant that was made all the same is given back in the background, or ends
// with its lease.
func OutcomeOf(err error) Outcome {
	if err == nil {
		return Happened
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Outcome
	}
	return MayHaveHappened
}

// Error is the error that methods of [Client] and [Lock] return.
type Error struct {
	// Op is what was tried: "dial", "acquire", "release", "keep".
	Op string

	// Key is the key it was tried on, if any.
	Key string

	// Outcome tells whether it happened all the same.
	Outcome Outcome

	// Err is the reason, to be matched with [errors.Is] and [errors.As].
	Err error

	// Unserved is set with an [ErrTimeout] if nothing tells that a server had
	// the acquire in line when the limit ended: none could be reached, none of
	// them served, or the one that was asked did not answer, as one that hangs
	// or keeps requests until it knows who serves. So it says nothing about
	// who holds the key.
	Unserved bool

	// Addrs says what each address was tried for and answered, where that
	// explains the error: always with [ErrNoConnection], [ErrNoActive] and
	// Unserved.
	Addrs []AddrError
}

// AddrError is one server's part in an [Error].
type AddrError struct {
	Addr   string
	Reason string

	// Err is what the last try to connect ended with, if that is the reason:
	// a [*ServerError] in it is the answer to the hello, as to a wrong secret,
	// or what the server said before it was asked, as to a client without TLS.
	Err error
}

// Error returns the whole reason on one line.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("stile: ")
	b.WriteString(e.Op)
	if e.Key != "" {
		fmt.Fprintf(&b, " %q", e.Key)
	}
	b.WriteString(": ")
	b.WriteString(e.Err.Error())
	for i, a := range e.Addrs {
		if i == 0 {
			b.WriteString(" (")
		} else {
			b.WriteString("; ")
		}
		b.WriteString(a.Addr + ": " + a.Reason)
	}
	if len(e.Addrs) > 0 {
		b.WriteByte(')')
	}
	if e.Outcome == MayHaveHappened && !errors.Is(e.Err, ErrTimeout) {
		b.WriteString("; it may have happened")
	}
	return b.String()
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// ServerError is an error that a server answered with.
type ServerError struct {
	// Code is the code of the registry, [protocol.CodeUnknown] for one that
	// this version does not know. Compare this, never the text.
	Code protocol.Code

	// Name is the code as it stood on the wire.
	Name string

	// Text is for people and may be empty. It is as it stood on the wire:
	// escape it before a terminal sees it, or show Error.
	Text string
}

// Error returns the code's name and the text, in a form that a terminal can
// show.
func (e *ServerError) Error() string {
	if e.Text == "" {
		return "server answered " + shown(e.Name)
	}
	return "server answered " + shown(e.Name) + ": " + shown(e.Text)
}

// shownTop is how many bytes of a server's text an error shows.
const shownTop = 256

// shown is a text of the server's for people: what could move a cursor or is
// not UTF-8 is escaped, and a long one is cut.
func shown(text string) string {
	cut := len(text) > shownTop
	if cut {
		n := shownTop
		for n > shownTop-utf8.UTFMax && !utf8.RuneStart(text[n]) {
			n--
		}
		text = text[:n]
	}
	for _, r := range text {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			text = strconv.Quote(text)
			break
		}
	}
	if cut {
		text += "…"
	}
	return text
}

func serverError(a *protocol.Answer) *ServerError {
	return &ServerError{Code: a.Code, Name: string(a.CodeName), Text: string(a.Text)}
}

func outcomeOfCode(c protocol.Code) Outcome {
	if c.NoEffect() {
		return DidNotHappen
	}
	return MayHaveHappened
}

func contextError(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != nil && cause != ctx.Err() {
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return ctx.Err()
}
