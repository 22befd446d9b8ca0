package node

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// idlePeer is a client of a node with an idle timeout of two minutes, on
// virtual time.
type idlePeer struct {
	t  *testing.T
	nc net.Conn
	r  *bufio.Reader
}

const idleAfter = 2 * time.Minute

func newIdleNode(t *testing.T, timeout time.Duration) *Node {
	last := uint64(0)
	n := New(Config{
		Tokens:      func() (uint64, bool) { last++; return last, true },
		IdleTimeout: timeout,
		MaxLease:    24 * time.Hour,
	})
	t.Cleanup(func() { n.Shutdown(t.Context()) })
	return n
}

func connectIdle(t *testing.T, n *Node) *idlePeer {
	ours, theirs := net.Pipe()
	if !n.ServeConn(theirs) {
		t.Fatal("no room for a connection")
	}
	t.Cleanup(func() { ours.Close() })
	return &idlePeer{t: t, nc: ours, r: bufio.NewReader(ours)}
}

func (p *idlePeer) send(line string) {
	p.t.Helper()
	if _, err := io.WriteString(p.nc, line); err != nil {
		p.t.Fatalf("sending %q: %v", line, err)
	}
}

func (p *idlePeer) want(line string) {
	p.t.Helper()
	p.nc.SetReadDeadline(time.Now().Add(time.Second))
	got, err := p.r.ReadString('\n')
	if err != nil || strings.TrimSuffix(got, "\n") != line {
		p.t.Fatalf("got %q, %v; want %q", got, err, line)
	}
}

// open lets d pass and reports whether the connection is open, and silent,
// all the time.
func (p *idlePeer) open(d time.Duration) bool {
	p.t.Helper()
	p.nc.SetReadDeadline(time.Now().Add(d))
	_, err := p.r.ReadByte()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return true
	}
	if !errors.Is(err, io.EOF) {
		p.t.Fatalf("a byte, or an error: %v", err)
	}
	return false
}

// closes fails the test unless the connection is closed when the idle timeout
// has passed from now, and no earlier.
func (p *idlePeer) closes() {
	p.t.Helper()
	p.closesAfter(idleAfter)
}

// closesWithoutDebt is closes where the last answer has just come: when that
// was is known to the sweep, to its interval.
func (p *idlePeer) closesWithoutDebt() {
	p.t.Helper()
	p.closesAfter(idleAfter - sweepEvery)
}

func (p *idlePeer) closesAfter(least time.Duration) {
	p.t.Helper()
	start := time.Now()
	if p.open(idleAfter + 2*sweepEvery) {
		p.t.Errorf("still open after %v", time.Since(start))
	} else if d := time.Since(start); d < least {
		p.t.Errorf("closed after %v, before %v", d, least)
	}
}

func TestIdleConnectionIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newIdleNode(t, idleAfter)
		p := connectIdle(t, n)
		p.closes()
		synctest.Wait()
		if s := n.Status(); s.Connections != 0 {
			t.Errorf("%d connections are left", s.Connections)
		}
	})
}

func TestIdleIsCountedFromTheLastByte(t *testing.T) {
	for name, sign := range map[string]string{
		"ping":        "P x\n",
		"empty line":  "\n",
		"half a line": "A k",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := connectIdle(t, newIdleNode(t, idleAfter))
				for range 5 {
					if !p.open(idleAfter - time.Second) {
						t.Fatal("closed although there was a sign of life")
					}
					p.send(sign)
					if sign[0] == 'P' {
						p.want("P x")
					}
				}
				p.closes()
			})
		})
	}
}

// Who waits in line says nothing for as long as it takes, and is not idle.
func TestWaiterIsNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newIdleNode(t, idleAfter)
		holder, waiter := connectIdle(t, n), connectIdle(t, n)
		holder.send("A k 0 86400\n")
		holder.want("A k 1 86400")
		waiter.send("A k 0 30\n")
		for range 60 {
			holder.send("P x\n")
			holder.want("P x")
			if !waiter.open(idleAfter / 2) {
				t.Fatal("closed while it waits")
			}
		}
		holder.send("R k 1\n")
		holder.want("R k 1")
		waiter.want("A k 2 30")
		// It has only now got what it waited for.
		waiter.closesWithoutDebt()
	})
}

// The answer of the second acquire is held back behind the first one's, so
// the connection is owed two answers though only one of them waits in line.
func TestHeldBackAnswerIsNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newIdleNode(t, idleAfter)
		holder, waiter := connectIdle(t, n), connectIdle(t, n)
		holder.send("A k 0 1200\n")
		holder.want("A k 1 1200")
		waiter.send("A k 0 30\nA k 1 30\n")
		if !waiter.open(20*time.Minute - time.Second) {
			t.Fatal("closed while it waits")
		}
		time.Sleep(time.Second)
		waiter.want("A k 2 30")
		waiter.want("T k")
		waiter.closesWithoutDebt()
	})
}

// An idle connection that is closed releases nothing.
func TestIdleHolderKeepsItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newIdleNode(t, idleAfter)
		p := connectIdle(t, n)
		p.send("A k 0 3600\n")
		p.want("A k 1 3600")
		p.closes()
		p = connectIdle(t, n)
		p.send("A k -1 30\n")
		p.want("T k")
		p.send("R k 1\n")
		p.want("R k 1")
	})
}

func TestNeverIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connectIdle(t, newIdleNode(t, -1))
		if !p.open(30 * 24 * time.Hour) {
			t.Error("closed, though idle connections never are")
		}
	})
}
