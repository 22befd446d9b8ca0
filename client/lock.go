package client

import (
	"context"
	"time"
)

// Lock is a key that the caller holds, until it is released or its lease
// ends. Its methods are safe for use by many goroutines.
type Lock struct {
	c      *Client
	key    string
	token  uint64
	origin *conn // where the grant came from
	asked  time.Duration

	// Guarded by Client.mu.
	lease    time.Duration // as last granted
	expires  time.Time     // never later than the server's end of the lease
	state    lockState
	cause    error // why it is not held any more
	ctx      context.Context
	cancel   context.CancelCauseFunc
	timer    *time.Timer // ends ctx with the lease
	rel      delivery
	keepTurn chan struct{} // one keep at a time
	// keepLeast is the shortest lease among keeps whose answer was lost. A
	// server may still read such a line later than a newer one.
	keepLeast time.Duration
	// adopting: no server has told of the lease yet, and expires is only how
	// long [Client.Adopt] tries.
	adopting bool
}

type lockState uint8

const (
	lockHeld lockState = iota
	lockLost
	lockReleased
)

// Key returns the key.
func (l *Lock) Key() string { return l.key }

// Token returns the fencing token: greater than that of every earlier grant
// of the key, never given twice. Hand it to whatever the lock protects, so
// that it can refuse a lower one.
func (l *Lock) Token() uint64 { return l.token }

// Lease returns the lease as the server granted it last: it may be shorter
// than what was asked for. [Lock.Expires] tells what is left of it.
func (l *Lock) Lease() time.Duration {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	return l.lease
}

// Expires returns when the lease ends, by the client's own clock. It never
// lies later than the end at the server; it may lie earlier, by the time that
// the lines were on their way.
func (l *Lock) Expires() time.Time {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	return l.expires
}

// Context returns a context that ends when the lock is not held any more: at
// the end of the lease, at once when a server says that it is not held, with
// Release, and with [Client.Close]. [context.Cause] tells which:
// [ErrLeaseLost], [ErrReleased] or [ErrClosed].
func (l *Lock) Context() context.Context {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	if l.ctx == nil {
		l.ctx, l.cancel = context.WithCancelCause(context.Background())
		now := time.Now()
		l.check(now)
		if l.state != lockHeld {
			l.cancel(l.cause)
		} else {
			l.timer = time.AfterFunc(l.expires.Sub(now), l.timeUp)
		}
	}
	return l.ctx
}

func (l *Lock) timeUp() {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	now := time.Now()
	if l.check(now); l.state == lockHeld {
		l.timer.Reset(l.expires.Sub(now))
	}
}

// setExpires moves the end of the lease.
func (l *Lock) setExpires(at, now time.Time) {
	sooner := at.Before(l.expires)
	l.expires = at
	if l.check(now); sooner && l.timer != nil && l.state == lockHeld {
		l.timer.Reset(at.Sub(now))
	}
}

// check declares the lock lost if its lease has ended.
func (l *Lock) check(now time.Time) {
	if l.state == lockHeld && !now.Before(l.expires) {
		l.end(ErrLeaseLost)
	}
}

// end takes note that the lock is not held any more.
func (l *Lock) end(cause error) {
	if l.state != lockHeld {
		return
	}
	l.state, l.cause = lockLost, cause
	if cause == ErrReleased {
		l.state = lockReleased
	}
	l.leave()
	if l.timer != nil {
		l.timer.Stop()
	}
	if l.cancel != nil {
		l.cancel(cause)
	}
}

func (l *Lock) id() grantID { return grantID{l.key, l.token} }

// enter makes the grant known, so that no other call is given it too. Now and
// then it forgets locks that were neither released nor kept.
func (l *Lock) enter() {
	c := l.c
	if len(c.held) >= c.sweepAt {
		now := time.Now()
		for _, old := range c.held {
			old.check(now)
		}
		c.sweepAt = max(1024, 2*len(c.held))
	}
	c.held[l.id()] = l
}

func (l *Lock) leave() { delete(l.c.held, l.id()) }

// known reports whether a grant was given to a call already, now or of late.
func (c *Client) known(key string, token uint64) bool {
	return c.held[grantID{key, token}] != nil || c.past.has(key, token)
}

// giveBack releases a lock that was never handed out.
func (l *Lock) giveBack(now time.Time) {
	l.end(ErrReleased)
	l.c.giveBack(l.key, l.token, l.origin, now)
}

// Release gives the key back. The server hands it to the next in line at
// once.
//
// While no server can be reached it is tried every 200 ms for 5 s, then the
// error is [ErrUndelivered]: the release may have happened, and if not, the
// lease ends the lock. [ErrNotHeld] means that the lock was not held any
// more; it matches [ErrLeaseLost] if its lease had ended by the client's own
// clock. If ctx ends, the call ends with its error while the release goes on
// in the background. Other errors are [ErrClosed] and a [*ServerError].
//
// Releasing again does nothing and returns the outcome of the first release.
func (l *Lock) Release(ctx context.Context) error {
	c := l.c
	c.mu.Lock()
	d := &l.rel
	if d.c == nil {
		now := time.Now()
		d.c, d.op, d.key, d.token, d.origin, d.lock = c, opR, l.key, l.token, l.origin, l
		d.notify = make(chan struct{})
		l.end(ErrReleased)
		c.past.add(l.key, l.token)
		if c.closed {
			d.end(ErrClosed, DidNotHappen)
		} else {
			c.due.add(d, now)
		}
	}
	c.mu.Unlock()
	return d.wait(ctx)
}

// wait returns what has become of the release.
func (d *delivery) wait(ctx context.Context) error {
	select {
	case <-d.notify:
		return d.err
	default:
	}
	select {
	case <-d.notify:
		return d.err
	case <-ctx.Done():
		return &Error{Op: "release", Key: d.key, Outcome: MayHaveHappened, Err: contextError(ctx)}
	}
}
