package unusedtoken

import (
	"context"
	"database/sql"

	stile "github.com/stile-lock/stile/client"
	. "github.com/stile-lock/stile/client/fence"
)

func tokenInStatement(ctx context.Context, c *stile.Client, db *sql.DB) error {
	return c.Do(ctx, "doc", func(ctx context.Context, lock *stile.Lock) error {
		_, err := db.ExecContext(ctx, "UPDATE doc SET body = $1 WHERE seen <= $2", "body", lock.Token())
		return err
	})
}

func guarded(ctx context.Context, c *stile.Client, db *sql.DB) error {
	return c.Do(ctx, "doc", func(ctx context.Context, lock *stile.Lock) error {
		return guard.Do(ctx, db, nil, lock, func(tx *sql.Tx) error {
			_, err := tx.Exec("DELETE FROM doc")
			return err
		})
	})
}

func passed(ctx context.Context, c *stile.Client, tx *sql.Tx, check func(Grant)) error {
	lock, err := c.Acquire(ctx, "doc")
	if err != nil {
		return err
	}
	defer lock.Release(ctx)
	check(lock)
	_, err = tx.Exec("DELETE FROM doc")
	return err
}

// The other lock is what guards it, maybe.
func nested(ctx context.Context, c *stile.Client, tx *sql.Tx, outer *stile.Lock) error {
	return c.Do(ctx, "doc", func(ctx context.Context, _ *stile.Lock) error {
		if err := guard.Check(ctx, tx, outer); err != nil {
			return err
		}
		_, err := tx.Exec("DELETE FROM doc")
		return err
	})
}

func byParts(ctx context.Context, c *stile.Client, tx *sql.Tx, token uint64) error {
	return c.Do(ctx, "doc", func(ctx context.Context, _ *stile.Lock) error {
		if err := guard.Check(ctx, tx, NewGrant("doc", token)); err != nil {
			return err
		}
		_, err := tx.Exec("DELETE FROM doc")
		return err
	})
}

func byGrant(ctx context.Context, c *stile.Client, tx *sql.Tx, grant Grant) error {
	return c.Do(ctx, "doc", func(ctx context.Context, _ *stile.Lock) error {
		_, err := tx.Exec("DELETE FROM doc WHERE id = $1", grant.Token())
		return err
	})
}

func guardsItself(ctx context.Context, c *stile.Client, db *sql.DB) error {
	return c.Do(ctx, "doc", func(ctx context.Context, _ *stile.Lock) error {
		db.Exec("INSERT INTO doc VALUES (1) ON CONFLICT DO NOTHING")
		db.Exec("INSERT OR IGNORE INTO doc VALUES (1)")
		db.Exec("UPDATE doc SET version = version + 1 WHERE version = 7")
		db.Exec("INSERT INTO doc SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM doc)")
		return nil
	})
}

func notKnown(ctx context.Context, c *stile.Client, db *sql.DB, statement string) error {
	return c.Do(ctx, "doc", func(ctx context.Context, _ *stile.Lock) error {
		db.Exec(statement)
		db.Exec("SELECT 1")
		db.Exec("CREATE TABLE IF NOT EXISTS doc (id INT)")
		db.Exec("UPDATED")
		return nil
	})
}

func outside(ctx context.Context, c *stile.Client, db *sql.DB) error {
	db.Exec("DELETE FROM doc")
	if err := c.Do(ctx, "doc", func(context.Context, *stile.Lock) error { return nil }); err != nil {
		return err
	}
	db.Exec("DELETE FROM doc")
	lock, err := c.Acquire(ctx, "doc")
	if err != nil {
		return err
	}
	err = lock.Release(ctx)
	db.Exec("DELETE FROM doc")
	return err
}

func meant(ctx context.Context, c *stile.Client, db *sql.DB) error {
	return c.Do(ctx, "doc", func(ctx context.Context, _ *stile.Lock) error {
		//stile:unfenced the next run writes the same again
		_, err := db.Exec("DELETE FROM doc")
		return err
	})
}

func meantAll(ctx context.Context, c *stile.Client, db *sql.DB) error {
	//stile:unfenced the next run writes the same again
	return c.Do(ctx, "doc", func(ctx context.Context, _ *stile.Lock) error {
		db.Exec("DELETE FROM doc")
		_, err := db.Exec("DELETE FROM doc")
		return err
	})
}

// Another type with a method of the same name.
type other struct{}

func (other) Exec(string) error { return nil }

func elsewhere(ctx context.Context, c *stile.Client, o other) error {
	return c.Do(ctx, "doc", func(context.Context, *stile.Lock) error { return o.Exec("DELETE FROM doc") })
}

func grants(ctx context.Context, a, b *stile.Lock, g *Guard, token uint64) {
	g.Check(ctx, NewGrant(a.Key(), a.Token()))
	g.Check(ctx, NewGrant(a.Key(), token))
	g.Check(ctx, NewGrant("doc", b.Token()))
}
