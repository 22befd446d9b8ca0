package sim

import "github.com/stile-lock/stile/server/lockspace"

// ages is what the run knows of how long somebody has waited.
type ages struct {
	sent   map[string]Time // when a nonce first came to a node
	queued map[string]Time // when it last got in line as one that no node in reach had there
	late   Time            // until then, what goes from node to node may have come late
}

// lateBy is how much later than the table that it is of a row of a copy can
// come where no link was cut, slowed down or held up by a pause: its node can
// have lost its stream, and missed that for a failure timeout.
const lateBy = 2 * failureTimeout

func (a *ages) init() { a.sent, a.queued = make(map[string]Time), make(map[string]Time) }

// delayed notes that until a moment what goes from node to node may be late.
func (a *ages) delayed(until Time) { a.late = max(a.late, until) }

// first notes that a request has come to a node.
func (a *ages) first(r *request) {
	if _, known := a.sent[r.nonce]; !known && r.nonce != "" {
		a.sent[r.nonce] = r.taken
	}
}

// atLeast is since when a waiter must have waited that is in the table of a node
// which is promoted now.
func (s *Sim) atLeast(nonce string) Time {
	at, known := s.ages.queued[nonce]
	if !known || s.ages.late >= at-lateBy {
		return s.now
	}
	for _, n := range s.cuts {
		if n > 0 {
			return s.now
		}
	}
	for _, n := range s.nodes {
		if n.proc != nil && n.proc.paused {
			return s.now
		}
	}
	return min(s.now, at+lateBy)
}

// checkAge looks at what a node that serves tells of the age of a waiter: w, or
// nil if its place is not known. Ages get less on their way, never greater.
func (s *Sim) checkAge(p *process, c *lockspace.Change, w *waiter) {
	nonce := string(c.Nonce.Bytes())
	if sent, known := s.ages.sent[nonce]; !known || c.Age > s.now-sent {
		s.fail("n%d says that %s has waited for %v, and it came to a node %v ago", p.n.id, nonce, c.Age, s.now-sent)
	}
	if w == nil || w.unsure {
		return
	}
	s.count("ages checked")
	if w.since < p.view.since {
		s.count("ages checked that are from an earlier reign")
	}
	if c.Age < s.now-w.since {
		s.fail("n%d says that %s has waited for %v, and it must know of %v", p.n.id, nonce, c.Age, s.now-w.since)
	}
}
