package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The path delays the grant by 1.5 s, the lease is 2 s: the client keeps
// first, before the server's own end of the lease.
func TestDelayedGrantIsKeptFirst(t *testing.T) {
	virtual(t, func(w *world) {
		var granted int64
		s := w.server("n0:5625", func(c *sconn, r request4) {
			if r.op == opA {
				granted = w.ms()
				c.Delay(1500 * time.Millisecond)
				obliging(c, r)
				c.Delay(0)
				return
			}
			obliging(c, r)
		}, mutePing)
		c := w.client("n0:5625")
		time.Sleep(time.Second)
		l := w.must(c, "k", Lease(2*time.Second))
		w.wantMs("handed out", 2500)
		got := s.seen("K")
		if len(got) != 1 || got[0].text != fmt.Sprintf("K k %d 2", l.Token()) || got[0].ms >= granted+2000 {
			t.Errorf("keeps: %v", got)
		}
		if got := l.Expires().Sub(w.start).Milliseconds(); got != 4500 {
			t.Errorf("expires at %d ms; want 4500", got)
		}
	})
}

// More than half is left: it is handed out as it is, and its end counts from
// the acquire.
func TestGrantCountsFromTheSend(t *testing.T) {
	for _, wait := range []time.Duration{-1, 0, time.Minute} {
		virtual(t, func(w *world) {
			slow := func(s *server) { s.accept = func(c *sconn) { c.Delay(80 * time.Millisecond) } }
			s := w.server("n0:5625", obliging, slow)
			c := w.client("n0:5625")
			time.Sleep(time.Second)
			begun := w.ms()
			l := w.must(c, "k", Wait(wait), Lease(2*time.Second))
			if got := l.Expires().Sub(w.start).Milliseconds(); got != begun+2000 {
				t.Errorf("wait %v: expires at %d ms; want %d", wait, got, begun+2000)
			}
			if n := len(s.seen("K")); n != 0 {
				t.Errorf("%d keeps", n)
			}
		})
	}
}

// After a wait the count starts at the last ping that was answered before.
func TestGrantAfterAWaitCountsFromThePing(t *testing.T) {
	virtual(t, func(w *world) {
		s := w.server("n0:5625", func(c *sconn, r request4) {
			if r.op == opA {
				time.AfterFunc(10500*time.Millisecond, func() { obliging(c, r) })
				return
			}
			obliging(c, r)
		})
		c := w.client("n0:5625")
		l := w.must(c, "k", Lease(2*time.Second))
		w.wantMs("granted", 10500)
		if got := l.Expires().Sub(w.start).Milliseconds(); got != 12000 {
			t.Errorf("expires at %d ms; want 12000, two seconds after the last ping", got)
		}
		if n := len(s.seen("K")); n != 0 {
			t.Errorf("%d keeps", n)
		}
	})
}

// Nothing is left of the lease and the peer has no keep: released, and asked
// for again.
func TestDeadGrantWithoutKeep(t *testing.T) {
	virtual(t, func(w *world) {
		s := w.server("n0:5625", nil, core, mutePing)
		s.script(func(c *sconn, r request4) {
			if r.op == opA && len(s.seen("A")) == 1 {
				c.Delay(2100 * time.Millisecond)
			} else {
				c.Delay(0)
			}
			obliging(c, r)
		})
		c := w.client("n0:5625")
		l := w.must(c, "k", Lease(2*time.Second))
		w.wantMs("granted", 2100)
		got := texts(s.seen("ARK"))
		want := []string{"A k 0 2", fmt.Sprintf("R k %d", l.Token()-1), "A k 0 2"}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
		if got := l.Expires().Sub(w.start).Milliseconds(); got != 4100 {
			t.Errorf("expires at %d ms; want 4100", got)
		}
	})
}

// Without keep and with a little left, the lock is handed out with that.
func TestShortGrantWithoutKeep(t *testing.T) {
	virtual(t, func(w *world) {
		w.server("n0:5625", obliging, core, mutePing, func(s *server) {
			s.accept = func(c *sconn) { c.Delay(700 * time.Millisecond) }
		})
		c := w.client("n0:5625")
		time.Sleep(5 * time.Second)
		begun := w.ms()
		l := w.must(c, "k", Lease(time.Second))
		if got := l.Expires().Sub(w.start).Milliseconds(); got != begun+1000 {
			t.Errorf("expires at %d ms; want %d", got, begun+1000)
		}
	})
}

// The keep before handing out is refused: the client asks again.
func TestKeepFirstRefused(t *testing.T) {
	for _, answer := range []string{"E K k not-held", "E K k no-active", "M K k n1:5625"} {
		virtual(t, func(w *world) {
			s := w.server("n0:5625", nil)
			keeps := 0
			s.script(func(c *sconn, r request4) {
				switch {
				case r.op == opA && keeps == 0:
					c.send("A k 5 0")
				case r.op == opK && keeps == 0:
					keeps++
					c.send("%s", answer)
				default:
					tokens.Lock()
					tokens.last = max(tokens.last, 5)
					tokens.Unlock()
					obliging(c, r)
				}
			})
			w.server("n1:5625", func(c *sconn, r request4) {
				if r.op == opA {
					c.send("A k 5 29") // the same grant, under its nonce
				}
			})
			c := w.client("n0:5625")
			l := w.must(c, "k")
			if moved := answer[0] == 'M'; moved != (l.Token() == 5) {
				t.Errorf("after %q: token %d", answer, l.Token())
			}
		})
	}
}

func TestLeaseLostByTheClock(t *testing.T) {
	virtual(t, func(w *world) {
		s := w.server("n0:5625", obliging)
		c := w.client("n0:5625")
		l := w.must(c, "k", Lease(2*time.Second))
		ctx := l.Context()
		s.stop()
		<-ctx.Done()
		w.wantMs("lost", 2000)
		if cause := context.Cause(ctx); cause != ErrLeaseLost {
			t.Errorf("cause: %v", cause)
		}
		wantErr(t, l.Keep(bg, time.Second), ErrLeaseLost, DidNotHappen)
	})
}

func TestKeep(t *testing.T) {
	virtual(t, func(w *world) {
		s := w.server("n0:5625", obliging)
		c := w.client("n0:5625")
		l := w.must(c, "k", Lease(2*time.Second))
		if l.Lease() != 2*time.Second {
			t.Errorf("a lease of %v was granted", l.Lease())
		}
		ctx := l.Context()
		time.Sleep(time.Second)
		if err := l.Keep(bg, 10*time.Second); err != nil {
			t.Fatal(err)
		}
		if l.Lease() != 10*time.Second {
			t.Errorf("kept for %v", l.Lease())
		}
		time.Sleep(5 * time.Second)
		if ctx.Err() != nil {
			t.Fatal("lost in spite of the keep")
		}
		if err := l.Keep(bg, time.Second); err != nil { // it may shorten
			t.Fatal(err)
		}
		<-ctx.Done()
		w.wantMs("lost", 7000)
		if n := len(s.seen("K")); n != 2 {
			t.Errorf("%d keeps", n)
		}
	})
}

// A server that grants less than was asked says so, and so does the lock.
func TestLeaseIsWhatWasGranted(t *testing.T) {
	virtual(t, func(w *world) {
		w.server("n0:5625", func(c *sconn, r request4) {
			r.lease = min(r.lease, time.Minute)
			obliging(c, r)
		})
		c := w.client("n0:5625")
		l := w.must(c, "k", Lease(time.Hour))
		if l.Lease() != time.Minute {
			t.Errorf("granted: %v", l.Lease())
		}
		if err := l.Keep(bg, 2*time.Hour); err != nil || l.Lease() != time.Minute {
			t.Errorf("kept: %v, %v", l.Lease(), err)
		}
		adopted, err := w.client("n0:5625").Adopt(bg, "k", l.Token(), time.Hour)
		if err != nil || adopted.Lease() != time.Minute {
			t.Errorf("adopted: %v, %v", adopted.Lease(), err)
		}
	})
}

// While a shortening keep is unanswered, the end may already be nearer.
func TestUnansweredKeepMayHaveShortened(t *testing.T) {
	virtual(t, func(w *world) {
		s := w.server("n0:5625", granting(silent))
		c := w.client("n0:5625")
		l := w.must(c, "k", Lease(time.Minute))
		ctx, cancel := context.WithTimeout(bg, 100*time.Millisecond)
		defer cancel()
		wantErr(t, l.Keep(ctx, 5*time.Second), context.DeadlineExceeded, MayHaveHappened)
		if got := l.Expires().Sub(w.start).Milliseconds(); got != 5000 {
			t.Errorf("expires at %d ms; want 5000", got)
		}
		// A lost short one can still be read after a longer one.
		s.script(obliging)
		s.cut()
		time.Sleep(time.Millisecond)
		if err := l.Keep(bg, time.Minute); err != nil {
			t.Fatal(err)
		}
		if got := l.Expires().Sub(w.start).Milliseconds(); got > 5200 {
			t.Errorf("expires at %d ms; want the lease of the short one from now", got)
		}
	})
}

func TestKeepNotHeld(t *testing.T) {
	virtual(t, func(w *world) {
		w.server("n0:5625", granting(func(c *sconn, r request4) { c.send("E %v k not-held", r.op) }))
		c := w.client("n0:5625")
		l := w.must(c, "k")
		ctx := l.Context()
		err := l.Keep(bg, 0)
		wantErr(t, err, ErrLeaseLost, DidNotHappen)
		wantErr(t, err, ErrNotHeld, DidNotHappen)
		if context.Cause(ctx) != ErrLeaseLost {
			t.Errorf("cause: %v", context.Cause(ctx))
		}
	})
}

// A keep moves on to any connection until the lease ends.
func TestKeepMovesOn(t *testing.T) {
	virtual(t, func(w *world) {
		a := w.server("n0:5625", granting(resetting))
		b := w.server("n1:5625", granting(resetting))
		c := w.client("n0:5625,n1:5625")
		time.Sleep(time.Second)
		l := w.must(c, "k", Lease(3*time.Second))
		wantErr(t, l.Keep(bg, 3*time.Second), ErrLeaseLost, MayHaveHappened)
		w.wantMs("the error came", 4000)
		if n := len(a.seen("K")) + len(b.seen("K")); n < 3 || n > 40 {
			t.Errorf("%d keeps in 3 s", n)
		}
		a.script(obliging)
		b.script(obliging)
		l = w.must(c, "k", Lease(3*time.Second))
		a.script(granting(redirecting("n1:5625")))
		b.script(obliging)
		if err := l.Keep(bg, 3*time.Second); err != nil {
			t.Error(err)
		}
	})
}

// A good answer after the lock was declared lost is followed by a release;
// the context stays ended.
func TestLateKeepIsReleased(t *testing.T) {
	virtual(t, func(w *world) {
		s := w.server("n0:5625", granting(func(c *sconn, r request4) {
			if r.op == opK {
				time.AfterFunc(2*time.Second, func() { obliging(c, r) })
				return
			}
			obliging(c, r)
		}))
		c := w.client("n0:5625")
		l := w.must(c, "k", Lease(2*time.Second))
		ctx := l.Context()
		time.Sleep(1500 * time.Millisecond)
		wantErr(t, l.Keep(bg, 10*time.Second), ErrLeaseLost, MayHaveHappened)
		w.wantMs("lost", 2000)
		time.Sleep(2 * time.Second)
		got := s.seen("R")
		if len(got) != 1 || got[0].ms != 3500 || got[0].text != fmt.Sprintf("R k %d", l.Token()) {
			t.Errorf("releases: %v", got)
		}
		if context.Cause(ctx) != ErrLeaseLost {
			t.Errorf("cause: %v", context.Cause(ctx))
		}
	})
}

func TestKeepWithoutTheProfile(t *testing.T) {
	virtual(t, func(w *world) {
		s := w.server("n0:5625", obliging, core)
		c := w.client("n0:5625")
		l := w.must(c, "k")
		wantErr(t, l.Keep(bg, time.Second), errors.ErrUnsupported, DidNotHappen)
		if err := l.Release(bg); err != nil {
			t.Error(err)
		}
		wantErr(t, l.Keep(bg, time.Second), ErrNotHeld, DidNotHappen)
		if n := len(s.seen("K")); n != 0 {
			t.Errorf("%d keeps", n)
		}
	})
}

func TestDoRenewsAndReleases(t *testing.T) {
	virtual(t, func(w *world) {
		d := newNode()
		s := w.nodeServer("n0:5625", d)
		c := w.client("n0:5625")
		boom := errors.New("boom")
		err := c.Do(bg, "k", func(ctx context.Context, l *Lock) error {
			time.Sleep(time.Minute)
			if ctx.Err() != nil {
				t.Errorf("the context ended: %v", context.Cause(ctx))
			}
			return boom
		}, Lease(3*time.Second))
		if err != boom {
			t.Errorf("Do returned %v", err)
		}
		var want []int64
		for ms := int64(1000); ms <= 60000; ms += 1000 {
			want = append(want, ms)
		}
		got := times(s.seen("K"))
		if len(got) != 60 && len(got) != 59 {
			t.Error(cmp.Diff(want, got))
		}
		time.Sleep(time.Minute)
		if n := len(s.seen("K")); n != len(got) {
			t.Error("renewed after the release")
		}
		if h, _ := d.left(); h != 0 {
			t.Error("still held")
		}
	})
}

func TestDoWhenTheLeaseIsLost(t *testing.T) {
	virtual(t, func(w *world) {
		d := newNode()
		s := w.nodeServer("n0:5625", d)
		c := w.client("n0:5625")
		time.Sleep(time.Second) // both connections are there
		err := c.Do(bg, "k", func(ctx context.Context, l *Lock) error {
			s.refuse()
			s.cut()
			<-ctx.Done()
			w.wantMs("the context ended", 4000)
			if context.Cause(ctx) != ErrLeaseLost {
				t.Errorf("cause: %v", context.Cause(ctx))
			}
			s.listen()
			return nil
		}, Lease(3*time.Second))
		if !errors.Is(err, ErrNotHeld) {
			t.Errorf("Do returned %v", err)
		}
	})
}

func TestDoReleasesAfterAPanicAndACancel(t *testing.T) {
	virtual(t, func(w *world) {
		d := newNode()
		w.nodeServer("n0:5625", d)
		c := w.client("n0:5625")
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			c.Do(bg, "k", func(context.Context, *Lock) error { panic("boom") })
		}()
		ctx, cancel := context.WithCancel(bg)
		err := c.Do(ctx, "k", func(ctx context.Context, l *Lock) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		})
		if err != context.Canceled {
			t.Errorf("Do returned %v", err)
		}
		if h, q := d.left(); h != 0 || q != 0 {
			t.Errorf("left behind: %d held, %d waiting", h, q)
		}
	})
}

// B21: no K after R on the wire.
func TestNoKeepAfterRelease(t *testing.T) {
	virtual(t, func(w *world) {
		d := newNode()
		s := w.nodeServer("n0:5625", d)
		c := w.client("n0:5625")
		var wg sync.WaitGroup
		for g := range 10 {
			wg.Go(func() {
				for i := range 1000 {
					err := c.Do(bg, fmt.Sprintf("k%d", g), func(ctx context.Context, l *Lock) error {
						time.Sleep(time.Duration(i%40) * 100 * time.Microsecond)
						return nil
					}, Lease(3*time.Millisecond))
					if err != nil && !errors.Is(err, ErrNotHeld) {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		released := make(map[string]bool)
		keeps := 0
		for _, l := range s.seen("RK") {
			f := strings.Fields(l.text)
			id := f[1] + " " + f[2]
			switch {
			case f[0] == "R":
				released[id] = true
			case released[id]:
				t.Fatalf("%v after its release", l)
			default:
				keeps++
			}
		}
		if keeps < 1000 || len(released) != 10000 {
			t.Errorf("%d keeps, %d releases: not much was tried", keeps, len(released))
		}
	})
}

// A lock's grant answer was lost; its nonce brings the same token back, with
// the time left.
func TestLostGrantComesBackUnderItsNonce(t *testing.T) {
	virtual(t, func(w *world) {
		d := newNode()
		w.server("n0:5625", func(c *sconn, r request4) {
			if r.op == opA {
				hidden := &sconn{Conn: c.Conn, s: c.s}
				c.BlackHole(true)
				d.handle(hidden, r)
				time.Sleep(time.Millisecond)
				c.Reset()
			}
		})
		w.nodeServer("n1:5625", d)
		c := w.client("n0:5625,n1:5625")
		time.Sleep(time.Second)
		for i := range 2 {
			l := w.must(c, fmt.Sprintf("k%d", i), Lease(10*time.Second))
			if left := time.Until(l.Expires()); left < 9*time.Second {
				t.Errorf("%v left", left)
			}
		}
		if d.grants != 2 {
			t.Errorf("%d grants; want 2", d.grants)
		}
	})
}

// B6, and the order of moved calls: all calls of one key come through, in
// moderate time, when their connection drops in the middle.
func TestMovedCallsDoNotBlockEachOther(t *testing.T) {
	for _, profiles := range []string{allProfiles, ""} {
		virtual(t, func(w *world) {
			d := newNode()
			var servers []*server
			for i := range 3 {
				servers = append(servers, w.nodeServer(fmt.Sprintf("n%d:5625", i), d, func(s *server) { s.profiles = profiles }))
			}
			c := w.client("n0:5625,n1:5625,n2:5625")
			other := w.client("n0:5625,n1:5625,n2:5625")
			time.Sleep(time.Second)
			held := w.must(other, "k", Lease(time.Minute))
			var wg sync.WaitGroup
			for range 30 {
				wg.Go(func() {
					l, err := c.Acquire(bg, "k", Lease(10*time.Second))
					if err != nil {
						t.Error(err)
						return
					}
					time.Sleep(10 * time.Millisecond)
					l.Release(bg)
				})
				synctest.Wait()
			}
			servers[1].refuse()
			servers[1].cut()
			time.Sleep(time.Second)
			servers[0].cut()
			time.Sleep(100 * time.Millisecond)
			begun := w.ms()
			held.Release(bg)
			wg.Wait()
			took := w.ms() - begun
			if profiles != "" && took > 1000 {
				t.Errorf("30 turns of 10 ms took %d ms", took)
			}
			if profiles == "" && took > 21000 {
				t.Errorf("30 turns of 10 ms took %d ms", took) // a lost grant ends with its lease
			}
		})
	}
}
