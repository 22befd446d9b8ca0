package lockspace

import (
	"time"

	"github.com/stile-lock/stile/protocol"
)

// entry is a key that somebody holds or waits for. A key that nobody uses
// has none.
type entry struct {
	// What a search looks at comes first. An entry takes 96 bytes.
	key       []byte
	next      *entry // another key of its bucket; in the pool: the next free one
	hash      uint32
	leaseSlot int32

	// The grant; token 0 is free.
	token    uint64
	deadline Time
	since    Time    // when it was made, on whatever node
	holder   Session // who was told of it, or kept it, last
	name     *name   // nil: it has no nonce

	line *line // nil while nobody waits and no answer is held back

	learnt uint32 // on a standby: the second in which it learnt of the deadline

	shared    bool // several sessions know of it: the loss of one answer undoes nothing
	inherited bool // it is older than this reign
	renewed   bool // it was kept in this reign, or told of again
	behind    bool // it is in s.behind
}

func (e *entry) link() **entry   { return &e.next }
func (e *entry) home() uint32    { return e.hash }
func (e *entry) setSlot(i int32) { e.leaseSlot = i }

// told notes that a session knows of the grant.
func (e *entry) told(session Session) {
	e.shared = e.shared || e.holder != session
	e.holder = session
}

// line is the queue of one key.
//
// Invariant: an entry has a line while any of the three is not zero, and a
// key is free only while nobody attached waits for it, or while it is
// reserved for a replicated waiter that stands before all of them.
type line struct {
	attached heap[inLine] // by arrival: the next to be granted is on top
	replicas heap[inLine] // by arrival: the detached ones from before this reign
	detached int          // waiters without a connection, replicas included
	owed     int          // requests whose answer has not gone out
}

// request is an acquire that is not answered yet, or a detached one.
//
// Invariant: it is in exactly one state. queued: in e.line.attached and in
// s.waits. detached: in s.waits, and in e.line.replicas if it is a replica.
// held: in s.holds and s.heldOrder; the table knows nothing of it, its nonce
// neither. ended: in none of them; only its answer waits for its turn. All
// but detached ones are in the chain of their turn and in the list of their
// session; a detached one has no session. On a standby nobody is queued and
// every detached one is a replica.
type request struct {
	session Session
	tag     uint64
	e       *entry
	place   Place
	name    *name  // nil: it has no nonce. Of one that has ended, no other knows it
	token   uint64 // ended, Granted

	// Small fields side by side: a request takes 128 bytes.
	state  state
	kind   Kind          // ended: the answer
	code   protocol.Code // ended, Refused
	repeat bool          // ended, Granted

	replica bool // detached: it was in line before this reign
	// Held: whether it does not want to wait for the key, and whether it may.
	noQueue, mayQueue bool

	lineSlot, waitSlot int32

	older, younger *request // unanswered ones of the same session and key
	prev, next     *request // unanswered ones of the same session; next: pool
	chained        *request // the youngest of another turn, of the same bucket
}

func (r *request) link() **request { return &r.chained }

func (r *request) home() uint32 { return turnHash(r.session, r.e) }

// take makes the name, if it is one, that of the request.
func (r *request) take(n *name) {
	if r.name = n; n != nil {
		n.r, n.e = r, nil
	}
}

type state uint8

const (
	queued state = iota + 1
	detached
	held
	ended
)

func (r *request) setSlot(i int32) { r.waitSlot = i }

// inLine gives a request its second slot: the one in its key's line.
type inLine struct{ *request }

func (r inLine) setSlot(i int32) { r.request.lineSlot = i }

// turnHash files the turn of a session and a key: the requests whose answers
// must come in order.
func turnHash(session Session, e *entry) uint32 {
	return uint32(uint64(session)*0x9e3779b97f4a7c15>>32) ^ e.hash
}

// youngest is the youngest unanswered request of a turn, nil if there is none.
func (s *Space) youngest(session Session, e *entry) *request {
	for r := s.turns.first(turnHash(session, e)); r != nil; r = r.chained {
		if r.session == session && r.e == e {
			return r
		}
	}
	return nil
}

// await adds an unanswered request at the end of its turn and its session.
func (s *Space) await(e *entry, session Session, tag uint64) *request {
	r := s.newRequest()
	r.session, r.tag, r.e = session, tag, e
	ln := s.lineOf(e)
	ln.owed++
	if last := s.youngest(session, e); last != nil {
		r.older, last.younger = last, r
		s.turns.remove(last)
	}
	s.turns.add(r)
	if first := s.sessions[session]; first != nil {
		// A ring: first.prev is the last.
		r.prev, r.next = first.prev, first
		first.prev.next, first.prev = r, r
	} else {
		r.prev, r.next = r, r
		s.sessions[session] = r
	}
	return r
}

// unlink takes a request out of its turn and its session. The caller frees
// or detaches it.
func (s *Space) unlink(r *request) {
	if r.younger != nil {
		r.younger.older = r.older
	} else {
		s.turns.remove(r)
		if r.older != nil {
			s.turns.add(r.older)
		}
	}
	if r.older != nil {
		r.older.younger = r.younger
	}
	if r.next == r {
		delete(s.sessions, r.session)
	} else {
		r.prev.next, r.next.prev = r.next, r.prev
		if s.sessions[r.session] == r {
			s.sessions[r.session] = r.next
		}
	}
	r.older, r.younger, r.prev, r.next = nil, nil, nil, nil
	r.e.line.owed--
}

// enqueue puts a request into its key's line.
func (s *Space) enqueue(r *request) {
	r.state = queued
	s.lineOf(r.e).attached.push(int64(r.place.arrival), 0, inLine{r})
	s.waits.push(int64(r.place.until), r.place.arrival, r)
}

// leaveLine takes a queued request out of its line.
func (s *Space) leaveLine(r *request) {
	r.e.line.attached.remove(r.lineSlot)
	s.waits.remove(r.waitSlot)
}

// detach keeps the place of a request whose connection is gone: until its
// own limit, and no longer than the grace.
func (s *Space) detach(r *request) {
	s.detachUntil(r, max(s.now+Time(s.cfg.ReattachGrace), s.placesUntil))
}

func (s *Space) detachUntil(r *request, until Time) {
	r.session, r.tag, r.state = 0, 0, detached
	s.lineOf(r.e).detached++
	s.waits.push(int64(min(r.place.until, until)), r.place.arrival, r)
}

// leaveDetached takes a detached request out; the caller frees it.
func (s *Space) leaveDetached(r *request) {
	r.e.line.detached--
	s.waits.remove(r.waitSlot)
	if r.replica {
		r.e.line.replicas.remove(r.lineSlot)
		r.replica = false
	}
}

// end says how a queued request ends. It leaves the line now; its answer
// goes out at its turn.
func (s *Space) end(r *request, kind Kind, code protocol.Code) {
	s.leaveLine(r)
	s.finish(r, kind, code)
}

// finish says how a request ends that is in no line any more.
func (s *Space) finish(r *request, kind Kind, code protocol.Code) {
	r.state, r.kind, r.code = ended, kind, code
	s.answerTurn(r)
}

// answerTurn sends the answer of an ended request, and those that were held
// back behind it, unless an older one is still unanswered.
func (s *Space) answerTurn(r *request) {
	for r != nil && r.older == nil && r.state == ended {
		s.emit(r.e, r.session, r.tag, r.kind, r.code, r.token, r.repeat, r.place)
		younger := r.younger
		s.unlink(r)
		s.freeRequest(r)
		r = younger
	}
}

// answer ends a request that never waits: at once, if nothing of its turn is
// unanswered, else in its turn.
func (s *Space) answer(e *entry, a *Acquire, kind Kind, code protocol.Code, repeat bool, p Place) {
	r := a.held
	if r == nil {
		if e.line == nil || s.youngest(a.Session, e) == nil {
			s.emit(e, a.Session, a.Tag, kind, code, e.token, repeat, p)
			return
		}
		r = s.await(e, a.Session, a.Tag)
	}
	r.repeat, r.place = repeat, p
	if kind == Granted {
		r.token = e.token
	}
	s.finish(r, kind, code)
}

func (s *Space) emit(e *entry, session Session, tag uint64, kind Kind, code protocol.Code, token uint64, repeat bool, p Place) {
	eff := Effect{Session: session, Tag: tag, Kind: kind, Code: code, Key: e.key}
	if kind == Granted {
		eff.Token, eff.Repeat, eff.Place, eff.Freed = token, repeat, p, Never
		// An answer that was held back tells what is left by now: the client
		// counts from a moment that may lie after the grant.
		if e.token == token {
			eff.Lease = max(0, time.Duration(e.deadline-s.now)).Truncate(time.Millisecond)
			if !repeat {
				eff.Freed = s.freed
			}
		}
	}
	s.effects = append(s.effects, eff)
}

func (s *Space) lineOf(e *entry) *line {
	if e.line == nil {
		if n := len(s.lines) - 1; n >= 0 {
			e.line, s.lines = s.lines[n], s.lines[:n]
		} else {
			e.line = new(line)
		}
	}
	return e.line
}

func (s *Space) newRequest() *request {
	r := s.requests
	if r == nil {
		return new(request)
	}
	s.requests, s.pooledRequests = r.next, s.pooledRequests-1
	r.next = nil
	return r
}

// freeRequest gives a request back. A name that it still has is one that the
// table does not know of.
func (s *Space) freeRequest(r *request) {
	if r.name != nil {
		s.freeName(r.name)
		r.name = nil // a snapshot may still look at the request
	}
	if s.pooledRequests >= keptPool {
		return
	}
	*r = request{next: s.requests}
	s.requests, s.pooledRequests = r, s.pooledRequests+1
}
