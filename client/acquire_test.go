package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAcquireMovesOnAndFailsAfterAll(t *testing.T) {
	virtual(t, func(w *world) {
		var servers []*server
		for i := range 3 {
			servers = append(servers, w.server(fmt.Sprintf("n%d:5625", i), resetting))
		}
		c := w.client("n0:5625,n1:5625,n2:5625")
		time.Sleep(time.Second)
		l, err := c.Acquire(bg, "k", Wait(10*time.Second))
		if l != nil {
			t.Fatal("got a lock")
		}
		wantErr(t, err, ErrNoConnection, MayHaveHappened)
		if !strings.Contains(err.Error(), "n1:5625: ") || len(err.(*Error).Addrs) != 3 {
			t.Errorf("the error does not list every address: %v", err)
		}
		var nonces []string
		for _, s := range servers {
			got := s.seen("A")
			// Once on the live connection, once on the one dialled on demand.
			if len(got) != 2 {
				t.Errorf("%s read %v; want 2 acquires", s.addr, got)
			}
			for _, l := range got {
				nonces = append(nonces, strings.Fields(l.text)[4])
			}
		}
		for _, n := range nonces {
			if n != nonces[0] {
				t.Errorf("moved with nonces %v; want the same one", nonces)
			}
		}
		w.wantMs("the error came", 1000)
	})
}

func TestAcquireAllRefusedAtOnce(t *testing.T) {
	virtual(t, func(w *world) {
		c := w.client("n0:5625,n1:5625")
		time.Sleep(time.Second)
		_, err := c.Acquire(bg, "k")
		wantErr(t, err, ErrNoConnection, DidNotHappen)
		w.wantMs("the error came", 1000)
		if !strings.Contains(err.Error(), "n0:5625: dial tcp n0:5625: connect: connection refused; n1:5625: ") {
			t.Errorf("error: %v", err)
		}
		_, err = c.TryAcquire(bg, "k")
		wantErr(t, err, ErrNoConnection, DidNotHappen)
		w.wantMs("the error came", 1000)
	})
}

func TestAcquireDialsOnDemand(t *testing.T) {
	virtual(t, func(w *world) {
		c := w.client("n0:5625,n1:5625")
		time.Sleep(time.Second)
		s := w.server("n1:5625", obliging)
		w.must(c, "k")
		w.wantMs("granted", 1000)
		if d := cmp.Diff([]int64{1000}, s.openings()); d != "" {
			t.Error(d)
		}
	})
}

// An address that swallows packets costs one second, and never more than the
// caller's limit.
func TestAcquireSwallowedDials(t *testing.T) {
	virtual(t, func(w *world) {
		w.net.Swallow("n0:5625", true)
		w.net.Swallow("n1:5625", true)
		c := w.client("n0:5625,n1:5625")
		w.wantMs("Dial returned", 1000)
		_, err := c.Acquire(bg, "k")
		wantErr(t, err, ErrNoConnection, DidNotHappen)
		w.wantMs("the error came", 2000)
		_, err = c.Acquire(bg, "k", Wait(300*time.Millisecond))
		wantUnserved(t, err, "n0:5625", "n1:5625")
		w.wantMs("the error came", 2300)
		_, err = c.TryAcquire(bg, "k")
		wantUnserved(t, err, "n0:5625", "n1:5625")
		w.wantMs("the error came", 2500)
	})
}

// wantUnserved wants the error of an acquire whose limit ended while no server
// had it, with the reasons of these addresses.
func wantUnserved(t *testing.T, err error, addrs ...string) {
	t.Helper()
	wantErr(t, err, ErrTimeout, DidNotHappen)
	e := err.(*Error)
	var got []string
	for _, a := range e.Addrs {
		got = append(got, a.Addr)
	}
	if !e.Unserved || !cmp.Equal(addrs, got) {
		t.Errorf("unserved: %v, addresses %v, want %v", e.Unserved, got, addrs)
	}
}

// A limit that ends tells whether a server had the acquire.
func TestTimeoutUnserved(t *testing.T) {
	virtual(t, func(w *world) {
		// Refused all the time, and between two rounds at the end.
		c := w.client("n0:5625,n1:5625", RetryFor(time.Minute))
		_, err := c.Acquire(bg, "k", Wait(3*time.Second))
		wantUnserved(t, err, "n0:5625", "n1:5625")

		// It stands in line, and does so at the end.
		d := newNode()
		s := w.nodeServer("n2:5625", d)
		c = w.client("n2:5625", RetryFor(time.Minute))
		w.must(c, "k")
		_, err = c.Acquire(bg, "k", Wait(3*time.Second))
		wantErr(t, err, ErrTimeout, DidNotHappen)
		if e := err.(*Error); e.Unserved {
			t.Errorf("unserved: %v", e)
		}

		// It loses its place before the end.
		time.AfterFunc(time.Second, s.stop)
		_, err = c.Acquire(bg, "k", Wait(3*time.Second))
		wantErr(t, err, ErrTimeout, MayHaveHappened)
		if e := err.(*Error); !e.Unserved || len(e.Addrs) == 0 {
			t.Errorf("not unserved: %v", e)
		}
	})
}

func TestRetryFor(t *testing.T) {
	virtual(t, func(w *world) {
		c := w.client("n0:5625,n1:5625", RetryFor(5*time.Second))
		time.Sleep(500 * time.Millisecond)
		time.AfterFunc(1500*time.Millisecond, func() { w.server("n1:5625", obliging) })
		w.must(c, "k")
		if ms := w.ms(); ms < 2000 || ms > 3000 {
			t.Errorf("granted at %d ms; want within a second of 2000 ms", ms)
		}
		w.servers[0].stop()
		time.Sleep(time.Millisecond)
		before := w.ms()
		_, err := c.Acquire(bg, "k2")
		wantErr(t, err, ErrNoConnection, DidNotHappen)
		if took := w.ms() - before; took < 4000 || took > 5000 {
			t.Errorf("gave up after %d ms; want 4000 to 5000", took)
		}
	})
}

// Who has waited in line for longer than RetryFor goes on trying for that time
// all the same when its server dies.
func TestRetryForAfterAPlaceInLine(t *testing.T) {
	virtual(t, func(w *world) {
		s := w.server("n0:5625", func(c *sconn, r request4) {
			if r.op != opA {
				obliging(c, r)
			}
		})
		c := w.client("n0:5625", RetryFor(5*time.Second))
		time.AfterFunc(time.Minute, s.stop)
		time.AfterFunc(time.Minute+3*time.Second, func() { w.server("n0:5625", obliging) })
		w.must(c, "k")
		if ms := w.ms(); ms < 63_000 || ms > 64_500 {
			t.Errorf("granted at %d ms; want within 1.5 s of 63,000 ms", ms)
		}
	})
	// It is no longer than that.
	virtual(t, func(w *world) {
		s := w.server("n0:5625", func(c *sconn, r request4) {
			if r.op != opA {
				obliging(c, r)
			}
		})
		c := w.client("n0:5625", RetryFor(5*time.Second))
		time.AfterFunc(time.Minute, s.stop)
		_, err := c.Acquire(bg, "k")
		wantErr(t, err, ErrNoConnection, MayHaveHappened)
		if ms := w.ms(); ms < 64_000 || ms > 65_000 {
			t.Errorf("gave up at %d ms; want 64,000 to 65,000", ms)
		}
	})
}

func TestAcquireErrorsOfTheServer(t *testing.T) {
	for _, test := range []struct {
		code    string
		outcome Outcome
	}{
		{"queue-full later", DidNotHappen},
		{"bad-request", DidNotHappen},
		{"unauthorized say hello", DidNotHappen},
		{"made-up with a text", MayHaveHappened},
		{"superseded", MayHaveHappened},
	} {
		virtual(t, func(w *world) {
			s := w.server("n0:5625", func(c *sconn, r request4) {
				if r.op == opA {
					c.send("E A %s %s", r.key, test.code)
					return
				}
				obliging(c, r)
			})
			c := w.client("n0:5625")
			_, err := c.Acquire(bg, "k")
			var se *ServerError
			if !errors.As(err, &se) || !strings.HasPrefix(test.code, se.Name) {
				t.Errorf("%s: error is %v", test.code, err)
			}
			if OutcomeOf(err) != test.outcome {
				t.Errorf("%s: outcome %v; want %v", test.code, OutcomeOf(err), test.outcome)
			}
			synctest.Wait()
			if got, want := len(s.seen("C")), map[Outcome]int{MayHaveHappened: 1}[test.outcome]; got != want {
				t.Errorf("%s: %d cancels; want %d", test.code, got, want)
			}
		})
	}
}

func TestAcquireNoActive(t *testing.T) {
	virtual(t, func(w *world) {
		for i, code := range []string{"no-active", "stopping"} {
			w.server(fmt.Sprintf("n%d:5625", i), func(c *sconn, r request4) { c.send("E A %s %s", r.key, code) })
		}
		c := w.client("n0:5625,n1:5625,n2:5625")
		time.Sleep(time.Second)
		_, err := c.Acquire(bg, "k")
		wantErr(t, err, ErrNoActive, DidNotHappen)
		for _, part := range []string{"n0:5625: answered no-active", "n1:5625: answered stopping", "n2:5625: dial tcp"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("error %q does not say %q", err, part)
			}
		}
		w.wantMs("the error came", 1000)
	})
}

func TestSpentNonceStartsAnew(t *testing.T) {
	virtual(t, func(w *world) {
		first := true
		s := w.server("n0:5625", func(c *sconn, r request4) {
			if r.op == opA && first {
				first = false
				c.send("E A %s spent", r.key)
				return
			}
			obliging(c, r)
		})
		c := w.client("n0:5625")
		w.must(c, "k")
		got := s.seen("A")
		if len(got) != 2 || got[0].text == got[1].text {
			t.Errorf("the server read %v; want two acquires with different nonces", got)
		}
	})
}

// A server that says spent for ever does not make the client spin.
func TestSpentForEver(t *testing.T) {
	virtual(t, func(w *world) {
		s := w.server("n0:5625", func(c *sconn, r request4) { c.send("E A %s spent", r.key) })
		c := w.client("n0:5625")
		_, err := c.Acquire(bg, "k")
		var se *ServerError
		if !errors.As(err, &se) {
			t.Errorf("error is %v", err)
		}
		if n := len(s.seen("A")); n > 12 {
			t.Errorf("%d acquires", n)
		}
	})
}

// The limit goes to the server as it is, rounded up to milliseconds; a call
// that moved sends what is left.
func TestWaitOnTheWire(t *testing.T) {
	virtual(t, func(w *world) {
		a := w.server("n0:5625", silent)
		b := w.server("n1:5625", silent)
		c := w.client("n0:5625,n1:5625")
		time.Sleep(time.Second)
		time.AfterFunc(700*time.Millisecond, func() {
			a.cut()
			time.Sleep(50 * time.Millisecond)
			b.cut()
		})
		first, second := a, b
		_, err := c.Acquire(bg, "k", Wait(2*time.Second+time.Microsecond), Lease(1500*time.Millisecond+time.Microsecond))
		wantErr(t, err, ErrTimeout, MayHaveHappened)
		w.wantMs("the error came", 3200)
		if len(first.seen("A")) == 0 || strings.Fields(first.seen("A")[0].text)[2] != "2.001" {
			first, second = b, a
		}
		if got := strings.Fields(first.seen("A")[0].text); got[2] != "2.001" || got[3] != "1.5" {
			t.Errorf("first acquire: %v", got)
		}
		if got := strings.Fields(second.seen("A")[0].text); got[2] != "1.301" && got[2] != "1.251" {
			t.Errorf("second acquire: %v", got)
		}
	})
}

func TestArguments(t *testing.T) {
	virtual(t, func(w *world) {
		s := w.server("n0:5625", obliging)
		c := w.client("n0:5625")
		for _, key := range []string{"", " ", "a b", "a\tb", "a\n", "a\r\n", "a\x00", "a\x7f", "?", strings.Repeat("k", 256), strings.Repeat("k", 16<<20)} {
			_, err := c.Acquire(bg, key)
			wantErr(t, err, ErrBadKey, DidNotHappen)
		}
		for _, opt := range []AcquireOption{Lease(-1), Lease(1e9 * time.Second), Wait(1e9 * time.Second), Wait(1<<63 - 1)} {
			_, err := c.Acquire(bg, "k", opt)
			wantErr(t, err, ErrInvalid, DidNotHappen)
		}
		if n := len(s.seen("ARKC")); n != 0 {
			t.Errorf("%d requests were sent", n)
		}
		for _, key := range []string{"A", "🔒", "e\u0301", "\u00e9", "\xff\xfe", strings.Repeat("k", 255)} {
			l := w.must(c, key, Lease(time.Microsecond))
			if l.Key() != key {
				t.Errorf("key %q became %q", key, l.Key())
			}
		}
		for _, l := range s.seen("A") {
			if f := strings.Fields(l.text); f[3] != "0.001" {
				t.Errorf("a lease of a microsecond went as %s", f[3])
			}
		}
	})
}

func TestDialRefusesWhatItCannotUse(t *testing.T) {
	for _, addrs := range []string{"", " , ", "localhost", "a:b", "a:0", "a:70000", ":5625", "::1:5625", "[::1]", "a:5625,b", "a b:5625"} {
		if _, err := Dial(bg, addrs); !errors.Is(err, ErrInvalid) || OutcomeOf(err) != DidNotHappen {
			t.Errorf("Dial(%q): %v", addrs, err)
		}
	}
	for _, opt := range []Option{Secret(""), Secret("a b"), Name("a\n"), Name(strings.Repeat("n", 65)), RetryFor(-1)} {
		if _, err := Dial(bg, "a:5625", opt); !errors.Is(err, ErrInvalid) {
			t.Errorf("bad option: %v", err)
		}
	}
	ctx, cancel := context.WithCancel(bg)
	cancel()
	if _, err := Dial(ctx, "a:5625"); !errors.Is(err, context.Canceled) {
		t.Errorf("ended context: %v", err)
	}
}

// Two calls on one key with different limits: each ends within 50 ms of its
// own, one that does not wait within 250 ms, also behind one without limit.
func TestLimitsOfCallsOnOneKey(t *testing.T) {
	for _, profiles := range []string{allProfiles, ""} {
		for _, addrs := range []string{"n0:5625", "n0:5625,n1:5625,n2:5625"} {
			virtual(t, func(w *world) {
				d := newNode()
				for i := range 3 {
					w.nodeServer(fmt.Sprintf("n%d:5625", i), d, func(s *server) { s.profiles = profiles })
				}
				c := w.client(addrs)
				time.Sleep(time.Second)
				held := w.must(c, "k")
				begun := time.Now()
				var wg sync.WaitGroup
				call := func(wait time.Duration, min, max time.Duration) {
					wg.Go(func() {
						l, err := c.Acquire(bg, "k", Wait(wait))
						took := time.Since(begun)
						if took < min || took > max {
							t.Errorf("wait %v ended after %v", wait, took)
						}
						if wait != 0 {
							if !errors.Is(err, ErrTimeout) {
								t.Errorf("wait %v: %v, %v", wait, l, err)
							}
							return
						}
						if err != nil {
							t.Errorf("without limit: %v", err)
							return
						}
						l.Release(bg)
					})
					synctest.Wait()
				}
				ms := time.Millisecond
				call(0, 5000*ms, 5000*ms)
				call(0, 5000*ms, 5000*ms)
				for _, wait := range []time.Duration{3000 * ms, 300 * ms, 2000 * ms, 700 * ms, 701 * ms, 50 * ms} {
					call(wait, wait, wait+50*ms)
				}
				call(-1, 0, 250*ms)
				time.Sleep(5*time.Second - time.Since(begun))
				if err := held.Release(bg); err != nil {
					t.Error(err)
				}
				wg.Wait()
				time.Sleep(100 * ms)
				if h, q := d.left(); h != 0 || q != 0 {
					t.Errorf("left behind: %d held, %d waiting", h, q)
				}
			})
		}
	}
}

// A shorter limit takes the connection where no older call waits.
func TestShorterLimitTakesAFreeConnection(t *testing.T) {
	virtual(t, func(w *world) {
		d := newNode()
		s := w.nodeServer("n0:5625", d)
		c := w.client("n0:5625")
		time.Sleep(time.Second)
		w.must(c, "k")
		go c.Acquire(bg, "k", Wait(10*time.Second))
		synctest.Wait()
		w.must(c, "other") // brings the cursor back to the connection of the waiting call
		_, err := c.Acquire(bg, "k", Wait(time.Second))
		wantErr(t, err, ErrTimeout, DidNotHappen)
		w.wantMs("timed out", 2000)
		got := s.seen("A")
		if got[1].conn == got[3].conn {
			t.Errorf("both on one connection: %v", got)
		}
		if n := len(s.seen("C")); n != 0 {
			t.Errorf("%d cancels; the server's own T should have ended it", n)
		}
	})
}

// B2, B5: a cancelled call leaves nothing behind.
func TestCancelLeavesNothing(t *testing.T) {
	for _, set := range [][]func(*server){nil, {core}} {
		virtual(t, func(w *world) {
			d := newNode()
			s := w.nodeServer("n0:5625", d, set...)
			c := w.client("n0:5625")
			time.Sleep(time.Second)
			held := w.must(c, "k")
			ctx, cancel := context.WithTimeout(bg, 300*time.Millisecond)
			defer cancel()
			_, err := c.Acquire(ctx, "k")
			wantErr(t, err, context.DeadlineExceeded, MayHaveHappened)
			w.wantMs("the call ended", 1300)
			time.Sleep(time.Millisecond)
			_, waiting := d.left()
			if set == nil {
				if got := s.seen("C"); len(got) != 1 || got[0].ms != 1300 {
					t.Errorf("cancels: %v", got)
				}
				if waiting != 0 {
					t.Errorf("%d still wait", waiting)
				}
			} else if waiting != 1 {
				t.Errorf("%d wait; a core peer cannot be told", waiting)
			}
			held.Release(bg)
			time.Sleep(time.Millisecond)
			if h, q := d.left(); h != 0 || q != 0 {
				t.Errorf("left behind: %d held, %d waiting", h, q)
			}
		})
	}
}

// The loops of B2, on virtual time: the cancel comes around the release.
func TestCancelAroundTheGrant(t *testing.T) {
	for _, set := range [][]func(*server){nil, {core}} {
		virtual(t, func(w *world) {
			d := newNode()
			delay := func(s *server) { s.accept = func(c *sconn) { c.Delay(time.Millisecond) } }
			w.nodeServer("n0:5625", d, append(set, delay)...)
			c := w.client("n0:5625")
			other := w.client("n0:5625")
			time.Sleep(time.Second)
			got, failed := 0, 0
			for i := range 2000 {
				key := fmt.Sprintf("k%d", i)
				held := w.must(other, key)
				ctx, cancel := context.WithCancel(bg)
				time.AfterFunc(5*time.Millisecond, func() { held.Release(bg) })
				time.AfterFunc(rand.N(10*time.Millisecond), cancel)
				l, err := c.Acquire(ctx, key)
				if err == nil {
					got++
					if err := l.Release(bg); err != nil {
						t.Fatalf("loop %d: a lock that was handed out is not held: %v", i, err)
					}
				} else {
					failed++
					time.Sleep(100 * time.Millisecond)
					l, err := other.TryAcquire(bg, key)
					if err != nil {
						t.Fatalf("loop %d: a cancelled call left the key taken: %v", i, err)
					}
					l.Release(bg)
				}
				cancel()
			}
			if got == 0 || failed == 0 {
				t.Errorf("%d granted, %d cancelled: the race was not tried", got, failed)
			}
		})
	}
}

// B15: late answers belong to their own requests.
func TestLateAnswersAfterACancel(t *testing.T) {
	for _, set := range [][]func(*server){nil, {core}} {
		virtual(t, func(w *world) {
			d := newNode()
			slow := func(s *server) { s.accept = func(c *sconn) { c.Delay(300 * time.Millisecond) } }
			w.nodeServer("n0:5625", d, append(set, slow)...)
			other := w.client("n0:5625")
			c := w.client("n0:5625")
			time.Sleep(2 * time.Second)
			held := w.must(other, "k")
			for range 3 {
				ctx, cancel := context.WithTimeout(bg, 100*time.Millisecond)
				if _, err := c.Acquire(ctx, "k", Wait(200*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("cancelled: %v", err)
				}
				cancel()
			}
			time.AfterFunc(2*time.Second, func() { held.Release(bg) })
			l, err := c.Acquire(bg, "k", Wait(10*time.Second))
			if err != nil {
				t.Fatalf("the next call: %v", err)
			}
			if err := l.Release(bg); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
			if h, q := d.left(); h != 0 || q != 0 {
				t.Errorf("left behind: %d held, %d waiting", h, q)
			}
		})
	}
}

// B16: many identical requests at once, each with its own answer.
func TestManyCallsOnOneKey(t *testing.T) {
	for _, addrs := range []string{"n0:5625", "n0:5625,n1:5625,n2:5625"} {
		virtual(t, func(w *world) {
			d := newNode()
			for i := range 3 {
				w.nodeServer(fmt.Sprintf("n%d:5625", i), d)
			}
			c := w.client(addrs)
			time.Sleep(time.Second)
			var mu sync.Mutex
			seen := make(map[uint64]bool)
			var wg sync.WaitGroup
			for range 100 {
				wg.Go(func() {
					l, err := c.Acquire(bg, "k")
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					if seen[l.Token()] {
						t.Errorf("token %d twice", l.Token())
					}
					seen[l.Token()] = true
					mu.Unlock()
					time.Sleep(time.Millisecond)
					if err := l.Release(bg); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			w.wantMs("all served", 1100)
		})
	}
}

func TestManyReleasesOfOneKey(t *testing.T) {
	virtual(t, func(w *world) {
		w.server("n0:5625", func(c *sconn, r request4) {
			if r.op == opR { // slowly, so that they pile up
				time.Sleep(time.Millisecond)
			}
			obliging(c, r)
		})
		c := w.client("n0:5625")
		var wg sync.WaitGroup
		var locks []*Lock
		for range 100 {
			locks = append(locks, w.must(c, "k")) // a generous server
		}
		for _, l := range locks {
			wg.Go(func() {
				if err := l.Release(bg); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
}

// More acquires wait than a connection may owe: the rest waits its turn, and
// releases still get through.
func TestMoreCallsThanAConnectionCarries(t *testing.T) {
	virtual(t, func(w *world) {
		d := newNode()
		most := 0
		s := w.nodeServer("n0:5625", d)
		c := w.client("n0:5625")
		time.Sleep(time.Second)
		held := w.must(c, "k")
		var wg sync.WaitGroup
		for range 3000 {
			wg.Go(func() {
				l, err := c.Acquire(bg, "k")
				if err != nil {
					t.Error(err)
					return
				}
				if err := l.Release(bg); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		c.mu.Lock()
		for _, s := range c.slots {
			most = max(most, s.conn.pend.count)
		}
		c.mu.Unlock()
		if most > 1000 {
			t.Errorf("a connection owes %d answers", most)
		}
		held.Release(bg)
		wg.Wait()
		if len(s.seen("A")) != 3001 {
			t.Errorf("%d acquires", len(s.seen("A")))
		}
	})
}
