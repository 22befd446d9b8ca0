// Package deadrelease has releases with contexts that are cancelled by then,
// and others.
package deadrelease

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stile-lock/stile/client"
)

func work(context.Context) error { return nil }
func cond() bool                 { return false }

func lifo(ctx context.Context, c *client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	lock, err := c.Acquire(ctx, "door")
	if err != nil {
		cancel()
		return err
	}
	defer lock.Release(ctx) // want `this context is cancelled when Release runs, by line 28: Release does not wait for the server's answer`
	defer cancel()
	return work(ctx)
}

func lifoClosures(ctx context.Context, lock *client.Lock) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer func() {
		if released := lock.Release(ctx); released != nil { // want `cancelled when Release runs, by line 39`
			err = errors.Join(err, released)
		}
	}()
	defer func() { cancel(err) }()
	return work(ctx)
}

func straight(ctx context.Context, lock *client.Lock) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	work(ctx)
	cancel()
	return lock.Release(ctx) // want `by line 47`
}

func derived(ctx context.Context, c *client.Client, key any) error {
	ctx, cancel := context.WithCancel(ctx)
	inner := context.WithValue(ctx, key, 1)
	inner, stop := context.WithTimeout(inner, time.Second)
	defer stop()
	cancel()
	return c.Release(inner, "door", 7) // want `by line 56`
}

func derivedLater(ctx context.Context, lock *client.Lock) error {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	inner, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	return lock.Release(inner) // want `by line 62`
}

func eachPath(ctx context.Context, lock *client.Lock) error {
	ctx, cancel := context.WithCancel(ctx)
	if cond() {
		cancel()
	} else {
		work(ctx)
		cancel()
	}
	return lock.Release(ctx) // want `cancelled when Release runs`
}

func signalled(c *client.Client) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	lock, err := c.Acquire(ctx, "leader")
	if err != nil {
		stop()
		return err
	}
	defer lock.Release(ctx) // want `by line 88`
	go work(ctx)
	<-ctx.Done()
	stop()
	return nil
}

func stopped(lock *client.Lock) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	work(ctx)
	stop()
	return lock.Release(ctx) // want `by line 96`
}

func waited(ctx context.Context, lock *client.Lock) error {
	<-ctx.Done()
	return lock.Release(ctx) // want `by line 101`
}

func selected(ctx context.Context, lock *client.Lock, ch chan int) error {
	for {
		select {
		case <-ch:
		case <-ctx.Done():
			return lock.Release(ctx) // want `by line 109`
		}
	}
}

func asked(ctx context.Context, lock *client.Lock) {
	for ctx.Err() == nil {
		work(ctx)
	}
	lock.Release(ctx) // want `by line 116`
}

func askedIf(ctx context.Context, lock *client.Lock) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		lock.Release(ctx) // want `by line 126`
	}
	return nil
}

func grouped(ctx context.Context, lock *client.Lock) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return work(ctx) })
	if err := group.Wait(); err != nil {
		return err
	}
	return lock.Release(ctx) // want `by line 135`
}

func ownContext(lock *client.Lock) error {
	return lock.Release(lock.Context()) // want `this context of the lock ends with Release itself, which then does not wait for the server's answer`
}

func ownDerived(c *client.Client) error {
	lock, err := c.Acquire(context.Background(), "door")
	if err != nil {
		return err
	}
	held, cancel := context.WithTimeout(lock.Context(), time.Minute)
	defer cancel()
	work(held)
	return lock.Release(held) // want `ends with Release itself`
}

func generic[T any](ctx context.Context, lock *client.Lock, f func(context.Context) T) T {
	ctx, cancel := context.WithCancel(ctx)
	t := f(ctx)
	cancel()
	lock.Release((ctx)) // want `by line 159`
	return t
}

func labelled(ctx context.Context, lock *client.Lock) {
	ctx, cancel := context.WithCancel(ctx)
again:
	if cond() {
		goto again
	}
	cancel()
	func() {
		inner, stop := context.WithCancel(context.Background())
		stop()
		lock.Release(inner) // want `by line 173`
	}()
	defer lock.Release(ctx) // want `by line 170`
}
