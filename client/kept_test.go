package client

import (
	"errors"
	"sync"
	"testing"
	"time"
)

// keeping is a node that does not know who serves: it keeps each acquire for
// hold and then answers no-active, or T if the acquire's limit passes first.
func keeping(hold time.Duration) func(c *sconn, r request4) {
	return func(c *sconn, r request4) {
		switch {
		case r.op != opA:
			c.send("E %v %s no-active", r.op, r.key)
		case r.wait > 0 && r.wait < hold:
			time.AfterFunc(r.wait, func() { c.send("T %s", r.key) })
		default:
			time.AfterFunc(hold, func() { c.send("E A %s no-active", r.key) })
		}
	}
}

// Nodes that keep every request and then refuse it do not keep a call without
// a limit going beyond RetryFor and the tries under way.
func TestRetryForEndsWhereNodesKeepRequests(t *testing.T) {
	for _, test := range []struct {
		hold, least, most time.Duration
	}{
		// Two connections: a round takes twice as long.
		{1500 * time.Millisecond, 3 * time.Second, 7 * time.Second},
		{2 * time.Second, 3 * time.Second, 8 * time.Second},
		// Longer than by default: the first refusal might be that of a waiter.
		{11 * time.Second, 22 * time.Second, 60 * time.Second},
	} {
		virtual(t, func(w *world) {
			w.server("n0:5625", keeping(test.hold))
			c := w.client("n0:5625", RetryFor(3*time.Second))
			_, err := c.Acquire(bg, "k")
			wantErr(t, err, ErrNoActive, DidNotHappen)
			if took := time.Since(w.start); took < test.least || took > test.most {
				t.Errorf("kept for %v: gave up after %v; want %v to %v", test.hold, took, test.least, test.most)
			}
		})
	}
}

// The same with redirects that lead nowhere.
func TestRetryForEndsWhereKeptRequestsAreRedirected(t *testing.T) {
	virtual(t, func(w *world) {
		w.server("n0:5625", func(c *sconn, r request4) {
			if r.op == opA {
				time.AfterFunc(1500*time.Millisecond, func() { c.send("M A %s n9:5625", r.key) })
			}
		})
		c := w.client("n0:5625", RetryFor(3*time.Second))
		_, err := c.Acquire(bg, "k")
		wantErr(t, err, ErrNoActive, DidNotHappen)
		if ms := w.ms(); ms < 2000 || ms > 8000 {
			t.Errorf("gave up at %d ms; want 2000 to 8000", ms)
		}
	})
}

// A waiter that its active refuses after a minute in line has RetryFor from
// then on.
func TestRetryForAfterARefusalInLine(t *testing.T) {
	for _, answer := range []string{"E A k no-active", "E A k stopping", "M A k n9:5625"} {
		virtual(t, func(w *world) {
			var once sync.Once
			s := w.server("n0:5625", nil)
			refuse := func(c *sconn, r request4) { c.send("E %v %s no-active", r.op, r.key) }
			s.script(func(c *sconn, r request4) {
				once.Do(func() {
					time.AfterFunc(time.Minute, func() {
						s.script(refuse)
						c.send("%s", answer)
					})
				})
			})
			c := w.client("n0:5625", RetryFor(5*time.Second))
			time.AfterFunc(time.Minute+3*time.Second, func() { s.script(obliging) })
			w.must(c, "k")
			if ms := w.ms(); ms < 63_000 || ms > 64_500 {
				t.Errorf("%s: granted at %d ms; want within 1.5 s of 63,000 ms", answer, ms)
			}
		})
	}
}

// A limit that ends at nodes that only keep requests, or that hang, says
// nothing about who holds the key.
func TestTimeoutAtNodesThatDoNotServe(t *testing.T) {
	for _, test := range []struct {
		what   string
		handle func(c *sconn, r request4)
		wait   time.Duration
		ms     int64
	}{
		{"kept, not to wait", keeping(2 * time.Second), -1, 200},
		{"kept, to wait for long", keeping(2 * time.Second), 21 * time.Second, 21_000},
		{"hanging, not to wait", silent, -1, 200},
		{"hanging, to wait", silent, time.Second, 1200},
	} {
		virtual(t, func(w *world) {
			w.server("n0:5625", test.handle)
			c := w.client("n0:5625", RetryFor(time.Minute))
			for range 2 { // also behind one that was given up
				begun := w.ms()
				_, err := c.Acquire(bg, "k", Wait(test.wait))
				var e *Error
				if !errors.As(err, &e) || !errors.Is(err, ErrTimeout) || !e.Unserved || len(e.Addrs) == 0 {
					t.Errorf("%s: error is %v; want a timeout that is unserved, with addresses", test.what, err)
				}
				if took := w.ms() - begun; took < test.ms || took > test.ms+200 {
					t.Errorf("%s: ended after %d ms; want %d", test.what, took, test.ms)
				}
			}
		})
	}
}

// Who stands behind an older call of the same client does not blame the
// server, which owes that one its answer first.
func TestTimeoutBehindAnOlderCall(t *testing.T) {
	virtual(t, func(w *world) {
		d := newNode()
		w.nodeServer("n0:5625", d)
		c := w.client("n0:5625")
		held := w.must(c, "k")
		var wg sync.WaitGroup
		for range 2 { // one on each connection
			wg.Go(func() {
				l, err := c.Acquire(bg, "k")
				if err != nil {
					t.Error(err)
					return
				}
				l.Release(bg)
			})
		}
		time.Sleep(time.Second)
		_, err := c.TryAcquire(bg, "k")
		var e *Error
		if !errors.As(err, &e) || !errors.Is(err, ErrTimeout) || e.Unserved {
			t.Errorf("error is %v; want a timeout that is not unserved", err)
		}
		held.Release(bg)
		wg.Wait()
	})
}
