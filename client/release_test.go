package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// every is from, from+step, … up to and including last.
func every(from, step, last int64) (all []int64) {
	for ms := from; ms <= last; ms += step {
		all = append(all, ms)
	}
	return all
}

// granting grants acquires and leaves everything else to then.
func granting(then func(c *sconn, r request4)) func(c *sconn, r request4) {
	return func(c *sconn, r request4) {
		if r.op == opA {
			obliging(c, r)
			return
		}
		then(c, r)
	}
}

// The server reads R and resets, each time: copies every 200 ms for 5 s.
func TestReleaseResent(t *testing.T) {
	virtual(t, func(w *world) {
		s := w.server("n0:5625", granting(resetting))
		c := w.client("n0:5625")
		time.Sleep(time.Second)
		l := w.must(c, "k", Lease(time.Minute))
		err := l.Release(bg)
		wantErr(t, err, ErrUndelivered, MayHaveHappened)
		w.wantMs("the error came", 6000)
		time.Sleep(3 * time.Second)
		got := times(s.seen("R"))
		if d := cmp.Diff(every(1000, 200, 5800), got); d != "" {
			t.Error(d)
		}
		if err := l.Release(bg); !errors.Is(err, ErrUndelivered) {
			t.Errorf("releasing again: %v", err)
		}
		// B12: the same client can acquire the key again.
		w.must(c, "k")
	})
}

func TestReleaseAfterAllLinksWereCut(t *testing.T) {
	for _, back := range []int64{1000, 4500, 6000} {
		virtual(t, func(w *world) {
			d := newNode()
			s := w.nodeServer("n0:5625", d)
			c := w.client("n0:5625")
			time.Sleep(time.Second)
			l := w.must(c, "k", Lease(20*time.Second))
			s.refuse()
			s.cut()
			time.AfterFunc(time.Duration(back)*time.Millisecond, s.listen)
			begun := w.ms()
			err := l.Release(bg)
			took := w.ms() - begun
			if back == 6000 {
				wantErr(t, err, ErrUndelivered, MayHaveHappened)
				if took != 5000 {
					t.Errorf("error after %d ms", took)
				}
				time.Sleep(2 * time.Second)
				l2 := w.must(c, "k")
				if took := w.ms() - begun; took != 20000 {
					t.Errorf("granted again after %d ms; want the end of the lease", took)
				}
				l2.Release(bg)
				return
			}
			if err != nil || took > back+200 {
				t.Errorf("back after %d ms: %v after %d ms", back, err, took)
			}
			if h, _ := d.left(); h != 0 {
				t.Error("still held")
			}
		})
	}
}

// The answer of the first copy is lost; the second is told "not held".
func TestReleaseEchoedAsNotHeld(t *testing.T) {
	for _, test := range []struct {
		lease time.Duration
		want  error
	}{
		{time.Minute, nil},
		{150 * time.Millisecond, ErrNotHeld}, // the lease has ended meanwhile
	} {
		virtual(t, func(w *world) {
			var s *server
			s = w.server("n0:5625", granting(func(c *sconn, r request4) {
				if len(s.seen("R")) == 1 {
					c.Reset()
					return
				}
				c.send("E R %s not-held", r.key)
			}))
			c := w.client("n0:5625")
			time.Sleep(time.Second)
			err := w.must(c, "k", Lease(test.lease)).Release(bg)
			if test.want == nil {
				if err != nil {
					t.Error(err)
				}
			} else {
				wantErr(t, err, test.want, MayHaveHappened)
			}
			w.wantMs("released", 1200)
		})
	}
}

func TestReleaseOfOnlyCopyNotHeld(t *testing.T) {
	virtual(t, func(w *world) {
		w.server("n0:5625", granting(func(c *sconn, r request4) { c.send("E R %s not-held nobody has it", r.key) }))
		c := w.client("n0:5625")
		err := w.must(c, "k").Release(bg)
		wantErr(t, err, ErrNotHeld, DidNotHappen)
		if errors.Is(err, ErrLeaseLost) {
			t.Errorf("%v says that the lease was lost", err)
		}
		l := w.must(c, "k", Lease(time.Second))
		time.Sleep(2 * time.Second)
		wantErr(t, l.Release(bg), ErrLeaseLost, DidNotHappen)
	})
}

// A release waits for its answer as long as its connection lives: it is then
// not undelivered. A black hole ends the connection after three seconds, and
// the copy goes elsewhere.
func TestReleaseIntoABlackHole(t *testing.T) {
	virtual(t, func(w *world) {
		hole := func(s *server) { s.mutePing = true }
		a := w.server("n0:5625", granting(silent), hole)
		b := w.server("n1:5625", granting(silent), hole)
		var first *server
		c := w.client("n0:5625,n1:5625")
		time.Sleep(time.Second)
		l := w.must(c, "k", Lease(time.Minute))
		first, second := a, b
		if len(b.seen("A")) == 1 {
			first, second = b, a
		}
		second.script(obliging)
		if err := l.Release(bg); err != nil {
			t.Error(err)
		}
		if d := cmp.Diff([]int64{1000}, times(first.seen("R"))); d != "" {
			t.Error(d)
		}
		if got := second.seen("R"); len(got) != 1 || got[0].ms < 4000 || got[0].ms > 4200 {
			t.Errorf("copies at the other server: %v; want one, when it was due after the reset at 4000 ms", got)
		}
	})
}

// R goes where the grant came from, and along the rotation once that is down.
func TestReleaseGoesWhereTheGrantCameFrom(t *testing.T) {
	virtual(t, func(w *world) {
		var servers []*server
		for i := range 3 {
			servers = append(servers, w.server(fmt.Sprintf("n%d:5625", i), obliging))
		}
		c := w.client("n0:5625,n1:5625,n2:5625")
		time.Sleep(time.Second)
		locks := []*Lock{w.must(c, "a"), w.must(c, "b"), w.must(c, "c")}
		locks[0].Release(bg)
		var from *server
		for _, s := range servers {
			if got := s.seen("R"); len(got) == 1 {
				from = s
				if !strings.HasPrefix(s.seen("A")[0].text, "A a ") {
					t.Errorf("released at %s", s.addr)
				}
			}
		}
		for _, s := range servers {
			if s != from {
				s.stop()
			}
		}
		synctest.Wait()
		for _, l := range locks[1:] {
			if err := l.Release(bg); err != nil {
				t.Error(err)
			}
		}
		if n := len(from.seen("R")); n != 3 {
			t.Errorf("%d releases at the live server", n)
		}
		w.wantMs("released", 1000)
	})
}

func TestReleaseFollowsRedirect(t *testing.T) {
	virtual(t, func(w *world) {
		w.server("n0:5625", granting(redirecting("n9:5625")))
		s := w.server("n9:5625", obliging)
		c := w.client("n0:5625")
		if err := w.must(c, "k").Release(bg); err != nil {
			t.Error(err)
		}
		w.wantMs("released", 0)
		if len(s.seen("R")) != 1 {
			t.Errorf("the redirect's target read %v", s.seen("R"))
		}
	})
}

// Redirects in a circle: the pace is bounded, and so is the time.
func TestReleaseRedirectedInACircle(t *testing.T) {
	virtual(t, func(w *world) {
		a := w.server("n0:5625", granting(redirecting("n1:5625")))
		b := w.server("n1:5625", granting(redirecting("n0:5625")))
		c := w.client("n0:5625,n1:5625")
		time.Sleep(time.Second)
		err := w.must(c, "k").Release(bg)
		wantErr(t, err, ErrUndelivered, MayHaveHappened)
		w.wantMs("the error came", 6000)
		if n := len(a.seen("R")) + len(b.seen("R")); n < 8 || n > 12 {
			t.Errorf("%d copies in 5 s", n)
		}
	})
}

func TestReleaseUntilServed(t *testing.T) {
	virtual(t, func(w *world) {
		s := w.server("n0:5625", nil)
		s.script(granting(func(c *sconn, r request4) {
			if len(s.seen("R")) <= 3 {
				c.send("E R %s no-active", r.key)
				return
			}
			obliging(c, r)
		}))
		c := w.client("n0:5625")
		if err := w.must(c, "k").Release(bg); err != nil {
			t.Error(err)
		}
		if d := cmp.Diff([]int64{0, 200, 400, 600}, times(s.seen("R"))); d != "" {
			t.Error(d)
		}
	})
}

// A cancelled context ends the call, not the resending.
func TestReleaseGoesOnAfterItsContext(t *testing.T) {
	virtual(t, func(w *world) {
		d := newNode()
		s := w.nodeServer("n0:5625", d)
		c := w.client("n0:5625")
		time.Sleep(time.Second)
		l := w.must(c, "k")
		s.refuse()
		s.cut()
		ctx, cancel := context.WithTimeout(bg, 50*time.Millisecond)
		defer cancel()
		wantErr(t, l.Release(ctx), context.DeadlineExceeded, MayHaveHappened)
		w.wantMs("the call ended", 1050)
		time.Sleep(950 * time.Millisecond)
		s.listen()
		time.Sleep(250 * time.Millisecond)
		if h, _ := d.left(); h != 0 {
			t.Error("still held")
		}
	})
}

// B11, B15: copies that come late neither harm the next lock nor end the next
// release; and the next acquire does not wait for them.
func TestLateCopiesHarmNothing(t *testing.T) {
	virtual(t, func(w *world) {
		d := newNode()
		var second *server
		w.server("n0:5625", func(c *sconn, r request4) {
			if r.op == opR { // done, but the answer never comes
				d.mu.Lock()
				if k := d.keys[r.key]; k.holder != nil && k.holder.token == r.token {
					d.free(k)
				}
				d.mu.Unlock()
				return
			}
			d.handle(c, r)
		}, mutePing)
		second = w.nodeServer("n1:5625", d)
		_ = second
		c := w.client("n0:5625,n1:5625")
		time.Sleep(time.Second)
		first := w.must(c, "k", Lease(time.Minute))
		if first.origin.slot.addr.text != "n0:5625" {
			first.Release(bg)
			first = w.must(c, "k", Lease(time.Minute))
		}
		released := make(chan error, 1)
		go func() { released <- first.Release(bg) }()
		synctest.Wait()
		again := w.must(c, "k", Lease(time.Minute))
		w.wantMs("acquired again", 1000)
		if err := <-released; err != nil {
			t.Errorf("the first release: %v", err)
		}
		if ms := w.ms(); ms < 4000 || ms > 4200 {
			t.Errorf("the first release ended at %d ms; want 4000 to 4200", ms)
		}
		if h, _ := d.left(); h != 1 {
			t.Fatal("a late copy ended the second lock")
		}
		if err := again.Release(bg); err != nil {
			t.Errorf("the second release: %v", err)
		}
	})
}

// An answer with another token is no answer to this release.
func TestReleaseAnsweredWithAnotherToken(t *testing.T) {
	virtual(t, func(w *world) {
		s := w.server("n0:5625", nil)
		s.script(granting(func(c *sconn, r request4) {
			if len(s.seen("R")) == 1 {
				c.send("R %s %d", r.key, r.token+1)
				return
			}
			obliging(c, r)
		}))
		c := w.client("n0:5625")
		time.Sleep(time.Second)
		if err := w.must(c, "k").Release(bg); err != nil {
			t.Error(err)
		}
		if d := cmp.Diff([]int64{1000, 1200}, times(s.seen("R"))); d != "" {
			t.Error(d)
		}
	})
}

// A cancel is written again until it is answered, every 200 ms for 5 s.
func TestCancelIsResentLikeARelease(t *testing.T) {
	virtual(t, func(w *world) {
		s := w.server("n0:5625", func(c *sconn, r request4) {
			if r.op == opC {
				c.Reset()
			}
		})
		c := w.client("n0:5625")
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(bg, 500*time.Millisecond)
		defer cancel()
		_, err := c.Acquire(ctx, "k")
		wantErr(t, err, context.DeadlineExceeded, MayHaveHappened)
		w.wantMs("the call ended", 1500)
		time.Sleep(7 * time.Second)
		if d := cmp.Diff(every(1500, 200, 6300), times(s.seen("C"))); d != "" {
			t.Error(d)
		}
		nonce := strings.Fields(s.seen("A")[0].text)[4]
		for _, l := range s.seen("C") {
			if l.text != "C k "+nonce {
				t.Errorf("%v; want the nonce %s", l, nonce)
			}
		}
	})
}

// With a core peer there is no C; the late grant is released at once.
func TestCoreLateGrantIsReleased(t *testing.T) {
	virtual(t, func(w *world) {
		s := w.server("n0:5625", func(c *sconn, r request4) {
			if r.op == opA {
				time.AfterFunc(2*time.Second, func() { c.send("A k 77 30") })
				return
			}
			obliging(c, r)
		}, core)
		c := w.client("n0:5625")
		_, err := c.Acquire(bg, "k", Wait(time.Second))
		wantErr(t, err, ErrTimeout, MayHaveHappened)
		w.wantMs("the call ended", 1200)
		time.Sleep(2 * time.Second)
		if d := cmp.Diff([]string{"A k 1 0", "R k 77"}, texts(s.seen("ARKC"))); d != "" {
			t.Error(d)
		}
		if got := s.seen("R"); len(got) != 1 || got[0].ms != 2000 {
			t.Errorf("releases: %v", got)
		}
	})
}
