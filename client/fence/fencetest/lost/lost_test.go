package lost

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stile-lock/stile/client/fence/fencetest/servers"
)

// The tests start themselves with this in the environment as the holder that
// is paused.
const asSleeper = "FENCETEST_SLEEPER"

func TestMain(m *testing.M) {
	if os.Getenv(asSleeper) != "" {
		args := os.Args[len(os.Args)-3:]
		if err := Sleeper(context.Background(), args[0], args[1], args[2], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// A guard that lets nobody through ends the run, and not by its being stuck.
func TestGuardRefusesAll(t *testing.T) {
	url, stiled := setUpRun(t)
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	_, err = Run(t.Context(), Options{
		Rounds: len(Faults), Stiled: stiled, Dir: t.TempDir(), URL: url, Sleeper: []string{os.Args[0]},
		Round: func(Round, Result) {
			if _, err := db.Exec("UPDATE stile_fence SET token = $1", int64(math.MaxInt64)); err != nil {
				t.Error(err)
			}
		},
	})
	if err == nil || !strings.Contains(err.Error(), "round 2") || !strings.Contains(err.Error(), "in a row") {
		t.Errorf("Run returned %v", err)
	}
}

// setUpRun starts a PostgreSQL and builds the node.
func setUpRun(t *testing.T) (url, stiled string) {
	t.Helper()
	db, err := servers.Postgres()
	servers.Need(t, err)
	t.Cleanup(db.Close)
	stiled, err = servers.BuildStiled(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(asSleeper, "yes")
	return db.URL(), stiled
}

// One round of each fault: without the guard updates are lost, with it none.
func TestLostUpdates(t *testing.T) {
	url, stiled := setUpRun(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	result, err := Run(ctx, Options{
		Rounds: len(Faults), Stiled: stiled, Dir: t.TempDir(), URL: url, Sleeper: []string{os.Args[0]},
		Round: func(r Round, _ Result) { t.Logf("%+v", r) },
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range Faults {
		if f := result[fault][Guarded]; f.Lost != 0 || f.Woken != 0 || f.Refused == 0 || f.Confirmed == 0 {
			t.Errorf("%s, with the guard: %+v", fault, f)
		}
		// This is what the guard is for; if it did not happen, nothing was shown.
		if f := result[fault][Plain]; f.Lost == 0 || f.Woken != 1 || f.Refused != 0 {
			t.Errorf("%s, without the guard: %+v", fault, f)
		}
	}
}
