// Package directive has comments for the analyzers: those that count, and those
// that say nothing.
package directive

import (
	"context"
	"database/sql"
	"time"

	"github.com/stile-lock/stile/client"
)

const update = "UPDATE orders SET total = 1 WHERE id = 1"

func kept(ctx context.Context, c *client.Client) error {
	//stile:kept until the lease ends
	lock, err := c.Acquire(ctx, "door")
	if err != nil {
		return err
	}
	return lock.Keep(ctx, time.Hour)
}

func keptBehind(ctx context.Context, c *client.Client) error {
	lock, err := c.Acquire(
		ctx,
		"door",
	) //stile:kept until the lease ends
	if err != nil {
		return err
	}
	return lock.Keep(ctx, time.Hour)
}

func keptWithoutReason(ctx context.Context, c *client.Client) error {
	lock, err := c.Acquire(ctx, "door")
	if err != nil {
		return err
	}
	// want +1 `//stile:kept needs a reason`
	//stile:kept
	return lock.Keep(ctx, time.Hour)
}

func unfencedWithoutReason(ctx context.Context, c *client.Client, db *sql.DB) error {
	return c.Do(ctx, "orders/42", func(ctx context.Context, _ *client.Lock) error {
		// want +1 `//stile:unfenced needs a reason`
		//stile:unfenced
		_, err := db.ExecContext(ctx, update)
		return err
	})
}

func released(ctx context.Context, c *client.Client) error {
	// want +1 `this directive silences nothing: without it, lostlock would not report anything here either`
	//stile:kept until the lease ends
	lock, err := c.Acquire(ctx, "door")
	if err != nil {
		return err
	}
	return lock.Release(ctx)
}

func meant(ctx context.Context, c *client.Client) {
	//stile:meant whoever fails here is seen elsewhere
	c.Do(ctx, "door", func(context.Context, *client.Lock) error { return nil })
}

func meantForNothing() {
	// want +1 `this directive silences nothing: without it, deadrelease and deafdo and droppederr would not report`
	//stile:meant as it is
	println()
}

// want +1 `there is no directive //stile:keep, only //stile:kept, //stile:meant, //stile:unfenced`
//stile:keep for good

// A space makes it a comment like any other.
//
// stile:kept for good
var _ = update
