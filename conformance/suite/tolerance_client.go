package suite

import "time"

// Allowances of the client half, where the suite is the server. Late and
// AtOnce hold there, too.
const (
	// Way is what a line, or a timer that the client started a moment before
	// the suite read its line, may be ahead or behind, on loopback. It is far
	// below any pause that is judged.
	Way = 50 * time.Millisecond

	// Told is how long the testee's own line may take: from the client's
	// library through the driver and a pipe. It is added where an instant must
	// not be later than the server's. A client that counts from the wrong
	// moment is wrong by a second.
	Told = 100 * time.Millisecond

	// BeatJitter is the 10 % that SPEC.md 13.2 allows about the 3 s, and
	// BeatOff what connecting and a loaded machine may add.
	BeatJitter = 300 * time.Millisecond
	BeatOff    = 150 * time.Millisecond

	// CopiesApart and CopiesApartMost bound the time between two copies of a
	// release that are to be 200 ms apart: one may have had to dial.
	CopiesApart     = 150 * time.Millisecond
	CopiesApartMost = 450 * time.Millisecond

	// CopiesFor and CopiesForMost bound the time from the first copy to the
	// last, which is to be 5 s: the last one may fall just before or after the
	// end. After CopiesOver nothing may come.
	CopiesFor     = 4500 * time.Millisecond
	CopiesForMost = 5200 * time.Millisecond
	CopiesOver    = 5500 * time.Millisecond

	// Connected lets the client take note of an answer to its hello before the
	// scenario goes on, and open the second of two connections.
	Connected = 150 * time.Millisecond

	// Idle is how much earlier or later than 15 s an idle connection may be
	// pinged: what the server may not do is close it at 60 s.
	Idle = time.Second

	// Dropped is the same for the 30 s after which an unlisted address is
	// given up.
	Dropped = time.Second
)
