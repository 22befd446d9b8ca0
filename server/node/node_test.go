package node_test

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stile-lock/stile/server/node"
)

// deaf is a connection whose client reads nothing until it says so.
func deaf(t *testing.T, n *node.Node) net.Conn {
	t.Helper()
	ours, theirs := net.Pipe()
	if !n.ServeConn(theirs) {
		t.Fatal("the node has no room for the connection")
	}
	t.Cleanup(func() { ours.Close() })
	return ours
}

func write(t *testing.T, c net.Conn, lines ...string) {
	t.Helper()
	if _, err := c.Write([]byte(strings.Join(lines, "\n") + "\n")); err != nil {
		t.Fatalf("sending %q: %v", lines, err)
	}
	synctest.Wait()
}

func (c *peer) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	if got := c.all(); !slices.Equal(got, want) {
		t.Fatalf("received %q, want %q", got, want)
	}
}

func (c *peer) ask(t *testing.T, line string, want ...string) {
	t.Helper()
	write(t, c, line)
	c.expect(t, want...)
}

// token is the n-th token that a fresh node gives.
func token(n int) string { return fmt.Sprint(257698037760000000 + n) }

// Leases and waits are exact where the machine has time, and here it has all.
func TestLeasesAndWaitsAreExact(t *testing.T) {
	for _, d := range []time.Duration{
		time.Millisecond, 50 * time.Millisecond, 250 * time.Millisecond, 999 * time.Millisecond,
		time.Second, 1500 * time.Millisecond, 10 * time.Second, 30 * time.Minute,
	} {
		t.Run(d.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, node.Config{})
				seconds := fmt.Sprintf("%.3f", d.Seconds())
				holder, waiter, other := dial(t, n), dial(t, n), dial(t, n)
				write(t, holder, "A lease 0 "+seconds, "A wait 0 3600")
				write(t, waiter, "A lease 0 60")
				write(t, other, "A wait "+seconds+" 60")
				time.Sleep(d - time.Microsecond)
				waiter.expect(t)
				other.expect(t)
				time.Sleep(time.Microsecond)
				waiter.expect(t, "A lease "+token(3)+" 60")
				other.expect(t, "T wait")
			})
		})
	}
}

// What the kernel did not take when the drop is seen was never granted: the
// next in line gets the key at once (SPEC.md 6.6).
func TestUndeliveredGrantIsUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, node.Config{})
		holder, gone, next := dial(t, n), deaf(t, n), dial(t, n)
		holder.ask(t, "A k 0 30", "A k "+token(1)+" 30")
		write(t, gone, "A k 0 30")
		write(t, next, "A k 0 30")
		holder.ask(t, "R k "+token(1), "R k "+token(1))
		next.expect(t) // the grant is on its way to the deaf one
		gone.Close()
		next.expect(t, "A k "+token(3)+" 30")
		if s := n.Status(); s.Held != 1 || s.Waiting != 0 {
			t.Errorf("held %d, waiting %d: want 1, 0", s.Held, s.Waiting)
		}
	})
}

func TestUndeliveredGrantWithNonceKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, node.Config{})
		holder, gone, next := dial(t, n), deaf(t, n), dial(t, n)
		holder.ask(t, "A k 0 30", "A k "+token(1)+" 30")
		write(t, gone, "A k 0 30 n1")
		write(t, next, "A k 0 30")
		holder.ask(t, "R k "+token(1), "R k "+token(1))
		gone.Close()
		next.expect(t, "A k "+token(3)+" 30")
		write(t, holder, "A k 0 30")
		again := dial(t, n)
		again.ask(t, "A k 0 30 n1")
		next.ask(t, "R k "+token(3), "R k "+token(3))
		again.expect(t, "A k "+token(4)+" 30")
	})
}

// A grant that a second connection was told of stays, whatever becomes of
// the first one.
func TestGrantToldTwiceIsNotUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, node.Config{})
		slow, quick := deaf(t, n), dial(t, n)
		write(t, slow, "A k 0 30 n1")
		quick.ask(t, "A k 0 30 n1", "A k "+token(1)+" 30")
		slow.Close()
		quick.ask(t, "K k "+token(1)+" 30", "K k "+token(1)+" 30")
	})
}

// A connection that ends in good order still gets what is due, but not a
// grant that nobody had begun to send.
func TestAnswersDueAreWrittenGrantsAreNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, node.Config{IdleTimeout: time.Minute})
		holder, ending, next := dial(t, n), deaf(t, n), dial(t, n)
		holder.ask(t, "A k 0 300", "A k "+token(1)+" 300")
		// The pong is being written, and blocks; the rest is in the buffer.
		write(t, ending, "A k 0 30")
		write(t, ending, "P one")
		write(t, ending, "P two")
		write(t, next, "A k 0 30")
		holder.ask(t, "R k "+token(1), "R k "+token(1))
		write(t, ending, "P three")
		write(t, ending, "what is this") // the node closes it
		next.expect(t, "A k "+token(3)+" 30")
		got := make([]byte, 1024)
		var all string
		for {
			k, err := ending.Read(got)
			all += string(got[:k])
			if err != nil {
				break
			}
		}
		if want := "P one\nP two\nP three\nE ? ? bad-request\n"; all != want {
			t.Errorf("received %q, want %q", all, want)
		}
	})
}

// Whoever does not read is cut off, at a size or after a time, and holds up
// nobody meanwhile.
func TestDeafClientIsCutOff(t *testing.T) {
	t.Run("at MaxOutbound", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, node.Config{MaxOutbound: 10_000, WriteTimeout: time.Hour})
			slow := deaf(t, n)
			ping := "P " + strings.Repeat("x", 200) + "\n"
			cut := false
			for range 100 {
				if _, err := slow.Write([]byte(ping)); err != nil {
					cut = true
					break
				}
				synctest.Wait()
			}
			if !cut {
				t.Error("20,000 bytes of unread answers, and still connected")
			}
		})
	})
	t.Run("at WriteTimeout", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, node.Config{})
			slow, other := deaf(t, n), dial(t, n)
			write(t, slow, "A k 0 60", "A k 0 60")
			other.ask(t, "A k 0 60")
			time.Sleep(9999 * time.Millisecond)
			synctest.Wait()
			if got := n.Status().Connections; got != 2 {
				t.Fatalf("%d connections after 9.999 s, want 2", got)
			}
			time.Sleep(time.Millisecond)
			synctest.Wait()
			if got := n.Status().Connections; got != 1 {
				t.Errorf("%d connections after 10 s, want 1", got)
			}
			// Its grant was never handed over, and its waiter is gone.
			other.expect(t, "A k "+token(3)+" 60")
		})
	})
}

func TestStoppingAnswersEverybodyWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := node.New(node.Config{Tokens: func() (uint64, bool) { return 7, true }})
		holder, waiters := dial(t, n), make([]*peer, 10)
		holder.ask(t, "A k 0 30", "A k 7 30")
		for i := range waiters {
			waiters[i] = dial(t, n)
			waiters[i].ask(t, fmt.Sprintf("A k 0 30 n%d", i))
		}
		start := time.Now()
		if err := n.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("Shutdown took %v", took)
		}
		for _, w := range waiters {
			w.expect(t, "E A k stopping")
			if !w.closed() {
				t.Error("a waiter's connection is still open")
			}
		}
	})
}

func TestNoTokenNoGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := 1
		n := newNode(t, node.Config{Tokens: func() (uint64, bool) {
			left--
			return 7, left >= 0
		}})
		c, w := dial(t, n), dial(t, n)
		c.ask(t, "A k 0 30", "A k 7 30")
		w.ask(t, "A k 0 30")
		c.ask(t, "A other 0 30", "E A other no-active")
		c.ask(t, "R k 7", "R k 7")
		w.expect(t, "E A k no-active")
	})
}

func TestUnansweredLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 1024
		n := newNode(t, node.Config{MaxUnanswered: limit})
		holder, c, next := dial(t, n), dial(t, n), dial(t, n)
		holder.ask(t, "A k 0 30", "A k "+token(1)+" 30")
		for range limit {
			write(t, c, "A k 0 30")
		}
		c.ask(t, "P still-here", "P still-here")
		write(t, next, "A k 0 30")
		c.ask(t, "A k 0 30", "E ? ? limit too many unanswered requests on this connection")
		if !c.closed() {
			t.Error("the connection is still open")
		}
		holder.ask(t, "R k "+token(1), "R k "+token(1))
		next.expect(t, "A k "+token(2)+" 30")
	})
}
