// Stile-demo shows in half a minute what Stile does: turns, fencing tokens, a
// lease taken back from a holder that was killed, and a stale write refused.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stile-lock/stile/client"
	"github.com/stile-lock/stile/client/fence"
)

// limit ends the demo whatever happens.
const limit = 50 * time.Second

func main() {
	stiled := flag.String("stiled", "bin/stiled", "the node to start")
	// The demo starts itself with this as the holder that will be killed.
	hold := flag.String("hold", "", "addresses: take the key `report` there and hold it")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var err error
	if *hold != "" {
		err = holdUntilKilled(ctx, *hold)
	} else {
		err = demo(ctx, *stiled)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "stile-demo: %v\n", err)
		os.Exit(1)
	}
}

func demo(ctx context.Context, stiled string) error {
	say("1. A cluster", "Three nodes on this machine, each with a state directory of its own. Their list",
		"of peers says who is active: the first of those that live.")
	nodes, err := startCluster(ctx, stiled, 3)
	if err != nil {
		return err
	}
	defer nodes.kill()
	if err := nodes.waitActive(ctx, 0); err != nil {
		return err
	}
	addrs := nodes.addrs()

	c, err := client.Dial(ctx, addrs)
	if err != nil {
		return err
	}
	defer c.Close()

	if err := turns(ctx, addrs); err != nil {
		return err
	}
	if err := death(ctx, c, addrs); err != nil {
		return err
	}
	if err := staleWrite(ctx, c); err != nil {
		return err
	}
	if err := failover(ctx, nodes); err != nil {
		return err
	}

	say("6. The end", "SIGTERM: each node hands over if it is active and somebody is left, answers who",
		"still waits, and exits with status 0.")
	c.Close()
	if err := nodes.stop(); err != nil {
		return err
	}
	step("done")
	return nil
}

// turns lets three clients take turns on one key.
func turns(ctx context.Context, addrs string) error {
	say("2. Turns", "Three clients want the key \"printer\", twice each. One holds it at a time,",
		"in the order of arrival, and each grant has a greater token than the last.")
	var (
		mu      sync.Mutex
		holding int
		last    uint64
		wg      sync.WaitGroup
		failed  = make(chan error, 3)
	)
	for _, name := range []string{"ann", "bob", "cho"} {
		c, err := client.Dial(ctx, addrs, client.Name(name))
		if err != nil {
			return err
		}
		defer c.Close()
		wg.Go(func() {
			for range 2 {
				err := c.Do(ctx, "printer", func(_ context.Context, lock *client.Lock) error {
					mu.Lock()
					holding++
					together, rises := holding, lock.Token() > last
					last = lock.Token()
					mu.Unlock()
					if together != 1 || !rises {
						return fmt.Errorf("%s: %d hold the key at once, token rises: %t", name, together, rises)
					}
					step("%s prints, with token %d", name, lock.Token())
					time.Sleep(300 * time.Millisecond) // the work
					mu.Lock()
					holding--
					mu.Unlock()
					return nil
				}, client.Lease(5*time.Second))
				if err != nil {
					failed <- err
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// death kills a holder and waits for the lease to give the key back.
func death(ctx context.Context, c *client.Client, addrs string) error {
	say("3. A holder dies", "Another process takes the key \"report\" with a lease of 3 s, and is killed (kill -9).",
		"Nobody can tell the node. When the lease ends the key goes to the next in line.")
	self, err := os.Executable()
	if err != nil {
		return err
	}
	holder := exec.CommandContext(ctx, self, "-hold", addrs)
	holder.Stderr = os.Stderr
	out, err := holder.StdoutPipe()
	if err != nil {
		return err
	}
	if err := holder.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	holder.Process.Kill()
	holder.Wait()
	if err != nil {
		return fmt.Errorf("the holder took no lock: %w", err)
	}
	killed := time.Now()
	step("process %d held it with token %s, and is dead now", holder.Process.Pid, strings.TrimSpace(line))
	lock, err := c.Acquire(ctx, "report", client.Wait(10*time.Second))
	if err != nil {
		return err
	}
	step("%.1f s later the next in line has it, with token %d", time.Since(killed).Seconds(), lock.Token())
	return lock.Release(ctx)
}

// holdUntilKilled is the process that dies.
func holdUntilKilled(ctx context.Context, addrs string) error {
	c, err := client.Dial(ctx, addrs)
	if err != nil {
		return err
	}
	lock, err := c.Acquire(ctx, "report", client.Lease(3*time.Second))
	if err != nil {
		return err
	}
	fmt.Println(lock.Token())
	<-ctx.Done()
	return ctx.Err()
}

// staleWrite shows what the token is for.
func staleWrite(ctx context.Context, c *client.Client) error {
	say("4. A stale write", "A holder sleeps through the end of its lease (a long pause, a stuck disk) and",
		"then writes as if nothing had happened. The store checks tokens and refuses.")
	store := &guardedStore{}
	sleeper, err := c.Acquire(ctx, "account", client.Lease(time.Second))
	if err != nil {
		return err
	}
	step("the sleeper holds \"account\" with token %d, and falls asleep", sleeper.Token())
	other, err := c.Acquire(ctx, "account", client.Wait(10*time.Second))
	if err != nil {
		return err
	}
	step("its lease has ended: another one has the key, with token %d", other.Token())
	if err := store.write(ctx, other, "written by the other one"); err != nil {
		return err
	}
	step("the other one writes: accepted")
	err = store.write(ctx, sleeper, "written by the sleeper")
	if !errors.Is(err, fence.ErrStale) {
		return fmt.Errorf("the sleeper's write should have been refused as stale, but: %v", err)
	}
	step("the sleeper wakes up and writes: refused (%v)", err)
	step("the store still says %q", store.value)
	return other.Release(ctx)
}

// guardedStore is the thing that the lock protects.
type guardedStore struct {
	guard fence.Guard
	value string
}

func (s *guardedStore) write(ctx context.Context, lock *client.Lock, value string) error {
	return s.guard.Do(ctx, lock, func() error {
		s.value = value
		return nil
	})
}

var started = time.Now()

func say(title string, lines ...string) {
	fmt.Printf("\n%s\n   %s\n", title, strings.Join(lines, "\n   "))
}

func step(format string, args ...any) {
	fmt.Printf("   [%4.1f s] %s\n", time.Since(started).Seconds(), fmt.Sprintf(format, args...))
}
