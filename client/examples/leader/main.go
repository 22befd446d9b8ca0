// Leader runs a worker on many machines of which one works at a time: the
// leader. When it stops, the next takes over at once; when it dies or is cut
// off, at the end of its lease.
//
//	leader -name a & leader -name b & leader -name c
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/stile-lock/stile/client"
)

func main() {
	stile := flag.String("stile", "127.0.0.1:5625", "addresses of the lock servers")
	name := flag.String("name", "worker", "what to call this one")
	lease := flag.Duration("lease", 10*time.Second, "how long a dead leader leads")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := client.Dial(ctx, *stile, client.Name(*name), client.RetryFor(5*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	for ctx.Err() == nil {
		// Do waits in line, keeps the lease while lead runs, and gives the key
		// back when it returns.
		err := c.Do(ctx, "leader/reports", func(ctx context.Context, lock *client.Lock) error {
			return lead(ctx, *name, lock)
		}, client.Lease(*lease))
		if err != nil && ctx.Err() == nil {
			log.Printf("%s: %v", *name, err) // the lease was lost, or no server is there
			pause(ctx, time.Second)
		}
	}
}

// lead works until ctx ends: with the program, or with the lease. What it
// writes goes with lock to a guard of package fence, as a leader that was
// paused does not know that it was replaced.
func lead(ctx context.Context, name string, lock *client.Lock) error {
	fmt.Printf("%s leads with token %d\n", name, lock.Token())
	defer fmt.Printf("%s leads no longer\n", name)
	for {
		if err := work(ctx, lock); err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
		if !pause(ctx, 100*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
}

func work(ctx context.Context, lock *client.Lock) error { return ctx.Err() } // yours

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
