package fencetest

import (
	"database/sql"
	"os"
	"sync"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"

	"github.com/stile-lock/stile/client/fence/fencetest/servers"
)

// The servers are started when a test first needs them.
var postgres, redis, redisCluster = once(servers.Postgres), once(servers.Redis), once(servers.RedisCluster)

var (
	runningMu sync.Mutex
	running   []*servers.Server
)

func once(start func() (*servers.Server, error)) func() (*servers.Server, error) {
	return sync.OnceValues(func() (*servers.Server, error) {
		s, err := start()
		if err == nil {
			runningMu.Lock()
			running = append(running, s)
			runningMu.Unlock()
		}
		return s, err
	})
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	defer func() {
		for _, s := range running {
			s.Close()
		}
	}()
	return m.Run()
}

// openPostgres opens the database by a driver.
func openPostgres(t *testing.T, driver string) *sql.DB {
	t.Helper()
	s, err := postgres()
	servers.Need(t, err)
	db, err := sql.Open(driver, s.URL())
	ok(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
