package lostlock

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/stile-lock/stile/client"
	"github.com/stile-lock/stile/client/fence"
)

func enqueue(context.Context, ...any) error { return nil }

// The token goes to somebody who may release the lock.

func handsOn(ctx context.Context, c *client.Client) error {
	l, err := c.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	if err := enqueue(ctx, l.Token()); err != nil {
		return errors.Join(err, l.Release(ctx))
	}
	return nil
}

func handsOnLater(ctx context.Context, c *client.Client) error {
	l, err := c.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	token := strconv.FormatUint(l.Token(), 10)
	message := "release " + token
	err = enqueue(ctx, message)
	if err != nil {
		l.Release(ctx)
		return err
	}
	return nil
}

func encodes(ctx context.Context, c *client.Client, w io.Writer) error {
	l, err := c.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	if cond() {
		return l.Release(ctx)
	}
	return json.NewEncoder(w).Encode(l.Token())
}

func writes(ctx context.Context, c *client.Client, w io.Writer) error {
	l, err := c.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	if _, err := io.WriteString(w, strconv.FormatUint(l.Token(), 10)); err != nil {
		return errors.Join(err, l.Release(ctx))
	}
	return nil
}

func inHeader(ctx context.Context, c *client.Client, r *http.Request) error {
	l, err := c.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	r.Header.Set("Token", fmt.Sprint(l.Token()))
	if _, err := http.DefaultClient.Do(r); err != nil {
		return errors.Join(err, l.Release(ctx))
	}
	return nil
}

func inserts(ctx context.Context, c *client.Client, db *sql.DB) error {
	l, err := c.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, "INSERT INTO queue VALUES ($1)", l.Token()); err != nil {
		return errors.Join(err, l.Release(ctx))
	}
	return nil
}

func oneFailsBehindAnother(ctx context.Context, c *client.Client) error {
	l, err := c.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	err1 := enqueue(ctx, l.Token())
	err2 := enqueue(ctx, l.Token())
	if err2 != nil {
		return err2
	}
	if err1 != nil {
		return l.Release(ctx)
	}
	return nil
}

func returnsText(ctx context.Context, c *client.Client) (string, error) {
	l, err := c.Acquire(ctx, "a")
	if err != nil {
		return "", err
	}
	if cond() {
		return "", l.Release(ctx)
	}
	return strconv.FormatUint(l.Token(), 10), nil
}

func returnsByName(ctx context.Context, c *client.Client) (token uint64, err error) {
	l, err := c.Acquire(ctx, "a")
	if err != nil {
		return 0, err
	}
	if cond() {
		return 0, l.Release(ctx)
	}
	token = l.Token()
	return
}

// The token goes nowhere, or the call that gets it fails.

func failsToHandOn(ctx context.Context, c *client.Client) error {
	l, err := c.Acquire(ctx, "a") // want `still held at the return`
	if err != nil {
		return err
	}
	if err := enqueue(ctx, l.Token()); err != nil {
		return err
	}
	return l.Release(ctx)
}

func logs(ctx context.Context, c *client.Client) error {
	l, err := c.Acquire(ctx, "a") // want `still held at the return`
	if err != nil {
		return err
	}
	log.Printf("token %d", l.Token())
	slog.Info("held", "token", strconv.FormatUint(l.Token(), 10))
	if cond() {
		return fmt.Errorf("token %d", l.Token())
	}
	return l.Release(ctx)
}

func guards(ctx context.Context, c *client.Client, g *fence.Guard) error {
	l, err := c.Acquire(ctx, "a") // want `still held at the return`
	if err != nil {
		return err
	}
	if err := g.Check(ctx, l); err != nil {
		return err
	}
	return l.Release(ctx)
}

func guardsBySQL(ctx context.Context, c *client.Client, db *sql.DB) error {
	l, err := c.Acquire(ctx, "a") // want `still held at the return`
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, "UPDATE t SET a = 1, seen = $1 WHERE id = 1 AND seen <= $1", l.Token())
	return err
}

func compares(ctx context.Context, c *client.Client) error {
	l, err := c.Acquire(ctx, "a") // want `still held at the return`
	if err != nil {
		return err
	}
	if l.Token() < 7 {
		return errBusy
	}
	return l.Release(ctx)
}

func handsOnElsewhere(ctx context.Context, c *client.Client) error {
	l, err := c.Acquire(ctx, "a") // want `still held at the return`
	if err != nil {
		return err
	}
	if cond() {
		return enqueue(ctx, l.Token())
	}
	if cond() {
		return errBusy
	}
	return l.Release(ctx)
}
