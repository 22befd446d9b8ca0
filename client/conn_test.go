package client

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/stile-lock/stile/protocol"
)

// The beat: the first try 3 s after the drop, then every 3 s. A connection
// that ends before anything was read on it is a failed try.
func TestBeat(t *testing.T) {
	for name, accept := range map[string]func(c *sconn){
		"refused": nil,
		"reset":   func(c *sconn) { c.Reset() },
		"closed":  func(c *sconn) { c.Close() },
		"mute, then reset": func(c *sconn) {
			c.BlackHole(true)
			time.AfterFunc(time.Second, c.Reset)
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(w *world) {
				s := w.server("n0:5625", obliging)
				w.server("n1:5625", obliging)
				w.client("n0:5625,n1:5625")
				time.Sleep(10 * time.Second)
				if accept == nil {
					s.refuse()
				} else {
					s.mu.Lock()
					s.accept = accept
					s.mu.Unlock()
				}
				s.cut()
				time.Sleep(10 * time.Second)
				var got []int64
				for _, at := range w.net.Dials("n0:5625") {
					got = append(got, at.Sub(w.start).Milliseconds())
				}
				if d := cmp.Diff([]int64{0, 13000, 16000, 19000}, got); d != "" {
					t.Error(d)
				}
			})
		})
	}
}

func TestBeatSwallowed(t *testing.T) {
	virtual(t, func(w *world) {
		w.net.Swallow("n0:5625", true)
		w.server("n1:5625", obliging)
		w.client("n0:5625,n1:5625")
		time.Sleep(10 * time.Second)
		if n := len(w.net.Dials("n0:5625")); n != 4 {
			t.Errorf("dialled %d times in 10 s; want 4", n)
		}
	})
}

func TestBeatJitter(t *testing.T) {
	virtual(t, func(w *world) {
		c := w.client("n0:5625", func(c *config) { c.jitter = jitter })
		time.Sleep(10 * time.Minute)
		dials := w.net.Dials("n0:5625")
		c.Close()
		differ := false
		for i := 2; i < len(dials)-1; i++ {
			// two connections, so two interleaved beats
			gap := dials[i+1].Sub(dials[i-1])
			differ = differ || gap != 3*time.Second
		}
		if n := len(dials); n < 2*181 || n > 2*223 || !differ {
			t.Errorf("%d dials in 10 min", n)
		}
		for range 10000 {
			if d := jitter(beatEvery); d < 2700*time.Millisecond || d > 3300*time.Millisecond {
				t.Fatalf("a beat of %v", d)
			}
		}
	})
}

// A reconnected address serves again.
func TestReconnectedAddressServes(t *testing.T) {
	virtual(t, func(w *world) {
		a := w.server("n0:5625", obliging)
		b := w.server("n1:5625", obliging)
		c := w.client("n0:5625,n1:5625")
		time.Sleep(time.Second)
		a.cut()
		synctest.Wait()
		for i := range 4 {
			w.must(c, fmt.Sprintf("k%d", i))
		}
		if len(a.seen("A")) != 0 || len(b.seen("A")) != 4 {
			t.Errorf("%d and %d acquires while one is down", len(a.seen("A")), len(b.seen("A")))
		}
		time.Sleep(3100 * time.Millisecond)
		for i := range 4 {
			w.must(c, fmt.Sprintf("l%d", i))
		}
		if len(a.seen("A")) != 2 {
			t.Errorf("%d acquires after the reconnection; want 2", len(a.seen("A")))
		}
	})
}

func TestIdleIsPinged(t *testing.T) {
	virtual(t, func(w *world) {
		s := w.server("n0:5625", obliging)
		w.client("n0:5625")
		time.Sleep(65 * time.Second)
		if d := cmp.Diff([]int64{15000, 15000, 30000, 30000, 45000, 45000, 60000, 60000}, times(s.seen("P"))); d != "" {
			t.Error(d)
		}
		if s.live() != 2 {
			t.Errorf("%d connections", s.live())
		}
	})
}

// Silence with anything unanswered: a ping after 1 s, the reset 2 s later,
// and the call moves on.
func TestBlackHole(t *testing.T) {
	virtual(t, func(w *world) {
		hole := func(c *sconn, r request4) {}
		a := w.server("n0:5625", hole, mutePing)
		b := w.server("n1:5625", hole, mutePing)
		c := w.client("n0:5625,n1:5625")
		time.Sleep(10 * time.Second)
		c.mu.Lock()
		first, second := a, b
		if c.cursor%2 == 1 {
			first, second = b, a
		}
		c.mu.Unlock()
		second.script(obliging)
		w.must(c, "k")
		w.wantMs("granted", 13000)
		if d := cmp.Diff([]int64{11000}, times(first.seen("P"))); d != "" {
			t.Error(d)
		}
	})
}

// A peer that stopped reading is a black hole too, even if a write blocks.
func TestStalledWrite(t *testing.T) {
	virtual(t, func(w *world) {
		w.server("n0:5625", obliging)
		w.server("n1:5625", obliging)
		c := w.client("n0:5625,n1:5625")
		time.Sleep(time.Second)
		c.mu.Lock()
		c.slots[c.cursor].conn.nc.(interface{ Stall(bool) }).Stall(true)
		c.mu.Unlock()
		w.must(c, "k")
		w.wantMs("granted", 4000)
	})
}

// A connection that is given up is reset: what is still on its way is not
// delivered later.
func TestGivenUpMeansReset(t *testing.T) {
	virtual(t, func(w *world) {
		s := w.server("n0:5625", obliging)
		c := w.client("n0:5625")
		time.Sleep(time.Second)
		c.mu.Lock()
		c.slots[c.cursor].conn.nc.(interface{ Delay(time.Duration) }).Delay(10 * time.Second)
		c.mu.Unlock()
		w.must(c, "k")
		w.wantMs("granted", 4000)
		time.Sleep(time.Minute)
		if got := s.seen("A"); len(got) != 1 {
			t.Errorf("the server read %v", got)
		}
	})
}

// A waiting acquire is pinged every second; unknown-op is as good as a pong.
func TestWaitingIsNoBlackHole(t *testing.T) {
	for _, set := range [][]func(*server){nil, {core}} {
		virtual(t, func(w *world) {
			s := w.server("n0:5625", func(c *sconn, r request4) {
				time.AfterFunc(20*time.Second, func() { obliging(c, r) })
			}, set...)
			c := w.client("n0:5625")
			w.must(c, "k", Lease(time.Minute))
			w.wantMs("granted", 20000)
			if n := len(s.seen("P")); n < 19 || n > 21 {
				t.Errorf("%d pings in 20 s", n)
			}
		})
	}
}

// Answers that fit nothing end the connection; its calls move on, and no such
// grant is handed out.
func TestMisfits(t *testing.T) {
	for _, text := range []string{
		"A k 0 30", "A other 5 30", "R k 5", "R k 0", "T other", "C k abc", "K k 5 5", "P never",
		"E ? ? bad-request", "E A ? bad-key", "E R k not-held", "M R k n1:5625", "nonsense", "A",
		"H 1 n0:5625 -", strings.Repeat("x", 2000),
	} {
		virtual(t, func(w *world) {
			bad := w.server("n0:5625", func(c *sconn, r request4) { c.send("%s", text) })
			good := w.server("n1:5625", obliging)
			c := w.client("n0:5625,n1:5625")
			time.Sleep(time.Second)
			l1, l2 := w.must(c, "k", Lease(time.Minute)), w.must(c, "k", Lease(time.Minute))
			w.wantMs("granted", 1000)
			if len(bad.seen("A")) != 1 || len(good.seen("A")) != 2 {
				t.Errorf("%q: %d acquires at the bad server, %d at the good one", text, len(bad.seen("A")), len(good.seen("A")))
			}
			if l1.Token() == l2.Token() {
				t.Errorf("%q: the same token twice", text)
			}
			time.Sleep(3500 * time.Millisecond)
			if bad.live() != 2 {
				t.Errorf("%q: %d connections to the bad server; want a second one", text, bad.live())
			}
		})
	}
}

// Duplicated: a grant is never handed out twice, whether its lock is still
// held or was just released.
func TestDuplicatedGrantIsNotHandedOut(t *testing.T) {
	for _, release := range []bool{false, true} {
		virtual(t, func(w *world) {
			var s *server
			s = w.server("n0:5625", func(c *sconn, r request4) {
				switch {
				case r.op == opA && r.key == "k" && len(s.seen("A")) == 1:
					c.send("A k 5 30")
				case r.op == opA && r.key == "k" && len(s.seen("A")) == 3:
					c.send("A k 5 30") // again, instead of an answer to this one
				case r.op == opA:
					c.send("A %s %d 30", r.key, 10+len(s.seen("A")))
				default:
					obliging(c, r)
				}
			})
			c := w.client("n0:5625")
			time.Sleep(time.Second)
			l := w.must(c, "k")
			if release {
				l.Release(bg)
			}
			w.must(c, "x")
			if l := w.must(c, "k"); l.Token() == 5 {
				t.Error("a token was handed out twice")
			}
		})
	}
}

func TestHelloRefused(t *testing.T) {
	for _, answer := range []string{"E H 1 unauthorized give the secret", "E H 1 version 2,3", "M H 1 n9:5625", "E ? ? limit too many"} {
		virtual(t, func(w *world) {
			s := w.server("n0:5625", obliging, func(s *server) {
				s.hello = func(c *sconn, text string) bool {
					c.send("%s", answer)
					return true
				}
			})
			c := w.client("n0:5625")
			_, err := c.Acquire(bg, "k")
			wantErr(t, err, ErrNoConnection, DidNotHappen)
			if f := strings.Fields(answer); f[0] == "E" && !strings.Contains(err.Error(), f[3]) {
				t.Errorf("%v does not say %s", err, f[3])
			}
			if n := len(s.seen("ARKC")); n != 0 {
				t.Errorf("%d requests were sent", n)
			}
		})
	}
}

// What a server says before it is asked, as to a client without TLS, is in
// the reason: escaped for a terminal, and no longer than a line or two.
func TestErrorWithoutARequest(t *testing.T) {
	long := strings.Repeat("é", 300)
	for _, test := range []struct{ line, want string }{
		{"E ? ? bad-request this node speaks TLS", "n0:5625: reset: an error that belongs to no request: server answered bad-request: this node speaks TLS"},
		{"E ? ? bad-request", "server answered bad-request"},
		{"E ? ? limit a\x9b2Jb", `server answered limit: "a\x9b2Jb"`},
		{"E ? ? limit a\u009b2J\u202eb", `server answered limit: "a\u009b2J\u202eb"`},
		{"E ? ? new\u009b2J", `server answered "new\u009b2J"`},
		{"E ? ? limit " + long, "server answered limit: " + long[:shownTop] + "…"},
		{"E ? ? limit x" + long, "server answered limit: x" + long[:shownTop-2] + "…"}, // at whole characters
		{"E ? ? limit " + strings.Repeat("\xa9", 300), `server answered limit: "` + strings.Repeat(`\xa9`, shownTop-utf8.UTFMax)},
	} {
		virtual(t, func(w *world) {
			w.server("n0:5625", obliging, func(s *server) {
				s.hello = func(c *sconn, text string) bool {
					c.send("%s", test.line)
					c.Close()
					return true
				}
			})
			c := w.client("n0:5625")
			_, err := c.Acquire(bg, "k")
			wantErr(t, err, ErrNoConnection, DidNotHappen)
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("%q:\n%q, want\n%q", test.line, err, test.want)
			}
			var e *Error
			var said *ServerError
			if !errors.As(err, &e) || !errors.As(e.Addrs[0].Err, &said) || !strings.HasPrefix(test.line, "E ? ? "+said.Name) {
				t.Errorf("%q: %v", test.line, said)
			}
		})
	}
}

// Where all servers refuse the secret, RetryFor tries no further rounds; where
// one can't be reached, it does.
func TestRetryForWithAWrongSecret(t *testing.T) {
	virtual(t, func(w *world) {
		refuse := func(s *server) {
			s.hello = func(c *sconn, text string) bool {
				c.send("E H 1 unauthorized")
				return true
			}
		}
		w.server("n0:5625", obliging, refuse)
		w.server("n1:5625", obliging, refuse)
		c := w.client("n0:5625,n1:5625", RetryFor(5*time.Second))
		_, err := c.Acquire(bg, "k")
		wantErr(t, err, ErrNoConnection, DidNotHappen)
		w.wantMs("the error came", 0)
		for _, a := range err.(*Error).Addrs {
			var refused *ServerError
			if !errors.As(a.Err, &refused) || refused.Code != protocol.CodeUnauthorized {
				t.Errorf("%s: %v", a.Addr, a.Err)
			}
		}
		c = w.client("n0:5625,n2:5625", RetryFor(5*time.Second))
		_, err = c.Acquire(bg, "k")
		wantErr(t, err, ErrNoConnection, DidNotHappen)
		if ms := w.ms(); ms < 4000 {
			t.Errorf("gave up after %d ms", ms)
		}
	})
}

// A server whose hello never comes costs a second on demand.
func TestHelloUnanswered(t *testing.T) {
	virtual(t, func(w *world) {
		w.server("n0:5625", obliging, mutePing, func(s *server) { s.hello = func(*sconn, string) bool { return true } })
		c := w.client("n0:5625,n1:5625")
		w.wantMs("Dial returned", 1000)
		_, err := c.Acquire(bg, "k")
		wantErr(t, err, ErrNoConnection, DidNotHappen)
		w.wantMs("the error came", 2000)
	})
}

// Everything works with a server that only speaks core.
func TestCoreServer(t *testing.T) {
	virtual(t, func(w *world) {
		d := newNode()
		s := w.nodeServer("n0:5625", d, core)
		c := w.client("n0:5625")
		time.Sleep(time.Second)
		l := w.must(c, "k", Lease(time.Minute))
		_, err := c.Acquire(bg, "k", Wait(2*time.Second))
		wantErr(t, err, ErrTimeout, DidNotHappen)
		_, err = c.TryAcquire(bg, "k")
		wantErr(t, err, ErrTimeout, DidNotHappen)
		if err := l.Release(bg); err != nil {
			t.Error(err)
		}
		if d := cmp.Diff([]string{"A k 0 60", "A k 2 0", "A k -1 0", fmt.Sprintf("R k %d", l.Token())}, texts(s.seen("ARKC"))); d != "" {
			t.Error(d)
		}
	})
}
