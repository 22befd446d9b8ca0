package lockspace

import (
	"bytes"
	"math"
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

	// Record makes every call record its changes, for copies of the table on
	// other nodes. They must be taken with [Space.Changes] like the effects.
	Record bool
}

// Space is one shard of the lock table.
//
// Every method that takes `now` may produce effects, for the caller's request
// and for others. They must be taken with [Space.Effects] before the next
// call.
//
// A Space is serving, or it is a standby: the copy of a table that another
// node serves. A standby changes by [Space.Apply] and [Space.Install] alone.
type Space struct {
	cfg     Config
	now     Time
	standby bool

	keys     table[entry, *entry]
	hashMask uint64 // all ones; tests make hashes collide

	leases heap[*entry]   // by deadline
	waits  heap[*request] // everybody in a line and the detached, by limit

	holds     heap[*request] // those held, by the end of their time
	heldOrder heap[inLine]   // the same, by arrival

	turns    table[request, *request] // the youngest unanswered one of each
	sessions map[Session]*request     // the oldest unanswered one
	names    table[name, *name]
	spent    spentNonces

	arrivals uint64
	highest  uint64 // the greatest token that was ever in the table
	effects  []Effect
	changes  []Change
	stats    Stats
	freed    Time // during handOver, when the key became free; else Never

	// Until then no lease ends and the first replicated waiter of a key has
	// the key reserved; behind lists the keys left free for it though others
	// wait, those that were granted or forgotten since included.
	reservedUntil Time
	behind        []*entry
	placesUntil   Time    // after a promotion: no waiter loses its place before
	adopted       bool    // some of them were left so by Adopt, whoever is first
	ended         []Ended // the inherited grants that ended in this reign

	unchecked int // calls since the invariants were checked, in test builds

	// Pools, so that a steady load does not allocate.
	entries   *entry
	requests  *request
	freeNames *name
	lines     []*line

	pooledEntries, pooledRequests, pooledNames int
}

// keptPool is how many unused records of a kind a Space keeps for later; what
// a burst used beyond it goes back to the garbage collector.
const keptPool = 1024

// newLeases is how many leases wait before they go into the heap. A node under
// load grants about as many in a shard before it sees them released.
const newLeases = 32

// New returns an empty Space.
func New(cfg Config) *Space {
	return &Space{
		cfg:      cfg,
		now:      math.MinInt64, // a clock may count from anywhere
		hashMask: math.MaxUint64,

		freed: Never,

		reservedUntil: math.MinInt64,
		placesUntil:   math.MinInt64,

		leases:   heap[*entry]{most: newLeases},
		sessions: make(map[Session]*request),
		spent:    spentNonces{hash: newPairHash(cfg.Seed)},
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

	held *request // the request is this one, held until now
}

// Acquire grants, queues or refuses a request. It ends with exactly one
// effect, now or later, unless its session is dropped first.
func (s *Space) Acquire(now Time, a Acquire) {
	s.begin(now)
	if invariants.Enabled {
		defer s.check()
	}
	e := s.enter(a.Key)
	p := Place{until: Never, asked: a.Lease, since: s.now}
	if a.Wait > 0 {
		p.until = s.now + Time(a.Wait)
	} else if a.Wait < 0 {
		p.until = s.now
	}
	s.acquire(e, &a, p)
	s.leave(e)
}

func (s *Space) acquire(e *entry, a *Acquire, p Place) {
	s.mustServe()
	var fp fingerprint
	if !a.Nonce.none() {
		fp = fingerprintOf(a.Key, &a.Nonce)
		if s.resume(e, a, p, fp) {
			return
		}
	}
	s.arrivals++
	p.arrival = s.arrivals
	switch {
	case e.token == 0 && !s.reserved(e, p.arrival):
		n := s.nameFor(a, fp)
		if s.grant(e, a.Session, p.asked, n) {
			s.stats.grant(Immediate, time.Duration(s.now-p.since))
			s.answer(e, a, Granted, 0, false, p)
		} else {
			s.forget(n)
			s.answer(e, a, Refused, protocol.CodeNoActive, false, p)
		}
	case a.Wait < 0:
		if !a.Nonce.none() {
			s.spend(fp)
			s.recordNonce(NonceSpent, e, &a.Nonce)
		}
		s.stats.TimedOut[AtOnce]++
		s.answer(e, a, TimedOut, 0, false, p)
	case !a.MayQueue || e.line != nil && e.line.attached.len()+e.line.detached >= s.cfg.MaxWaitersPerKey:
		s.answer(e, a, Refused, protocol.CodeQueueFull, false, p)
	default:
		s.queueUp(e, a, p, s.nameFor(a, fp))
	}
}

// nameFor makes a name for an acquire with a nonce that was unknown.
func (s *Space) nameFor(a *Acquire, fp fingerprint) *name {
	if a.Nonce.none() {
		return nil
	}
	return s.newName(fp, &a.Nonce)
}

// queueUp makes the acquire wait in line.
func (s *Space) queueUp(e *entry, a *Acquire, p Place, n *name) {
	r := a.held
	if r == nil {
		r = s.await(e, a.Session, a.Tag)
	}
	r.place = p
	r.take(n)
	s.enqueue(r)
	if n != nil {
		s.recordWaiter(r)
	}
	if e.token == 0 {
		s.leaveFree(e)
	}
}

// resume handles an acquire whose nonce is known. It reports whether that
// was all.
func (s *Space) resume(e *entry, a *Acquire, p Place, fp fingerprint) (done bool) {
	n := s.nameOf(fp)
	if n != nil && n.r != nil && s.overdue(n.r) {
		at := n.r.e
		s.timeOut(n.r)
		if at != e {
			s.leave(at)
		}
		n = s.nameOf(fp)
	}
	if n == nil && !s.isSpent(fp) {
		return false
	}
	if n != nil && n.e == e && n.nonce == a.Nonce {
		// Asked again: the same grant, nothing renewed.
		e.told(a.Session)
		if e.inherited {
			// The promotion moved the deadline, and only this node knows. What
			// the client is told, the copies must keep, and another active may
			// have seen end.
			s.extend(e, e.deadline)
			e.renewed = true
		}
		s.stats.Granted[Repeated]++
		s.answer(e, a, Granted, 0, true, p)
		return true
	}
	if n == nil || n.r == nil || n.r.e != e || n.nonce != a.Nonce {
		// Spent; or another pair of the same fingerprint, see there.
		s.answer(e, a, Refused, protocol.CodeSpent, false, p)
		return true
	}
	// Queued or detached: the new request takes the place over.
	old := n.r
	old.name = nil
	p.arrival, p.since = old.place.arrival, min(p.since, old.place.since)
	if old.state == detached {
		s.leaveDetached(old)
		s.freeRequest(old)
	} else {
		s.end(old, Refused, protocol.CodeSuperseded)
	}
	free := e.token == 0 && !s.reserved(e, p.arrival)
	switch {
	case a.Wait < 0 && !free:
		s.retire(n)
		s.recordNonce(NonceSpent, e, &a.Nonce)
		s.stats.TimedOut[AtOnce]++
		s.answer(e, a, TimedOut, 0, false, p)
	case free:
		if s.grant(e, a.Session, p.asked, n) {
			s.stats.grant(Immediate, time.Duration(s.now-p.since))
			s.answer(e, a, Granted, 0, false, p)
		} else {
			s.forget(n)
			s.recordNonce(WaiterLeft, e, &a.Nonce)
			s.answer(e, a, Refused, protocol.CodeNoActive, false, p)
		}
	default:
		s.queueUp(e, a, p, n)
	}
	if e.token == 0 {
		s.grantNext(e) // it may have stood before others
	}
	return true
}

// Refuse answers a malformed acquire of the session, in its turn: the line
// was read, and answers to acquires of one key keep the order of the lines.
// Nothing else happens, not even the end of a lease that is due.
func (s *Space) Refuse(now Time, session Session, tag uint64, key []byte, code protocol.Code) {
	s.begin(now)
	if invariants.Enabled {
		defer s.check()
	}
	e := s.enterAsIs(key)
	s.answer(e, &Acquire{Session: session, Tag: tag}, Refused, code, false, Place{})
	s.leave(e)
}

// Release ends the grant. It reports whether (key, token) was held.
func (s *Space) Release(now Time, key []byte, token uint64) bool {
	holder, _ := s.giveUp(now, key, token, Released)
	return holder == token && token != 0
}

// Break ends the grant of the key as an operator asks: as if its lease ended
// now. It returns the token of the holder, 0 if there is none; the grant was
// broken if that is `token`. next is the token of who has the key then, 0 for
// nobody.
func (s *Space) Break(now Time, key []byte, token uint64) (holder, next uint64) {
	return s.giveUp(now, key, token, Broken)
}

// giveUp ends the grant of (key, token), if it is held. See Break for what it
// returns.
func (s *Space) giveUp(now Time, key []byte, token uint64, how EndKind) (holder, next uint64) {
	s.begin(now)
	s.mustServe()
	if invariants.Enabled {
		defer s.check()
	}
	e := s.find(key)
	if e == nil {
		return 0, 0
	}
	if holder = e.token; holder == token && token != 0 {
		s.handOver(e, how)
		next = e.token
	}
	s.leave(e)
	return holder, next
}

// Keep makes the lease of the grant end `lease` from now, which may be sooner
// than before. It returns the lease granted, or false if (key, token) was not
// held. The session is the holder's from then on: who can name the token was
// told of it, so that the loss of an earlier answer undoes nothing.
func (s *Space) Keep(now Time, session Session, key []byte, token uint64, lease time.Duration) (time.Duration, bool) {
	s.begin(now)
	s.mustServe()
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
	s.extend(e, s.now+Time(lease))
	e.renewed = true
	e.told(session)
	return lease, true
}

// Cancel ends one logical acquire, whatever became of it, and makes its nonce
// spent.
func (s *Space) Cancel(now Time, key []byte, nonce Nonce) {
	s.begin(now)
	s.mustServe()
	if invariants.Enabled {
		defer s.check()
	}
	e := s.enter(key)
	defer s.leave(e)
	fp := fingerprintOf(key, &nonce)
	n := s.nameOf(fp)
	switch {
	case n == nil:
		if !s.isSpent(fp) {
			s.spend(fp) // its acquire may still be on its way
			s.recordNonce(NonceSpent, e, &nonce)
		}
	case n.e == e && n.nonce == nonce:
		s.handOver(e, Cancelled)
	case n.r != nil && n.r.e == e && n.nonce == nonce:
		r := n.r
		r.name = nil
		s.retire(n)
		s.recordNonce(NonceSpent, e, &nonce)
		if r.state == detached {
			s.leaveDetached(r)
			s.freeRequest(r)
		} else {
			s.stats.TimedOut[ByCancel]++
			s.end(r, TimedOut, 0)
		}
		if e.token == 0 {
			s.grantNext(e) // it may have stood before others
		}
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
		switch r.state {
		case queued:
			s.leaveLine(r)
		case held:
			s.leaveHeld(r)
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
		if r.state == queued && r.name != nil {
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
	if s.standby || e.token != token || e.holder != session || e.shared {
		return
	}
	s.stats.Ended[Undone]++
	n := s.takeGrant(e)
	if s.cfg.Record {
		s.changes = append(s.changes, Change{Kind: GrantUndone, Key: e.key, Token: token})
	}
	if n != nil {
		if p.until > s.now {
			r := s.newRequest()
			r.e, r.place = e, p
			r.take(n)
			s.detach(r)
			s.recordWaiter(r)
		} else {
			s.recordNonce(NonceSpent, e, &n.nonce)
			s.retire(n)
		}
	}
	s.grantNext(e)
}

// Advance ends the waits and leases whose time has come, at most `most` of
// them. It reports whether more are due. On a standby it ends only what
// sessions wait for.
//
// Waits go first: a request whose limit has passed is never granted, however
// late the call.
func (s *Space) Advance(now Time, most int) (more bool) {
	s.begin(now)
	if invariants.Enabled {
		defer s.check()
	}
	s.forgetSpent()
	for ; s.holds.len() > 0 && Time(s.holds.items[0].at) <= s.now; most-- {
		if most <= 0 {
			return true
		}
		s.endHeld(s.holds.items[0].v)
	}
	if s.standby {
		return false
	}
	for ; s.waits.len() > 0 && Time(s.waits.items[0].at) <= s.now; most-- {
		if most <= 0 {
			return true
		}
		r := s.waits.items[0].v
		e := r.e
		s.timeOut(r)
		s.leave(e)
	}
	if s.now < s.reservedUntil {
		return false
	}
	for ; len(s.behind) > 0; most-- {
		if most <= 0 {
			return true
		}
		e := s.behind[0]
		if s.behind = s.behind[1:]; len(s.behind) == 0 {
			s.behind, s.adopted = nil, false
		}
		e.behind = false
		if e.token == 0 {
			s.grantNext(e)
		}
		s.leave(e)
	}
	for ; s.leases.len() > 0 && Time(s.leases.items[0].at) <= s.now; most-- {
		if most <= 0 {
			return true
		}
		e := s.leases.items[0].v
		s.handOver(e, Expired)
		s.leave(e)
	}
	return false
}

// Next is when Advance is due, [Never] if nothing has a deadline.
func (s *Space) Next() Time {
	next := s.nextForget()
	if s.holds.len() > 0 {
		next = min(next, Time(s.holds.items[0].at))
	}
	if s.standby {
		return next
	}
	if len(s.behind) > 0 {
		next = min(next, s.reservedUntil)
	}
	if s.waits.len() > 0 {
		next = min(next, Time(s.waits.items[0].at))
	}
	if s.leases.len() > 0 {
		next = min(next, max(Time(s.leases.items[0].at), s.reservedUntil))
	}
	return next
}

// Effects returns what the calls since the last Effects have caused. The
// slice and its keys are valid until the next call of a method.
func (s *Space) Effects() []Effect {
	out := s.effects
	s.effects = s.effects[:0]
	return out
}

// Changes returns what the calls since the last Changes have changed in the
// table, in the order in which it happened. The slice and its keys are valid
// until the next call of a method.
func (s *Space) Changes() []Change {
	out := s.changes
	s.changes = s.changes[:0]
	return out
}

// Now is the time of the latest call: the effects of that call happened then.
func (s *Space) Now() Time { return s.now }

// Held is the number of keys held. A lease that ended counts until Advance,
// or a request for the key, has noticed.
func (s *Space) Held() int { return s.leases.len() }

// Waiting is the number of waiters, detached ones included.
func (s *Space) Waiting() int { return s.waits.len() }

// HighestToken is the greatest token that was ever granted here or came from
// another node, 0 for none.
func (s *Space) HighestToken() uint64 { return s.highest }

// begin starts a call.
func (s *Space) begin(now Time) {
	if invariants.Enabled && len(s.effects) > 0 {
		panic("lockspace: a call before the effects of the last one were taken")
	}
	if invariants.Enabled && len(s.changes) > 0 {
		panic("lockspace: a call before the changes of the last one were taken")
	}
	s.now = max(s.now, now)
}

// mustServe catches calls that a standby must not get: they would change the
// table behind the back of the node that serves it.
func (s *Space) mustServe() {
	if invariants.Enabled && s.standby {
		panic("lockspace: a request was made of a standby")
	}
}

// find returns the key's entry after ending what is overdue on it, or nil if
// nobody uses the key. The caller calls leave when done.
func (s *Space) find(key []byte) *entry {
	e := s.findAsIs(key)
	if e != nil {
		s.settle(e)
	}
	return e
}

// findAsIs is find, but ends nothing.
func (s *Space) findAsIs(key []byte) *entry { return s.lookUp(key, s.hash(key)) }

func (s *Space) lookUp(key []byte, hash uint32) *entry {
	for e := s.keys.first(hash); e != nil; e = e.next {
		if e.hash == hash && bytes.Equal(e.key, key) {
			return e
		}
	}
	return nil
}

// enter is find, with a new entry for a key that has none.
func (s *Space) enter(key []byte) *entry {
	e := s.enterAsIs(key)
	s.settle(e)
	return e
}

// enterAsIs is enter, but ends nothing.
func (s *Space) enterAsIs(key []byte) *entry {
	hash := s.hash(key)
	if e := s.lookUp(key, hash); e != nil {
		return e
	}
	e := s.entries
	if e == nil {
		e = new(entry)
	} else {
		s.entries, s.pooledEntries = e.next, s.pooledEntries-1
	}
	e.key = append(e.key[:0], key...)
	e.hash = hash
	s.keys.add(e)
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
		if len(s.lines) < keptPool && cap(ln.attached.items) <= keptPool && cap(ln.replicas.items) <= keptPool {
			s.lines = append(s.lines, ln)
		}
	}
	if e.token != 0 || len(e.key) == 0 {
		return
	}
	s.keys.remove(e)
	*e = entry{key: e.key[:0]} // no key: not in use
	if s.pooledEntries < keptPool {
		e.next = s.entries
		s.entries, s.pooledEntries = e, s.pooledEntries+1
	}
}

// settle does what is overdue on a key before anything else is done with it,
// so that a late Advance never shows: an ended lease does not revive, and a
// reservation that is over holds nobody up.
func (s *Space) settle(e *entry) {
	if e.token == 0 {
		if e.behind {
			s.grantNext(e)
		}
		return
	}
	if e.deadline <= s.now && !s.standby && s.now >= s.reservedUntil {
		s.handOver(e, Expired)
	}
}

// reserved reports whether the free key is kept for a replicated waiter that
// stands before a request of that arrival.
func (s *Space) reserved(e *entry, arrival uint64) bool {
	return e.line != nil && s.now < s.reservedUntil &&
		e.line.replicas.len() > 0 && e.line.replicas.items[0].at < int64(arrival)
}

// leaveFree notes that a key stays free while somebody waits for it.
func (s *Space) leaveFree(e *entry) {
	if !e.behind {
		e.behind = true
		s.behind = append(s.behind, e)
	}
}

// grant gives the free key to a session under a new token. It reports false
// if there is no token.
func (s *Space) grant(e *entry, session Session, asked time.Duration, n *name) bool {
	token, ok := s.cfg.NextToken()
	if !ok {
		return false
	}
	s.putGrant(e, token, session, s.leaseFor(asked), 0, n)
	return true
}

// putGrant makes a free key held, under a name or nil. age is for how long it
// has been held elsewhere.
func (s *Space) putGrant(e *entry, token uint64, session Session, lease, age time.Duration, n *name) {
	e.token, e.holder, e.shared, e.since = token, session, false, s.now-Time(age)
	e.deadline = s.now + Time(lease)
	if e.name = n; n != nil {
		n.e, n.r = e, nil
	}
	s.leases.push(int64(e.deadline), token, e)
	s.highest = max(s.highest, token)
	if s.cfg.Record && !s.standby {
		s.changes = append(s.changes, Change{Kind: GrantMade, Key: e.key, Token: token, Lease: lease, Age: age, Nonce: n.value()})
	}
}

// takeGrant makes a key free. What becomes of the name that it returns, nil
// for none, is the caller's business.
func (s *Space) takeGrant(e *entry) *name {
	s.leases.remove(e.leaseSlot)
	n := e.name
	e.token, e.inherited, e.renewed, e.name = 0, false, false, nil
	return n
}

// extend gives the grant another deadline.
func (s *Space) extend(e *entry, deadline Time) {
	e.deadline = deadline
	s.leases.move(e.leaseSlot, int64(deadline))
	if s.cfg.Record && !s.standby {
		s.changes = append(s.changes, Change{Kind: GrantKept, Key: e.key, Token: e.token, Lease: time.Duration(deadline - s.now)})
	}
}

func (s *Space) leaseFor(asked time.Duration) time.Duration {
	if asked == 0 {
		asked = s.cfg.DefaultLease
	}
	return min(asked, s.cfg.MaxLease)
}

// handOver ends the grant and gives the key to the next in line.
func (s *Space) handOver(e *entry, how EndKind) {
	freed := s.now
	if how == Expired {
		freed = max(e.deadline, s.reservedUntil)
	}
	s.endGrant(e, how)
	if e.line == nil {
		return
	}
	s.freed = freed
	s.grantNext(e)
	s.freed = Never
}

// endGrant makes the key free. The caller grants it to the next in line.
func (s *Space) endGrant(e *entry, how EndKind) {
	s.stats.end(how, e, s.now)
	if e.inherited {
		s.ended = append(s.ended, Ended{Key: bytes.Clone(e.key), Token: e.token})
	}
	if s.cfg.Record {
		s.changes = append(s.changes, Change{Kind: GrantEnded, Key: e.key, Token: e.token})
	}
	if n := s.takeGrant(e); n != nil {
		s.retire(n)
	}
}

// grantNext gives a free key to the first attached waiter whose limit has
// not passed, unless the key is reserved.
func (s *Space) grantNext(e *entry) {
	for e.line != nil && e.line.attached.len() > 0 {
		r := e.line.attached.items[0].v.request
		if r.place.until <= s.now {
			s.timeOut(r)
			continue
		}
		if s.reserved(e, r.place.arrival) {
			s.leaveFree(e)
			return
		}
		n := r.name
		r.name = nil
		if !s.grant(e, r.session, r.place.asked, n) {
			if n != nil {
				s.recordNonce(WaiterLeft, e, &n.nonce)
				s.forget(n)
			}
			s.end(r, Refused, protocol.CodeNoActive)
			continue
		}
		r.token = e.token
		s.stats.grant(HandedOver, time.Duration(s.now-r.place.since))
		s.end(r, Granted, 0)
		return
	}
}

// timeOut ends a waiter at its limit, or a detached one at the end of its
// grace. The latter is forgotten, unless its own limit has passed too.
func (s *Space) timeOut(r *request) {
	passed := r.place.until <= s.now
	if n := r.name; n != nil {
		r.name = nil
		if passed {
			s.recordNonce(NonceSpent, r.e, &n.nonce)
			s.retire(n)
		} else {
			s.recordNonce(WaiterLeft, r.e, &n.nonce)
			s.forget(n)
		}
	}
	if r.state == detached {
		e := r.e
		s.leaveDetached(r)
		s.freeRequest(r)
		if e.token == 0 {
			s.grantNext(e) // it may have stood before others
		}
	} else {
		s.stats.TimedOut[AtLimit]++
		s.end(r, TimedOut, 0)
	}
}

// overdue reports whether Advance would time the waiter out now.
func (s *Space) overdue(r *request) bool {
	return Time(s.waits.items[r.waitSlot].at) <= s.now
}

func (s *Space) hash(key []byte) uint32 {
	return uint32(xxh3.HashSeed(key, s.cfg.Seed) & s.hashMask)
}
