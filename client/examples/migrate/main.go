// Migrate begins a service of which many start at once: one of them brings the
// database up to date while the others wait. If it dies, the next goes on.
//
//	migrate -db postgres://localhost/shop
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

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
	lease := flag.Duration("lease", 30*time.Second, "how long the others wait for a dead or paused one")
	flag.Parse()
	config, err := pgx.ParseConfig(*url)
	c, failed := client.Dial(context.Background(), *stile, client.RetryFor(5*time.Second))
	if err = errors.Join(err, failed); err != nil {
		log.Fatal(err)
	}
	// One that is paused in its transaction holds up the next, until the database ends it.
	config.RuntimeParams["idle_in_transaction_session_timeout"] = fmt.Sprint(lease.Milliseconds())
	db := stdlib.OpenDB(*config)
	err = c.Do(context.Background(), "migrations/shop", func(ctx context.Context, lock *client.Lock) error { return migrate(ctx, db, lock) },
		client.Lease(*lease))
	c.Close()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("ready") // and here the service begins
}

func migrate(ctx context.Context, db *sql.DB, lock *client.Lock) error {
	err := guard.CreateTable(ctx, db)
	for number := 0; err == nil && number < len(migrations); number++ {
		// One that was paused past its lease is refused here.
		err = guard.Do(ctx, db, nil, lock, func(tx *sql.Tx) error { return apply(ctx, tx, number) })
	}
	return err
}

// apply looks behind the guard whether there is something left to do.
func apply(ctx context.Context, tx *sql.Tx, number int) error {
	var done int
	_, err := tx.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS migration (number BIGINT PRIMARY KEY)`)
	if err == nil {
		err = tx.QueryRowContext(ctx, `SELECT count(*) FROM migration`).Scan(&done)
	}
	if err != nil || done > number {
		return err
	}
	fmt.Println("migration", number+1)
	if _, err := tx.ExecContext(ctx, migrations[number]); err != nil {
		return fmt.Errorf("migration %d: %w", number+1, err)
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO migration VALUES ($1)`, number+1)
	return err
}
