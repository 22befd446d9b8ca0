package lockspace

import (
	"time"

	"github.com/stile-lock/stile/protocol"
	"github.com/stile-lock/stile/protocol/invariants"
)

const (
	// ReserveFor is how long after a promotion no lease ends and no replicated
	// waiter is passed over: the time that clients need to find the new node.
	ReserveFor = 250 * time.Millisecond

	// PlaceFor is the least time that a waiter from another node keeps its
	// place without its client: one may need as long to notice that the node
	// it waited on is gone.
	PlaceFor = 3 * time.Second
)

// Ended is an inherited grant that ended in this reign.
type Ended struct {
	Key   []byte
	Token uint64
}

// Follow makes a serving Space a standby. The waiters with a nonce stay in
// the table as replicas. What sessions wait for stays unanswered: it is held,
// with no other end than its own limit, until [Space.EndSessions] or
// [Space.Serve].
func (s *Space) Follow(now Time) {
	s.begin(now)
	if s.standby {
		return
	}
	if invariants.Enabled {
		defer s.check()
	}
	s.standby = true
	s.reservedUntil, s.placesUntil = Time(-1<<63), Time(-1<<63)
	for _, e := range s.behind {
		e.behind = false
	}
	s.behind = nil
	for _, it := range s.leases.items {
		e := it.v
		e.holder, e.learnt, e.inherited, e.renewed = 0, second(s.now), false, false
	}
	waits := s.waits.items
	s.waits = heap[*request]{}
	for _, it := range waits {
		r := it.v
		if r.state == detached {
			s.waits.push(int64(r.place.until), r.place.arrival, r)
			if !r.replica {
				r.replica = true
				r.e.line.replicas.push(int64(r.place.arrival), 0, inLine{r})
			}
			continue
		}
		r.e.line.attached.remove(r.lineSlot)
		if n := r.name; n != nil {
			s.replicate(r.e, r.place, n)
			r.name = s.unlistedName(&n.nonce)
		}
		r.mayQueue = true // it did
		s.putHeld(r, r.place.until)
	}
}

// Disown is called after Follow where another node goes on without what this
// one has granted: grants that nobody was told of yet become no-active. Who
// serves now has them, if it took them over, under their nonces.
func (s *Space) Disown(now Time) {
	s.begin(now)
	for _, first := range s.sessions { // in no order, and none shows
		for r := first; ; r = r.next {
			if r.state == ended && r.kind == Granted {
				r.kind, r.code, r.token = Refused, protocol.CodeNoActive, 0
			}
			if r.next == first {
				break
			}
		}
	}
}

// Standby reports whether the Space is a standby.
func (s *Space) Standby() bool { return s.standby }

// replicate puts a replica into the line of a key.
func (s *Space) replicate(e *entry, p Place, n *name) {
	r := s.newRequest()
	r.e, r.place = e, p
	r.take(n)
	r.state, r.replica = detached, true
	ln := s.lineOf(e)
	ln.detached++
	ln.replicas.push(int64(p.arrival), 0, inLine{r})
	s.waits.push(int64(p.until), p.arrival, r)
}

// Apply makes a change of the serving node on a standby. A change that was
// made already, or is of something that the standby does not know, does no
// harm. Sessions learn nothing of it.
func (s *Space) Apply(now Time, c *Change) {
	s.begin(now)
	if !s.standby {
		if invariants.Enabled {
			panic("lockspace: a change was applied to a table that serves")
		}
		return
	}
	if invariants.Enabled {
		defer s.check()
	}
	switch c.Kind {
	case TokenSeen:
		s.highest = max(s.highest, c.Token)
		return
	case SpentKnown:
		s.learnSpent(c.Pair, c.Age)
		return
	}
	e := s.enter(c.Key)
	same := e.token != 0 && e.token == c.Token
	var fp fingerprint
	if !c.Nonce.none() {
		fp = fingerprintOf(c.Key, &c.Nonce)
	}
	switch c.Kind {
	case GrantMade:
		switch {
		case same:
			e.since = min(e.since, s.now-Time(c.Age))
			s.extend(e, s.now+Time(c.Lease))
		default:
			if e.token != 0 {
				s.dropGrant(e)
			}
			var n *name
			if !c.Nonce.none() {
				s.unclaim(fp)
				n = s.newName(fp, &c.Nonce)
			}
			s.putGrant(e, c.Token, 0, c.Lease, c.Age, n)
		}
		e.learnt = second(s.now)
	case GrantKept:
		if same {
			s.extend(e, s.now+Time(c.Lease))
			e.learnt = second(s.now)
		}
	case GrantEnded:
		if same {
			s.dropGrant(e)
		}
	case GrantUndone:
		if same {
			s.forget(s.takeGrant(e))
		}
	case WaiterQueued:
		if c.Nonce.none() {
			break
		}
		p := Place{arrival: c.Arrival, until: s.limit(c.Wait), asked: c.Asked, since: s.now - Time(c.Age)}
		s.arrivals = max(s.arrivals, p.arrival)
		if n := s.nameOf(fp); n != nil && n.r != nil {
			r := n.r
			p.since = min(p.since, r.place.since)
			r.place = p
			s.waits.move(r.waitSlot, int64(p.until))
			r.e.line.replicas.move(r.lineSlot, int64(p.arrival))
			break
		}
		s.unclaim(fp)
		s.replicate(e, p, s.newName(fp, &c.Nonce))
	case WaiterLeft:
		if n := s.nameOf(fp); n != nil && n.r != nil {
			s.unclaim(fp)
		}
	case NonceSpent:
		// Anew, if it is spent already: the serving node may have forgotten
		// it in between.
		s.unclaim(fp)
		s.spend(fp)
	}
	s.leave(e)
}

// dropGrant ends a grant of the copy.
func (s *Space) dropGrant(e *entry) {
	if n := s.takeGrant(e); n != nil {
		s.retire(n)
	}
}

// unclaim makes a nonce unknown, whatever it was on the copy.
func (s *Space) unclaim(fp fingerprint) {
	n := s.nameOf(fp)
	switch {
	case n == nil:
		s.unspend(fp)
	case n.r != nil:
		s.leaveDetached(n.r)
		n.r.name = nil
		s.freeRequest(n.r)
	default:
		s.takeGrant(n.e)
	}
	s.forget(n)
}

// Install gives a standby another table instead of its own: that of a staged
// standby with the same Config, which is of no use afterwards. What sessions
// wait for stays unanswered. A [Snapshot] of the old table ends.
func (s *Space) Install(staged *Space, now Time) {
	s.begin(now)
	if !s.standby || !staged.standby {
		if invariants.Enabled {
			panic("lockspace: a table was installed where one serves")
		}
		return
	}
	if invariants.Enabled {
		defer s.check()
	}
	s.now = max(s.now, staged.now)
	s.keys, s.leases, s.waits = staged.keys, staged.leases, staged.waits
	s.names, s.spent = staged.names, staged.spent
	s.arrivals, s.highest = max(s.arrivals, staged.arrivals), staged.highest
	s.ended = nil
	turns := s.turns
	s.turns = table[request, *request]{}
	turns.all(func(last *request) {
		e := s.enter(last.e.key)
		ln := s.lineOf(e)
		for r := last; r != nil; r = r.older {
			r.e = e
			ln.owed++
		}
		s.turns.add(last)
	})
	*staged = Space{}
}

// Promote makes a standby serve. Every deadline moves by the gap, the time
// for which nobody could keep a lease, and by what the clock of this node may
// have gone ahead since it learnt of the deadline: a millisecond for each second
// that has begun since. Waits are not moved.
//
// For [ReserveFor] no lease ends, and a key that replicated waiters stand in
// line for is granted to nobody but the first of them. After that they are
// passed over like other detached waiters, and keep their places for
// [PlaceFor] or the grace, whichever is longer.
func (s *Space) Promote(now Time, gap time.Duration) {
	s.begin(now)
	if !s.standby {
		if invariants.Enabled {
			panic("lockspace: a table that serves was promoted")
		}
		return
	}
	if invariants.Enabled {
		defer s.check()
	}
	s.standby = false
	s.reservedUntil = s.now + Time(ReserveFor)
	s.ended = nil
	for i := range s.leases.items {
		it := &s.leases.items[i]
		e := it.v
		ran := Time(second(s.now)-e.learnt) + 1 // seconds, and no less than it did
		e.deadline += Time(gap) + ran*Time(time.Millisecond)
		e.inherited, e.renewed, e.shared = true, false, false
		it.at = int64(e.deadline)
	}
	s.leases.reorder()
	until := s.now + Time(s.foreignGrace())
	s.placesUntil = until
	for i := range s.waits.items {
		it := &s.waits.items[i]
		it.at = int64(min(it.v.place.until, until))
	}
	s.waits.reorder()
}

// second is the number of the second that t is in. Differences of two such
// numbers count: they go round only after a lifetime.
func second(t Time) uint32 {
	n := t / Time(time.Second)
	if t < n*Time(time.Second) {
		n--
	}
	return uint32(n)
}

// foreignGrace is how long a waiter from another node keeps its place until
// its client comes.
func (s *Space) foreignGrace() time.Duration { return max(s.cfg.ReattachGrace, PlaceFor) }

// ForgetEnded forgets the inherited grants that ended: nobody is left who
// might offer them again.
func (s *Space) ForgetEnded() { s.ended = nil }
