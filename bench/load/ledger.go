package load

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// ErrHeld is wrapped by the error, among wrong answers, that says that a key was
// granted to a second holder.
var ErrHeld = errors.New("who has not given it back")

// Ledger remembers the last token of each key and whether somebody holds it. It
// is shared by all connections of a run.
//
// Who holds a key enters that before it asks for the release, so the entries of
// two holders of a key are in the order of their grants, and a token that is not
// greater than the last one entered is wrong, whichever connections they are on.
type Ledger struct {
	keys []entry
}

type entry struct {
	token atomic.Uint64
	// until is the earliest instant at which the holder's lease can end, in the
	// time of the run. 0: nobody holds the key.
	until atomic.Int64
}

// NewLedger returns the ledger of a server that has granted nothing yet.
func NewLedger(keys int) *Ledger { return &Ledger{keys: make([]entry, keys)} }

// Floor is the greatest token that was seen for the key. A request that is sent
// from now on must be granted a greater one.
func (l *Ledger) Floor(key int) uint64 { return l.keys[key].token.Load() }

// Granted enters a grant that is read at the instant now and whose lease cannot
// end before until.
func (l *Ledger) Granted(key int, token uint64, now, until int64) error {
	last := l.keys[key].token.Swap(token)
	if token <= last {
		return fmt.Errorf("%w: token %d is granted after token %d, and is not greater", ErrWrong, token, last)
	}
	return l.Held(key, now, until)
}

// Held enters a grant of a server that has no tokens that rise.
func (l *Ledger) Held(key int, now, until int64) error {
	if other := l.keys[key].until.Swap(until); now < other {
		return fmt.Errorf("%w: the key is granted %v before the lease of another holder ends, %w",
			ErrWrong, time.Duration(other-now), ErrHeld)
	}
	return nil
}

// Passing looks at a grant that nobody will hold: its request was cancelled, or
// its lease has ended, and the key may be another's already. All that can be
// said of its token is that it is greater than those seen before its request was
// sent, and no other's.
func (l *Ledger) Passing(key int, token, floor uint64) error {
	if token <= floor {
		return fmt.Errorf("%w: token %d is granted to a request that was sent after token %d was seen", ErrWrong, token, floor)
	}
	if token == l.keys[key].token.Load() {
		return fmt.Errorf("%w: token %d is granted a second time", ErrWrong, token)
	}
	return nil
}

// Returned enters that the holder whose lease cannot end before until is about
// to give the key back. If the lease has ended, the key may be another's.
func (l *Ledger) Returned(key int, until int64) { l.keys[key].until.CompareAndSwap(until, 0) }
