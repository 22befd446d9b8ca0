// Migrate begins a service of which many start at once: one of them brings the
// database up to date while the others wait. If it dies, the next goes on.
//
//	migrate -db postgres://localhost/shop
package main

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"log"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/stile-lock/stile/client"
	"github.com/stile-lock/stile/client/fence/fencesql"
)

var guard fencesql.Guard

// migrations are applied in order, each in a transaction with its number.
var migrations = []string{
	`CREATE TABLE customer (id BIGINT PRIMARY KEY, name TEXT NOT NULL)`,
	`ALTER TABLE customer ADD COLUMN email TEXT`,
	`INSERT INTO customer VALUES (1, 'Ann', 'ann@example.com')`,
}

func main() {
	stile := flag.String("stile", "127.0.0.1:5625", "addresses of the lock servers")
	url := flag.String("db", "", "the database")
	flag.Parse()
	ctx := context.Background()
	db, err := sql.Open("pgx", *url)
	if err != nil {
		log.Fatal(err)
	}
	c, err := client.Dial(ctx, *stile, client.RetryFor(5*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	// Who comes second finds nothing left to do.
	err = c.Do(ctx, "migrations/shop", func(ctx context.Context, lock *client.Lock) error { return migrate(ctx, db, lock) },
		client.Lease(30*time.Second))
	c.Close()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("ready") // and here the service begins
}

func migrate(ctx context.Context, db *sql.DB, lock *client.Lock) error {
	if err := guard.CreateTable(ctx, db); err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS migration (number BIGINT PRIMARY KEY)`); err != nil {
		return err
	}
	for number, statement := range migrations {
		// One that was paused past its lease is refused here.
		err := guard.Do(ctx, db, nil, lock, func(tx *sql.Tx) error {
			result, err := tx.ExecContext(ctx, `INSERT INTO migration VALUES ($1) ON CONFLICT DO NOTHING`, number+1)
			if err != nil {
				return err
			}
			if added, err := result.RowsAffected(); err != nil || added == 0 {
				return err // it is there
			}
			fmt.Println("migration", number+1)
			_, err = tx.ExecContext(ctx, statement)
			return err
		})
		if err != nil {
			return fmt.Errorf("migration %d: %w", number+1, err)
		}
	}
	return nil
}
