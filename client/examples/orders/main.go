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

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/stile-lock/stile/client"
	"github.com/stile-lock/stile/client/fence"
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
	db, err := sql.Open("pgx", *url)
	check(err)
	c, err := client.Dial(ctx, *stile, client.RetryFor(5*time.Second))
	check(err)
	defer c.Close()
	for {
		var id int64
		err := db.QueryRow(`SELECT id FROM orders WHERE NOT shipped ORDER BY random() LIMIT 1`).Scan(&id)
		if errors.Is(err, sql.ErrNoRows) {
			return // all done
		}
		check(err)
		err = c.Do(ctx, fmt.Sprint("orders/", id), func(ctx context.Context, lock *client.Lock) error {
			time.Sleep(*work) // pack it
			return guard.Do(ctx, db, nil, lock, func(tx *sql.Tx) error { return ship(ctx, tx, id, lock) })
		}, client.Lease(*lease), client.Wait(-1))
		switch {
		case errors.Is(err, client.ErrTimeout): // another worker is at it
			time.Sleep(10 * time.Millisecond)
		case errors.Is(err, fence.ErrStale), errors.Is(err, client.ErrNotHeld):
			log.Printf("order %d went to another worker: %v", id, err)
		default:
			check(err)
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

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
