package lostlock

import (
	"context"
	"errors"
	"time"

	"github.com/stile-lock/stile/client"
)

// The loss of the lock is seen in a variable: no release is missing.

func byErr(ctx context.Context, c *client.Client) error {
	l, err := c.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	if err := l.Context().Err(); err != nil {
		return err
	}
	return l.Release(ctx)
}

func byCause(ctx context.Context, c *client.Client) error {
	l, err := c.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	if err := context.Cause(l.Context()); err != nil {
		return err
	}
	return l.Release(ctx)
}

func byCauseAtOnce(ctx context.Context, c *client.Client) error {
	l, err := c.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	if context.Cause(l.Context()) != nil {
		return errBusy
	}
	return l.Release(ctx)
}

func byNamedContext(ctx context.Context, c *client.Client) error {
	l, err := c.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	lc := l.Context()
	if err := lc.Err(); err != nil {
		return err
	}
	return l.Release(ctx)
}

func byAssignedErr(ctx context.Context, c *client.Client) error {
	l, err := c.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	err = work(ctx)
	if err == nil {
		err = l.Context().Err()
		if nil != err {
			return err
		}
	}
	return l.Release(ctx)
}

func byChannel(ctx context.Context, c *client.Client) error {
	l, err := c.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	done := l.Context().Done()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	return l.Release(ctx)
}

func byChannelAlone(ctx context.Context, c *client.Client) error {
	l, err := c.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	done := l.Context().Done()
	if cond() {
		<-done
		return nil
	}
	return l.Release(ctx)
}

func byOk(ctx context.Context, c *client.Client) error {
	l, err := c.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	var done <-chan struct{} = l.Context().Done()
	for {
		if _, ok := <-done; !ok {
			return nil
		}
		if cond() {
			break
		}
	}
	return l.Release(ctx)
}

func byMade(ctx context.Context, c *client.Client) error {
	l, err := c.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	inner, cancel := context.WithTimeout(l.Context(), time.Minute)
	defer cancel()
	if err := inner.Err(); err != nil {
		return err
	}
	done := inner.Done()
	select {
	case <-done:
		return nil
	default:
	}
	return l.Release(ctx)
}

func byIs(ctx context.Context, c *client.Client) error {
	l, err := c.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	if err := l.Context().Err(); errors.Is(err, context.Canceled) {
		return err
	}
	return l.Release(ctx)
}

func byIsOfWork(ctx context.Context, c *client.Client) error {
	l, err := c.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	err = work(l.Context())
	if errors.Is(err, context.Canceled) || err == context.DeadlineExceeded {
		return nil
	}
	return l.Release(ctx)
}

func byFlag(ctx context.Context, c *client.Client) error {
	l, err := c.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	lost := l.Context().Err() != nil
	if lost {
		return errBusy
	}
	return l.Release(ctx)
}

func byAnswer(ctx context.Context, c *client.Client) error {
	l, err := c.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	gone := isOver(l.Context())
	if gone {
		return errBusy
	}
	return l.Release(ctx)
}

func byEnd(ctx context.Context, c *client.Client) error {
	l, err := c.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	until := l.Expires()
	if time.Now().After(until) {
		return errBusy
	}
	return l.Release(ctx)
}

func bySwitch(ctx context.Context, c *client.Client) error {
	l, err := c.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	switch err := context.Cause(l.Context()); {
	case err != nil:
		return err
	}
	return l.Release(ctx)
}

func byCopy(ctx context.Context, c *client.Client) error {
	l, err := c.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	err = l.Context().Err()
	why := err
	if why != nil {
		return why
	}
	return l.Release(ctx)
}

func isOver(ctx context.Context) bool { return ctx.Err() != nil }

// These see something else.

func otherContext(ctx context.Context, c *client.Client) error {
	l, err := c.Acquire(ctx, "a") // want `still held at the return`
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return l.Release(ctx)
}

func held2(ctx context.Context, c *client.Client) error {
	l, err := c.Acquire(ctx, "a") // want `still held at the return`
	if err != nil {
		return err
	}
	if err := l.Context().Err(); err == nil {
		return errBusy
	}
	return l.Release(ctx)
}

func assignedAgain(ctx context.Context, c *client.Client) error {
	l, err := c.Acquire(ctx, "a") // want `still held at the return`
	if err != nil {
		return err
	}
	err = l.Context().Err()
	err = work(ctx)
	if err != nil {
		return err
	}
	return l.Release(ctx)
}

func workFails(ctx context.Context, c *client.Client) error {
	l, err := c.Acquire(ctx, "a") // want `still held at the return`
	if err != nil {
		return err
	}
	if err := work(l.Context()); err != nil {
		return err
	}
	return l.Release(ctx)
}

func otherChannel(ctx context.Context, c *client.Client) error {
	l, err := c.Acquire(ctx, "a") // want `still held at the return`
	if err != nil {
		return err
	}
	done := l.Context().Done()
	done = ctx.Done()
	select {
	case <-done:
		return nil
	default:
	}
	return l.Release(ctx)
}

func canceledWithout(ctx context.Context, c *client.Client) error {
	l, err := c.Acquire(ctx, "a") // want `still held at the return`
	if err != nil {
		return err
	}
	if err := work(ctx); errors.Is(err, context.Canceled) {
		return err
	}
	return l.Release(ctx)
}

func stillThere(ctx context.Context, c *client.Client) error {
	l, err := c.Acquire(ctx, "a") // want `still held at the return`
	if err != nil {
		return err
	}
	if err := l.Context().Err(); err != nil {
		return err
	}
	if cond() {
		return errBusy
	}
	return l.Release(ctx)
}
