package deadrelease

import (
	. "context"
	"time"

	"golang.org/x/sync/errgroup"

	stile "github.com/stile-lock/stile/client"
)

func inOrder(ctx Context, c *stile.Client) error {
	ctx, cancel := WithTimeout(ctx, time.Minute)
	defer cancel()
	lock, err := c.Acquire(ctx, "door")
	if err != nil {
		return err
	}
	defer lock.Release(ctx)
	return work(ctx)
}

func withoutCancel(ctx Context, lock *stile.Lock) error {
	ctx, cancel := WithCancel(ctx)
	defer lock.Release(WithoutCancel(ctx))
	defer cancel()
	own := WithoutCancel(lock.Context())
	cancel()
	if cond() {
		return lock.Release(own)
	}
	return lock.Release(WithoutCancel(ctx))
}

func onePath(ctx Context, lock *stile.Lock) error {
	ctx, cancel := WithCancel(ctx)
	defer func() { cancel() }()
	if cond() {
		cancel()
	}
	return lock.Release(ctx)
}

func otherPath(ctx Context, lock *stile.Lock) error {
	ctx, cancel := WithCancel(ctx)
	defer func() { cancel() }()
	if cond() {
		cancel()
	} else {
		work(ctx)
	}
	return lock.Release(ctx)
}

func oneOfTwo(ctx Context, lock *stile.Lock) error {
	inner, cancel := WithCancel(ctx)
	if cond() {
		work(inner)
	} else {
		inner = ctx
	}
	cancel()
	return lock.Release(inner)
}

func another(ctx Context, lock *stile.Lock) error {
	inner, cancel := WithCancel(ctx)
	defer lock.Release(ctx)
	defer cancel()
	work(inner)
	cancel()
	return lock.Release(ctx)
}

func shadowed(ctx Context, lock *stile.Lock) error {
	defer lock.Release(ctx)
	if cond() {
		ctx, cancel := WithCancel(ctx)
		defer cancel()
		return work(ctx)
	}
	return nil
}

func assignedAgain(ctx Context, lock *stile.Lock) error {
	parent := ctx
	ctx, cancel := WithCancel(parent)
	cancel()
	ctx, cancel = WithCancel(parent)
	defer cancel()
	return lock.Release(ctx)
}

func eachTurn(ctx Context, lock *stile.Lock) {
	for range 3 {
		ctx, cancel := WithCancel(ctx)
		lock.Release(ctx)
		cancel()
	}
}

func anotherTurn(ctx Context, lock *stile.Lock) {
	inner, cancel := WithCancel(ctx)
	for range 3 {
		cancel()
		inner, cancel = WithCancel(ctx)
		lock.Release(inner)
	}
	cancel()
}

func late(ctx Context, lock *stile.Lock) error {
	inner, cancel := WithCancel(ctx)
	defer func() { lock.Release(inner) }()
	defer cancel()
	inner = ctx
	return work(inner)
}

func elsewhere(ctx Context, lock *stile.Lock) {
	inner, cancel := WithCancel(ctx)
	go cancel()
	time.AfterFunc(time.Second, cancel)
	func() { cancel() }()
	lock.Release(inner)
}

func doneOnOnePath(ctx Context, lock *stile.Lock, ch chan int) error {
	defer lock.Release(ctx)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-ch:
		return lock.Release(ctx)
	}
}

func deadline(ctx Context, lock *stile.Lock) {
	ctx, cancel := WithTimeout(ctx, time.Second)
	defer cancel()
	time.Sleep(2 * time.Second) // ends it, but who counts seconds?
	lock.Release(ctx)
}

func groupStillRuns(ctx Context, lock *stile.Lock) error {
	group, inner := errgroup.WithContext(ctx)
	group.Go(func() error { return work(inner) })
	lock.Release(inner)
	return group.Wait()
}

func otherLock(a, b *stile.Lock) {
	a.Release(b.Context())
	if cond() {
		a = b
	}
	own := a.Context()
	a = b
	a.Release(own)
}

func byHand(f func() (Context, func()), lock *stile.Lock) {
	ctx, cancel := f()
	cancel()
	lock.Release(ctx)
}

func methodExpression(ctx Context, lock *stile.Lock) {
	ctx, cancel := WithCancel(ctx)
	cancel()
	(*stile.Lock).Release(lock, ctx)
}
