package lockspace

import "fmt"

// check panics if an invariant does not hold. Test builds call it after
// every change. It looks at everything; so a large Space is checked once in
// as many calls as there are things to look at.
func (s *Space) check() {
	size := s.waits.len() + s.leases.len() + len(s.claims) + len(s.turns)
	if s.unchecked++; size > 64 && s.unchecked < size {
		return
	}
	s.unchecked = 0
	held, attached, detachedN, owed := 0, 0, 0, 0
	for hash, e := range s.keys {
		for ; e != nil; e = e.next {
			if e.hash != hash || s.hash(e.key) != hash {
				s.broken("key %q is filed under a wrong hash", e.key)
			}
			if e.token == 0 && e.line == nil {
				s.broken("key %q is kept though nobody uses it", e.key)
			}
			if e.token != 0 {
				held++
				if it := s.leases.items[e.leaseSlot]; it.v != e || it.at != int64(e.deadline) {
					s.broken("the lease of %q is not where it says", e.key)
				}
				if c := s.claims[e.fp]; !e.nonce.none() && c.e != e {
					s.broken("the nonce of the holder of %q is not claimed", e.key)
				}
			}
			if ln := e.line; ln != nil {
				if e.token == 0 && ln.attached.len() > 0 {
					s.broken("key %q is free though somebody waits", e.key)
				}
				if ln.attached.len()+ln.detached+ln.owed == 0 {
					s.broken("key %q has a line without anybody in it", e.key)
				}
				attached, detachedN, owed = attached+ln.attached.len(), detachedN+ln.detached, owed+ln.owed
				for i, it := range ln.attached.items {
					if r := it.v; int(r.lineSlot) != i || r.e != e || r.state != queued || it.at != int64(r.place.arrival) {
						s.broken("slot %d of the line of %q is wrong", i, e.key)
					}
				}
			}
		}
	}
	if held != s.leases.len() {
		s.broken("%d keys are held, but %d leases run", held, s.leases.len())
	}
	if attached+detachedN != s.waits.len() {
		s.broken("%d wait and %d are detached, but %d limits run", attached, detachedN, s.waits.len())
	}
	for i, it := range s.waits.items {
		r := it.v
		if int(r.waitSlot) != i || r.state == ended {
			s.broken("slot %d of the waits is wrong", i)
		}
		if c := s.claims[r.fp]; !r.nonce.none() && c.r != r {
			s.broken("the nonce of a waiter for %q is not claimed", r.e.key)
		}
	}
	unanswered := 0
	for session, first := range s.sessions {
		for r := first; ; r = r.next {
			unanswered++
			if r.session != session || r.state == detached {
				s.broken("a request for %q is listed under a session that is not its own", r.e.key)
			}
			if r.older == nil && r.state == ended {
				s.broken("the answer to a request for %q is held back without a reason", r.e.key)
			}
			if r.older != nil && r.older.younger != r {
				s.broken("the turns for %q are not linked both ways", r.e.key)
			}
			if r.next == first {
				break
			}
		}
	}
	if unanswered != owed {
		s.broken("sessions list %d unanswered requests, lines %d", unanswered, owed)
	}
	for t, last := range s.turns {
		if last.younger != nil || last.session != t.session || last.e != t.e {
			s.broken("the turn for %q does not end with its youngest", t.e.key)
		}
	}
	claims := s.spent.n
	for _, c := range s.claims {
		if c.e != nil || c.r != nil {
			claims++
		}
	}
	if claims != len(s.claims) {
		s.broken("%d nonces are known, but %d are accounted for", len(s.claims), claims)
	}
}

func (s *Space) broken(format string, args ...any) {
	panic("lockspace: invariant broken: " + fmt.Sprintf(format, args...))
}
