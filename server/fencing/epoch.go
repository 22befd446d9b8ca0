package fencing

import (
	"errors"
	"fmt"
	"time"
)

// Origin is second 0 of the epochs.
var Origin = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

const (
	// clockLimit is the first second that is not believed, in the year 2059:
	// half of the epochs are left for counting on from there.
	clockLimit = 1 << 30

	year = 365 * 24 * 60 * 60

	// behindLimit is how far the clock may lag behind the known epochs
	// without a word in the log.
	behindLimit = 60
)

// Choice is an epoch to take.
type Choice struct {
	Epoch uint32
	// Start is where the sequence starts: the first token has the next one.
	Start uint32
	// FromClock: the epoch is the clock's second.
	FromClock bool
	// Warning is for the log; empty if all is well.
	Warning string
}

// ErrEpochsUsedUp is returned by Choose after 2^31-1 epochs.
var ErrEpochsUsedUp = errors.New("no epoch is left: the highest known one is the last")

// Choose returns an epoch above the highest known one (0 if none is known),
// and at least the seconds of the clock since [Origin].
//
// The clock is what covers epochs that nobody remembers, such as those on a
// lost disk. It does not count from 2059 on, or when it is more than a year
// above the highest known epoch: then something is wrong with one of the two,
// and believing a wrong clock once would lift all epochs for ever.
//
// An epoch equal to the clock's second starts its sequence in proportion to
// the part of the second that has passed, so that a node that lost its disk
// and restarts within the second gives no token again.
func Choose(known uint32, clock time.Time) (Choice, error) {
	if known >= maxEpoch {
		return Choice{}, ErrEpochsUsedUp
	}
	second := clock.Unix() - Origin.Unix()
	c := Choice{Epoch: known + 1}
	switch {
	case second >= clockLimit || known > 0 && second > int64(known)+year:
		c.Warning = fmt.Sprintf("the clock says %s, more than a year above the highest known epoch %d (%s): the clock is not believed, the next epoch is %d",
			clock.UTC().Format(time.RFC3339), known, at(known), c.Epoch)
	case second < int64(known)-behindLimit:
		c.Warning = fmt.Sprintf("the clock says %s, but the highest known epoch %d is of %s: the clock is behind, was ahead once, or more than one epoch a second was taken for long",
			clock.UTC().Format(time.RFC3339), known, at(known))
	case second > int64(known):
		c.Epoch, c.FromClock = uint32(second), true
		c.Start = uint32(clock.Nanosecond()/int(time.Millisecond)) << 18
	}
	return c, nil
}

func at(epoch uint32) string {
	return Origin.Add(time.Duration(epoch) * time.Second).Format(time.RFC3339)
}

// CheckClock refuses a clock that is plainly wrong for a program built at
// `built`: more than ten years later, or, where no epoch is known that would
// keep tokens rising, more than a day earlier.
func CheckClock(known uint32, clock, built time.Time) error {
	switch {
	case clock.After(built.AddDate(10, 0, 0)):
		return fmt.Errorf("the clock says %s, more than ten years after this program was built (%s): set the clock, or install a newer build",
			clock.UTC().Format(time.RFC3339), built.UTC().Format(time.DateOnly))
	case known == 0 && clock.Before(built.AddDate(0, 0, -1)):
		return fmt.Errorf("the clock says %s, before this program was built (%s), and the state directory knows no epoch: tokens could fall below earlier ones; set the clock",
			clock.UTC().Format(time.RFC3339), built.UTC().Format(time.DateOnly))
	}
	return nil
}
