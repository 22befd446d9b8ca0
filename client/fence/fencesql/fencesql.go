// Package fencesql guards data in PostgreSQL or SQLite: a row of a table
// remembers the greatest token of each key, and one statement in the writer's
// own transaction checks and remembers.
//
//	var guard fencesql.Guard // and once, at set-up: guard.CreateTable(ctx, db)
//
//	err := guard.Do(ctx, db, nil, lock, func(tx *sql.Tx) error {
//		_, err := tx.ExecContext(ctx, `UPDATE doc SET body = $1 WHERE id = $2`, body, id)
//		return err
//	})
//	if errors.Is(err, fence.ErrStale) {
//		// somebody else holds the key by now; nothing was written
//	}
//
// # Transactions
//
// The check locks the key's row until the transaction ends. Whoever comes
// with another grant of the key waits for that end, so checks and what follows
// them happen one transaction after the other.
//
// At READ COMMITTED, PostgreSQL's default, what follows the check sees all
// that earlier transactions of the key have committed, provided that the check
// comes first. At REPEATABLE READ and SERIALIZABLE a transaction that had to
// wait for another one gets the database's serialization failure (SQLSTATE
// 40001), as does any that the database can't put in order. It is returned as
// it is and says nothing about the token: run the whole transaction again, as
// with any such failure. SQLite has one writer at a time; who has to wait for
// longer than its busy_timeout gets SQLITE_BUSY, as it is.
//
// Keep guarded transactions short, with the long work before them: a holder
// that is paused within one keeps the next one waiting for the row, lease or
// not. PostgreSQL ends such a transaction after its
// idle_in_transaction_session_timeout; the lease is a good value.
//
// A transaction that checks several keys can meet a deadlock with one that
// checks them in another order. The database ends one of them, with an error
// of its own.
//
// What is rolled back was not seen. So a transaction that only reads behind the
// guard must commit as well: in [Guard.Do], return nil also if there is nothing
// to read ([sql.ErrNoRows]), and tell so by a variable. Else its token is
// forgotten, and a stale writer may come between the reading and what is made
// of it. The same goes for ROLLBACK TO SAVEPOINT: check before the savepoint.
//
// The check writes. With [sql.TxOptions.ReadOnly] it fails in PostgreSQL
// (SQLSTATE 25006), and on a standby.
//
// # The table
//
// One table is for the locks of one cluster: tokens of two cannot be compared.
// All who write must use the same one. The zero Guard leaves the schema to the
// connection's search_path: two roles of which one has a schema of its own may
// each find a table of their own, and neither would see the other's tokens. Set
// Schema where that may be.
//
// [Guard.SchemaSQL] is its SQL. Keys are bytes, as they may be anything but
// spaces and control characters; convert_from(key, 'UTF8') shows them in
// PostgreSQL. There is a row for each key ever seen. A row may be deleted
// once nobody can come with a token of its age any more.
package fencesql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/stile-lock/stile/client/fence"
)

// DefaultTable is the name of the table unless [Guard] says otherwise.
const DefaultTable = "stile_fence"

// ErrTokenRange is for a token of 2^63 or more: a BIGINT doesn't hold it.
// Servers should not give such (SPEC.md 8.4), and Stile does not.
var ErrTokenRange = errors.New("the token is greater than 2^63-1 and does not fit a BIGINT")

// Guard is a table of greatest tokens. The zero value is the table
// [DefaultTable], where the connection finds it. A Guard has no state and may be
// copied.
type Guard struct {
	// Table is its name, "" for DefaultTable. It is quoted, so its case counts.
	Table string

	// Schema is the schema it is in: in SQLite, the name of an attached
	// database. "" is the connection's own choice, which may be another one for
	// another role: see the package's documentation.
	Schema string
}

func (g Guard) table() string {
	name := g.Table
	if name == "" {
		name = DefaultTable
	}
	if g.Schema != "" {
		return quote(g.Schema) + "." + quote(name)
	}
	return quote(name)
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// SchemaSQL is the statement that makes the table, for tools that keep schemas.
// It is right in PostgreSQL and in SQLite, and does nothing where the table
// exists. PostgreSQL fails if several run it at one time, which
// [Guard.CreateTable] sees to.
func (g Guard) SchemaSQL() string {
	return `CREATE TABLE IF NOT EXISTS ` + g.table() + ` (
	key   BYTEA  NOT NULL PRIMARY KEY,
	token BIGINT NOT NULL CHECK (token > 0)
)`
}

// CheckSQL is the statement of the check, for those who use a database by
// something else than database/sql or [Guard.CheckRow]. Its parameters are the
// key, as bytes, and the token. It returns one row of one BIGINT, the greatest
// token seen, this one included: the grant is stale if that is not its own.
func (g Guard) CheckSQL() string {
	// An update in each case, also where nothing changes: it waits for other
	// transactions and locks the row.
	return `INSERT INTO ` + g.table() + ` AS seen (key, token) VALUES ($1, $2)
ON CONFLICT (key) DO UPDATE
SET token = CASE WHEN excluded.token > seen.token THEN excluded.token ELSE seen.token END
RETURNING token`
}

// Check accepts the grant if its token is not lower than the greatest one seen
// for the key, and remembers it when tx commits. Call it first in the
// transaction, and roll back on any error.
//
// The errors: a [*fence.StaleError]; one that wraps [fence.ErrInvalid] or
// [ErrTokenRange]; or the database's, as it is.
func (g Guard) Check(ctx context.Context, tx *sql.Tx, grant fence.Grant) error {
	return g.CheckRow(grant, func(query string, args ...any) Row { return tx.QueryRowContext(ctx, query, args...) })
}

// Row is a *sql.Row, or what pgx returns for QueryRow.
type Row interface {
	Scan(dest ...any) error
}

// CheckRow is [Guard.Check] for transactions that are not a *sql.Tx. With pgx:
//
//	err := guard.CheckRow(lock, func(query string, args ...any) fencesql.Row {
//		return tx.QueryRow(ctx, query, args...)
//	})
func (g Guard) CheckRow(grant fence.Grant, query func(query string, args ...any) Row) error {
	if err := fence.Validate(grant); err != nil {
		return err
	}
	token := grant.Token()
	if token > math.MaxInt64 {
		return fmt.Errorf("fencesql: token %d for %q: %w", token, grant.Key(), ErrTokenRange)
	}
	var seen int64
	if err := query(g.CheckSQL(), []byte(grant.Key()), int64(token)).Scan(&seen); err != nil {
		return err
	}
	if uint64(seen) != token {
		return &fence.StaleError{Key: grant.Key(), Token: token, Seen: uint64(seen)}
	}
	return nil
}

// Do runs write in a transaction of its own that begins with [Guard.Check],
// and commits it if write returns nil. Else it is rolled back, also if write
// panics. opts may be nil.
//
// The errors are those of Check and of write, and the database's own for the
// begin and the commit, all as they are. Nothing is tried again.
func (g Guard) Do(ctx context.Context, db *sql.DB, opts *sql.TxOptions, grant fence.Grant, write func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, opts)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after the commit
	if err := g.Check(ctx, tx, grant); err != nil {
		return err
	}
	if err := write(tx); err != nil {
		return err
	}
	return tx.Commit()
}
