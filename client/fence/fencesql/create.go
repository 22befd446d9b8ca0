package fencesql

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// Handle is a *sql.DB, *sql.Conn or *sql.Tx.
type Handle interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// CreateTable makes the table if the connection finds none. Many may call it at
// one time, and whoever may only use the table may call it where it exists.
func (g Guard) CreateTable(ctx context.Context, db Handle) error {
	create := g.SchemaSQL()
	var exists bool
	// Another database knows no such function, which tells it apart.
	look := db.QueryRowContext(ctx, `SELECT to_regclass($1) IS NOT NULL`, g.table()).Scan(&exists)
	switch {
	case exists:
		return nil
	case look == nil:
		create = oneAtATime(create)
	}
	if _, err := db.ExecContext(ctx, create); err != nil {
		if look != nil {
			err = fmt.Errorf("%w (looking for it: %w)", err, look)
		}
		return fmt.Errorf("fencesql: creating the table %s: %w", g.table(), err)
	}
	return nil
}

// oneAtATime makes of a statement one for PostgreSQL that waits until nobody
// else is at it. There, two CREATE TABLE IF NOT EXISTS at one time both find
// nothing, and one of them fails. The number of the lock is STILE in ASCII.
func oneAtATime(statement string) string {
	quotes := "$stile$"
	for strings.Contains(statement, quotes) {
		quotes = "$x" + quotes[1:]
	}
	return `DO ` + quotes + ` BEGIN
PERFORM pg_advisory_xact_lock(357896375365);
` + statement + `;
END ` + quotes
}
