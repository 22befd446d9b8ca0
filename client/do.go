package client

import (
	"context"
	"errors"
	"time"
)

// Do acquires key, calls fn, and releases the key when fn returns or panics.
// While fn runs, the lease is renewed in the background, from the first third
// of it on. The context that fn gets ends with ctx and as soon as the lock is
// not held any more; its [context.Cause] is then [ErrLeaseLost]. fn should
// return when it ends.
//
// Do returns the error of Acquire without calling fn; else fn's error as it
// is, joined with the error of the release if that failed. A lease that was
// lost while fn ran shows as [ErrNotHeld]. The release does not end with
// ctx. A server that does not speak keep cannot renew: there fn has as long
// as the lease.
func (c *Client) Do(ctx context.Context, key string, fn func(ctx context.Context, lock *Lock) error, opts ...AcquireOption) (err error) {
	l, err := c.Acquire(ctx, key, opts...)
	if err != nil {
		return err
	}
	held := l.Context()
	inner, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(held, func() { cancel(context.Cause(held)) })
	renewing, stopRenewing := context.WithCancel(context.WithoutCancel(ctx))
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		l.Renew(renewing)
	}()
	defer func() {
		stopRenewing()
		<-renewed
		stop()
		released := l.Release(context.WithoutCancel(ctx))
		cancel(ErrReleased)
		switch {
		case released == nil:
		case err == nil:
			err = released
		default:
			err = errors.Join(err, released)
		}
	}()
	return fn(inner, l)
}

// Renew keeps the lease, from the first third of it on, until ctx ends or the
// lock is not held any more, and returns then; [Lock.Context] tells which. It
// asks for the lease that the lock was acquired or adopted with. [Client.Do]
// does this by itself. Where the server does not speak keep it returns early,
// and the lease ends when it ends.
func (l *Lock) Renew(ctx context.Context) {
	want, held := l.asked, l.Context().Done()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		l.c.mu.Lock()
		left := l.expires.Sub(time.Now())
		pause := left - l.lease*2/3
		l.c.mu.Unlock()
		timer.Reset(max(pause, time.Millisecond))
		select {
		case <-timer.C:
		case <-held:
			return
		case <-ctx.Done():
			return
		}
		err := l.Keep(ctx, want)
		switch {
		case err == nil:
		case errors.Is(err, ErrNotHeld), errors.Is(err, ErrClosed), errors.Is(err, errors.ErrUnsupported), ctx.Err() != nil:
			return
		default:
			l.c.cfg.log.Warn("stile: cannot renew the lease", "key", l.key, "reason", err)
			timer.Reset(resendEvery)
			select {
			case <-timer.C:
			case <-ctx.Done():
				return
			}
		}
	}
}
