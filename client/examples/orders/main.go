// Orders ships each order of a table exactly once, however many of it run and
// whatever becomes of them: killed, paused past the lease, cut off.
//
//	orders -db postgres://localhost/shop
//
// The lock keeps workers out of each other's way. The guard makes it exact: it
// is in the transaction that ships, so who lost the lock on the way is refused.
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

var guard = fencesql.Guard{Table: "orders_fence"}

func main() {
	stile := flag.String("stile", "127.0.0.1:5625", "addresses of the lock servers")
	url := flag.String("db", "", "the database: orders (id, shipped), shipments (order_id, token), orders_fence")
	lease := flag.Duration("lease", 10*time.Second, "how long the order of a dead worker waits")
	work := flag.Duration("work", 50*time.Millisecond, "how long an order takes")
	flag.Parse()
	ctx := context.Background()
	config, err := pgx.ParseConfig(*url)
	c, failed := client.Dial(ctx, *stile, client.RetryFor(5*time.Second))
	if err = errors.Join(err, failed); err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	// A worker that is paused within its transaction holds up the next one at
	// the guard, until the database ends it.
	config.RuntimeParams["idle_in_transaction_session_timeout"] = fmt.Sprint(lease.Milliseconds())
	db := stdlib.OpenDB(*config)
	for {
		var id int64
		err := db.QueryRow(`SELECT id FROM orders WHERE NOT shipped ORDER BY random() LIMIT 1`).Scan(&id)
		if errors.Is(err, sql.ErrNoRows) {
			return // all done
		}
		if err == nil {
			err = c.Do(ctx, fmt.Sprint("orders/", id), func(ctx context.Context, lock *client.Lock) error {
				time.Sleep(*work) // pack it
				return guard.Do(ctx, db, nil, lock, func(tx *sql.Tx) error { return ship(ctx, tx, id, lock) })
			}, client.Lease(*lease), client.Wait(-1))
		}
		switch {
		case errors.Is(err, client.ErrTimeout): // another worker is at it
			time.Sleep(10 * time.Millisecond)
		case err != nil: // it went to another worker, or something is down: go on
			log.Printf("order %d: %v", id, err)
			time.Sleep(200 * time.Millisecond)
		}
	}
}

// ship looks behind the guard whether there is something left to do.
func ship(ctx context.Context, tx *sql.Tx, id int64, lock *client.Lock) error {
	var shipped bool
	if err := tx.QueryRowContext(ctx, `SELECT shipped FROM orders WHERE id = $1`, id).Scan(&shipped); err != nil || shipped {
		return err
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO shipments VALUES ($1, $2)`, id, int64(lock.Token())); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `UPDATE orders SET shipped = true WHERE id = $1`, id)
	return err
}
