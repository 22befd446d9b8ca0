package client

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRedirectToUnlistedAddress(t *testing.T) {
	virtual(t, func(w *world) {
		a := w.server("n0:5625", redirecting("n9:5625"))
		s := w.server("n9:5625", obliging)
		c := w.client("n0:5625,n1:5625")
		time.Sleep(time.Second)
		w.must(c, "k0")
		w.wantMs("granted", 1000)
		if got, want := a.seen("A")[0].text, s.seen("A")[0].text; got != want {
			t.Errorf("redirected as %q; want %q, with the same nonce", want, got)
		}
		for i := range 5 {
			w.must(c, fmt.Sprintf("k%d", i))
		}
		if len(a.seen("A")) != 1 || len(s.seen("A")) != 6 || s.live() != 1 {
			t.Errorf("the spare read %d acquires, the target %d over %d connections", len(a.seen("A")), len(s.seen("A")), s.live())
		}
	})
}

func TestRedirectToListedAddressMakesASpare(t *testing.T) {
	virtual(t, func(w *world) {
		a := w.server("n0:5625", redirecting("n1:5625"))
		b := w.server("n1:5625", obliging)
		c := w.client("n0:5625,n1:5625")
		time.Sleep(time.Second)
		for i := range 6 {
			w.must(c, fmt.Sprintf("k%d", i))
		}
		if len(a.seen("A")) != 1 || len(b.seen("A")) != 6 {
			t.Errorf("spare read %d acquires, active %d", len(a.seen("A")), len(b.seen("A")))
		}
		if a.live() != 1 || b.live() != 1 {
			t.Errorf("%d and %d connections; want 1 and 1", a.live(), b.live())
		}
		// The spare serves again when nothing else is live …
		b.stop()
		a.script(obliging)
		w.must(c, "k7")
		w.must(c, "k8")
		if len(a.seen("A")) != 3 {
			t.Errorf("the spare read %v", a.seen("A"))
		}
		// … and in turns once it is reconnected.
		b.listen()
		a.cut()
		time.Sleep(4 * time.Second)
		for i := range 6 {
			w.must(c, fmt.Sprintf("l%d", i))
		}
		if len(a.seen("A")) != 6 {
			t.Errorf("%d acquires at the reconnected spare; want 6", len(a.seen("A")))
		}
	})
}

func TestRedirectNamesASpareAgain(t *testing.T) {
	virtual(t, func(w *world) {
		a := w.server("n0:5625", redirecting("n1:5625"))
		b := w.server("n1:5625", obliging)
		c := w.client("n0:5625,n1:5625")
		time.Sleep(time.Second)
		w.must(c, "k1")
		w.must(c, "k2")
		a.script(obliging)
		b.script(redirecting("n0:5625"))
		w.must(c, "k3")
		n := len(b.seen("A"))
		w.must(c, "k4")
		w.must(c, "k5")
		if len(b.seen("A")) != n {
			t.Error("the new spare still serves")
		}
	})
}

func TestRedirectsRefused(t *testing.T) {
	for _, test := range []struct{ to, reason string }{
		{"n9:0", "port 0"},
		{"0.0.0.0:5625", "unspecified"},
		{"[::]:5625", "unspecified"},
		{"n0:5625", "points back"},
		{"N0.:5625", "points back"},
		{"10.0.0.7:5625", "points back"}, // what n0 resolves to
		{"[::ffff:10.0.0.7]:5625", "points back"},
		{"127.0.0.1:5625", "loopback"},
		{"[::1]:5625", "loopback"},
		{"localhost:5625", "loopback"},
	} {
		virtual(t, func(w *world) {
			w.net.Resolve("n0:5625", "10.0.0.7:5625")
			w.server("n0:5625", redirecting(test.to))
			c := w.client("n0:5625,n1:5625")
			time.Sleep(time.Second)
			_, err := c.Acquire(bg, "k")
			wantErr(t, err, ErrNoActive, DidNotHappen)
			if !strings.Contains(err.Error(), test.reason) {
				t.Errorf("redirect to %s: %v; want it to say %q", test.to, err, test.reason)
			}
			if n := len(w.net.Dials(test.to)); test.to != "n0:5625" && n != 0 {
				t.Errorf("%s was dialled", test.to)
			}
			w.wantMs("the error came", 1000)
		})
	}
}

// Between loopback addresses, as in a test on one machine, redirects work.
func TestRedirectFromLoopbackToLoopback(t *testing.T) {
	virtual(t, func(w *world) {
		w.server("127.0.0.1:1", redirecting("127.0.0.1:2"))
		w.server("127.0.0.1:2", obliging)
		w.must(w.client("127.0.0.1:1"), "k")
	})
}

func TestOnlyListed(t *testing.T) {
	virtual(t, func(w *world) {
		w.server("n0:5625", redirecting("n9:5625"))
		s := w.server("n9:5625", obliging)
		c := w.client("n0:5625", OnlyListed())
		_, err := c.Acquire(bg, "k")
		wantErr(t, err, ErrNoActive, DidNotHappen)
		if s.live() != 0 {
			t.Error("an unlisted address was dialled")
		}
	})
}

// The first redirect is followed at once, the next after 50 ms, doubling to
// one second; the tenth ends the call.
func TestRedirectsInACircle(t *testing.T) {
	virtual(t, func(w *world) {
		a := w.server("n0:5625", redirecting("n1:5625"))
		b := w.server("n1:5625", redirecting("n0:5625"))
		c := w.client("n0:5625,n1:5625")
		time.Sleep(time.Second)
		_, err := c.Acquire(bg, "k")
		wantErr(t, err, ErrNoActive, DidNotHappen)
		got := append(times(a.seen("A")), times(b.seen("A"))...)
		want := []int64{1000, 1050, 1200, 1800, 3800, 1000, 1150, 1400, 2800, 4800}
		// at 0, then +0, +50, +100, +200, +400, +800, +1000, +1000, +1000
		want = []int64{1000, 1050, 1350, 2550, 4550, 1000, 1150, 1750, 3550, 5550}
		if len(b.seen("A")) > 0 && strings.HasPrefix(b.lines[0].text, "H") && b.seen("A")[1].ms == 1050 {
			want = append(want[5:], want[:5]...)
		}
		w.wantMs("the error came", 5550)
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	})
}

// A place in a queue starts the count anew.
func TestRedirectsAfterAPlaceInAQueue(t *testing.T) {
	virtual(t, func(w *world) {
		count := 0
		handler := func(to string) func(c *sconn, r request4) {
			return func(c *sconn, r request4) {
				count++
				if count == 30 {
					obliging(c, r)
					return
				}
				time.AfterFunc(2*time.Second, func() { c.send("M A k %s", to) })
			}
		}
		w.server("n0:5625", handler("n1:5625"))
		w.server("n1:5625", handler("n0:5625"))
		c := w.client("n0:5625,n1:5625")
		w.must(c, "k")
		w.wantMs("granted", 29*2000)
	})
}

func TestRedirectToUnreachable(t *testing.T) {
	for _, swallow := range []bool{false, true} {
		virtual(t, func(w *world) {
			w.net.Swallow("n9:5625", swallow)
			w.server("n0:5625", redirecting("n9:5625"))
			c := w.client("n0:5625,n1:5625")
			time.Sleep(time.Second)
			_, err := c.Acquire(bg, "k")
			wantErr(t, err, ErrNoActive, DidNotHappen)
			want := int64(1000)
			if swallow {
				want = 2000
			}
			w.wantMs("the error came", want)
			if len(w.net.Dials("n9:5625")) != 1 {
				t.Errorf("dialled %d times", len(w.net.Dials("n9:5625")))
			}
			// Not dialled again for three seconds if it does not answer, for a
			// quarter of one if it refused.
			rest := 250 * time.Millisecond
			if swallow {
				rest = 3 * time.Second
			}
			time.Sleep(rest - 100*time.Millisecond)
			_, err = c.Acquire(bg, "k")
			wantErr(t, err, ErrNoActive, DidNotHappen)
			if n := len(w.net.Dials("n9:5625")); n != 1 {
				t.Errorf("dialled %d times within %v", n, rest)
			}
			time.Sleep(200 * time.Millisecond)
			w.net.Swallow("n9:5625", false)
			w.server("n9:5625", obliging)
			w.must(c, "k")
		})
	}
}

// An address that refused, and that a later redirect of the same call names
// again, is dialled again: its node may be back by then.
func TestRedirectToTheSameAddressLater(t *testing.T) {
	virtual(t, func(w *world) {
		w.server("n0:5625", redirecting("n9:5625"))
		w.server("n1:5625", func(c *sconn, r request4) {
			time.AfterFunc(500*time.Millisecond, func() { c.send("M A k n9:5625") })
		})
		c := w.client("n0:5625,n1:5625")
		time.Sleep(time.Second)
		time.AfterFunc(300*time.Millisecond, func() { w.server("n9:5625", obliging) })
		w.must(c, "k")
		w.wantMs("granted", 1550) // with the pause before a second redirect
		if n := len(w.net.Dials("n9:5625")); n != 2 {
			t.Errorf("dialled %d times", n)
		}
	})
}

// A redirect to an address that is down leads back to the others.
func TestRedirectToDeadThenAnotherServes(t *testing.T) {
	virtual(t, func(w *world) {
		w.server("n0:5625", redirecting("n9:5625"))
		w.server("n1:5625", obliging)
		c := w.client("n0:5625,n1:5625")
		time.Sleep(time.Second)
		w.must(c, "k1")
		w.must(c, "k2")
		w.wantMs("granted", 1000)
	})
}

func TestUnlistedAddressIsDropped(t *testing.T) {
	virtual(t, func(w *world) {
		a := w.server("n0:5625", redirecting("n9:5625"))
		s := w.server("n9:5625", obliging)
		c := w.client("n0:5625")
		time.Sleep(time.Second)
		w.must(c, "k1")
		w.must(c, "k2")
		time.Sleep(2 * time.Minute) // it serves: it stays
		if s.live() != 1 {
			t.Fatal("dropped while it served")
		}
		a.script(obliging)
		s.script(redirecting("n0:5625"))
		w.must(c, "k3") // now it has ceased to
		ceased := time.Now()
		slots := func() int {
			c.mu.Lock()
			defer c.mu.Unlock()
			return len(c.slots)
		}
		time.Sleep(29900*time.Millisecond - time.Since(ceased))
		if n := slots(); n != 3 {
			t.Errorf("%d slots before 30 s; want 3", n)
		}
		time.Sleep(200 * time.Millisecond)
		if n := slots(); n != 2 {
			t.Errorf("%d slots after 30 s; want 2", n)
		}
		w.must(c, "k4")
	})
}

// One that is down is tried in the background until it is dropped.
func TestUnlistedAddressDown(t *testing.T) {
	virtual(t, func(w *world) {
		w.server("n0:5625", redirecting("n9:5625"))
		s := w.server("n9:5625", obliging)
		c := w.client("n0:5625")
		time.Sleep(time.Second)
		w.must(c, "k")
		s.stop()
		time.Sleep(2 * time.Minute)
		if got := len(w.net.Dials("n9:5625")); got < 9 || got > 11 {
			t.Errorf("dialled %d times; want the first and one every 3 s for 30 s", got)
		}
	})
}

// Redirects cannot make a client dial without end.
func TestUnlistedAddressesAreBounded(t *testing.T) {
	virtual(t, func(w *world) {
		i := 0
		w.server("n0:5625", func(c *sconn, r request4) {
			i++
			c.send("M A %s x%d:5625", r.key, i)
		})
		c := w.client("n0:5625")
		for range 100 {
			c.Acquire(bg, "k")
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if n := len(c.slots); n > 2+unlistedTop {
			t.Errorf("%d slots", n)
		}
	})
}

func TestSecretGoesToListedAddressesOnly(t *testing.T) {
	virtual(t, func(w *world) {
		a := w.server("n0:5625", redirecting("n9:5625"))
		s := w.server("n9:5625", obliging)
		c := w.client("n0:5625", Secret("open-sesame"), Name("me"))
		w.must(c, "k")
		if got := a.seen("H")[0].text; got != "H 1 me open-sesame" {
			t.Errorf("the listed address read %q", got)
		}
		if got := s.seen("H")[0].text; got != "H 1 me" {
			t.Errorf("the unlisted address read %q", got)
		}
	})
}

func TestRedirectPause(t *testing.T) {
	var got []time.Duration
	for i := 1; i <= 8; i++ {
		got = append(got, redirectPause(i)/time.Millisecond)
	}
	if d := cmp.Diff([]time.Duration{0, 50, 100, 200, 400, 800, 1000, 1000}, got); d != "" {
		t.Error(d)
	}
}
