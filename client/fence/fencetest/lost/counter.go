package lost

import (
	"context"
	"database/sql"
	"time"

	"github.com/stile-lock/stile/client"
	"github.com/stile-lock/stile/client/fence/fencesql"
)

// The two ways to add to a counter. They differ in the guard alone.
const (
	Plain   = "plain"
	Guarded = "guarded"
)

// lease is short, so that a round is; it is never renewed.
const lease = 300 * time.Millisecond

// counter is a row in the database, and the key of the lock that protects it.
type counter struct {
	name  string
	db    *sql.DB
	guard fencesql.Guard
}

func setUp(ctx context.Context, db *sql.DB) error {
	if _, err := db.ExecContext(ctx, "CREATE TABLE counter (name TEXT PRIMARY KEY, n BIGINT NOT NULL)"); err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, "INSERT INTO counter VALUES ($1, 0), ($2, 0)", Plain, Guarded); err != nil {
		return err
	}
	return fencesql.Guard{}.CreateTable(ctx, db)
}

// querier is a database or a transaction.
type querier interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}

// step runs f behind the guard, or without it.
func (c *counter) step(ctx context.Context, lock *client.Lock, f func(querier) error) error {
	if c.name == Plain {
		return f(c.db)
	}
	return c.guard.Do(ctx, c.db, nil, lock, func(tx *sql.Tx) error { return f(tx) })
}

// add reads the counter, works, and writes one more.
func (c *counter) add(ctx context.Context, lock *client.Lock, work func()) error {
	var n int64
	err := c.step(ctx, lock, func(q querier) error {
		return q.QueryRowContext(ctx, "SELECT n FROM counter WHERE name = $1", c.name).Scan(&n)
	})
	if err != nil {
		return err
	}
	work()
	return c.step(ctx, lock, func(q querier) error {
		_, err := q.ExecContext(ctx, "UPDATE counter SET n = $1 WHERE name = $2", n+1, c.name)
		return err
	})
}

func (c *counter) value(ctx context.Context) (n int64, err error) {
	err = c.db.QueryRowContext(ctx, "SELECT n FROM counter WHERE name = $1", c.name).Scan(&n)
	return n, err
}
