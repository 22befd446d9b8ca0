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
	"os/signal"
	"syscall"
	"time"

	"github.com/stile-lock/stile/client"
)

func main() {
	stile := flag.String("stile", "127.0.0.1:5625", "addresses of the lock servers")
	count := flag.Int("count", 3, "how many licences there are")
	every := flag.Duration("every", time.Second, "the shortest time between two uses of one")
	limit := flag.Duration("limit", time.Hour, "how long a use takes at most")
	if flag.Parse(); *count < 1 || flag.NArg() == 0 {
		log.Fatal("usage: licences [-count 1 OR MORE] [OPTIONS] COMMAND [ARGUMENTS]")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	c, err := client.Dial(ctx, *stile, client.RetryFor(5*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	lock, err := takeAny(ctx, c, *count, *limit)
	if err != nil {
		log.Fatal(err)
	}
	began := time.Now()
	context.AfterFunc(lock.Context(), stop) // the command ends with its lease
	cmd := exec.CommandContext(ctx, flag.Arg(0), flag.Args()[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), "LICENCE="+lock.Key()), os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // and so does all that it has started
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	failed := cmd.Run()
	// It is kept until it may be used again, also if this program is gone by then.
	err = lock.Keep(context.WithoutCancel(ctx), max(*every-time.Since(began), time.Millisecond))
	c.Close()
	if exit, ok := failed.(*exec.ExitError); ok && exit.Exited() {
		os.Exit(exit.ExitCode())
	} else if failed != nil || err != nil {
		log.Fatalf("%s: %v, %v", lock.Key(), failed, err)
	}
}

// takeAny waits in line for all licences at once, and leaves the other lines
// when it has one.
func takeAny(ctx context.Context, c *client.Client, count int, lease time.Duration) (*client.Lock, error) {
	ctx, leave := context.WithCancel(ctx)
	results := make(chan func() (*client.Lock, error))
	for i := range count {
		go func() {
			lock, err := c.Acquire(ctx, fmt.Sprint("licence/", i+1), client.Lease(lease))
			results <- func() (*client.Lock, error) { return lock, err }
		}()
	}
	first, err := (<-results)()
	leave()
	for range count - 1 {
		if other, failed := (<-results)(); failed == nil && first == nil {
			first, err = other, nil
		} else if failed == nil {
			other.Release(context.WithoutCancel(ctx)) // two came at the same moment
		}
	}
	return first, err
}
