// Package unusedtoken has writes under a lock of which nobody sees the token,
// and others.
package unusedtoken

import (
	"context"
	"database/sql"
	"time"

	"github.com/stile-lock/stile/client"
	"github.com/stile-lock/stile/client/fence"
	"github.com/stile-lock/stile/client/fence/fencesql"
)

const update = "UPDATE orders " + "SET state = 'sent' WHERE id = $1"

func inDo(ctx context.Context, c *client.Client, db *sql.DB) error {
	return c.Do(ctx, "orders/42", func(ctx context.Context, _ *client.Lock) error {
		if _, err := db.ExecContext(ctx, update, 42); err != nil { // want `this write is not fenced: nothing uses the token of the lock that Do takes on line 18, so a holder that lost its lease can still write`
			return err
		}
		_, err := db.ExecContext(ctx, update, 43)
		return err
	})
}

func unnamed(ctx context.Context, c *client.Client, conn *sql.Conn) error {
	return c.Do(ctx, "orders/42", func(context.Context, *client.Lock) error {
		// want +1 `this write is not fenced`
		_, err := conn.ExecContext(ctx, `
			delete from orders where id = 42`)
		return err
	})
}

func inTx(ctx context.Context, c *client.Client, tx *sql.Tx) error {
	return c.Do(ctx, "orders/42", func(ctx context.Context, lock *client.Lock) error {
		lock.Keep(ctx, time.Minute)
		func() {
			tx.Exec("REPLACE INTO orders VALUES (1)") // want `this write is not fenced`
		}()
		return nil
	})
}

func acquired(ctx context.Context, c *client.Client, db *sql.DB) error {
	db.Exec("DELETE FROM before")
	lock, err := c.Acquire(ctx, "orders/42")
	if err != nil {
		return err
	}
	db.Exec("SELECT 1")
	db.Exec("INSERT INTO orders VALUES (1)") // want `the lock that Acquire takes on line 48`
	defer db.Exec("DELETE FROM after")
	return lock.Release(ctx)
}

func deferred[T any](ctx context.Context, c *client.Client, db *sql.DB, t T) error {
	lock, err := c.TryAcquire(ctx, "orders/42")
	if err != nil {
		return err
	}
	defer lock.Release(ctx)
	go lock.Renew(ctx)
	_, err = db.Exec("MERGE INTO orders VALUES (1)", t) // want `the lock that TryAcquire takes`
	return err
}

func mixed(ctx context.Context, a, b *client.Lock, g *fence.Guard) {
	g.Check(ctx, fence.NewGrant(a.Key(), b.Token())) // want `this grant has the key of the lock in a and the token of the one in b: both must come from the same lock`
	g.Check(ctx, fence.NewGrant(a.Key(), 1))         // want `this grant has the key of the lock in a and a constant for its token: no guard can tell who is late`
}

var guard fencesql.Guard
