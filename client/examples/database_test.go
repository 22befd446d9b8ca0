package examples

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/stile-lock/stile/client"
	"github.com/stile-lock/stile/client/fence/fencesql"
	"github.com/stile-lock/stile/client/fence/fencetest/servers"
)

// One PostgreSQL runs for all tests.
var (
	startPostgres = sync.OnceValues(servers.Postgres)
	started       atomic.Bool
	databases     atomic.Int64
)

func endPostgres() {
	if started.Load() {
		if s, err := startPostgres(); err == nil {
			s.Close()
		}
	}
}

// newDatabase makes a database of the test's own, and returns it and its URL for
// a program of a name, by which the database knows it.
func newDatabase(t *testing.T) (db *sql.DB, url func(name string) string) {
	t.Helper()
	started.Store(true)
	s, err := startPostgres()
	servers.Need(t, err)
	own := fmt.Sprintf("test%d", databases.Add(1))
	all, err := sql.Open("pgx", s.URL())
	ok(t, err)
	defer all.Close()
	_, err = all.Exec("CREATE DATABASE " + own)
	ok(t, err)
	url = func(name string) string {
		return strings.Replace(s.URL(), "/postgres?", "/"+own+"?", 1) + "&application_name=" + name
	}
	db, err = sql.Open("pgx", url("test"))
	ok(t, err)
	t.Cleanup(func() { db.Close() })
	return db, url
}

func do(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		_, err := db.Exec(statement)
		ok(t, err)
	}
}

func number(t *testing.T, db *sql.DB, query string) (n int64) {
	t.Helper()
	ok(t, db.QueryRow(query).Scan(&n))
	return n
}

// slow are the statements by which the program called first is slow once it adds
// such a row to a table, so that it can be paused there.
func slow(when, table, row string, seconds int) []string {
	trigger := map[string]string{
		inTransaction: `CREATE TRIGGER slow BEFORE INSERT ON ` + table,
		atCommit:      `CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON ` + table + ` DEFERRABLE INITIALLY DEFERRED`,
	}[when]
	return []string{fmt.Sprintf(`CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF current_setting('application_name') = 'first' AND %s THEN PERFORM pg_sleep(%d); END IF;
		RETURN NEW;
	END $$`, row, seconds), trigger + ` FOR EACH ROW EXECUTE FUNCTION slow()`}
}

const inTransaction, atCommit = "in its transaction", "at its commit"

// pauseThere pauses the program called first while it is slow.
func pauseThere(t *testing.T, db *sql.DB, first *program) {
	t.Helper()
	until(t, "the first is where it is slow", func() bool {
		return number(t, db, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'first' AND wait_event = 'PgSleep'`) > 0
	})
	first.signal(syscall.SIGSTOP)
}

// newOrders makes the tables, of so many orders. Nothing in them keeps an order
// from being shipped twice.
func newOrders(t *testing.T, orders int) (db *sql.DB, url func(string) string) {
	t.Helper()
	db, url = newDatabase(t)
	ok(t, fencesql.Guard{Table: "orders_fence"}.CreateTable(t.Context(), db))
	do(t, db,
		`CREATE TABLE orders (id BIGINT PRIMARY KEY, shipped BOOLEAN NOT NULL DEFAULT false)`,
		`CREATE TABLE shipments (order_id BIGINT NOT NULL, token BIGINT NOT NULL)`,
		fmt.Sprintf(`INSERT INTO orders (id) SELECT generate_series(1, %d)`, orders))
	return db, url
}

const (
	shipments = "SELECT count(*) FROM shipments"
	shipped   = "SELECT count(DISTINCT order_id) FROM shipments"
)

// Of four workers one is killed and one is paused past its lease; each order is
// shipped once.
func TestOrders(t *testing.T) {
	t.Parallel()
	const orders = 60
	stile := startNode(t)
	db, url := newOrders(t, orders)
	var programs []*program
	for range 4 {
		programs = append(programs, start(t, "orders", "-stile", stile, "-db", url("worker"), "-lease", "500ms", "-work", "100ms"))
	}
	until(t, "some are shipped", func() bool { return number(t, db, shipments) > 4 })
	killed, paused := programs[0], programs[1]
	killed.signal(syscall.SIGKILL)
	paused.signal(syscall.SIGSTOP)
	killed.wait(t)
	before := number(t, db, shipments)
	time.Sleep(time.Second) // past the lease
	until(t, "others go on", func() bool { return number(t, db, shipments) > before })
	paused.signal(syscall.SIGCONT)
	for _, p := range programs[1:] {
		if !p.wait(t) {
			t.Errorf("a worker failed: %s", p.text())
		}
	}
	if all, distinct := number(t, db, shipments), number(t, db, shipped); all != orders || distinct != orders {
		t.Errorf("%d shipments of %d orders, of %d", all, distinct, orders)
	}
}

// A worker is paused within its transaction, past its lease. The next one ships
// the order, or finds it shipped, while it still sleeps; and when it wakes up it
// ships nothing again, and goes on.
func TestOrdersPausedWithinTransaction(t *testing.T) {
	t.Parallel()
	for _, when := range []string{inTransaction, atCommit} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			stile := startNode(t) // the two have orders of the same number
			db, url := newOrders(t, 1)
			do(t, db, slow(when, "shipments", "true", 3)...)
			worker := func(name string) *program {
				return start(t, "orders", "-stile", stile, "-db", url(name), "-lease", "500ms")
			}
			first := worker("first")
			pauseThere(t, db, first)
			if !worker("second").wait(t) {
				t.Error("the second failed")
			}
			first.signal(syscall.SIGCONT)
			if !first.wait(t) {
				t.Error("the first failed when it woke up")
			}
			if n := number(t, db, shipments); n != 1 {
				t.Errorf("the order was shipped %d times", n)
			}
		})
	}
}

// A worker that is paused past its lease while it packs ships nothing by that
// grant, also where nobody was given the order meanwhile: it may be one who has
// not been at the guard yet.
func TestOrdersPausedWhilePacking(t *testing.T) {
	t.Parallel()
	stile := startNode(t)
	db, url := newOrders(t, 1)
	c, err := client.Dial(t.Context(), stile)
	ok(t, err)
	defer c.Close()
	grant := func(key string) (uint64, error) {
		lock, err := c.Acquire(t.Context(), key, client.Wait(-1))
		if err != nil {
			return 0, err
		}
		return lock.Token(), lock.Release(t.Context())
	}
	worker := start(t, "orders", "-stile", stile, "-db", url("worker"), "-lease", "500ms", "-work", "3s")
	until(t, "it has the order", func() bool { _, err := grant("orders/1"); return errors.Is(err, client.ErrTimeout) })
	worker.signal(syscall.SIGSTOP)
	time.Sleep(time.Second) // past the lease
	between, err := grant("another")
	ok(t, err)
	worker.signal(syscall.SIGCONT)
	if !worker.wait(t) {
		t.Error("it failed")
	}
	if n, token := number(t, db, shipments), number(t, db, "SELECT max(token) FROM shipments"); n != 1 || uint64(token) < between {
		t.Errorf("%d shipments, with the token %d; it was paused before %d", n, token, between)
	}
}

// Workers outlive the database's cutting them off, and a node that is away for
// longer than they try.
func TestOrdersWhileThingsAreDown(t *testing.T) {
	t.Parallel()
	const orders = 40
	node := startCluster(t)
	db, url := newOrders(t, orders)
	var programs []*program
	for range 3 {
		programs = append(programs, start(t, "orders", "-stile", node.Addrs(), "-db", url("worker"), "-lease", "1s", "-work", "200ms"))
	}
	more := func(what string, than int64) {
		t.Helper()
		until(t, what, func() bool { return number(t, db, shipments) > than })
	}
	more("some are shipped", 2)
	for range 3 {
		do(t, db, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'worker'`)
		time.Sleep(50 * time.Millisecond)
	}
	more("they go on after the database has cut them off", number(t, db, shipments))
	node.Node(1).Kill()
	time.Sleep(6 * time.Second) // they try for 5 s
	ok(t, node.Node(1).Start())
	more("they go on with the node", number(t, db, shipments))
	for _, p := range programs {
		if !p.wait(t) {
			t.Error("a worker failed")
		}
	}
	if all, distinct := number(t, db, shipments), number(t, db, shipped); all != orders || distinct != orders {
		t.Errorf("%d shipments of %d orders, of %d", all, distinct, orders)
	}
}

// Five start at once, and one of them migrates.
func TestMigrate(t *testing.T) {
	t.Parallel()
	stile := startNode(t)
	db, url := newDatabase(t)
	for round := range 2 {
		var programs []*program
		for range 5 {
			programs = append(programs, start(t, "migrate", "-stile", stile, "-db", url("instance")))
		}
		migrated := 0
		for _, p := range programs {
			if !p.wait(t) || !strings.HasSuffix(p.text(), "ready\n") {
				t.Errorf("one is not ready: %s", p.text())
			}
			if n := strings.Count(p.text(), "migration "); n > 0 {
				migrated++
				if n != 3 {
					t.Errorf("one made %d of the migrations", n)
				}
			}
		}
		if migrated != 1-round {
			t.Errorf("round %d: %d migrated", round+1, migrated)
		}
	}
	var email string
	ok(t, db.QueryRow("SELECT email FROM customer").Scan(&email))
}

// One is paused within the transaction of a migration, past its lease. The next
// goes on with it, or after it, while it still sleeps.
func TestMigratePausedWithinTransaction(t *testing.T) {
	t.Parallel()
	for _, when := range []string{inTransaction, atCommit} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			stile := startNode(t)
			db, url := newDatabase(t)
			do(t, db, `CREATE TABLE migration (number BIGINT PRIMARY KEY)`)
			do(t, db, slow(when, "migration", "NEW.number = 2", 3)...)
			instance := func(name string) *program {
				return start(t, "migrate", "-stile", stile, "-db", url(name), "-lease", "500ms")
			}
			first := instance("first")
			pauseThere(t, db, first)
			if second := instance("second"); !second.wait(t) {
				t.Errorf("the second failed: %s", second.text())
			}
			if n, ann := number(t, db, `SELECT count(*) FROM migration`), number(t, db, `SELECT count(email) FROM customer`); n != 3 || ann != 1 {
				t.Errorf("%d migrations, %d customers", n, ann)
			}
			first.signal(syscall.SIGCONT)
			if first.wait(t) {
				t.Errorf("the first lost its lock, and is ready all the same: %s", first.text())
			}
		})
	}
}
