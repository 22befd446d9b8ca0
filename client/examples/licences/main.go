// Licences runs a command with one of a few licences: as many at once as there
// are licences, and each licence not more often than its rate allows, over all
// machines.
//
//	licences -count 3 -every 10s render scene.blend
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"time"

	"github.com/stile-lock/stile/client"
)

func main() {
	stile := flag.String("stile", "127.0.0.1:5625", "addresses of the lock servers")
	count := flag.Int("count", 3, "how many licences there are")
	every := flag.Duration("every", time.Second, "the shortest time between two uses of one")
	limit := flag.Duration("limit", time.Hour, "how long a use takes at most")
	flag.Parse()
	ctx := context.Background()
	c, err := client.Dial(ctx, *stile, client.RetryFor(5*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	lock, err := takeAny(ctx, c, *count, *limit)
	if err != nil {
		log.Fatal(err)
	}
	began := time.Now()
	cmd := exec.CommandContext(lock.Context(), flag.Arg(0), flag.Args()[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), "LICENCE="+lock.Key()), os.Stdout, os.Stderr
	failed := cmd.Run()
	// A use that was shorter than the rate allows is not given back: it ends
	// by itself when it may, also if this program is gone by then.
	if left := *every - time.Since(began); left > 0 {
		err = lock.Keep(ctx, left)
	} else {
		err = lock.Release(ctx)
	}
	if failed != nil || err != nil {
		c.Close()
		log.Fatalf("%s: %v, %v", lock.Key(), failed, err)
	}
}

// takeAny waits in line for all licences at once, and leaves the other lines
// when it has one.
func takeAny(ctx context.Context, c *client.Client, count int, lease time.Duration) (*client.Lock, error) {
	ctx, leave := context.WithCancel(ctx)
	type result struct {
		lock *client.Lock
		err  error
	}
	results := make(chan result)
	for i := range count {
		go func() {
			lock, err := c.Acquire(ctx, fmt.Sprint("licence/", i+1), client.Lease(lease))
			results <- result{lock, err}
		}()
	}
	first := <-results
	leave()
	for range count - 1 {
		if other := <-results; other.lock != nil && first.lock == nil {
			first = other
		} else if other.lock != nil {
			other.lock.Release(context.Background()) // two came at the same moment
		}
	}
	return first.lock, first.err
}
