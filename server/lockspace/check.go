package lockspace

import "fmt"

// check panics if an invariant does not hold. Test builds call it after
// every change. It looks at everything; so a large Space is checked once in
// as many calls as there are things to look at.
func (s *Space) check() {
	size := s.waits.len() + s.leases.len() + len(s.claims) + s.spent.n + len(s.turns)
	if s.unchecked++; size > 64 && s.unchecked < size {
		return
	}
	s.unchecked = 0
	grants, attached, detachedN, owed := 0, 0, 0, 0
	keys := 0
	for i, e := range s.keys.buckets {
		for ; e != nil; e = e.next {
			keys++
			if s.hash(e.key) != e.hash || s.keys.bucket(e.hash) != &s.keys.buckets[i] {
				s.broken("key %q is filed under a wrong hash", e.key)
			}
			if e.token == 0 && e.line == nil {
				s.broken("key %q is kept though nobody uses it", e.key)
			}
			if e.token != 0 {
				grants++
				if it := s.leases.items[e.leaseSlot]; it.v != e || it.at != int64(e.deadline) {
					s.broken("the lease of %q is not where it says", e.key)
				}
				if e.name != nil && s.claims[e.name.fp].e != e {
					s.broken("the nonce of the holder of %q is not claimed", e.key)
				}
			}
			if ln := e.line; ln != nil {
				if s.standby && (ln.attached.len() > 0 || ln.replicas.len() != ln.detached) {
					s.broken("somebody in the line of %q is no replica", e.key)
				}
				for i, it := range ln.replicas.items {
					if r := it.v; int(r.lineSlot) != i || r.e != e || r.state != detached || !r.replica || it.at != int64(r.place.arrival) {
						s.broken("slot %d of the replicas of %q is wrong", i, e.key)
					}
				}
				// Behind is also a key whose reservation is over, until
				// somebody looks.
				if e.token == 0 && ln.attached.len() > 0 && !e.behind {
					s.broken("key %q is free though somebody waits", e.key)
				}
				if e.token == 0 && ln.attached.len() > 0 && s.now < s.reservedUntil && !s.adopted && !s.reserved(e, uint64(ln.attached.items[0].at)) {
					s.broken("key %q is free though nobody stands before the first who waits", e.key)
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
	if keys != s.keys.n {
		s.broken("%d keys are filed, %d are counted", keys, s.keys.n)
	}
	if grants != s.leases.len() {
		s.broken("%d keys are held, but %d leases run", grants, s.leases.len())
	}
	if attached+detachedN != s.waits.len() {
		s.broken("%d wait and %d are detached, but %d limits run", attached, detachedN, s.waits.len())
	}
	for i, it := range s.waits.items {
		r := it.v
		if int(r.waitSlot) != i || r.state != queued && r.state != detached {
			s.broken("slot %d of the waits is wrong", i)
		}
		if r.name != nil && s.claims[r.name.fp].r != r {
			s.broken("the nonce of a waiter for %q is not claimed", r.e.key)
		}
	}
	if !s.leases.ordered() || !s.waits.ordered() || !s.holds.ordered() {
		s.broken("what is due first is not at the front")
	}
	if s.holds.len() != s.heldOrder.len() {
		s.broken("%d held requests have a limit, %d an order", s.holds.len(), s.heldOrder.len())
	}
	for i, it := range s.holds.items {
		if r := it.v; int(r.waitSlot) != i || r.state != held || s.heldOrder.items[r.lineSlot].v.request != r {
			s.broken("slot %d of those held is wrong", i)
		}
	}
	if s.standby && len(s.changes)+len(s.behind) > 0 {
		s.broken("a standby records, or keeps keys reserved")
	}
	listed := make(map[*entry]bool, len(s.behind))
	for _, e := range s.behind {
		listed[e] = true
	}
	for e := range s.keys.all() {
		if e.behind && !listed[e] {
			s.broken("key %q is left free, and nobody will see to it", e.key)
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
	for fp, c := range s.claims {
		if c.e == nil && c.r == nil || s.spent.has(fp) {
			s.broken("a nonce that is claimed is claimed by nobody, or spent")
		}
	}
	indexed := 0
	for _, i := range s.spent.index {
		if i != 0 {
			indexed++
		}
	}
	for i := range s.spent.n {
		if slot, there := s.spent.slot(s.spent.at(i).fp); !there || s.spent.at(i) != &s.spent.ring[s.spent.index[slot]-1] {
			s.broken("spent nonce %d is not in the index, or twice", i)
		}
	}
	if indexed != s.spent.n {
		s.broken("%d nonces are spent, %d are in the index", s.spent.n, indexed)
	}
}

func (s *Space) broken(format string, args ...any) {
	panic("lockspace: invariant broken: " + fmt.Sprintf(format, args...))
}
