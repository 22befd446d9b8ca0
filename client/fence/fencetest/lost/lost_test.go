package lost

import (
	"context"
	"fmt"
	"os"
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

// One round of each fault: without the guard updates are lost, with it none.
func TestLostUpdates(t *testing.T) {
	db, err := servers.Postgres()
	servers.Need(t, err)
	t.Cleanup(db.Close)
	stiled, err := servers.BuildStiled(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	t.Setenv(asSleeper, "yes")
	result, err := Run(ctx, Options{
		Rounds: len(Faults), Stiled: stiled, Dir: t.TempDir(), URL: db.URL(), Sleeper: []string{os.Args[0]},
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
