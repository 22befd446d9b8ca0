package suite

import "time"

// Every allowance the suite makes for time is here, with its reason. A
// scenario names one of these, and has no number of its own.
const (
	// Early is what may come before its time: nothing. It is counted from just
	// before the suite's own send, so the target's clock started later.
	Early = 0 * time.Millisecond

	// Late is how late the end of a lease or a wait may be seen, counted from
	// after the suite read what began it. SPEC.md 7.3 says 50 ms where the
	// machine has time to do so; a loaded machine and a network between may
	// take some more, and a target that is wrong is wrong by seconds.
	Late = 250 * time.Millisecond

	// LateAdvice is the 50 ms themselves, for scenarios that are advice.
	LateAdvice = 50 * time.Millisecond

	// AtOnce is how soon something must be seen that needs no waiting at all.
	// It is there to tell "at once" from "at the next tick of a timer of a
	// second", not to measure a network.
	AtOnce = 250 * time.Millisecond

	// HandOver is how soon the next in line must have a key that was given
	// back, where the scenario tells from it whether a ghost stood in between:
	// a ghost would hold it for a lease, which is seconds.
	HandOver = 100 * time.Millisecond

	// Quiet is how long nothing must come where the specification says that
	// nothing comes: far longer than anything in flight on a working network.
	Quiet = time.Second

	// Answer is how long to wait for an answer that must come but whose
	// moment is not what the scenario is about.
	Answer = 5 * time.Second

	// ServerAnswer is Answer where one server is judged: less than the 5 s of a
	// lease there, so that nobody is granted a key in time only because somebody
	// who should not have had it has lost it.
	ServerAnswer = 4 * time.Second

	// Settle lets one connection's request reach the server before another
	// connection's: the specification orders them only if the first was
	// answered, and a request that waits is not. Where the target has the
	// profile ping, a ping on the same connection settles it exactly, instead.
	Settle = 100 * time.Millisecond

	// SleepOff is how late the suite's own sleeps may be beside a @timed
	// scenario before its result counts for nothing: well under Late, so that
	// a result that counts is the target's.
	SleepOff = 20 * time.Millisecond
)

// attempts is how often a @timed scenario is run again, alone, before it is
// given up as not judged.
const attempts = 3
