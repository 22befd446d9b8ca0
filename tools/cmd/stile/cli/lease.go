package cli

import (
	"context"
	"time"
)

// grantedLease is what is looked at of a lock.
type grantedLease interface {
	Lease() time.Duration
	Expires() time.Time
	Keep(ctx context.Context, lease time.Duration) error
}

// askAgain is how long a renewal may take that is only to tell of the most that
// the servers grant.
const askAgain = 2 * time.Second

// warnIfCut tells of servers that grant less than the lease that was asked for:
// plans that were made with that do not hold.
func (a *app) warnIfCut(lock grantedLease, asked time.Duration) {
	if most, cut := cutLease(a.ctx, lock, asked); cut {
		a.warn("warning: the servers grant a lease of %v at most, not the %v of --lease", most, asked)
	}
}

// cutLease reports whether the servers grant less than what was asked for, and
// the most that they do. It is called when the answer to an acquire or a keep
// has just come, and never reports what is none: where it can't know, as the
// renewal failed, it says nothing.
//
// That the lease of an answer is shorter says little. What is left of it is in
// there: less than was asked for where the answer waited for standbys. The client
// counts the lease from a moment at which it had not been granted yet, so what
// is missing without a limit is no more than the time since then, however long
// the wait in line was. More is missing if there is a limit, or if the answer was
// told again after a loss of the connection. The answer to a keep tells these
// apart, as nobody tells it again.
func cutLease(ctx context.Context, lock grantedLease, asked time.Duration) (most time.Duration, cut bool) {
	asked = asked.Truncate(time.Millisecond)
	if !missing(lock, asked) {
		return 0, false
	}
	ctx, cancel := context.WithTimeout(ctx, askAgain)
	defer cancel()
	if err := lock.Keep(ctx, asked); err != nil {
		return 0, false
	}
	if !missing(lock, asked) {
		return 0, false
	}
	return lock.Lease(), true
}

// missing reports whether a lease is shorter than the time explains that its
// answer may have taken.
func missing(lock grantedLease, asked time.Duration) bool {
	granted := lock.Lease()
	from := lock.Expires().Add(-granted)
	// A lease is in whole milliseconds, cut down.
	return granted+time.Since(from) < asked-time.Millisecond
}
