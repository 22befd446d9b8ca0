package deadrelease

import (
	"context"
	"net/http"
	"testing"

	"github.com/stile-lock/stile/client"
)

func ofCall(r *http.Request, c *client.Client) error {
	ctx := r.Context()
	l, err := c.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	<-ctx.Done()
	return l.Release(ctx) // want `by line 17`
}

func byErr(ctx context.Context, l *client.Lock) error {
	if err := ctx.Err(); err != nil {
		l.Release(ctx) // want `by line 22`
		return err
	}
	return l.Release(ctx)
}

func byCause(ctx context.Context, l *client.Lock) error {
	if err := context.Cause(ctx); err != nil {
		l.Release(ctx) // want `by line 30`
		return err
	}
	if context.Cause(ctx) == nil {
		return l.Release(ctx)
	}
	return l.Release(ctx) // want `by line 34`
}

func byChannel(ctx context.Context, l *client.Lock, ch chan int) {
	done := ctx.Done()
	select {
	case <-done:
		l.Release(ctx) // want `by line 43`
	case <-ch:
		l.Release(ctx)
	}
	<-done
	l.Release(ctx) // want `by line 48`
}

func inOneClosure(ctx context.Context, l *client.Lock) {
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		l.Release(ctx) // want `by line 54`
	}()
	work(ctx)
}

func afterFunc(ctx context.Context, l *client.Lock) {
	stop := context.AfterFunc(ctx, func() {
		if cond() {
			l.Release(ctx) // want `by line 62`
		}
		l.Release(context.Background())
	})
	defer stop()
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	context.AfterFunc(inner, func() { l.Release(ctx) })
	context.AfterFunc(ctx, func() { l.Release(inner) }) // want `by line 72`
}

func cleanups(t *testing.T, tb testing.TB, l *client.Lock) {
	t.Cleanup(func() { l.Release(t.Context()) }) // want `by line 76`
	ctx := tb.Context()
	tb.Cleanup(func() {
		l.Release(ctx) // want `by line 78`
		l.Release(t.Context())
	})
	defer l.Release(t.Context())
	l.Release(t.Context())
}

// These know less than it seems.

func reassigned(ctx context.Context, l *client.Lock) {
	err := ctx.Err()
	err = work(ctx)
	if err != nil {
		l.Release(ctx)
	}
	done := ctx.Done()
	done = l.Context().Done()
	<-done
	l.Release(ctx)
}

func onOnePath(ctx context.Context, l *client.Lock) {
	err := work(ctx)
	if cond() {
		err = ctx.Err()
	}
	if err != nil {
		l.Release(ctx)
	}
}

func eachTurnAnother(r func() context.Context, l *client.Lock) {
	for {
		ctx := r()
		l.Release(ctx)
		<-ctx.Done()
	}
}

func twoCalls(r *http.Request, l *client.Lock) {
	ctx := r.Context()
	<-r.Context().Done()
	l.Release(ctx)
}

func otherOrder(ctx context.Context, l *client.Lock) {
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		l.Release(ctx)
		cancel()
	}()
	work(ctx)
}

func otherCancel(ctx context.Context, l *client.Lock) {
	inner, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		l.Release(inner)
	}()
	other, cancel := context.WithCancel(ctx)
	work(other)
}

func ranged(ctx context.Context, l *client.Lock, errs []error) {
	err := ctx.Err()
	for _, err = range errs {
		if err != nil {
			l.Release(ctx)
		}
	}
}

func silenced(ctx context.Context, l *client.Lock) {
	<-ctx.Done()
	l.Release(ctx) //stile:meant the lease is short
}
