// Package deafdo has functions for Do that do not hear of the end of the
// lease, and others.
package deafdo

import (
	"context"
	"database/sql"
	"time"

	"github.com/stile-lock/stile/client"
)

func work() error                        { return nil }
func workWith(ctx context.Context) error { return nil }
func cond() bool                         { return false }

func sleeps(ctx context.Context, c *client.Client) error {
	return c.Do(ctx, "leader", func(_ context.Context, lock *client.Lock) error {
		for { // want `this loop in the function given to Do has no end, and never looks at the function's context, which ends when the lease is lost`
			work()
			time.Sleep(time.Second)
		}
	})
}

func waits(ctx context.Context, c *client.Client, jobs chan int) error {
	return c.Do(ctx, "leader", func(context.Context, *client.Lock) error {
		for range 10 { // want `this loop in the function given to Do waits, and`
			time.Sleep(time.Second)
		}
		for { // want `waits, and`
			if err := work(); err != nil {
				return err
			}
			<-time.After(time.Second)
		}
	})
}

func ticks(ctx context.Context, c *client.Client, stop chan int) error {
	return c.Do(ctx, "leader", func(ctx context.Context, lock *client.Lock) error {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for { // want `waits, and`
			select {
			case <-ticker.C:
				work()
			case <-stop:
				return nil
			}
		}
	})
}

func ranges(ctx context.Context, c *client.Client, jobs chan int) error {
	return c.Do(ctx, "leader", func(ctx context.Context, lock *client.Lock) error {
		workWith(ctx)
		for range jobs { // want `waits for a channel, and`
			work()
		}
		return ctx.Err()
	})
}

func labelled(ctx context.Context, c *client.Client) error {
	return c.Do(ctx, "leader", func(ctx context.Context, lock *client.Lock) error {
	loop:
		for { // want `has no end`
			for {
				if cond() {
					continue loop
				}
				if cond() {
					break
				}
			}
			switch {
			case cond():
				break
			}
		}
	})
}

func outer(outer context.Context, c *client.Client, db *sql.DB) error {
	return c.Do(outer, "leader", func(ctx context.Context, lock *client.Lock) error {
		for i := 0; i < 10; i++ {
			if _, err := db.ExecContext(outer, "SELECT 1"); err != nil { // want `this loop in the function given to Do uses the context outer from outside, which does not end when the lease is lost, and not the function's own`
				return err
			}
		}
		return nil
	})
}

func blank(ctx context.Context, c *client.Client) error {
	return c.Do(ctx, "leader", func(_ context.Context, lock *client.Lock) error {
		for ctx.Err() == nil { // want `uses the context ctx from outside`
			if err := workWith(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

func selects(parent context.Context, c *client.Client) error {
	return c.Do(parent, "leader", func(_ context.Context, _ *client.Lock) error {
		for {
			select {
			case <-parent.Done(): // want `uses the context parent from outside`
				return nil
			case <-time.After(time.Second):
				work()
			}
		}
	})
}

// Behind the loop its own context means what is below.
func taken(ctx, parent context.Context, c *client.Client) error {
	return c.Do(ctx, "leader", func(_ context.Context, _ *client.Lock) error {
		for cond() {
			workWith(parent) // want `uses the context parent from outside`
		}
		return ctx.Err()
	})
}

func generic[T any](ctx context.Context, c *client.Client, next func() T) error {
	return c.Do(ctx, "leader", func(own context.Context, _ *client.Lock) error {
		for { // want `has no end`
			_ = next()
		}
	})
}
