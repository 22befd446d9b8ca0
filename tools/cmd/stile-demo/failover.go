package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stile-lock/stile/client"
)

// failover kills the active under load and brings it back.
func failover(ctx context.Context, ns *nodes) error {
	say("5. The active dies", "Five clients take and release locks all the time. The active node is killed (kill -9)",
		"and started again. Not one call may fail, and tokens must rise on every key.")
	var (
		stopped atomic.Bool
		done    atomic.Int64
		wg      sync.WaitGroup
		failed  = make(chan error, 1)
	)
	for w := range 5 {
		c, err := client.Dial(ctx, ns.addrs(), client.RetryFor(5*time.Second))
		if err != nil {
			return err
		}
		defer c.Close()
		wg.Go(func() {
			if err := work(ctx, c, fmt.Sprintf("job-%d", w), &stopped, &done); err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	count := func() {
		time.Sleep(500 * time.Millisecond)
		step("%d grants by now, no call has failed", done.Load())
	}
	count()
	step("kill -9 of %s", ns.all[0].name)
	ns.all[0].kill()
	if err := ns.waitActive(ctx, 1); err != nil {
		return err
	}
	count()
	step("%s is started again; it gets its role back when it has the whole table", ns.all[0].name)
	if err := ns.all[0].start(ctx); err != nil {
		return err
	}
	if err := ns.waitActive(ctx, 0); err != nil {
		return err
	}
	count()
	stopped.Store(true)
	wg.Wait()
	select {
	case err := <-failed:
		return err
	default:
	}
	step("%d grants in all, no failed acquire, tokens rose on every key", done.Load())
	return nil
}

// work takes and releases one key until it is told to stop.
func work(ctx context.Context, c *client.Client, key string, stopped *atomic.Bool, done *atomic.Int64) error {
	var last uint64
	for !stopped.Load() {
		lock, err := c.Acquire(ctx, key, client.Wait(10*time.Second), client.Lease(10*time.Second))
		if err != nil {
			return fmt.Errorf("an acquire of %s failed: %w", key, err)
		}
		token := lock.Token()
		// A grant that was lost with its node is not held any more; that is
		// what the token is for.
		if err := lock.Release(ctx); err != nil && !errors.Is(err, client.ErrNotHeld) {
			return fmt.Errorf("a release of %s failed: %w", key, err)
		}
		if token <= last {
			return fmt.Errorf("the token of %s went from %d to %d", key, last, token)
		}
		last = token
		done.Add(1)
	}
	return nil
}
