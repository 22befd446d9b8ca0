// Fence-demo counts the updates that are lost to holders that were paused past
// their lease, without a guard and with one: on a cluster of three nodes whose
// active one is killed, paused and cut off in turn, and a counter in
// PostgreSQL.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"

	"github.com/stile-lock/stile/client/fence/fencetest/lost"
	"github.com/stile-lock/stile/client/fence/fencetest/servers"
)

type flags struct {
	Run     run     `cmd:"" default:"withargs" help:"Run the demonstration."`
	Sleeper sleeper `cmd:"" hidden:""`
}

type run struct {
	Stiled string `default:"bin/stiled" type:"existingfile" help:"The node to start."`
	Rounds int    `default:"200" help:"How many faults there are."`
}

// sleeper is how the demonstration starts itself as the holder that is paused.
type sleeper struct {
	Counter string `arg:""`
	Addrs   string `arg:""`
	URL     string `arg:""`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var f flags
	k := kong.Parse(&f, kong.Name("fence-demo"),
		kong.Description("Counts the updates that are lost to paused holders of a lock, without a guard and with one."),
		kong.BindTo(ctx, (*context.Context)(nil)))
	k.FatalIfErrorf(k.Run())
}

func (s *sleeper) Run(ctx context.Context) error {
	return lost.Sleeper(ctx, s.Counter, s.Addrs, s.URL, os.Stdin, os.Stdout)
}

func (r *run) Run(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "stile-fence-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	db, err := servers.Postgres()
	if err != nil {
		return err
	}
	defer db.Close()
	fmt.Printf(`Two counters in PostgreSQL, a lock for each, a cluster of three nodes. In each of %d rounds
a holder reads its counter and is stopped (SIGSTOP), the active node is killed, paused or
cut off, others go on when the lease is over, and the holder wakes up and writes.

`, r.Rounds)
	start := time.Now()
	result, err := lost.Run(ctx, lost.Options{
		Rounds: r.Rounds, Stiled: r.Stiled, Dir: dir, URL: db.URL(), Sleeper: []string{self, "sleeper"},
		Round: func(now lost.Round, all lost.Result) {
			if now.Number%10 == 0 || now.Number == r.Rounds {
				fmt.Printf("   [%5.1f s] round %d: lost without the guard %d, with it %d\n",
					time.Since(start).Seconds(), now.Number, all.Total(lost.Plain).Lost, all.Total(lost.Guarded).Lost)
			}
		},
	})
	if err != nil {
		return err
	}
	show(result)
	plain, guarded := result.Total(lost.Plain), result.Total(lost.Guarded)
	switch {
	case guarded.Lost != 0:
		return fmt.Errorf("%d updates were lost behind the guard", guarded.Lost)
	case plain.Lost == 0 || guarded.Refused == 0:
		return fmt.Errorf("nothing was lost without the guard, or nothing refused by it: this shows nothing")
	}
	return nil
}

func show(result lost.Result) {
	fmt.Println()
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "fault\trounds\tcounter\tconfirmed\tlost\trefused\twoken holders let through\t")
	row := func(fault, counter string, f lost.Figures) {
		fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%d\t%d\t%d\t\n", fault, f.Rounds, counter, f.Confirmed, f.Lost, f.Refused, f.Woken)
	}
	for _, counter := range []string{lost.Plain, lost.Guarded} {
		for _, fault := range lost.Faults {
			row(fault, counter, result[fault][counter])
		}
		row("all", counter, result.Total(counter))
	}
	w.Flush()
}
