package job

import "time"

// schedule says when a command is ended whose lease ends at expires, unless
// that moves.
type schedule struct {
	term  time.Time // SIGTERM, and nothing is begun any more
	guard time.Time // SIGTERM by the guard, if Run has not sent it
	kill  time.Time // SIGKILL: a little before the end, for it takes a while to die
}

func scheduleOf(expires time.Time, grace time.Duration) schedule {
	return schedule{
		term:  expires.Add(-grace),
		guard: expires.Add(-grace * 3 / 4),
		kill:  expires.Add(-killLead(grace)),
	}
}

// killLead is how long before the end of the lease SIGKILL is sent.
func killLead(grace time.Duration) time.Duration { return min(grace/4, 200*time.Millisecond) }

// killAfter is when a command is killed that gets its SIGTERM now: it has the
// grace, but not beyond the end of its lease.
func killAfter(now, expires time.Time, grace time.Duration) time.Time {
	at := now.Add(grace)
	if last := expires.Add(-killLead(grace)); last.Before(at) {
		at = last
	}
	return at
}

// MaxGrace is the greatest grace that goes with a lease: the other half is
// for renewing it.
func MaxGrace(lease time.Duration) time.Duration { return lease / 2 }

// DefaultGrace is a third of the lease, 10 s at most: the lease is renewed
// from its first third on, so that there is as much time again for a server
// to come back.
func DefaultGrace(lease time.Duration) time.Duration { return min(lease/3, 10*time.Second) }

// lookEvery is how often Run looks whether the lease was renewed.
func lookEvery(lease time.Duration) time.Duration {
	return min(max(lease/20, 5*time.Millisecond), 2*time.Second)
}
