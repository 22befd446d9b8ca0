package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stile-lock/stile/client/internal/memnet"
)

func TestCloseEndsEverything(t *testing.T) {
	virtual(t, func(w *world) {
		d := newNode()
		s := w.server("n0:5625", func(c *sconn, r request4) {
			if r.op == opA {
				d.handle(c, r)
			}
		}, func(s *server) { s.ended = d.drop })
		c := w.client("n0:5625")
		l, l2 := w.must(c, "k"), w.must(c, "k2")
		ctx := l.Context()
		var wg sync.WaitGroup
		ended := func(what string, f func() error) {
			wg.Go(func() {
				if err := f(); !errors.Is(err, ErrClosed) {
					t.Errorf("%s ended with %v", what, err)
				}
			})
		}
		ended("acquire", func() error { _, err := c.Acquire(bg, "k"); return err })
		ended("keep", func() error { return l.Keep(bg, time.Second) })
		ended("release", func() error { return l2.Release(bg) })
		time.Sleep(500 * time.Millisecond)
		for range 3 {
			wg.Go(func() { c.Close() })
		}
		wg.Wait()
		if ms := w.ms(); ms > 1400 {
			t.Errorf("closed at %d ms", ms)
		}
		if context.Cause(ctx) != ErrClosed {
			t.Errorf("cause: %v", context.Cause(ctx))
		}
		c.Close()
		_, err := c.Acquire(bg, "k")
		wantErr(t, err, ErrClosed, DidNotHappen)
		wantErr(t, l.Keep(bg, time.Second), ErrClosed, DidNotHappen)
		wantErr(t, l.Release(bg), ErrClosed, DidNotHappen)
		if n := len(s.seen("C")); n != 1 {
			t.Errorf("%d cancels; want that of the waiting acquire", n)
		}
		time.Sleep(2 * time.Second)
		if _, waiting := d.left(); waiting != 0 {
			t.Errorf("%d still wait", waiting)
		}
	})
}

// Close with unresponsive servers and swallowed dials, and a dialer that
// heeds nothing.
func TestCloseIsBounded(t *testing.T) {
	virtual(t, func(w *world) {
		w.server("n0:5625", silent, mutePing)
		w.net.Swallow("n1:5625", true)
		c := w.client("n0:5625,n1:5625")
		go c.Acquire(bg, "k")
		time.Sleep(100 * time.Millisecond)
		c.mu.Lock()
		c.slots[0].conn.nc.(*memnet.Conn).Stall(true)
		c.mu.Unlock()
		begun := w.ms()
		c.Close()
		if took := w.ms() - begun; took > 400 {
			t.Errorf("Close took %d ms", took)
		}
	})
	virtual(t, func(w *world) {
		free := make(chan struct{})
		c, err := Dial(bg, "n0:5625", Dialer(func(context.Context, string, string) (net.Conn, error) {
			<-free
			return nil, errors.New("at last")
		}))
		if err != nil {
			t.Fatal(err)
		}
		begun := w.ms()
		c.Close()
		if took := w.ms() - begun; took >= 1000 {
			t.Errorf("Close took %d ms", took)
		}
		close(free)
	})
}

func TestDialEndsWithItsContext(t *testing.T) {
	virtual(t, func(w *world) {
		w.net.Swallow("n0:5625", true)
		ctx, cancel := context.WithTimeout(bg, 300*time.Millisecond)
		defer cancel()
		_, err := Dial(ctx, "n0:5625", Dialer(w.net.DialContext))
		wantErr(t, err, context.DeadlineExceeded, DidNotHappen)
		w.wantMs("Dial returned", 300)
	})
}

// B2: cancelled with all nodes down, the call returns at once.
func TestCancelWithAllDown(t *testing.T) {
	virtual(t, func(w *world) {
		w.net.Swallow("n0:5625", true)
		c := w.client("n0:5625")
		ctx, cancel := context.WithTimeout(bg, 100*time.Millisecond)
		defer cancel()
		_, err := c.Acquire(ctx, "k")
		wantErr(t, err, context.DeadlineExceeded, DidNotHappen)
		w.wantMs("the call ended", 1100)
	})
}

// B40: servers flap, fifty goroutines work, and Close comes at any moment.
func TestStress(t *testing.T) {
	rounds := 40
	if testing.Short() {
		rounds = 8
	}
	for round := range rounds {
		virtual(t, func(w *world) {
			d := newNode()
			var servers []*server
			addrs := []string{"n0:5625", "n0:5625,n1:5625,n2:5625"}[round%2]
			for i := range 3 {
				s := w.nodeServer(fmt.Sprintf("n%d:5625", i), d)
				if round%3 == 0 {
					s.profiles = ""
				}
				servers = append(servers, s)
			}
			before := runtime.NumGoroutine()
			c, err := Dial(bg, addrs, Dialer(w.net.DialContext))
			if err != nil {
				t.Fatal(err)
			}
			var done atomic.Bool
			var granted atomic.Int64
			var wg sync.WaitGroup
			for _, s := range servers {
				wg.Go(func() {
					for !done.Load() {
						time.Sleep(time.Duration(100+rand.IntN(400)) * time.Millisecond)
						switch rand.IntN(3) {
						case 0:
							s.cut()
						case 1:
							s.refuse()
							s.cut()
							time.Sleep(time.Duration(rand.IntN(400)) * time.Millisecond)
							s.listen()
						case 2:
							s.mu.Lock()
							for _, c := range s.conns {
								c.BlackHole(true)
							}
							s.mu.Unlock()
						}
					}
				})
			}
			for g := range 50 {
				wg.Go(func() {
					for {
						ctx, cancel := context.WithTimeout(bg, time.Duration(rand.IntN(2000))*time.Millisecond)
						l, err := c.Acquire(ctx, fmt.Sprintf("k%d", g%5), Wait(time.Duration(rand.IntN(3)-1)*300*time.Millisecond), Lease(time.Second))
						if errors.Is(err, ErrClosed) {
							cancel()
							return
						}
						if err == nil {
							granted.Add(1)
							l.Keep(ctx, time.Second)
							time.Sleep(rand.N(20 * time.Millisecond))
							if errors.Is(l.Release(ctx), ErrClosed) {
								cancel()
								return
							}
						} else {
							time.Sleep(50 * time.Millisecond)
						}
						cancel()
					}
				})
			}
			time.Sleep(rand.N(10 * time.Second))
			closing := time.Now()
			for range 2 {
				go c.Close()
			}
			c.Close()
			if took := time.Since(closing); took > time.Second {
				t.Errorf("Close took %v", took)
			}
			done.Store(true)
			wg.Wait()
			for _, s := range servers {
				s.stop()
			}
			time.Sleep(5 * time.Second)
			synctest.Wait()
			if after := runtime.NumGoroutine(); after > before {
				t.Errorf("%d goroutines before, %d after", before, after)
			}
			if h, q := d.left(); h != 0 || q != 0 {
				t.Errorf("left behind: %d held, %d waiting", h, q)
			}
			if testing.Verbose() {
				t.Logf("round %d: %d grants", round, granted.Load())
			}
		})
	}
}
