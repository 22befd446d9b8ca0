package client

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stile-lock/stile/protocol"
)

// acquire is one logical acquire, from the call to its end. It is in exactly
// one of these states:
//
//   - sent: req is pending on a connection;
//   - confirming: granted, and a K is on its way first (lease.go);
//   - parked: it waits for a dial, in Client.parked;
//   - crowded: it waits for room on a connection, in Client.crowded;
//   - pausing: before a further redirect or another round (pauseTimer runs);
//   - finished: lock or err is set, done has a value.
//
// Everything but done and timer is guarded by Client.mu.
type acquire struct {
	c     *Client
	key   string
	wait  time.Duration // as the caller gave it
	lease time.Duration // as asked; 0 for the server's default

	// unserved is since when it is known to be served by nobody: from the call
	// on, and then from the loss of a place in line. RetryFor counts from it.
	unserved time.Time

	// refusedOnly: a node knew no active one, and since then no request was
	// unanswered for longer than a node without one keeps it.
	refusedOnly bool
	// kept is how long the last request was unanswered whose refusal was taken
	// for the loss of a place in line.
	kept time.Duration

	// deadline is the end of the caller's limit; zero without one. An
	// acquire that does not wait has its start as deadline.
	deadline time.Time

	state acquireState
	req   *request // sent
	lock  *Lock    // confirming, finished
	err   error

	nonce nonce
	// known: a server may have a place for the nonce, or a grant.
	known bool
	// dangling: a request under the nonce was lost or given up unanswered,
	// so that an acquire that ends without a lock is cancelled with C. One
	// that was only redirected is not: a place in the queue that no
	// connection claims ends by itself.
	dangling bool
	// from and fromOrder are the connection and the place there that the
	// nonce was moved from.
	from, fromOrder uint64
	place           uint64 // where the last answered request stood on its connection

	// One round tries every live connection once (by id), then every other
	// address by one dial each.
	tried   idSet
	dialled []dialled
	target  *slot // where a redirect leads

	redirects int  // in this round
	anews     int  // starts with a fresh nonce, without a grant that can be used
	rounds    int  // for RetryFor
	lost      bool // a request was written and its answer lost: it may have happened
	noActive  bool // a server answered that it knows no active one
	reasons   []AddrError

	// unservedAtEnd: at the end of the limit nothing tells that a server has
	// or had it in line.
	unservedAtEnd bool

	pauseTimer *time.Timer
	pauses     uint64

	next, prev         *acquire // Client.active
	nextWait, prevWait *acquire // Client.parked or Client.crowded

	done  chan struct{} // one value when finished
	timer *time.Timer   // the caller's, for the limit
}

type acquireState uint8

const (
	acquireNew acquireState = iota
	acquireSent
	acquireConfirming
	acquireParked
	acquireCrowded
	acquirePausing
	acquireFinished
)

type dialled struct {
	slot    *slot
	attempt uint64
}

// begin starts an acquire and returns how long its caller's timer is to run
// at first, below 0 for no limit.
func (c *Client) begin(a *acquire, now time.Time) (limit time.Duration) {
	c.active.push(a)
	switch {
	case a.wait < 0:
		a.deadline, limit = now, answerWay
	case a.wait == 0:
		limit = -1
	default:
		a.deadline, limit = now.Add(a.wait), a.wait
	}
	c.route(a, now)
	return limit
}

// left is what is left of the caller's wait, as it is sent to a server. ok is
// false when nothing is.
func (a *acquire) left(now time.Time) (wait time.Duration, ok bool) {
	if a.wait <= 0 {
		return a.wait, true
	}
	left := a.deadline.Sub(now)
	return roundUp(left), left > 0
}

// route finds the next thing to do for an acquire that is not waiting for
// anything: follow its redirect, try the next connection, dial, or end.
func (c *Client) route(a *acquire, now time.Time) {
	a.state = acquireNew
	if s := a.target; s != nil && !s.removed {
		if n := s.conn; n != nil && n.live && n.pend.count < acquiresTop {
			a.target = nil
			c.sendAcquire(a, n, now)
			return
		}
		switch {
		case s.trying && !a.failedDial(s):
			if !a.wasDialled(s) {
				a.dialled = append(a.dialled, dialled{s, s.attempt()})
				s.demand(now)
			}
			c.park(a)
			return
		case s.conn != nil && s.conn.live: // full
		case a.wasDialled(s):
			s.rest(now)
			a.note(s, "redirected there, but "+s.reason())
		case now.Before(s.restUntil):
			a.note(s, "redirected there, but "+s.reason())
		default:
			s.demand(now)
			a.dialled = append(a.dialled, dialled{s, s.attempt()})
			c.park(a)
			return
		}
	}
	a.target = nil

	n, crowded := c.pickAcquire(a)
	if n != nil {
		c.passCursor(n.slot)
		c.sendAcquire(a, n, now)
		return
	}
	if crowded {
		a.state = acquireCrowded
		c.crowded.push(a)
		return
	}
	waiting := false
	c.inRotation(func(s *slot) bool {
		switch {
		case s.conn != nil && s.conn.live:
		case a.wasDialled(s):
			waiting = waiting || s.trying && !a.failedDial(s)
		case !s.trying && now.Before(s.restUntil):
		default:
			s.demand(now)
			a.dialled = append(a.dialled, dialled{s, s.attempt()})
			waiting = true
		}
		return true
	})
	if waiting {
		c.park(a)
		return
	}
	c.exhausted(a, now)
}

func (a *acquire) wasDialled(s *slot) bool {
	return slices.ContainsFunc(a.dialled, func(d dialled) bool { return d.slot == s })
}

// failedDial reports whether the dial that this acquire waited for is over.
func (a *acquire) failedDial(s *slot) bool {
	return slices.ContainsFunc(a.dialled, func(d dialled) bool { return d.slot == s && d.attempt != s.attempt() })
}

func (c *Client) park(a *acquire) {
	a.state = acquireParked
	c.parked.push(a)
}

// unpark lets every parked acquire go on, oldest first, after a dial ended or
// a connection became live.
func (c *Client) unpark(now time.Time) {
	for last := c.parked.tail; last != nil; {
		a := c.parked.pop()
		c.route(a, now) // may put it in line again, at the end
		if a == last {
			return
		}
	}
}

// uncrowd lets acquires go on that waited for room, while there is any.
func (c *Client) uncrowd(now time.Time) {
	for c.crowded.head != nil {
		a := c.crowded.pop()
		if c.route(a, now); a.state == acquireCrowded {
			c.crowded.remove(a)
			c.crowded.pushFront(a) // it keeps its turn
			return
		}
	}
}

// sendAcquire writes the acquire to n with what is left of its wait.
func (c *Client) sendAcquire(a *acquire, n *conn, now time.Time) {
	wait, ok := a.left(now)
	if !ok {
		a.finish(nil, ErrTimeout, a.outcome())
		return
	}
	a.tried.add(n.id)
	a.state = acquireSent
	r := c.free.request()
	r.op, r.key, r.owner, r.deadline = opA, a.key, a, a.deadline
	if n.resume {
		if q := n.pend.queue(opA, a.key); q != nil && a.clashes(q) {
			c.cancelNonce(a, n, now)
		}
		if a.nonce.none() {
			a.freshNonce()
		}
		r.nonce, r.from, r.fromOrder = a.nonce, a.from, a.fromOrder
	}
	n.out = protocol.AppendAcquire(n.out, []byte(a.key), wait, a.lease, r.nonce.bytes())
	n.sent(r, now)
	a.req = r
}

func (a *acquire) freshNonce() {
	a.nonce = a.c.nonces.next()
	a.known, a.dangling, a.from, a.fromOrder = false, false, 0, 0
}

// clashes reports whether the nonce of a moved acquire cannot stay on a
// connection that owes the answers in q. A server answers equal keys in the
// order of the requests; if it grants this acquire by its old place in the
// queue, before others that were sent first, the grant is held back behind
// answers that wait for its release. That cannot be when all those were moved
// from the same connection and stood before this one there.
func (a *acquire) clashes(q *pendingQueue) bool {
	return a.known && (q.onlyFrom == 0 || q.onlyFrom != a.from || q.fromOrder >= a.fromOrder)
}

// endsBefore reports whether an older acquire in q may have the later limit.
func (a *acquire) endsBefore(q *pendingQueue) bool {
	if a.deadline.IsZero() {
		return false
	}
	return q.unlimited || q.latest.After(a.deadline)
}

// cancelNonce gives the old nonce up at n and starts anew.
func (c *Client) cancelNonce(a *acquire, n *conn, now time.Time) {
	c.due.add(&delivery{c: c, op: opC, key: a.key, nonce: a.nonce, origin: n}, now)
	a.freshNonce()
}

// answered is called for the A.
func (a *acquire) answered(r *request, ans *protocol.Answer, now time.Time) {
	n := r.conn
	a.req = nil
	switch ans.Op {
	case opA:
		a.granted(r, ans, now)
	case protocol.OpTimeout:
		if !r.nonce.none() {
			a.dangling, a.lost = false, false // the nonce is spent, wherever it was seen
		}
		if a.refusedOnly && now.Sub(r.sent) <= keptTop {
			// A node that keeps a request says T too when the limit passes.
			a.note(n.slot, "answered that the wait is over, but may not have served")
			a.unservedAtEnd = true
		}
		a.finish(nil, ErrTimeout, a.outcome())
	case protocol.OpMoved:
		a.newRoundIfRefusedInLine(r, now)
		a.moved(r, ans.Addr, now)
	case protocol.OpError:
		a.refused(r, ans, now)
	default:
		panic("client: answer " + ans.Op.String() + " to an acquire")
	}
}

func (a *acquire) moved(r *request, addr []byte, now time.Time) {
	n := r.conn
	a.noActive = true
	if !a.nonce.none() {
		// A node that handed over has handed over its queue too.
		a.known, a.from, a.fromOrder = true, n.id, a.place
		if a.place == 0 {
			a.from = 0
		}
	}
	s, err := a.c.follow(n, addr, now)
	if err != nil {
		a.note(n.slot, fmt.Sprintf("redirect to %s refused: %v", shown(string(addr)), err))
		a.c.route(a, now)
		return
	}
	if s.conn != nil && s.conn.live && placed(r, now) {
		// There is a way on, so the line may have moved, and its redirects do
		// not count as ones in a circle.
		a.newRound()
		a.noActive = true
	}
	a.note(n.slot, "redirects to "+shown(string(addr)))
	if a.redirects++; a.redirects >= redirectsTop {
		a.c.exhausted(a, now)
		return
	}
	a.target = s
	if !s.trying && !now.Before(s.restUntil) {
		// It failed once, and has rested since; this redirect is news.
		a.dialled = slices.DeleteFunc(a.dialled, func(d dialled) bool { return d.slot == s && d.attempt != s.attempt() })
	}
	if d := redirectPause(a.redirects); d > 0 {
		a.pause(d)
		return
	}
	a.c.route(a, now)
}

func (a *acquire) refused(r *request, ans *protocol.Answer, now time.Time) {
	n := r.conn
	switch ans.Code {
	case protocol.CodeNoActive, protocol.CodeStopping:
		a.newRoundIfRefusedInLine(r, now)
		a.noActive, a.refusedOnly = true, true
		a.note(n.slot, "answered "+ans.Code.String())
		a.c.route(a, now)
	case protocol.CodeLimit:
		a.note(n.slot, "answered "+ans.Code.String())
		a.c.route(a, now)
	case protocol.CodeSpent:
		a.startAnew(n, serverError(ans), now)
	default:
		outcome := outcomeOfCode(ans.Code)
		if outcome == DidNotHappen {
			outcome = a.outcome()
		} else {
			a.dangling = !a.nonce.none()
		}
		a.finish(nil, serverError(ans), outcome)
	}
}

// startAnew asks again with a fresh nonce, on the same connection if it
// lives. A server that never lets an acquire get anywhere ends it with err.
func (a *acquire) startAnew(n *conn, err error, now time.Time) {
	a.nonce = nonce{}
	a.known, a.dangling, a.from, a.fromOrder = false, false, 0, 0
	if a.anews++; a.anews > redirectsTop {
		a.finish(nil, err, a.outcome())
		return
	}
	if n.live {
		a.c.sendAcquire(a, n, now)
		return
	}
	a.c.route(a, now)
}

// dropped is called when the connection ended before the answer: the acquire
// moves on by itself, with the same nonce.
func (a *acquire) dropped(r *request, reason error, now time.Time) {
	a.req = nil
	a.newRoundIfQueued(r, now)
	a.lost = true
	if !r.nonce.none() {
		a.known, a.dangling = true, true
		a.from, a.fromOrder = r.conn.id, r.order
	}
	a.note(r.conn.slot, reason.Error())
	a.c.route(a, now)
}

// newRoundIfQueued: the server answered something that was sent after the
// acquire, and not the acquire, so it had a place in the queue. A place that
// was lost at once does not count, lest servers that come and go make a call spin.
func (a *acquire) newRoundIfQueued(r *request, now time.Time) {
	a.place = r.order
	if placed(r, now) {
		a.lostPlace(now)
	}
}

func placed(r *request, now time.Time) bool {
	return r.conn.answeredSent.After(r.sent) && now.Sub(r.sent) >= placeTakes
}

// newRoundIfRefusedInLine is newRoundIfQueued for a request that ended in a
// redirect, no-active or stopping. A node that only kept the request until it
// would know the active one says so too, and so does the next; if each of them
// counted, RetryFor would never run out. So the request must have been
// unanswered for longer than nodes keep one by default. Where they keep them
// longer, one such refusal counts and the equal ones after it do not.
func (a *acquire) newRoundIfRefusedInLine(r *request, now time.Time) {
	a.place = r.order
	if d := now.Sub(r.sent); placed(r, now) && d > keptTop && d > 2*a.kept {
		a.kept = d
		a.lostPlace(now)
	}
}

// lostPlace: what was tried before the place in line says nothing about now.
func (a *acquire) lostPlace(now time.Time) {
	a.newRound()
	a.unserved, a.rounds, a.refusedOnly = now, 0, false
}

func (a *acquire) newRound() {
	a.tried, a.dialled, a.target = a.tried[:0], a.dialled[:0], nil
	a.redirects, a.anews = 0, 0
	a.noActive = false
	a.reasons = a.reasons[:0]
}

// exhausted ends an acquire that nobody served, or starts another round if
// RetryFor says so.
func (c *Client) exhausted(a *acquire, now time.Time) {
	err := ErrNoConnection
	if a.noActive {
		err = ErrNoActive
	}
	pause := redirectPause(a.rounds + 2)
	if c.cfg.retryFor > 0 && now.Add(pause).Sub(a.unserved) <= c.cfg.retryFor && !c.unauthorized() {
		a.rounds++
		a.newRound()
		a.pause(pause)
		return
	}
	a.finish(nil, err, a.outcome())
}

// unauthorized reports whether every server refuses the client's secret.
// Soon to show it again would change nothing, and servers count wrong ones.
func (c *Client) unauthorized() bool {
	for _, s := range c.slots {
		var refused *ServerError
		if !errors.As(s.lastErr, &refused) || refused.Code != protocol.CodeUnauthorized {
			return false
		}
	}
	return true
}

// pause routes the acquire again after d.
func (a *acquire) pause(d time.Duration) {
	a.state = acquirePausing
	a.pauses++
	this := a.pauses
	a.pauseTimer = time.AfterFunc(d, func() {
		a.c.mu.Lock()
		defer a.c.mu.Unlock()
		if a.state == acquirePausing && a.pauses == this {
			a.c.route(a, time.Now())
		}
	})
}

// outcome is that of an acquire that ends without a grant by the last answer:
// it did not happen, unless an earlier request's answer was lost.
func (a *acquire) outcome() Outcome {
	if a.lost {
		return MayHaveHappened
	}
	return DidNotHappen
}

// note keeps, for the error, what became of the acquire at an address.
func (a *acquire) note(s *slot, reason string) {
	for i := range a.reasons {
		if a.reasons[i].Addr == s.addr.text {
			a.reasons[i].Reason = reason
			return
		}
	}
	a.reasons = append(a.reasons, AddrError{Addr: s.addr.text, Reason: reason})
}

// limitReached is called by the caller's timer: at the limit, and again when
// the answer has had its time on the way. It returns how long to wait yet, 0
// if the acquire is finished.
func (a *acquire) limitReached(now time.Time) time.Duration {
	if a.state == acquireFinished {
		return 0
	}
	if left := a.deadline.Add(answerWay).Sub(now); left > 0 && a.state != acquireParked && a.state != acquirePausing && a.state != acquireCrowded && !a.heldBack() {
		return left
	}
	switch a.state {
	case acquireParked, acquirePausing:
		a.unservedAtEnd = true
	case acquireSent:
		// A server that has it in line answers T at the limit.
		if !a.behind() {
			a.unservedAtEnd = true
			a.note(a.req.conn.slot, "no answer in time")
		}
	}
	a.giveUp(ErrTimeout)
	return 0
}

// heldBack reports whether an older acquire of the key with a later limit
// stands before this one on its connection: no answer can come in time, and
// none would be a grant.
func (a *acquire) heldBack() bool {
	if a.state != acquireSent || a.wait < 0 {
		return false
	}
	for r := a.req.conn.pend.queue(opA, a.key).head; r != a.req; r = r.behind {
		if r.deadline.IsZero() || r.deadline.After(a.deadline) {
			return true
		}
	}
	return false
}

// behind reports whether an older acquire of the key whose caller still waits
// stands before this one on its connection, so that a server that serves may
// owe this one's answer too.
func (a *acquire) behind() bool {
	for r := a.req.conn.pend.queue(opA, a.key).head; r != a.req; r = r.behind {
		if _, waits := r.owner.(*acquire); waits {
			return true
		}
	}
	return false
}

// giveUp ends the acquire for its caller before an answer came.
func (a *acquire) giveUp(reason error) {
	if a.state == acquireFinished {
		return
	}
	outcome := a.outcome()
	if a.state == acquireSent || a.state == acquireConfirming {
		outcome = MayHaveHappened
	}
	a.finish(nil, reason, outcome)
}

// finish hands the result to the caller, and leaves nothing behind at the
// servers.
func (a *acquire) finish(lock *Lock, err error, outcome Outcome) {
	c, now := a.c, time.Now()
	unserved := err == ErrTimeout && (a.unservedAtEnd || a.state == acquireParked || a.state == acquirePausing)
	var origin *conn
	switch a.state {
	case acquireSent:
		switch r := a.req; {
		case r == nil: // just answered
		case r.nonce.none():
			r.owner = (*abandoned)(c)
		default:
			r.owner = nil
			origin, a.dangling = r.conn, true
		}
		a.req = nil
	case acquireConfirming:
		if r := a.req; r != nil {
			r.owner = nil
			a.req = nil
			a.lock.giveBack(now)
			a.dangling = false
		}
	case acquireParked:
		c.parked.remove(a)
	case acquireCrowded:
		c.crowded.remove(a)
	}
	if err != nil && a.dangling && !a.nonce.none() && !c.closed {
		c.due.add(&delivery{c: c, op: opC, key: a.key, nonce: a.nonce, origin: origin}, now)
	}
	if a.pauseTimer != nil {
		a.pauseTimer.Stop()
	}
	a.state = acquireFinished
	a.lock = lock
	if err != nil {
		e := &Error{Op: "acquire", Key: a.key, Outcome: outcome, Err: err, Unserved: unserved}
		switch {
		case err == ErrNoConnection || err == ErrNoActive || unserved:
			e.Addrs = c.addrErrors(a.reasons)
		case err == ErrTimeout && len(a.reasons) > 0:
			e.Addrs = slices.Clone(a.reasons)
		}
		a.err = e
	}
	c.active.remove(a)
	a.done <- struct{}{}
}

// abandoned owns an acquire without a nonce whose caller has gone. All that
// can be done is to give a late grant back at once.
type abandoned Client

func (x *abandoned) answered(r *request, a *protocol.Answer, now time.Time) {
	if c := (*Client)(x); a.Op == opA && !c.closed {
		c.giveBack(r.key, a.Token, r.conn, now)
	}
}

func (x *abandoned) dropped(*request, error, time.Time) {}

// giveBack releases a grant that nobody will use.
func (c *Client) giveBack(key string, token uint64, origin *conn, now time.Time) {
	c.past.add(key, token)
	c.due.add(&delivery{c: c, op: opR, key: key, token: token, origin: origin}, now)
}
