package fencetest

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stile-lock/stile/client/fence"
	"github.com/stile-lock/stile/client/fence/fencesql"
)

// Many processes that start at one time make one table.
func TestSQLCreateAtOneTime(t *testing.T) {
	each(t, func(t *testing.T, db *sql.DB, _ fencesql.Guard) {
		const many = 20
		db.SetMaxIdleConns(many)
		for range 5 {
			// One name has in it what its statement is quoted by.
			g := fencesql.Guard{Table: fmt.Sprintf("at $stile$ once %d", tables.Add(1))}
			var ready, done sync.WaitGroup
			begin := make(chan struct{})
			for range many {
				ready.Add(1)
				done.Go(func() {
					conn, err := db.Conn(t.Context())
					ready.Done()
					if err != nil {
						t.Error(err)
						return
					}
					defer conn.Close()
					<-begin
					if err := g.CreateTable(t.Context(), conn); err != nil {
						t.Error(err)
					}
				})
			}
			ready.Wait()
			close(begin)
			done.Wait()
			ok(t, g.Do(t.Context(), db, nil, fence.NewGrant("k", 7), nothing))
		}
	})
}

// The table comes and goes with the transaction that makes it.
func TestSQLCreateInTransaction(t *testing.T) {
	each(t, func(t *testing.T, db *sql.DB, _ fencesql.Guard) {
		g := fencesql.Guard{Table: fmt.Sprintf("transaction%d", tables.Add(1))}
		for _, end := range []func(*sql.Tx) error{(*sql.Tx).Rollback, (*sql.Tx).Commit} {
			if err := g.Do(t.Context(), db, nil, fence.NewGrant("k", 7), nothing); err == nil {
				t.Error("the table was there before")
			}
			tx, err := db.Begin()
			ok(t, err)
			ok(t, g.CreateTable(t.Context(), tx))
			ok(t, g.Check(t.Context(), tx, fence.NewGrant("k", 7)))
			ok(t, end(tx))
		}
		ok(t, g.Do(t.Context(), db, nil, fence.NewGrant("k", 7), nothing))
	})
}

// Who may use the table and make none gets by, and is told if there is none.
func TestSQLCreateWithoutTheRight(t *testing.T) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			owner := openPostgres(t, driver)
			g := table(t, owner)
			role := fmt.Sprintf("writer%d", tables.Add(1))
			for _, statement := range []string{
				`CREATE ROLE ` + role + ` LOGIN`,
				`REVOKE CREATE ON SCHEMA public FROM PUBLIC`, // the default of PostgreSQL 15
				`GRANT SELECT, INSERT, UPDATE ON "` + strings.ReplaceAll(g.Table, `"`, `""`) + `" TO ` + role,
			} {
				_, err := owner.Exec(statement)
				ok(t, err)
			}
			db := openAs(t, driver, role)
			ok(t, g.CreateTable(t.Context(), db))
			ok(t, g.Do(t.Context(), db, nil, fence.NewGrant("k", 7), nothing))
			none := fencesql.Guard{Table: "none"}
			if err := none.CreateTable(t.Context(), db); err == nil || !strings.Contains(err.Error(), `"none"`) || !strings.Contains(err.Error(), "permission denied") {
				t.Errorf("without the right and a table: %v", err)
			}

			// A role that later gets a schema of its own, where it looks first,
			// still finds the table of the others.
			_, err := owner.Exec(`CREATE SCHEMA ` + role + ` AUTHORIZATION ` + role)
			ok(t, err)
			ok(t, g.CreateTable(t.Context(), db))
			if err := g.Do(t.Context(), db, nil, fence.NewGrant("k", 6), nothing); !errors.Is(err, fence.ErrStale) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// openAs opens the database as another user.
func openAs(t *testing.T, driver, role string) *sql.DB {
	t.Helper()
	s, err := postgres()
	ok(t, err)
	u, err := url.Parse(s.URL())
	ok(t, err)
	u.User = url.User(role)
	db, err := sql.Open(driver, u.String())
	ok(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

// What the table takes: tokens of 1 or more, each with its key.
func TestSQLTable(t *testing.T) {
	each(t, func(t *testing.T, db *sql.DB, g fencesql.Guard) {
		name := `"` + strings.ReplaceAll(g.Table, `"`, `""`) + `"`
		for _, values := range []string{"('k', 0)", "('k', -1)", "(NULL, 7)", "('k', NULL)", "('k', 7), ('k', 8)"} {
			if _, err := db.Exec("INSERT INTO " + name + " VALUES " + values); err == nil {
				t.Errorf("it took %s", values)
			}
		}
		// A quote is part of the name.
		other := fencesql.Guard{Table: strings.ReplaceAll(g.Table, `"`, ``)}
		ok(t, other.CreateTable(t.Context(), db))
		ok(t, g.Do(t.Context(), db, nil, fence.NewGrant("k", 9), nothing))
		ok(t, other.Do(t.Context(), db, nil, fence.NewGrant("k", 7), nothing))
	})
}
