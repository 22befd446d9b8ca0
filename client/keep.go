package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stile-lock/stile/protocol"
)

// keep is one Keep under way: K lines are sent, one at a time, until one is
// answered or the lease has ended. Guarded by Client.mu, apart from ch.
type keep struct {
	lock  *Lock
	lease time.Duration
	avoid uint64
	req   *request
	sent  time.Time // the last copy: the next comes 200 ms later or more

	target *slot
	dials  int

	ended   bool // err is set
	err     error
	outcome Outcome
	lost    bool
	ch      chan struct{} // wakes the caller; room for one
}

// Keep makes the lease end after lease from now, which may be sooner than
// before. In whole milliseconds; 0 asks for as much as was granted last. The
// server may grant less. On success [Lock.Expires] tells the new end.
//
// It goes on, over any connection, until an answer comes, ctx ends, or the
// lease has ended. The errors: [ErrLeaseLost] when the lease has ended by the
// client's clock or the server does not know the lock any more, and then the
// lock's context has ended too; [ErrNotHeld] after a release;
// [errors.ErrUnsupported] when no server speaks it; [ErrInvalid],
// [ErrClosed], a [*ServerError], or the context's error, after which the
// lease may have been changed all the same. Expires allows for that.
func (l *Lock) Keep(ctx context.Context, lease time.Duration) error {
	c := l.c
	if err := checkSeconds("lease", lease); err != nil {
		return &Error{Op: "keep", Key: l.key, Outcome: DidNotHappen, Err: err}
	}
	if ctx.Err() != nil {
		return &Error{Op: "keep", Key: l.key, Outcome: DidNotHappen, Err: contextError(ctx)}
	}
	c.mu.Lock()
	if l.keepTurn == nil {
		l.keepTurn = make(chan struct{}, 1)
	}
	c.mu.Unlock()
	select {
	case l.keepTurn <- struct{}{}:
		defer func() { <-l.keepTurn }()
	case <-ctx.Done():
		return &Error{Op: "keep", Key: l.key, Outcome: DidNotHappen, Err: contextError(ctx)}
	}

	c.mu.Lock()
	if lease = wholeLease(lease); lease == 0 {
		lease = l.lease
	}
	k := &keep{lock: l, lease: lease, ch: make(chan struct{}, 1)}
	if c.closed {
		k.finish(ErrClosed, DidNotHappen)
	} else {
		c.keeps[k] = struct{}{}
	}
	k.again()
	c.mu.Unlock()

	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-k.ch:
		case <-timer.C:
		case <-ctx.Done():
		}
		c.mu.Lock()
		now := time.Now()
		if !k.ended && ctx.Err() != nil {
			k.finish(contextError(ctx), k.unsure())
		}
		next := k.step(now)
		c.mu.Unlock()
		if next < 0 {
			break
		}
		timer.Reset(next)
	}
	if k.err == nil {
		return nil
	}
	return &Error{Op: "keep", Key: l.key, Outcome: k.outcome, Err: k.err}
}

// step does what can be done now, and returns when to look again: below 0
// when the keep is over.
func (k *keep) step(now time.Time) time.Duration {
	l, c := k.lock, k.lock.c
	if k.ended {
		return -1
	}
	if l.check(now); l.state != lockHeld {
		err := l.cause
		if err == ErrReleased {
			err = fmt.Errorf("%w: %w", ErrNotHeld, ErrReleased)
		}
		k.finish(err, k.unsure())
		return -1
	}
	left := l.expires.Sub(now)
	if k.req != nil {
		return left
	}
	if pause := k.sent.Add(resendEvery).Sub(now); pause > 0 {
		return min(left, pause)
	}
	n := k.choose(now)
	if n == nil {
		if k.ended {
			return -1
		}
		return min(left, resendEvery)
	}
	k.avoid = 0
	r := c.free.request()
	r.op, r.key, r.token, r.owner = opK, l.key, l.token, k
	n.out = protocol.AppendKeep(n.out, []byte(l.key), l.token, k.lease)
	n.sent(r, now)
	k.req, k.sent = r, now
	// The server may read it at any time from now on. Its maximum is not
	// known, but is at least what it granted before, and a minute.
	if l.adopting {
		return left // nothing is known of the lease that this could cut
	}
	if soonest := now.Add(min(k.lease, max(l.lease, leastMaximum))); soonest.Before(l.expires) {
		l.setExpires(soonest, now)
		left = l.expires.Sub(now)
	}
	return left
}

// choose finds a connection, or asks for one.
func (k *keep) choose(now time.Time) *conn {
	l, c := k.lock, k.lock.c
	if s := k.target; s != nil && !s.removed {
		if s.conn != nil && s.conn.live && s.conn.keep {
			k.target = nil
			return s.conn
		}
		if s.trying {
			return nil
		}
	}
	k.target = nil
	if n := c.pickOther(l.origin, k.avoid, keepPeer); n != nil {
		return n
	}
	live := false
	for _, s := range c.slots {
		live = live || s.conn != nil && s.conn.live
	}
	if live {
		if n := c.pickOther(nil, 0, anyPeer); n != nil && !n.keep {
			k.finish(fmt.Errorf("%w: the server does not speak keep", errors.ErrUnsupported), k.unsure())
		}
		return nil
	}
	for range c.slots {
		s := c.slots[(c.cursor+k.dials)%len(c.slots)]
		k.dials++
		if s.conn == nil && !s.trying && !now.Before(s.restUntil) {
			s.demand(now)
			break
		}
	}
	return nil
}

func (k *keep) unsure() Outcome {
	if k.req != nil || k.lost {
		return MayHaveHappened
	}
	return DidNotHappen
}

func (k *keep) finish(err error, outcome Outcome) {
	if k.ended {
		return
	}
	k.ended, k.err, k.outcome = true, err, outcome
	delete(k.lock.c.keeps, k)
	if k.req != nil {
		k.forget()
	}
	k.again()
}

// forget allows for a keep whose answer nobody waits for any more.
func (k *keep) forget() {
	if l := k.lock; l.keepLeast == 0 || k.lease < l.keepLeast {
		l.keepLeast = k.lease
	}
}

// again wakes the caller.
func (k *keep) again() {
	select {
	case k.ch <- struct{}{}:
	default:
	}
}

func (k *keep) answered(r *request, a *protocol.Answer, now time.Time) {
	l, c := k.lock, k.lock.c
	k.req = nil
	switch {
	case a.Op == opK:
		k.good(r, a, now)
	case a.Op == protocol.OpMoved:
		s, err := c.follow(r.conn, a.Addr, now)
		k.avoid = r.conn.id
		if err == nil {
			k.target = s
			if s.conn == nil && !now.Before(s.restUntil) {
				s.demand(now)
			}
		}
		k.again()
	case a.Code == protocol.CodeNotHeld:
		l.end(ErrLeaseLost)
		k.finish(ErrLeaseLost, DidNotHappen)
	case a.Code == protocol.CodeNoActive, a.Code == protocol.CodeStopping, a.Code == protocol.CodeLimit, a.Code == protocol.CodeQueueFull:
		k.avoid = r.conn.id
		k.again()
	case a.Code == protocol.CodeUnknownOp:
		k.finish(fmt.Errorf("%w: the server does not speak keep", errors.ErrUnsupported), k.unsure())
	default:
		k.finish(serverError(a), outcomeOfCode(a.Code))
	}
}

// good takes the new lease over, also when the caller has gone. One that
// comes after the lock was declared lost is given back: the context of the
// lock stays ended, and nobody would.
func (k *keep) good(r *request, a *protocol.Answer, now time.Time) {
	l := k.lock
	l.check(now)
	switch {
	case l.state == lockHeld:
		l.adopting = false
		lease := a.Lease
		if l.keepLeast > 0 {
			lease = min(lease, l.keepLeast)
		}
		l.lease = a.Lease
		l.setExpires(r.sent.Add(lease), now)
		if l.state == lockHeld {
			k.finish(nil, Happened)
			return
		}
		k.finish(ErrLeaseLost, Happened)
		l.c.giveBack(l.key, l.token, r.conn, now)
	case l.state == lockLost && !l.c.closed && l.rel.c == nil:
		k.finish(ErrLeaseLost, Happened)
		l.c.giveBack(l.key, l.token, r.conn, now)
	default:
		k.finish(l.cause, Happened)
	}
}

func (k *keep) dropped(*request, error, time.Time) {
	k.req = nil
	if k.ended {
		return
	}
	k.lost = true
	k.forget()
	k.again()
}
