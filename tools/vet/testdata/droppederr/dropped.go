// Package droppederr has errors that are dropped, and others that may be.
package droppederr

import (
	"context"
	"database/sql"
	"time"

	stile "github.com/stile-lock/stile/client"
	"github.com/stile-lock/stile/client/fence"
	"github.com/stile-lock/stile/client/fence/fenceredis"
	"github.com/stile-lock/stile/client/fence/fencesql"
)

func use(...any) {}

func acquires(ctx context.Context, c *stile.Client) {
	lock, _ := c.Acquire(ctx, "door") // want `the error of Client.Acquire is dropped: nobody knows whether the lock is held`
	defer lock.Release(ctx)
	var other, _ = c.TryAcquire(ctx, "window") // want `the error of Client.TryAcquire is dropped`
	other.Release(ctx)
	c.Adopt(ctx, "door", 7, time.Minute) // want `the error of Client.Adopt is dropped`
	go c.Acquire(ctx, "door")            // want `the error of Client.Acquire is dropped`
}

func returnsError(ctx context.Context, c *stile.Client, g *fence.Guard) error {
	lock, _ := c.Acquire(ctx, "door") // want `the error of Client.Acquire is dropped`
	defer lock.Release(ctx)
	lock.Keep(ctx, time.Minute) // want `the error of Lock.Keep is dropped: nobody knows whether the lock is still held`
	if lock.Key() != "" {
		g.Check(ctx, lock) // want `the error of Guard.Check is dropped: a refused grant goes unnoticed`
	}
	c.Do(ctx, "window", func(ctx context.Context, lock *stile.Lock) error { // want `the error of Client.Do is dropped: nobody knows whether its function ran under the lock, or at all`
		fence.Validate(lock) // want `the error of Validate is dropped`
		return nil
	})
	return nil
}

// Where err is another variable, or one that is made below, nothing is put in
// its place.
func noName(ctx context.Context, c *stile.Client) error {
	lock, _ := c.Acquire(ctx, "door") // want `the error of Client.Acquire is dropped`
	lock.Release(ctx)
	err := ctx.Err()
	if err != nil {
		lock, _ := c.Acquire(ctx, "door") // want `the error of Client.Acquire is dropped`
		lock.Release(ctx)
	}
	return err
}

func guards(ctx context.Context, db *sql.DB, tx *sql.Tx, lock *stile.Lock, r *fenceredis.Guard) {
	var g fencesql.Guard
	g.Check(ctx, tx, lock)                                              // want `the error of Guard.Check is dropped`
	g.Do(ctx, db, nil, lock, func(*sql.Tx) error { return nil })        // want `the error of Guard.Do is dropped`
	answers, _ := r.Do(ctx, lock, nil, fenceredis.Cmd{"SET", "a", "b"}) // want `the error of Guard.Do is dropped`
	use(answers)
	defer r.Check(ctx, lock) // want `the error of Guard.Check is dropped`
}

func dials(ctx context.Context) *stile.Client {
	c, _ := stile.Dial(ctx, "127.0.0.1:5625") // want `the error of Dial is dropped: there may be no client`
	return c
}

func inGoroutine[T any](ctx context.Context, c *stile.Client, f func(T)) {
	go c.Do(ctx, "door", func(context.Context, *stile.Lock) error { return nil }) // want `the error of Client.Do is dropped`
	for {
		select {
		case <-ctx.Done():
		default:
			c.Do(ctx, "door", nil) // want `the error of Client.Do is dropped`
		}
	}
}
