package lockspace

import "fmt"

// check panics if an invariant does not hold. Test builds call it after
// every change. It looks at everything; so a large Space is checked once in
// as many calls as there are things to look at.
func (s *Space) check() {
	size := s.waits.len() + s.leases.len() + s.names.len() + s.spent.span() + s.turns.len()
	if s.unchecked++; size > 64 && s.unchecked < size {
		return
	}
	s.unchecked = 0
	grants, attached, detachedN, owed, named := 0, 0, 0, 0, 0
	s.keys.check(s)
	s.names.check(s)
	s.turns.check(s)
	s.spent.check(s)
	s.keys.all(func(e *entry) {
		if e.hash != s.hash(e.key) || s.lookUp(e.key, e.hash) != e {
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
			if n := e.name; n != nil && (n.e != e || n.r != nil || s.nameOf(n.fp) != n) {
				s.broken("the name of the holder of %q is not filed", e.key)
			}
			if e.name != nil {
				named++
			}
		} else if e.name != nil {
			s.broken("key %q is free under a name", e.key)
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
	})
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
		if n := r.name; n != nil && (n.r != r || n.e != nil || s.nameOf(n.fp) != n) {
			s.broken("the name of a waiter for %q is not filed", r.e.key)
		}
		if r.name != nil {
			named++
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
	s.keys.all(func(e *entry) {
		if e.behind && !listed[e] {
			s.broken("key %q is left free, and nobody will see to it", e.key)
		}
	})
	unanswered, turns := 0, 0
	for session, first := range s.sessions {
		for r := first; ; r = r.next {
			unanswered++
			if r.session != session || r.state == detached {
				s.broken("a request for %q is listed under a session that is not its own", r.e.key)
			}
			if r.younger == nil {
				turns++
				if s.youngest(r.session, r.e) != r {
					s.broken("the turn for %q does not end with its youngest", r.e.key)
				}
			}
			if n := r.name; r.state != queued && n != nil && (n.r != nil || n.e != nil) {
				s.broken("a request for %q that is in no line has a name in the table", r.e.key)
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
	if turns != s.turns.len() {
		s.broken("%d turns are filed, there are %d", s.turns.len(), turns)
	}
	if named != s.names.len() {
		s.broken("%d names are filed, but %d are in use", s.names.len(), named)
	}
	for place := s.spent.first; place < s.spent.next; place++ {
		if v := s.spent.at(place); !v.gone && s.nameOf(v.fp) != nil {
			s.broken("a nonce is both spent and in use")
		}
	}
}

func (t *table[T, R]) check(s *Space) {
	n, seen := 0, make(map[*T]bool, t.n)
	if t.buckets > 0 && (t.low&(t.low-1) != 0 || t.buckets < t.low || t.buckets >= 2*t.low) ||
		len(t.segments) != int(t.buckets+perSegment-1)/perSegment {
		s.broken("a table has %d buckets in %d segments, split from %d on", t.buckets, len(t.segments), t.low)
	}
	for i := range t.buckets {
		head, counted := t.at(i)
		if *head == nil { // most are
			if *counted != 0 {
				s.broken("bucket %d is empty and counts %x", i, *counted)
			}
			continue
		}
		for v := *head; v != nil; v = *R(v).link() {
			if t.bucket(R(v).home()) != i || seen[v] {
				s.broken("bucket %d has a record of another, or one twice", i)
			}
			seen[v] = true
			n++
		}
		for class := range uint32(8) {
			want := counts(0)
			for v := *head; v != nil; v = *R(v).link() {
				if R(v).home()>>29 == class {
					want++
				}
			}
			if got := counted.of(class << 29); got != min(want, 3) && got < 3 {
				s.broken("bucket %d counts %d of class %d, it has %d", i, got, class, want)
			}
		}
	}
	if n != t.n || n > int(t.buckets) {
		s.broken("a table of %d buckets has %d records, it says %d", t.buckets, n, t.n)
	}
}

func (q *spentNonces) check(s *Space) {
	n := 0
	for place := q.first; place < q.next; place++ {
		if v := q.at(place); !v.gone {
			n++
			if q.find(v.fp) != v {
				s.broken("a spent nonce is not found")
			}
		} else if place == q.first {
			s.broken("the oldest spent nonce is unknown again")
		}
	}
	if n != q.n || q.span() > len(q.ring) || len(q.heads) != 2*len(q.ring) {
		s.broken("%d nonces are spent, it says %d, in a ring of %d", n, q.n, len(q.ring))
	}
}

func (s *Space) broken(format string, args ...any) {
	panic("lockspace: invariant broken: " + fmt.Sprintf(format, args...))
}
