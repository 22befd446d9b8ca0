package unusedtoken

import (
	"context"
	"database/sql"
	"errors"

	"github.com/stile-lock/stile/client"
	"github.com/stile-lock/stile/client/fence"
)

// Where nobody holds the lock, or may not.

func whereNot(ctx context.Context, c *client.Client, db *sql.DB) error {
	l, err := c.TryAcquire(ctx, "a")
	if errors.Is(err, client.ErrTimeout) {
		db.Exec("INSERT INTO skipped VALUES (1)")
		return nil
	}
	db.Exec("INSERT INTO tried VALUES (1)")
	if err != nil {
		db.Exec("INSERT INTO failed VALUES (1)")
		return err
	}
	defer func() {
		l.Release(ctx)
		db.Exec("INSERT INTO audit VALUES (1)")
	}()
	return nil
}

func afterwards(ctx context.Context, c *client.Client, db *sql.DB) error {
	l, err := c.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		l.Release(ctx)
	}
	db.Exec("DELETE FROM maybe")
	l.Release(ctx)
	db.Exec("DELETE FROM after")
	return nil
}

func falls(ctx context.Context, c *client.Client, db *sql.DB) {
	l, err := c.Acquire(ctx, "a")
	if err != nil {
		println("without")
	}
	db.Exec("DELETE FROM doc")
	l.Release(ctx)
}

func elsewhereInClosures(ctx context.Context, c *client.Client, db *sql.DB, later func(func())) error {
	l, err := c.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	later(func() { db.Exec("DELETE FROM doc") })
	go db.Exec("DELETE FROM doc")
	f := func() { db.Exec("DELETE FROM doc") }
	l.Release(ctx)
	f()
	return nil
}

func releasedInDo(ctx context.Context, c *client.Client, db *sql.DB) error {
	return c.Do(ctx, "a", func(ctx context.Context, l *client.Lock) error {
		l.Release(ctx)
		_, err := db.Exec("DELETE FROM doc")
		return err
	})
}

func deferredBehind(ctx context.Context, c *client.Client, db *sql.DB) error {
	l, err := c.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	defer db.Exec("INSERT INTO audit VALUES (1)")
	defer func() { db.Exec("INSERT INTO audit VALUES (1)") }()
	defer l.Release(ctx)
	return nil
}

// Where somebody certainly does.

func whereNoError(ctx context.Context, c *client.Client, db *sql.DB) error {
	if l, err := c.Acquire(ctx, "a"); err == nil {
		db.Exec("DELETE FROM doc") // want `this write is not fenced`
		return l.Release(ctx)
	}
	return nil
}

func whereHeld(ctx context.Context, c *client.Client, db *sql.DB) error {
	l, err := c.Acquire(ctx, "b")
	switch {
	case errors.Is(err, client.ErrTimeout):
		return nil
	case err != nil:
		return err
	}
	for range 3 {
		if err := retry(func() error {
			_, err := db.Exec("DELETE FROM doc") // want `this write is not fenced`
			return err
		}); err != nil {
			l.Release(ctx)
			return err
		}
	}
	return l.Release(ctx)
}

func retry(f func() error) error { return f() }

func inTurns(ctx context.Context, c *client.Client, db *sql.DB, keys []string) {
	for _, key := range keys {
		l, err := c.Acquire(ctx, key)
		if err != nil {
			continue
		}
		db.Exec("DELETE FROM doc") // want `this write is not fenced`
		l.Release(ctx)
	}
}

func inDefer(ctx context.Context, c *client.Client, db *sql.DB) error {
	return c.Do(ctx, "a", func(context.Context, *client.Lock) error {
		defer db.Exec("DELETE FROM doc") // want `this write is not fenced`
		return nil
	})
}

// A guard stands around.

func guardAround(ctx context.Context, c *client.Client, db *sql.DB, g *fence.Guard, grant fence.Grant) error {
	return g.Do(ctx, grant, func() error {
		return c.Do(ctx, "a", func(context.Context, *client.Lock) error {
			_, err := db.Exec("UPDATE doc SET a = 1")
			return err
		})
	})
}

func guardBefore(ctx context.Context, c *client.Client, db *sql.DB, g *fence.Guard, grant fence.Grant) error {
	if err := g.Check(ctx, grant); err != nil {
		return err
	}
	return c.Do(ctx, "a", func(context.Context, *client.Lock) error {
		_, err := db.Exec("UPDATE doc SET a = 1")
		return err
	})
}

// Functions with a name.

func named(ctx context.Context, c *client.Client, db *sql.DB) error {
	fn := func(context.Context, *client.Lock) error {
		_, err := db.Exec("DELETE FROM doc") // want `this write is not fenced`
		return err
	}
	other := func(context.Context, *client.Lock) error {
		_, err := db.Exec("DELETE FROM doc")
		return err
	}
	other = nil
	return errors.Join(c.Do(ctx, "a", fn), c.Do(ctx, "a", declared), c.Do(ctx, "b", declared), c.Do(ctx, "a", store{db}.method), c.Do(ctx, "a", other))
}

var global *sql.DB

func declared(context.Context, *client.Lock) error {
	_, err := global.Exec("DELETE FROM doc") // want `this write is not fenced`
	return err
}

type store struct{ *sql.DB }

func (s store) method(_ context.Context, l *client.Lock) error {
	_, err := s.Exec("DELETE FROM doc") // want `this write is not fenced`
	return err
}

func (s store) fenced(_ context.Context, l *client.Lock) error {
	_, err := s.Exec("DELETE FROM doc WHERE seen < $1", l.Token())
	return err
}

func fencedByName(ctx context.Context, c *client.Client, s store) error {
	return c.Do(ctx, "a", s.fenced)
}

// Statements.

func guardThemselves(ctx context.Context, c *client.Client, db *sql.DB) error {
	return c.Do(ctx, "a", func(context.Context, *client.Lock) error {
		db.Exec("UPDATE doc SET state='sent' WHERE id=1 AND state='new'")
		db.Exec("UPDATE doc SET a = 1, \"sent\" = true\n WHERE id=1 AND NOT sent")
		db.Exec("UPDATE doc SET a = 1 WHERE id = 1 AND updated_at = $1")
		db.Exec("UPDATE doc SET a = 1 WHERE id = 1 AND updated = $1")
		db.Exec("UPDATE doc SET a = 1 WHERE xmin = $1")
		db.Exec("UPDATE doc SET a = 1 WHERE etag = $1")
		db.Exec("UPDATE doc SET a = 1 WHERE rowversion = $1")
		db.Exec("UPDATE doc SET a = 1 WHERE rev = $1")
		return nil
	})
}

func setOnly(ctx context.Context, c *client.Client, db *sql.DB) error {
	return c.Do(ctx, "a", func(context.Context, *client.Lock) error {
		_, err := db.Exec("UPDATE doc SET a = 1, updated_at = now() WHERE id = 1 AND kind = 'b'") // want `this write is not fenced`
		return err
	})
}

func commented(ctx context.Context, c *client.Client, db *sql.DB) error {
	return c.Do(ctx, "a", func(context.Context, *client.Lock) error {
		_, err := db.Exec("-- name: Clear\n/* all\nof it */ DELETE FROM doc") // want `this write is not fenced`
		return err
	})
}

func prepared(ctx context.Context, c *client.Client, db *sql.DB) error {
	st, err := db.PrepareContext(ctx, "DELETE FROM doc")
	if err != nil {
		return err
	}
	other, err := db.Prepare("DELETE FROM doc")
	other, err = db.Prepare("SELECT 1")
	if err != nil {
		return err
	}
	return c.Do(ctx, "a", func(ctx context.Context, _ *client.Lock) error {
		other.Exec()
		_, err := st.ExecContext(ctx) // want `this write is not fenced`
		return err
	})
}
