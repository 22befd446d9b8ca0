package realnode

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stile-lock/stile/client"
	"github.com/stile-lock/stile/conformance/ports"
)

func dial(t *testing.T, addrs string, opts ...client.Option) *client.Client {
	t.Helper()
	c, err := client.Dial(t.Context(), addrs, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func acquire(t *testing.T, c *client.Client, key string, opts ...client.AcquireOption) *client.Lock {
	t.Helper()
	l, err := c.Acquire(t.Context(), key, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func release(t *testing.T, l *client.Lock) {
	t.Helper()
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A cancelled acquire leaves nothing behind, in line or granted: no place, no
// lock, no goroutine, no descriptor, on either side.
func TestCancelledAcquiresLeaveNothing(t *testing.T) {
	for _, peer := range []string{"resume", "core"} {
		t.Run(peer, func(t *testing.T) {
			n := startNode(t)
			addr := n.addr
			if peer == "core" {
				addr = startProxy(t, n.addr, coreOnly).Addr().String()
			}
			before := n.status(t)
			goroutines, fds := runtime.NumGoroutine(), descriptors(t, os.Getpid())

			holder, err := client.Dial(t.Context(), n.addr)
			if err != nil {
				t.Fatal(err)
			}
			held := acquire(t, holder, "busy", client.Lease(10*time.Minute))
			c, err := client.Dial(t.Context(), addr)
			if err != nil {
				t.Fatal(err)
			}
			const workers, each = 50, 100
			var granted atomic.Int64
			var wg sync.WaitGroup
			for w := range workers {
				wg.Go(func() {
					for i := range each {
						// One stands in line behind the holder, one races its grant.
						for _, key := range []string{"busy", fmt.Sprintf("free/%d", w)} {
							ctx, cancel := context.WithTimeout(t.Context(), rand.N(3*time.Millisecond))
							l, err := c.Acquire(ctx, key, client.Lease(10*time.Minute))
							cancel()
							if err == nil {
								granted.Add(1)
								if err := l.Release(t.Context()); err != nil {
									t.Errorf("round %d: release: %v", i, err)
								}
							} else if !errors.Is(err, context.DeadlineExceeded) {
								t.Errorf("round %d: %v", i, err)
							}
						}
					}
				})
			}
			wg.Wait()
			last := time.Now()
			release(t, held)
			within(t, 10*time.Second, "nothing held, nobody waiting", func() bool {
				s := n.status(t)
				return s.Held == 0 && s.Waiting == 0
			})
			t.Logf("%d of %d were granted before they were cancelled; the node was clean %v after the last",
				granted.Load(), 2*workers*each, time.Since(last).Round(time.Millisecond))

			c.Close()
			holder.Close()
			within(t, 10*time.Second, "the node's goroutines and descriptors are back", func() bool {
				s := n.status(t)
				return s.Connections == before.Connections && s.Goroutines <= before.Goroutines && s.Descriptors <= before.Descriptors
			})
			within(t, 10*time.Second, "the client's goroutines and descriptors are back", func() bool {
				return runtime.NumGoroutine() <= goroutines && descriptors(t, os.Getpid()) <= fds
			})
		})
	}
}

// An acquire whose context ends around the moment of the grant either returns
// a lock that is held, or leaves none.
func TestCancelRacesGrant(t *testing.T) {
	n := startNode(t)
	a, b := dial(t, n.addr), dial(t, n.addr)
	const rounds = 1000
	won := 0
	for i := range rounds {
		l := acquire(t, a, "k")
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(rand.N(time.Millisecond), cancel)
		time.AfterFunc(rand.N(time.Millisecond), func() { l.Release(context.Background()) })
		got, err := b.Acquire(ctx, "k")
		cancel()
		if err == nil {
			won++
			if err := got.Release(t.Context()); err != nil {
				t.Fatalf("round %d: the lock that was returned was not held: %v", i, err)
			}
		} else if !errors.Is(err, context.Canceled) {
			t.Fatalf("round %d: %v", i, err)
		}
	}
	release(t, acquire(t, a, "k", client.Wait(10*time.Second)))
	t.Logf("%d of %d were granted", won, rounds)
}

// Many calls of one client on one key each get a grant of their own.
func TestOneKeyManyCallers(t *testing.T) {
	n := startNode(t)
	c := dial(t, n.addr)
	var mu sync.Mutex
	var last uint64
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			err := c.Do(t.Context(), "k", func(_ context.Context, l *client.Lock) error {
				mu.Lock()
				defer mu.Unlock()
				if l.Token() <= last {
					return fmt.Errorf("token %d after %d", l.Token(), last)
				}
				last = l.Token()
				return nil
			}, client.Wait(30*time.Second))
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	within(t, 10*time.Second, "nothing is held", func() bool { return n.status(t).Held == 0 })
}

// A waiter whose connection is cut keeps its place, and is granted the key as
// soon as it is free.
func TestWaiterSurvivesACutConnection(t *testing.T) {
	n := startNode(t)
	p := startProxy(t, n.addr, nil)
	direct, c := dial(t, n.addr), dial(t, p.Addr().String())
	held := acquire(t, direct, "k", client.Lease(time.Minute))
	got := make(chan error, 1)
	go func() {
		l, err := c.Acquire(t.Context(), "k", client.Wait(time.Minute))
		if err == nil {
			err = l.Release(t.Context())
		}
		got <- err
	}()
	within(t, 10*time.Second, "it waits", func() bool { return n.status(t).Waiting == 1 })
	p.cut()
	within(t, 20*time.Second, "it waits again", func() bool { s := n.status(t); return s.Waiting == 1 && s.Connections >= 3 })
	release(t, held)
	select {
	case err := <-got:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the waiter was never granted the key")
	}
}

// A release whose answer is swallowed is sent again, and must not end the
// next grant of the same client.
func TestLateReleaseCopiesSpareTheNextGrant(t *testing.T) {
	n := startNode(t)
	var swallow atomic.Bool
	p := startProxy(t, n.addr, func(line string) string {
		if swallow.Load() && line[0] == 'R' {
			return ""
		}
		return line
	})
	c, other := dial(t, p.Addr().String()), dial(t, n.addr)
	first := acquire(t, c, "k", client.Lease(time.Minute))
	swallow.Store(true)
	released := make(chan error, 1)
	go func() { released <- first.Release(t.Context()) }()
	second := acquire(t, other, "k", client.Wait(10*time.Second), client.Lease(time.Minute))
	p.cut() // now it is undelivered, and copies go out on new connections
	swallow.Store(false)
	if err := <-released; err != nil {
		t.Errorf("release: %v", err)
	}
	if _, err := c.TryAcquire(t.Context(), "k"); !errors.Is(err, client.ErrTimeout) {
		t.Errorf("the second grant should stand, but: %v", err)
	}
	release(t, second)
}

// A node that stands still, or falls silent behind a proxy, is a black hole:
// a holder is told no later than its lease, and calls don't hang beyond their
// limits.
func TestBlackHole(t *testing.T) {
	n := startNode(t)
	p := startProxy(t, n.addr, nil)
	c := dial(t, p.Addr().String())
	l := acquire(t, c, "k", client.Lease(2*time.Second))
	p.setDeaf(true)
	select {
	case <-l.Context().Done():
		if late := time.Since(l.Expires()); late > 2*time.Second {
			t.Errorf("told %v after the end of the lease", late)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the holder was never told that its lease is over")
	}
	start := time.Now()
	if _, err := c.Acquire(t.Context(), "other", client.Wait(500*time.Millisecond)); err == nil {
		t.Error("an acquire came through a black hole")
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("an acquire with a limit of 0.5 s took %v", took)
	}
	p.setDeaf(false)
	within(t, 20*time.Second, "the client works again", func() bool {
		l, err := c.Acquire(t.Context(), "k", client.Wait(5*time.Second))
		return err == nil && l.Release(t.Context()) == nil
	})
}

func TestStoppedProcess(t *testing.T) {
	first, second := startNode(t), startNode(t)
	c := dial(t, first.addr+","+second.addr)
	first.cmd.Process.Signal(syscall.SIGSTOP)
	for i := range 2 {
		start := time.Now()
		l := acquire(t, c, fmt.Sprintf("k%d", i), client.Wait(20*time.Second))
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("acquire %d took %v with one of two nodes stopped", i, took)
		}
		release(t, l)
	}
	first.cmd.Process.Signal(syscall.SIGCONT)
}

// A node that is killed and started again serves its client, with greater
// tokens.
func TestKilledAndStartedAgain(t *testing.T) {
	dir := t.TempDir()
	addr, err := ports.Addr("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	n := startNodeAt(t, addr, dir)
	c := dial(t, n.addr, client.RetryFor(30*time.Second))
	before := acquire(t, c, "k", client.Lease(time.Minute))
	n.kill()
	startNodeAt(t, n.addr, dir)
	after := acquire(t, c, "k", client.Wait(30*time.Second))
	if after.Token() <= before.Token() {
		t.Errorf("token %d after %d", after.Token(), before.Token())
	}
	if err := before.Release(t.Context()); !errors.Is(err, client.ErrNotHeld) {
		t.Errorf("release of a lock that ended with its node: %v, want ErrNotHeld", err)
	}
	release(t, after)
}

// Calls, a flapping network and Close at any moment: nobody hangs, nothing is
// left over.
func TestFlappingNetworkAndClose(t *testing.T) {
	n := startNode(t)
	p := startProxy(t, n.addr, nil)
	goroutines := runtime.NumGoroutine()
	stop := time.Now().Add(4 * time.Second)
	for time.Now().Before(stop) {
		c, err := client.Dial(t.Context(), p.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				for {
					l, err := c.Acquire(t.Context(), fmt.Sprint(rand.N(5)), client.Wait(time.Second), client.Lease(time.Second))
					if errors.Is(err, client.ErrClosed) {
						return
					}
					if err == nil {
						l.Release(t.Context())
					}
				}
			})
		}
		for range rand.N(4) {
			time.Sleep(rand.N(200 * time.Millisecond))
			p.cut()
		}
		time.Sleep(rand.N(100 * time.Millisecond))
		start := time.Now()
		for range 2 {
			wg.Go(func() { c.Close() })
		}
		wg.Wait()
		if took := time.Since(start); took > 5*time.Second {
			t.Fatalf("Close and all calls took %v", took)
		}
	}
	p.cut()
	within(t, 20*time.Second, "the goroutines are back", func() bool { return runtime.NumGoroutine() <= goroutines })
	within(t, 20*time.Second, "the node is clean", func() bool { s := n.status(t); return s.Held == 0 && s.Waiting == 0 })
}
