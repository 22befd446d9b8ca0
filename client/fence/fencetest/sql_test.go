package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/lib/pq"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/stile-lock/stile/client/fence"
	"github.com/stile-lock/stile/client/fence/fencesql"
)

// again reports whether an error asks for the transaction to be run again:
// serialization failures of PostgreSQL, and SQLite's busy.
func again(err error) bool {
	var x *pgconn.PgError
	var q *pq.Error
	var lite *sqlite.Error
	switch {
	case errors.As(err, &x):
		return x.Code == "40001"
	case errors.As(err, &q):
		return q.Code == "40001"
	case errors.As(err, &lite):
		return lite.Code()&0xff == sqlite3.SQLITE_BUSY
	}
	return false
}

var drivers = []string{"pgx", "postgres"}

var levels = []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable}

// each runs a test with every database and driver, each with a guard and a
// table of its own.
func each(t *testing.T, test func(t *testing.T, db *sql.DB, g fencesql.Guard)) {
	for _, driver := range drivers {
		t.Run("PostgreSQL by "+driver, func(t *testing.T) {
			db := openPostgres(t, driver)
			test(t, db, table(t, db))
		})
	}
	t.Run("SQLite", func(t *testing.T) {
		db := openSQLite(t, "WAL", 10*time.Second)
		test(t, db, table(t, db))
	})
}

func openSQLite(t *testing.T, journal string, busy time.Duration) *sql.DB {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db")
	db, err := sql.Open("sqlite", fmt.Sprintf("file:%s?_pragma=journal_mode(%s)&_pragma=busy_timeout(%d)&_pragma=foreign_keys(1)", path, journal, busy.Milliseconds()))
	ok(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

var tables atomic.Int64

// table makes a table that nobody else uses, with a name that needs quotes.
func table(t *testing.T, db *sql.DB) fencesql.Guard {
	t.Helper()
	g := fencesql.Guard{Table: fmt.Sprintf(`Fence "%d"`, tables.Add(1))}
	ok(t, g.CreateTable(t.Context(), db))
	ok(t, g.CreateTable(t.Context(), db)) // again: nothing happens
	return g
}

func nothing(*sql.Tx) error { return nil }

func TestSQL(t *testing.T) {
	each(t, func(t *testing.T, db *sql.DB, g fencesql.Guard) {
		for _, step := range []struct {
			key         string
			token, seen uint64 // seen: by whom it is refused
		}{
			{"a", 1, 0},
			{"a", 1, 0}, // the same grant again
			{"a", 5, 0},
			{"a", 4, 5},
			{"a", 1, 5},
			{"a", 5, 0},
			{"b", 2, 0}, // each key has its own
			{"b", 1, 2},
			{"a", 1<<58 + 1, 0},
			{"a", 1 << 58, 1<<58 + 1}, // one that a float64 does not tell apart
			{"a", math.MaxInt64, 0},
			{"a", math.MaxInt64 - 1, math.MaxInt64},
			{"\xff\x80", 9, 0}, // no text
			{"\xff\x80", 8, 9},
			{`a'"\$1%`, 9, 0},
			{"K", 9, 0}, // its case counts
			{"k", 8, 0},
		} {
			ran := false
			err := g.Do(t.Context(), db, nil, fence.NewGrant(step.key, step.token), func(*sql.Tx) error { ran = true; return nil })
			var stale *fence.StaleError
			switch {
			case step.seen == 0:
				if err != nil || !ran {
					t.Errorf("token %d of %q: %v", step.token, step.key, err)
				}
			case !errors.As(err, &stale) || !errors.Is(err, fence.ErrStale) || ran ||
				*stale != (fence.StaleError{Key: step.key, Token: step.token, Seen: step.seen}):
				t.Errorf("token %d of %q: %v, the write ran: %t", step.token, step.key, err, ran)
			}
		}
		if err := g.Do(t.Context(), db, nil, fence.NewGrant("big", math.MaxInt64+1), nothing); !errors.Is(err, fencesql.ErrTokenRange) {
			t.Errorf("a token of 2^63: %v", err)
		}
		if err := g.Do(t.Context(), db, nil, fence.NewGrant("zero", 0), nothing); !errors.Is(err, fence.ErrInvalid) {
			t.Errorf("the token 0: %v", err)
		}
	})
}

// What was not committed was not seen.
func TestSQLRollback(t *testing.T) {
	each(t, func(t *testing.T, db *sql.DB, g fencesql.Guard) {
		failed := errors.New("no such order")
		if err := g.Do(t.Context(), db, nil, fence.NewGrant("k", 9), func(*sql.Tx) error { return failed }); err != failed {
			t.Errorf("Do returned %v", err)
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("a panic was swallowed")
				}
			}()
			g.Do(t.Context(), db, nil, fence.NewGrant("k", 9), func(*sql.Tx) error { panic("bug") })
		}()
		ok(t, g.Do(t.Context(), db, nil, fence.NewGrant("k", 8), nothing))
		// A refusal leaves the transaction to its owner, who may have good
		// reason to write that it was refused.
		tx, err := db.Begin()
		ok(t, err)
		if err := g.Check(t.Context(), tx, fence.NewGrant("k", 7)); !errors.Is(err, fence.ErrStale) {
			t.Errorf("Check returned %v", err)
		}
		ok(t, g.Check(t.Context(), tx, fence.NewGrant("refusals", 1)))
		ok(t, tx.Commit())
		if err := g.Do(t.Context(), db, nil, fence.NewGrant("k", 7), nothing); !errors.Is(err, fence.ErrStale) {
			t.Errorf("Do returned %v", err)
		}
	})
}

// Errors of the database are returned as they are.
func TestSQLErrors(t *testing.T) {
	each(t, func(t *testing.T, db *sql.DB, g fencesql.Guard) {
		g.Table = "no such table"
		err := g.Do(t.Context(), db, nil, fence.NewGrant("k", 9), nothing)
		if err == nil || errors.Is(err, fence.ErrStale) || !strings.Contains(err.Error(), "no such table") {
			t.Errorf("without a table: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := g.Do(ctx, db, nil, fence.NewGrant("k", 9), nothing); !errors.Is(err, context.Canceled) {
			t.Errorf("with a context that has ended: %v", err)
		}
	})
}

// The schema can be named.
func TestSQLSchema(t *testing.T) {
	db := openPostgres(t, "pgx")
	_, err := db.Exec(`CREATE SCHEMA "Audit"`)
	ok(t, err)
	t.Cleanup(func() { db.Exec(`DROP SCHEMA "Audit" CASCADE`) })
	g := fencesql.Guard{Schema: "Audit"}
	ok(t, g.CreateTable(t.Context(), db))
	ok(t, g.Do(t.Context(), db, nil, fence.NewGrant("k", 9), nothing))
	var token int64
	ok(t, db.QueryRow(`SELECT token FROM "Audit".stile_fence WHERE convert_from(key, 'UTF8') = 'k'`).Scan(&token))
	if token != 9 {
		t.Errorf("the table has the token %d", token)
	}
}

// pgx without database/sql.
func TestSQLByPgx(t *testing.T) {
	g := table(t, openPostgres(t, "pgx"))
	s, _ := postgres()
	conn, err := pgx.Connect(t.Context(), s.URL())
	ok(t, err)
	defer conn.Close(context.Background())
	check := func(token uint64) error {
		return pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
			return g.CheckRow(fence.NewGrant("k", token), func(query string, args ...any) fencesql.Row {
				return tx.QueryRow(t.Context(), query, args...)
			})
		})
	}
	ok(t, check(9))
	ok(t, check(9))
	var stale *fence.StaleError
	if err := check(8); !errors.As(err, &stale) || stale.Seen != 9 {
		t.Errorf("got %v", err)
	}
}

// Two transactions with two grants of one key: whoever comes second waits for
// the end of the first. Then it goes by what the first has committed, or, where
// its snapshot is older than that, by the database's serialization failure.
func TestSQLRaces(t *testing.T) {
	const stale, fresh = 7, 9
	for _, driver := range drivers {
		for _, level := range levels {
			for _, known := range []bool{true, false} {
				for _, commit := range []bool{true, false} {
					for _, order := range [][2]uint64{{stale, fresh}, {fresh, stale}, {fresh, fresh}} {
						name := fmt.Sprintf("%s/%v/known %t/%d then %d/commit %t", driver, level, known, order[0], order[1], commit)
						t.Run(name, func(t *testing.T) {
							want := "accepted"
							switch {
							case commit && level != sql.LevelReadCommitted:
								want = "again"
							case commit && order[0] > order[1]:
								want = "stale"
							}
							race(t, driver, level, known, commit, order, want)
						})
					}
				}
			}
		}
	}
}

func race(t *testing.T, driver string, level sql.IsolationLevel, known, commit bool, order [2]uint64, want string) {
	db := openPostgres(t, driver)
	g := table(t, db)
	if known {
		ok(t, g.Do(t.Context(), db, nil, fence.NewGrant("k", 1), nothing))
	}
	begin := func() *sql.Tx {
		tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
		ok(t, err)
		t.Cleanup(func() { tx.Rollback() })
		return tx
	}
	first, second := begin(), begin()
	var pid int
	ok(t, second.QueryRow("SELECT pg_backend_pid()").Scan(&pid))
	ok(t, g.Check(t.Context(), first, fence.NewGrant("k", order[0])))
	result := make(chan error, 1)
	go func() { result <- g.Check(t.Context(), second, fence.NewGrant("k", order[1])) }()
	waits(t, db, pid)
	if commit {
		ok(t, first.Commit())
	} else {
		ok(t, first.Rollback())
	}
	err := <-result
	switch want {
	case "accepted":
		ok(t, err)
		ok(t, second.Commit())
	case "stale":
		var s *fence.StaleError
		if !errors.As(err, &s) || s.Seen != order[0] {
			t.Errorf("the second got %v", err)
		}
		ok(t, second.Rollback())
	case "again":
		if !again(err) || errors.Is(err, fence.ErrStale) {
			t.Fatalf("the second got %v", err)
		}
		ok(t, second.Rollback())
		err := g.Do(t.Context(), db, &sql.TxOptions{Isolation: level}, fence.NewGrant("k", order[1]), nothing)
		if (order[0] > order[1]) != errors.Is(err, fence.ErrStale) || order[0] <= order[1] && err != nil {
			t.Errorf("the second got %v when it ran again", err)
		}
	}
}

// waits returns when the backend waits for a lock.
func waits(t *testing.T, db *sql.DB, pid int) {
	t.Helper()
	for limit := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		var waits bool
		ok(t, db.QueryRow("SELECT coalesce(wait_event_type, '') = 'Lock' FROM pg_stat_activity WHERE pid = $1", pid).Scan(&waits))
		if waits {
			return
		}
		if time.Now().After(limit) {
			t.Fatal("the second transaction does not wait for the first")
		}
	}
}

// In SQLite a writer waits for the one before it, and one that waited for too
// long is told so.
func TestSQLiteBusy(t *testing.T) {
	for _, journal := range []string{"WAL", "DELETE"} {
		t.Run(journal, func(t *testing.T) {
			db := openSQLite(t, journal, 50*time.Millisecond)
			g := table(t, db)
			first, err := db.Begin()
			ok(t, err)
			defer first.Rollback()
			ok(t, g.Check(t.Context(), first, fence.NewGrant("k", 7)))
			if err := g.Do(t.Context(), db, nil, fence.NewGrant("k", 9), nothing); !again(err) || errors.Is(err, fence.ErrStale) {
				t.Errorf("got %v", err)
			}
			ok(t, first.Commit())
			ok(t, g.Do(t.Context(), db, nil, fence.NewGrant("k", 9), nothing))
		})
	}
}

// Many holders of many ages, some of them late, add to what they have read.
// Whatever the isolation, tokens never fall in what is written, and no
// addition is lost.
func TestSQLManyWriters(t *testing.T) {
	each(t, func(t *testing.T, db *sql.DB, g fencesql.Guard) {
		of := levels
		if strings.HasSuffix(t.Name(), "SQLite") {
			of = []sql.IsolationLevel{sql.LevelDefault}
		}
		doc := fmt.Sprintf("doc%d", tables.Add(1))
		_, err := db.Exec("CREATE TABLE " + doc + " (key TEXT PRIMARY KEY, n BIGINT NOT NULL, token BIGINT NOT NULL)")
		ok(t, err)
		for _, level := range of {
			t.Run(level.String(), func(t *testing.T) { manyWriters(t, db, g, doc, level) })
		}
	})
}

func manyWriters(t *testing.T, db *sql.DB, g fencesql.Guard, doc string, level sql.IsolationLevel) {
	const workers, rounds = 6, 50
	key := level.String()
	key = strings.ReplaceAll(key, " ", "-")
	_, err := db.Exec("INSERT INTO "+doc+" VALUES ($1, 0, 0)", key)
	ok(t, err)
	var latest atomic.Uint64
	latest.Store(uint64(workers))
	var accepted, refused, failed atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range rounds {
				token := latest.Add(1)
				if rand.IntN(3) == 0 {
					token -= rand.Uint64N(workers)
				}
				var err error
				for err = errFirst; err == errFirst || again(err); {
					if err != errFirst {
						failed.Add(1)
					}
					err = g.Do(t.Context(), db, &sql.TxOptions{Isolation: level}, fence.NewGrant(key, token), func(tx *sql.Tx) error {
						var n, last int64
						if err := tx.QueryRow("SELECT n, token FROM "+doc+" WHERE key = $1", key).Scan(&n, &last); err != nil {
							return err
						}
						if uint64(last) > token {
							return fmt.Errorf("token %d was let through after %d", token, last)
						}
						_, err := tx.Exec("UPDATE "+doc+" SET n = $1, token = $2 WHERE key = $3", n+1, int64(token), key)
						return err
					})
				}
				switch {
				case err == nil:
					accepted.Add(1)
				case errors.Is(err, fence.ErrStale):
					refused.Add(1)
				default:
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	var n int64
	ok(t, db.QueryRow("SELECT n FROM "+doc+" WHERE key = $1", key).Scan(&n))
	t.Logf("%d accepted, %d refused, %d run again", accepted.Load(), refused.Load(), failed.Load())
	if n != accepted.Load() {
		t.Errorf("%d additions were accepted, %d are there", accepted.Load(), n)
	}
	if accepted.Load() == 0 || refused.Load() == 0 {
		t.Error("nothing was accepted, or nothing refused: this tests nothing")
	}
}

var errFirst = errors.New("not tried yet")
