package lockspace

import "github.com/stile-lock/stile/protocol/invariants"

// Adopt merges a row of the offer of another node into a table that serves,
// after both have served at the same time. The caller knows whether this
// table has known the token of an offered grant: then its own record of it
// stands. It reports whether both had granted the key.
//
// What is adopted is recorded, for the standbys of this node. Nobody in line
// is granted anything before the next Advance, and no lease ends that is due:
// a grant of the other node may be among the rows to come.
func (s *Space) Adopt(now Time, c *Change, known bool) (conflict bool) {
	s.begin(now)
	s.mustServe()
	if invariants.Enabled {
		defer s.check()
	}
	switch c.Kind {
	case GrantMade:
		if c.Token == 0 {
			return false
		}
		e := s.enterAsIs(c.Key)
		conflict = s.adoptGrant(e, c, known)
		s.leave(e)
	case GrantEnded:
		e := s.enterAsIs(c.Key)
		if e.token != 0 && e.token == c.Token && !e.renewed {
			s.endGrant(e, Parted)
			if e.line != nil && e.line.attached.len() > 0 {
				s.leaveFree(e)
				s.adopted = true
			}
		}
		s.leave(e)
	case WaiterQueued:
		if c.Nonce.none() {
			return false
		}
		e := s.enterAsIs(c.Key)
		s.adoptWaiter(e, c)
		s.leave(e)
	case SpentKnown:
		fp := fingerprintFrom(c.Pair)
		if n := s.nameOf(fp); n != nil && n.r != nil && n.r.state == detached {
			// It was cancelled, or has had its turn, on the other side.
			r, e := n.r, n.r.e
			s.recordNonce(WaiterLeft, e, &n.nonce)
			s.leaveDetached(r)
			r.name = nil
			s.freeRequest(r)
			s.forget(n)
			s.leave(e)
		}
		if s.learnSpent(c.Pair, c.Age) && s.cfg.Record {
			s.changes = append(s.changes, Change{Kind: SpentKnown, Pair: c.Pair, Age: c.Age})
		}
	case TokenSeen:
		if c.Token > s.highest {
			s.highest = c.Token
			if s.cfg.Record {
				s.changes = append(s.changes, Change{Kind: TokenSeen, Token: c.Token})
			}
		}
	}
	return conflict
}

func (s *Space) adoptGrant(e *entry, c *Change, known bool) (conflict bool) {
	if e.token == c.Token {
		if deadline := s.now + Time(c.Lease); deadline > e.deadline {
			s.extend(e, deadline)
		}
		e.since = min(e.since, s.now-Time(c.Age))
		return false
	}
	if known {
		return false
	}
	nonce := c.Nonce
	var fp fingerprint
	if !nonce.none() {
		fp = fingerprintOf(c.Key, &nonce)
	}
	if e.token != 0 && e.deadline <= s.now {
		s.endGrant(e, Expired)
	} else if e.token != 0 {
		conflict = true
		if e.token > c.Token {
			return true
		}
		again := e.name.is(&nonce)
		s.endGrant(e, Parted)
		if again {
			// One logical acquire, granted on both sides: it goes on.
			s.unspend(fp)
		}
	}
	var r *request
	var n *name
	if !nonce.none() {
		switch n = s.nameOf(fp); {
		case n != nil && n.r != nil:
			r = n.r
			r.name = nil
		case n != nil || s.isSpent(fp):
			// The client has done with it here. The lease may be in use all the
			// same, so it runs, but the nonce stays spent.
			n = nil
		default:
			n = s.newName(fp, &nonce)
		}
	}
	session := Session(0)
	if r != nil {
		// The client has asked on both sides: this is its answer.
		if r.state == detached {
			s.leaveDetached(r)
			s.freeRequest(r)
			r = nil
		} else {
			session = r.session
			s.leaveLine(r)
		}
	}
	s.putGrant(e, c.Token, session, c.Lease, c.Age, n)
	s.stats.Granted[Adopted]++
	e.shared = true // who else was told is not known
	if r != nil {
		r.token = e.token
		s.finish(r, Granted, 0)
	}
	return conflict
}

func (s *Space) adoptWaiter(e *entry, c *Change) {
	fp := fingerprintOf(c.Key, &c.Nonce)
	until, since := s.limit(c.Wait), s.now-Time(c.Age)
	if n := s.nameOf(fp); n != nil {
		// In line here as well: its place is the one here, its age is that of
		// who asked, who came to the other node first.
		if r := n.r; r != nil && r.e == e && n.nonce == c.Nonce && since < r.place.since {
			r.place.since = since
			s.recordWaiter(r)
		}
		return
	}
	if until <= s.now || s.isSpent(fp) {
		return
	}
	s.arrivals++
	r := s.newRequest()
	r.e = e
	r.take(s.newName(fp, &c.Nonce))
	r.place = Place{arrival: s.arrivals, until: until, asked: c.Asked, since: since}
	s.detachUntil(r, s.now+Time(s.foreignGrace()))
	s.recordWaiter(r)
}
