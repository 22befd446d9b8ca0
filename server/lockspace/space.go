package lockspace

import (
	"bytes"
	"math"
	"slices"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/stile-lock/stile/protocol"
	"github.com/stile-lock/stile/protocol/invariants"
)

// Time is an instant in nanoseconds on a monotonic clock of the caller's; the
// origin does not matter. A Space never goes back in time: an earlier `now`
// counts as the latest one seen.
type Time int64

// Never is later than every deadline.
const Never Time = math.MaxInt64

// Session names a client connection. 0 is nobody.
type Session uint64

// Config is what a Space is made with. All fields are required.
type Config struct {
	DefaultLease time.Duration // for a lease of 0
	MaxLease     time.Duration // longer ones are cut to it

	// ReattachGrace is how long a waiter with a nonce keeps its place after
	// its connection dropped.
	ReattachGrace time.Duration

	// SpentFor is how long a spent nonce is remembered, unless MaxSpent
	// newer ones came after it.
	SpentFor time.Duration
	MaxSpent int

	// MaxWaitersPerKey limits one key's queue, detached waiters included.
	MaxWaitersPerKey int

	// Seed makes the hash of the keys unpredictable to clients.
	Seed uint64

	// NextToken returns a token greater than every one before it, or false
	// if there is none: the acquire is then refused with no-active.
	NextToken func() (token uint64, ok bool)
}

// Space is one shard of the lock table.
//
// Every method that takes `now` may produce effects, for the caller's request
// and for others. They must be taken with [Space.Effects] before the next
// call.
type Space struct {
	cfg Config
	now Time

	keys     map[uint64]*entry // by hash; equal hashes are chained
	hashMask uint64            // all ones; tests make hashes collide

	leases heap[*entry]   // by deadline
	waits  heap[*request] // everybody in a line and the detached, by limit

	turns    map[turn]*request    // the youngest unanswered one
	sessions map[Session]*request // the oldest unanswered one
	claims   map[fingerprint]claim
	spent    fifo

	arrivals uint64
	effects  []Effect

	unchecked int // calls since the invariants were checked, in test builds

	// Pools, so that a steady load does not allocate.
	entries                       *entry
	requests                      *request
	lines                         []*line
	pooledEntries, pooledRequests int
}

// keptPool is how many unused records of a kind a Space keeps for later; what
// a burst used beyond it goes back to the garbage collector.
const keptPool = 1024

// New returns an empty Space.
func New(cfg Config) *Space {
	return &Space{
		cfg:      cfg,
		now:      math.MinInt64, // a clock may count from anywhere
		hashMask: math.MaxUint64,
		keys:     make(map[uint64]*entry),
		turns:    make(map[turn]*request),
		sessions: make(map[Session]*request),
		claims:   make(map[fingerprint]claim),
	}
}

// Acquire is one acquire of a client.
type Acquire struct {
	Session Session
	Tag     uint64 // comes back in the effect; the Space gives it no meaning
	Key     []byte // copied if it is kept
	Wait    time.Duration
	Lease   time.Duration
	Nonce   Nonce

	// MayQueue is false if no further waiter fits into the node: a request
	// that would have to wait is then refused with queue-full.
	MayQueue bool
}

// Acquire grants, queues or refuses a request. It ends with exactly one
// effect, now or later, unless its session is dropped first.
func (s *Space) Acquire(now Time, a Acquire) {
	s.begin(now)
	if invariants.Enabled {
		defer s.check()
	}
	e := s.enter(a.Key)
	p := Place{until: Never, asked: a.Lease}
	if a.Wait > 0 {
		p.until = s.now + Time(a.Wait)
	} else if a.Wait < 0 {
		p.until = s.now
	}
	var fp fingerprint
	if !a.Nonce.none() {
		fp = fingerprintOf(a.Key, &a.Nonce)
		if s.resume(e, &a, p, fp) {
			s.leave(e)
			return
		}
	}
	s.arrivals++
	p.arrival = s.arrivals
	switch {
	case e.token == 0:
		if s.grant(e, a.Session, p.asked, &a.Nonce, fp) {
			s.answer(e, a.Session, a.Tag, Granted, 0, false, p)
		} else {
			s.answer(e, a.Session, a.Tag, Refused, protocol.CodeNoActive, false, p)
		}
	case a.Wait < 0:
		if !a.Nonce.none() {
			s.spend(fp)
		}
		s.answer(e, a.Session, a.Tag, TimedOut, 0, false, p)
	case !a.MayQueue || e.line != nil && e.line.attached.len()+e.line.detached >= s.cfg.MaxWaitersPerKey:
		s.answer(e, a.Session, a.Tag, Refused, protocol.CodeQueueFull, false, p)
	default:
		s.queueUp(e, &a, p, fp)
	}
	s.leave(e)
}

// queueUp makes the acquire wait in line.
func (s *Space) queueUp(e *entry, a *Acquire, p Place, fp fingerprint) *request {
	r := s.await(e, a.Session, a.Tag)
	r.place, r.nonce, r.fp = p, a.Nonce, fp
	if !r.nonce.none() {
		s.claims[fp] = claim{r: r}
	}
	s.enqueue(r)
	return r
}

// resume handles an acquire whose nonce is known. It reports whether that
// was all.
func (s *Space) resume(e *entry, a *Acquire, p Place, fp fingerprint) (done bool) {
	c, known := s.claims[fp]
	if known && c.r != nil && s.overdue(c.r) {
		at := c.r.e
		s.timeOut(c.r)
		if at != e {
			s.leave(at)
		}
		c, known = s.claims[fp]
	}
	if !known {
		return false
	}
	if c.e == e && e.nonce == a.Nonce {
		// Asked again: the same grant, nothing renewed.
		e.shared = e.shared || e.holder != a.Session
		e.holder = a.Session
		s.answer(e, a.Session, a.Tag, Granted, 0, true, p)
		return true
	}
	old := c.r
	if old == nil || old.e != e || old.nonce != a.Nonce {
		// Spent; or another pair of the same fingerprint, see there.
		s.answer(e, a.Session, a.Tag, Refused, protocol.CodeSpent, false, p)
		return true
	}
	// Queued or detached: the new request takes the place over.
	p.arrival = old.place.arrival
	if old.state == detached {
		s.leaveDetached(old)
		s.freeRequest(old)
	} else {
		s.end(old, Refused, protocol.CodeSuperseded)
	}
	switch {
	case a.Wait < 0 && e.token != 0:
		s.spend(fp)
		s.answer(e, a.Session, a.Tag, TimedOut, 0, false, p)
	case e.token == 0:
		// Only detached waiters were in line, so nothing of this turn is
		// unanswered and the grant is answered at once.
		if s.grant(e, a.Session, p.asked, &a.Nonce, fp) {
			s.answer(e, a.Session, a.Tag, Granted, 0, false, p)
		} else {
			delete(s.claims, fp)
			s.answer(e, a.Session, a.Tag, Refused, protocol.CodeNoActive, false, p)
		}
	default:
		s.queueUp(e, a, p, fp)
	}
	return true
}

// Refuse answers a malformed acquire of the session, in its turn: the line
// was read, and answers to acquires of one key keep the order of the lines.
func (s *Space) Refuse(now Time, session Session, tag uint64, key []byte, code protocol.Code) {
	s.begin(now)
	if invariants.Enabled {
		defer s.check()
	}
	e := s.enter(key)
	s.answer(e, session, tag, Refused, code, false, Place{})
	s.leave(e)
}

// Release ends the grant. It reports whether (key, token) was held.
func (s *Space) Release(now Time, key []byte, token uint64) bool {
	s.begin(now)
	if invariants.Enabled {
		defer s.check()
	}
	e := s.find(key)
	if e == nil {
		return false
	}
	held := e.token == token && token != 0
	if held {
		s.endGrant(e)
		s.grantNext(e)
	}
	s.leave(e)
	return held
}

// Keep makes the lease of the grant end `lease` from now, which may be sooner
// than before. It returns the lease granted, or false if (key, token) was not
// held.
func (s *Space) Keep(now Time, key []byte, token uint64, lease time.Duration) (time.Duration, bool) {
	s.begin(now)
	if invariants.Enabled {
		defer s.check()
	}
	e := s.find(key)
	if e == nil {
		return 0, false
	}
	defer s.leave(e)
	if e.token != token || token == 0 {
		return 0, false
	}
	lease = s.leaseFor(lease)
	e.deadline = s.now + Time(lease)
	s.leases.move(e.leaseSlot, int64(e.deadline))
	return lease, true
}

// Cancel ends one logical acquire, whatever became of it, and makes its nonce
// spent.
func (s *Space) Cancel(now Time, key []byte, nonce Nonce) {
	s.begin(now)
	if invariants.Enabled {
		defer s.check()
	}
	e := s.enter(key)
	defer s.leave(e)
	fp := fingerprintOf(key, &nonce)
	c, known := s.claims[fp]
	switch {
	case !known:
		s.spend(fp) // its acquire may still be on its way
	case c.e == e && e.nonce == nonce:
		s.endGrant(e)
		s.grantNext(e)
	case c.r != nil && c.r.e == e && c.r.nonce == nonce:
		if c.r.state == detached {
			s.leaveDetached(c.r)
			s.freeRequest(c.r)
		} else {
			s.end(c.r, TimedOut, 0)
		}
		s.spend(fp)
	}
}

// Drop forgets a session: its waiters leave the line, or are detached if they
// have a nonce. What it holds stays held.
func (s *Space) Drop(now Time, session Session) {
	s.begin(now)
	if invariants.Enabled {
		defer s.check()
	}
	// First out of every line, so that nothing below grants to the session.
	// What is unlinked is chained through prev, which is free then.
	var first, last *request
	for r := s.sessions[session]; r != nil; r = s.sessions[session] {
		if r.state == queued {
			s.leaveLine(r)
		}
		s.unlink(r)
		if last == nil {
			first = r
		} else {
			last.prev = r
		}
		last = r
	}
	for r := first; r != nil; r = r.prev {
		if r.state == queued && !r.nonce.none() {
			s.detach(r)
		}
	}
	for r := first; r != nil; {
		next, e := r.prev, r.e
		r.prev = nil
		if r.state == ended && r.kind == Granted && !r.repeat {
			// The grant was made while its answer was held back. It may be
			// over by now, and what is over is not undone.
			s.settle(e)
			s.undo(e, r.token, session, r.place)
		}
		if r.state != detached {
			s.freeRequest(r)
		}
		s.leave(e)
		r = next
	}
}

// Undo takes back a grant whose answer did not reach the session's kernel
// buffer before the session was dropped. With a nonce the request goes back
// to its place as a detached waiter; else the grant ends as by a release. If
// the grant has ended, or another session was told of it since, nothing
// happens.
func (s *Space) Undo(now Time, session Session, key []byte, token uint64, p Place) {
	s.begin(now)
	if invariants.Enabled {
		defer s.check()
	}
	if e := s.find(key); e != nil {
		s.undo(e, token, session, p)
		s.leave(e)
	}
}

func (s *Space) undo(e *entry, token uint64, session Session, p Place) {
	if e.token != token || e.holder != session || e.shared {
		return
	}
	nonce, fp := e.nonce, e.fp
	s.leases.remove(e.leaseSlot)
	e.token = 0
	if !nonce.none() {
		if p.until > s.now {
			r := s.newRequest()
			r.e, r.place, r.nonce, r.fp = e, p, nonce, fp
			s.detach(r)
		} else {
			s.spend(fp)
		}
	}
	s.grantNext(e)
}

// Advance ends the waits and leases whose time has come, at most `most` of
// them. It reports whether more are due.
//
// Waits go first: a request whose limit has passed is never granted, however
// late the call.
func (s *Space) Advance(now Time, most int) (more bool) {
	s.begin(now)
	if invariants.Enabled {
		defer s.check()
	}
	s.forgetSpent()
	for ; s.waits.len() > 0 && Time(s.waits.items[0].at) <= s.now; most-- {
		if most <= 0 {
			return true
		}
		r := s.waits.items[0].v
		e := r.e
		s.timeOut(r)
		s.leave(e)
	}
	for ; s.leases.len() > 0 && Time(s.leases.items[0].at) <= s.now; most-- {
		if most <= 0 {
			return true
		}
		e := s.leases.items[0].v
		s.endGrant(e)
		s.grantNext(e)
		s.leave(e)
	}
	return false
}

// Next is when Advance is due, [Never] if nothing has a deadline.
func (s *Space) Next() Time {
	next := s.nextForget()
	if s.waits.len() > 0 {
		next = min(next, Time(s.waits.items[0].at))
	}
	if s.leases.len() > 0 {
		next = min(next, Time(s.leases.items[0].at))
	}
	return next
}

// EndWaiters ends every waiter with the code, in order of arrival. Grants
// stay.
func (s *Space) EndWaiters(now Time, code protocol.Code) {
	s.begin(now)
	if invariants.Enabled {
		defer s.check()
	}
	all := make([]*request, 0, s.waits.len())
	for _, it := range s.waits.items {
		all = append(all, it.v)
	}
	slices.SortFunc(all, func(a, b *request) int {
		return int(int64(a.place.arrival) - int64(b.place.arrival))
	})
	for _, r := range all {
		e := r.e
		if !r.nonce.none() {
			delete(s.claims, r.fp)
		}
		if r.state == detached {
			s.leaveDetached(r)
			s.freeRequest(r)
		} else {
			s.end(r, Refused, code)
		}
		s.leave(e)
	}
}

// Effects returns what the calls since the last Effects have caused. The
// slice and its keys are valid until the next call of a method.
func (s *Space) Effects() []Effect {
	out := s.effects
	s.effects = s.effects[:0]
	return out
}

// Now is the time of the latest call: the effects of that call happened then.
func (s *Space) Now() Time { return s.now }

// Held is the number of keys held. A lease that ended counts until Advance,
// or a request for the key, has noticed.
func (s *Space) Held() int { return s.leases.len() }

// Waiting is the number of waiters, detached ones included.
func (s *Space) Waiting() int { return s.waits.len() }

// begin starts a call.
func (s *Space) begin(now Time) {
	if invariants.Enabled && len(s.effects) > 0 {
		panic("lockspace: a call before the effects of the last one were taken")
	}
	s.now = max(s.now, now)
}

// find returns the key's entry after ending what is overdue on it, or nil if
// nobody uses the key. The caller calls leave when done.
func (s *Space) find(key []byte) *entry {
	for e := s.keys[s.hash(key)]; e != nil; e = e.next {
		if bytes.Equal(e.key, key) {
			s.settle(e)
			return e
		}
	}
	return nil
}

// enter is find, with a new entry for a key that has none.
func (s *Space) enter(key []byte) *entry {
	hash := s.hash(key)
	first := s.keys[hash]
	for e := first; e != nil; e = e.next {
		if bytes.Equal(e.key, key) {
			s.settle(e)
			return e
		}
	}
	e := s.entries
	if e == nil {
		e = new(entry)
	} else {
		s.entries, s.pooledEntries = e.next, s.pooledEntries-1
	}
	e.key = append(e.key[:0], key...)
	e.hash, e.next = hash, first
	s.keys[hash] = e
	return e
}

// leave forgets the entry if nobody uses the key any more. Calling it twice
// does no harm.
func (s *Space) leave(e *entry) {
	if ln := e.line; ln != nil {
		if ln.attached.len() > 0 || ln.detached > 0 || ln.owed > 0 {
			return
		}
		e.line = nil
		if len(s.lines) < keptPool && cap(ln.attached.items) <= keptPool {
			s.lines = append(s.lines, ln)
		}
	}
	if e.token != 0 || len(e.key) == 0 {
		return
	}
	if first := s.keys[e.hash]; first == e {
		if e.next == nil {
			delete(s.keys, e.hash)
		} else {
			s.keys[e.hash] = e.next
		}
	} else {
		for first.next != e {
			first = first.next
		}
		first.next = e.next
	}
	*e = entry{key: e.key[:0]} // no key: not in use
	if s.pooledEntries < keptPool {
		e.next = s.entries
		s.entries, s.pooledEntries = e, s.pooledEntries+1
	}
}

// settle ends an overdue lease before anything else is done with the key, so
// that a late Advance never shows: an ended lease does not revive.
func (s *Space) settle(e *entry) {
	if e.token != 0 && e.deadline <= s.now {
		s.endGrant(e)
		s.grantNext(e)
	}
}

// grant gives the free key to a session under a new token. It reports false
// if there is no token.
func (s *Space) grant(e *entry, session Session, asked time.Duration, nonce *Nonce, fp fingerprint) bool {
	token, ok := s.cfg.NextToken()
	if !ok {
		return false
	}
	e.token, e.holder, e.shared, e.since = token, session, false, s.now
	e.deadline = s.now + Time(s.leaseFor(asked))
	e.nonce, e.fp = *nonce, fp
	s.leases.push(int64(e.deadline), token, e)
	if !nonce.none() {
		s.claims[fp] = claim{e: e}
	}
	return true
}

func (s *Space) leaseFor(asked time.Duration) time.Duration {
	if asked == 0 {
		asked = s.cfg.DefaultLease
	}
	return min(asked, s.cfg.MaxLease)
}

// endGrant makes the key free. The caller grants it to the next in line.
func (s *Space) endGrant(e *entry) {
	s.leases.remove(e.leaseSlot)
	e.token = 0
	if !e.nonce.none() {
		s.spend(e.fp)
	}
}

// grantNext gives a free key to the first attached waiter whose limit has
// not passed.
func (s *Space) grantNext(e *entry) {
	for e.line != nil && e.line.attached.len() > 0 {
		r := e.line.attached.items[0].v.request
		if r.place.until <= s.now {
			s.timeOut(r)
			continue
		}
		if !s.grant(e, r.session, r.place.asked, &r.nonce, r.fp) {
			if !r.nonce.none() {
				delete(s.claims, r.fp)
			}
			s.end(r, Refused, protocol.CodeNoActive)
			continue
		}
		r.token = e.token
		s.end(r, Granted, 0)
		return
	}
}

// timeOut ends a waiter at its limit, or a detached one at the end of its
// grace. The latter is forgotten, unless its own limit has passed too.
func (s *Space) timeOut(r *request) {
	passed := r.place.until <= s.now
	if !r.nonce.none() {
		if passed {
			s.spend(r.fp)
		} else {
			delete(s.claims, r.fp)
		}
	}
	if r.state == detached {
		s.leaveDetached(r)
		s.freeRequest(r)
	} else {
		s.end(r, TimedOut, 0)
	}
}

// overdue reports whether Advance would time the waiter out now.
func (s *Space) overdue(r *request) bool {
	return Time(s.waits.items[r.waitSlot].at) <= s.now
}

func (s *Space) hash(key []byte) uint64 {
	return xxh3.HashSeed(key, s.cfg.Seed) & s.hashMask
}
