// Package misuse has one misuse of each kind.
package misuse

import (
	"context"
	"database/sql"
	"time"

	"github.com/stile-lock/stile/client"
	"github.com/stile-lock/stile/client/fence"
)

func lost(ctx context.Context, c *client.Client) error {
	lock, err := c.Acquire(ctx, "lost")
	if err != nil {
		return err
	}
	return lock.Keep(ctx, time.Minute)
}

func dropped(ctx context.Context, c *client.Client, lock *client.Lock, guard *fence.Guard) error {
	guard.Check(ctx, lock)
	return nil
}

func dead(ctx context.Context, lock *client.Lock) {
	ctx, cancel := context.WithCancel(ctx)
	defer lock.Release(ctx)
	defer cancel()
	<-time.After(time.Second)
}

func unfenced(ctx context.Context, c *client.Client, db *sql.DB) error {
	return c.Do(ctx, "unfenced", func(ctx context.Context, _ *client.Lock) error {
		_, err := db.ExecContext(ctx, "DELETE FROM orders")
		return err
	})
}

func deaf(parent context.Context, c *client.Client, work func(context.Context) error) error {
	return c.Do(parent, "deaf", func(ctx context.Context, _ *client.Lock) error {
		for {
			if err := work(parent); err != nil {
				return err
			}
		}
	})
}
