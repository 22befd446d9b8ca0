package lockspace

import (
	"slices"

	"github.com/stile-lock/stile/protocol"
	"github.com/stile-lock/stile/protocol/invariants"
)

// Hold keeps an acquire unanswered while the node may not answer it. The
// acquire is in no line and its nonce is not looked at; it only has its place
// among the answers to its session. [Space.Serve] makes it, [Space.Drop] and
// [Space.EndSessions] end it, and so does [Space.Advance]: at its own limit,
// which runs already, and with no-active at `until`. A wait of -1 is held as
// long as the others.
func (s *Space) Hold(now Time, a Acquire, until Time) {
	s.begin(now)
	e := s.enterAsIs(a.Key) // the table may have to stand still
	r := s.await(e, a.Session, a.Tag)
	s.arrivals++
	r.place = Place{arrival: s.arrivals, until: Never, asked: a.Lease, since: s.now}
	r.noQueue, r.mayQueue = a.Wait < 0, a.MayQueue
	if !a.Nonce.none() {
		r.name = s.unlistedName(&a.Nonce)
	}
	if a.Wait > 0 {
		r.place.until = s.now + Time(a.Wait)
	}
	s.putHeld(r, min(until, r.place.until))
	if invariants.Enabled {
		s.check()
	}
}

// HeldBack is the number of acquires that Serve would make.
func (s *Space) HeldBack() int { return s.holds.len() }

// Serve makes the oldest of the acquires that were held, as if it came now,
// but with the limit it came with, and as old as it is. It reports whether there are more.
func (s *Space) Serve(now Time) (more bool) {
	s.begin(now)
	s.mustServe()
	if invariants.Enabled {
		defer s.check()
	}
	if s.heldOrder.len() == 0 || s.standby {
		return false
	}
	r := s.heldOrder.items[0].v.request
	if r.place.until <= s.now {
		s.endHeld(r)
		return s.heldOrder.len() > 0
	}
	e := r.e
	s.leaveHeld(r)
	s.settle(e)
	a := Acquire{
		Session: r.session, Tag: r.tag, Key: e.key, Lease: r.place.asked,
		Nonce: r.name.value(), MayQueue: r.mayQueue, held: r,
	}
	if r.name != nil {
		s.freeName(r.name)
		r.name = nil
	}
	p := r.place
	if r.noQueue {
		a.Wait, p.until = protocol.NoQueue, s.now
	}
	s.acquire(e, &a, p)
	s.leave(e)
	return s.heldOrder.len() > 0
}

// EndSessions ends every acquire of a session that is not answered yet, in
// order of arrival, those that were held after those in line. Grants stay. A
// serving Space forgets all of its waiters with that, detached ones too; on a
// standby those that came from the serving node keep their places.
func (s *Space) EndSessions(now Time, kind Kind, code protocol.Code) {
	s.begin(now)
	if invariants.Enabled {
		defer s.check()
	}
	all := make([]*request, 0, s.waits.len()+s.holds.len())
	if !s.standby {
		for _, it := range s.waits.items {
			all = append(all, it.v)
		}
	}
	for _, it := range s.heldOrder.items {
		all = append(all, it.v.request)
	}
	slices.SortStableFunc(all, func(a, b *request) int {
		switch {
		case a.state != b.state && a.state == held:
			return 1
		case a.state != b.state && b.state == held:
			return -1
		}
		return int(int64(a.place.arrival) - int64(b.place.arrival))
	})
	for _, r := range all {
		e := r.e
		if n := r.name; r.state != held && n != nil {
			r.name = nil
			s.recordNonce(WaiterLeft, e, &n.nonce)
			s.forget(n)
		}
		switch r.state {
		case detached:
			s.leaveDetached(r)
			s.freeRequest(r)
		case held:
			s.leaveHeld(r)
			s.finish(r, kind, code)
		default:
			s.end(r, kind, code)
		}
		s.leave(e)
	}
}

// EndHeld ends every acquire that was held, in order of arrival. Those in line
// wait on.
func (s *Space) EndHeld(now Time, kind Kind, code protocol.Code) {
	s.begin(now)
	if invariants.Enabled {
		defer s.check()
	}
	for s.heldOrder.len() > 0 {
		r := s.heldOrder.items[0].v.request
		e := r.e
		s.leaveHeld(r)
		s.finish(r, kind, code)
		s.leave(e)
	}
}

// putHeld holds a request that is in no line.
func (s *Space) putHeld(r *request, until Time) {
	r.state = held
	s.holds.push(int64(until), r.place.arrival, r)
	s.heldOrder.push(int64(r.place.arrival), 0, inLine{r})
}

// leaveHeld takes out a request that was held.
func (s *Space) leaveHeld(r *request) {
	s.holds.remove(r.waitSlot)
	s.heldOrder.remove(r.lineSlot)
}

// endHeld ends a held request whose time is over. Nothing has happened for
// it, so its nonce is what it was.
func (s *Space) endHeld(r *request) {
	e := r.e
	s.leaveHeld(r)
	if r.place.until <= s.now {
		s.stats.TimedOut[AtLimit]++
		s.finish(r, TimedOut, 0)
	} else {
		s.finish(r, Refused, protocol.CodeNoActive)
	}
	s.leave(e)
}
