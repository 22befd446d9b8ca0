package client

import (
	"context"
	"fmt"
	"time"

	"github.com/stile-lock/stile/protocol"
)

// Adopt takes a grant over of which only key and token are known, such as one
// that another process was given, and returns its lock: it is a [Lock.Keep]
// by that process's successor. The lease ends after lease from now; 0 asks
// for the server's default, and the server may grant less. The token is all
// that a server asks for. Nothing tells the process that had the grant before.
//
// The errors: [ErrNotHeld] when the server knows no such grant (any more),
// [ErrUndelivered] when no server answered within five seconds,
// [errors.ErrUnsupported] when no server speaks keep, [ErrBadKey],
// [ErrInvalid], [ErrClosed], a [*ServerError], or the context's error. After
// those whose outcome is [MayHaveHappened] the lease may have been changed.
func (c *Client) Adopt(ctx context.Context, key string, token uint64, lease time.Duration) (*Lock, error) {
	fail := func(err error) (*Lock, error) {
		return nil, &Error{Op: "keep", Key: key, Outcome: DidNotHappen, Err: err}
	}
	if err := checkGrant(key, token); err != nil {
		return fail(err)
	}
	now := time.Now()
	c.mu.Lock()
	l := c.held[grantID{key, token}]
	mine := l == nil
	if mine {
		l = &Lock{c: c, key: key, token: token, asked: wholeLease(lease), expires: now.Add(resendFor), adopting: true}
		l.enter()
	}
	c.mu.Unlock()
	err := l.Keep(ctx, lease)
	if err == nil {
		return l, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e := err.(*Error)
	if l.adopting {
		l.check(time.Now())
		silent := l.state == lockLost && l.cause == ErrLeaseLost && !now.Add(resendFor).After(time.Now())
		l.end(ErrLeaseLost) // of no use to anybody; the grant stays as it is
		switch {
		case silent:
			e.Err, e.Addrs = ErrUndelivered, c.addrErrors(nil)
		case e.Err == ErrLeaseLost:
			e.Err = ErrNotHeld // by the server's word, not by a clock
		}
	}
	return nil, err
}

// Release gives back a grant of which only key and token are known, such as
// one that another process was given. It is tried as by [Lock.Release], with
// the same errors. Of [ErrNotHeld] with the outcome [MayHaveHappened] nobody
// can say whether an earlier copy of the same release ended the grant.
func (c *Client) Release(ctx context.Context, key string, token uint64) error {
	if err := checkGrant(key, token); err != nil {
		return &Error{Op: "release", Key: key, Outcome: DidNotHappen, Err: err}
	}
	c.mu.Lock()
	if l := c.held[grantID{key, token}]; l != nil {
		c.mu.Unlock()
		return l.Release(ctx)
	}
	d := &delivery{c: c, op: opR, key: key, token: token, notify: make(chan struct{})}
	if c.closed {
		d.end(ErrClosed, DidNotHappen)
	} else {
		c.due.add(d, time.Now())
	}
	c.mu.Unlock()
	return d.wait(ctx)
}

func checkGrant(key string, token uint64) error {
	if !protocol.ValidKey([]byte(key)) {
		return ErrBadKey
	}
	if token == 0 {
		return fmt.Errorf("%w: a token is 1 or more, never 0", ErrInvalid)
	}
	return nil
}
