package droppederr

import (
	"context"
	"time"

	. "github.com/stile-lock/stile/client"
)

func releases(ctx context.Context, c *Client, lock *Lock) {
	defer lock.Release(ctx)
	lock.Release(ctx)
	c.Release(ctx, "door", 7)
	go lock.Release(ctx)
	lock.Renew(ctx)
	defer c.Close()
}

func looked(ctx context.Context, c *Client) error {
	lock, err := c.Acquire(ctx, "door")
	if err != nil {
		return err
	}
	if err := lock.Keep(ctx, 0); err != nil {
		return err
	}
	use(c.TryAcquire(ctx, "door"))
	return c.Do(ctx, "door", nil)
}

// The lock is nil after an error.
func compared(ctx context.Context, c *Client) {
	if lock, _ := c.TryAcquire(ctx, "door"); lock != nil {
		lock.Release(ctx)
	}
	lock, _ := c.TryAcquire(ctx, "door")
	switch lock {
	case nil:
		return
	}
	lock.Release(ctx)
}

// Whoever gets the lock may compare it.
func passed(ctx context.Context, c *Client) *Lock {
	lock, _ := c.TryAcquire(ctx, "door")
	use(lock)
	other, _ := c.TryAcquire(ctx, "window")
	return other
}

// Somebody hears of the end of the lock.
func watched(ctx context.Context, c *Client, lock *Lock) {
	go func() { <-lock.Context().Done() }()
	for ctx.Err() == nil {
		lock.Keep(ctx, time.Minute)
	}
}

// It says that it is meant.
func meant(ctx context.Context, c *Client, lock *Lock) {
	_ = c.Do(ctx, "cache", nil, Wait(-1))
	_ = lock.Keep(ctx, 0)
	_, _ = c.Acquire(ctx, "door")
}

// Another type with methods of the same names.
type other struct{}

func (other) Acquire(context.Context, string) (*Lock, error) { return nil, nil }
func (other) Do(context.Context) error                       { return nil }

func elsewhere(ctx context.Context, o other) {
	lock, _ := o.Acquire(ctx, "door")
	lock.Release(ctx)
	o.Do(ctx)
}
