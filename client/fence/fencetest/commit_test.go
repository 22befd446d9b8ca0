package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stile-lock/stile/client/fence"
	"github.com/stile-lock/stile/client/fence/fencesql"
)

// A commit that fails is an error, and its token was not seen.
func TestSQLCommitFails(t *testing.T) {
	each(t, func(t *testing.T, db *sql.DB, g fencesql.Guard) {
		n := tables.Add(1)
		for _, statement := range []string{
			fmt.Sprintf("CREATE TABLE parent%d (id BIGINT PRIMARY KEY)", n),
			fmt.Sprintf("CREATE TABLE child%d (id BIGINT REFERENCES parent%d DEFERRABLE INITIALLY DEFERRED)", n, n),
		} {
			_, err := db.Exec(statement)
			ok(t, err)
		}
		err := g.Do(t.Context(), db, nil, fence.NewGrant("k", 9), func(tx *sql.Tx) error {
			_, err := tx.Exec(fmt.Sprintf("INSERT INTO child%d VALUES (7)", n)) // of no parent
			return err
		})
		if err == nil || errors.Is(err, fence.ErrStale) {
			t.Errorf("a commit that failed: %v", err)
		}
		ok(t, g.Do(t.Context(), db, nil, fence.NewGrant("k", 7), nothing))
	})
}

// A context that ends while the write runs ends the transaction.
func TestSQLContextEndsTransaction(t *testing.T) {
	each(t, func(t *testing.T, db *sql.DB, g fencesql.Guard) {
		ctx, cancel := context.WithCancel(t.Context())
		err := g.Do(ctx, db, nil, fence.NewGrant("k", 9), func(*sql.Tx) error { cancel(); return nil })
		if !errors.Is(err, context.Canceled) && !errors.Is(err, sql.ErrTxDone) {
			t.Errorf("got %v", err)
		}
		ok(t, g.Do(t.Context(), db, nil, fence.NewGrant("k", 7), nothing))
	})
}

// The options are those of the transaction.
func TestSQLOptions(t *testing.T) {
	for _, driver := range drivers {
		db := openPostgres(t, driver)
		g := table(t, db)
		for _, level := range levels {
			ok(t, g.Do(t.Context(), db, &sql.TxOptions{Isolation: level}, fence.NewGrant("k", 7), func(tx *sql.Tx) error {
				var got string
				err := tx.QueryRow("SHOW transaction_isolation").Scan(&got)
				if !strings.EqualFold(got, level.String()) {
					t.Errorf("%s: it runs at %s, not %v", driver, got, level)
				}
				return err
			}))
		}
		// The check writes.
		if err := g.Do(t.Context(), db, &sql.TxOptions{ReadOnly: true}, fence.NewGrant("k", 7), nothing); err == nil || errors.Is(err, fence.ErrStale) {
			t.Errorf("%s: read-only: %v", driver, err)
		}
	}
}
