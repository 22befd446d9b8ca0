package lockspace

import (
	"time"

	"github.com/stile-lock/stile/server/internal/hist"
)

// GrantKind says how a grant came about.
type GrantKind uint8

const (
	// Immediate: the key was free.
	Immediate GrantKind = iota
	// HandedOver: the request stood in line.
	HandedOver
	// Repeated: a nonce was asked again and told of the grant that it has.
	Repeated
	// Adopted: another active had made it; see Adopt.
	Adopted
	grantKinds
)

var grantKindNames = [grantKinds]string{"immediate", "handed_over", "repeated", "adopted"}

func (k GrantKind) String() string { return grantKindNames[k] }

// EndKind says how a grant ended.
type EndKind uint8

const (
	Released EndKind = iota
	Cancelled
	Expired
	// Broken: an operator ended it.
	Broken
	// Undone: its answer was lost with the connection.
	Undone
	// Parted: another active had ended it, or has granted the key as well.
	Parted
	endKinds
)

var endKindNames = [endKinds]string{"released", "cancelled", "expired", "broken", "undone", "partition"}

func (k EndKind) String() string { return endKindNames[k] }

// TimeoutKind says why an acquire was answered with T.
type TimeoutKind uint8

const (
	// AtLimit: its wait was over.
	AtLimit TimeoutKind = iota
	// AtOnce: the key was held and it did not want to wait.
	AtOnce
	// ByCancel: it was cancelled.
	ByCancel
	timeoutKinds
)

var timeoutKindNames = [timeoutKinds]string{"limit", "at_once", "cancelled"}

func (k TimeoutKind) String() string { return timeoutKindNames[k] }

// Stats counts what a Space has done since it was made. What a standby copies
// does not count.
type Stats struct {
	Granted  [grantKinds]uint64
	Ended    [endKinds]uint64
	TimedOut [timeoutKinds]uint64

	// Wait is how long those who were granted had waited; Immediate ones are in
	// it, Repeated and Adopted ones are not.
	Wait hist.Counts
	// Hold is how long grants lasted, of those made in the reign that they ended
	// in and not undone.
	Hold hist.Counts
}

// Stats is valid until the next call of a method of the Space.
func (s *Space) Stats() *Stats { return &s.stats }

// Add adds the numbers of another Space.
func (t *Stats) Add(o *Stats) {
	for i := range t.Granted {
		t.Granted[i] += o.Granted[i]
	}
	for i := range t.Ended {
		t.Ended[i] += o.Ended[i]
	}
	for i := range t.TimedOut {
		t.TimedOut[i] += o.TimedOut[i]
	}
	t.Wait.Add(&o.Wait)
	t.Hold.Add(&o.Hold)
}

func (t *Stats) grant(kind GrantKind, waited time.Duration) {
	t.Granted[kind]++
	t.Wait.Observe(waited)
}

func (t *Stats) end(how EndKind, e *entry, now Time) {
	t.Ended[how]++
	if !e.inherited {
		t.Hold.Observe(time.Duration(now - e.since))
	}
}
