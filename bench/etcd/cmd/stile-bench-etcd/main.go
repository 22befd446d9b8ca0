// Stile-bench-etcd loads an etcd with pairs of its Mutex and writes the result
// as stile-bench does. Stile-bench-compare runs it. Its status is 1 at a wrong
// answer, and 2 at any other error.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/stile-lock/stile/bench/etcd"
	"github.com/stile-lock/stile/bench/load"
	"github.com/stile-lock/stile/bench/report"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:2379", "the etcd")
	plan := flag.String("plan", "{}", "the load, as JSON, as in the results of stile-bench")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *addr, *plan); err != nil {
		fmt.Fprintf(os.Stderr, "stile-bench-etcd: %v\n", err)
		if errors.Is(err, load.ErrWrong) {
			os.Exit(1)
		}
		os.Exit(2)
	}
}

func run(ctx context.Context, addr, plan string) error {
	var p load.Plan
	if err := json.Unmarshal([]byte(plan), &p); err != nil {
		return fmt.Errorf("the plan cannot be read: %w", err)
	}
	r, err := etcd.Driver{Addr: addr}.Run(ctx, p)
	if err != nil {
		return err
	}
	return report.JSON(os.Stdout, r)
}
