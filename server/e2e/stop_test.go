package e2e

import (
	"bytes"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

var stopSignals = map[string]os.Signal{"SIGINT": syscall.SIGINT, "SIGTERM": syscall.SIGTERM}

// A stop answers everybody who waits, closes the connections and exits 0.
func TestStop(t *testing.T) {
	t.Parallel()
	for name, sig := range stopSignals {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := start(t)
			holder, waiters, resumer, idle := n.dial(), n.dial(), n.dial(), n.dial()
			token := holder.acquire("k", "30")
			holder.acquire("l", "30")
			waiters.send("A k 0 30")
			waiters.send("A l 10 30")
			waiters.send("A k 0 30")
			resumer.send("A k 0 30 nonce-1")
			idle.inStep()
			n.waiting(4)

			begin := time.Now()
			n.signal(sig)
			got := map[string]int{}
			for range 3 {
				got[strings.Join(strings.Fields(waiters.line())[:4], " ")]++
			}
			if got["E A k stopping"] != 2 || got["E A l stopping"] != 1 {
				t.Errorf("the waiters were answered %v", got)
			}
			waiters.closed()
			resumer.want("E A k stopping")
			for _, c := range []*client{resumer, holder, idle} {
				c.closed()
			}
			if status := n.status(patience); status != 0 {
				t.Errorf("exit status %d", status)
			}
			t.Logf("stopped after %v", time.Since(begin))
			if nc, err := net.Dial("tcp", n.addr); err == nil {
				nc.Close()
				t.Error("somebody listens still")
			}
			// The next start finds all free, and is above.
			n = startIn(t, n.dir)
			if next := n.dial().acquire("k", "30"); next <= token {
				t.Errorf("token %d after %d", next, token)
			}
		})
	}
}

func TestStopWithIdleConnections(t *testing.T) {
	t.Parallel()
	n := start(t)
	all := n.dialAll(100)
	for _, c := range all[:50] {
		c.inStep()
	}
	for _, c := range all[50:] { // has begun to type
		c.write([]byte("A k 0"))
	}
	n.eventually("100 connections", func(s state) bool { return s.Connections == 100 })
	begin := time.Now()
	n.signal(syscall.SIGTERM)
	if status := n.status(patience); status != 0 {
		t.Errorf("exit status %d", status)
	}
	t.Logf("stopped after %v", time.Since(begin))
	for _, c := range all {
		c.closed()
	}
}

// clog makes a client that has asked for more than the kernel holds, and
// reads nothing of it: the node keeps the rest, less than what it takes to be
// cut off. It returns the number of answers due.
func clog(n *node) (c *client, lines int) {
	n.t.Helper()
	c = n.dialWith(net.Dialer{Control: smallReceiveBuffer})
	lines = (sendBufferMax() + 3<<19) / 203
	c.write(bytes.Repeat([]byte("P "+strings.Repeat("x", 200)+"\n"), lines))
	// The node has read it all when the kernel has nothing of ours left.
	n.eventually("the node has read the requests", func(state) bool { return unsent(c) == 0 })
	return c, lines
}

// Who does not read can't hold up a stop beyond its timeout.
func TestStopWithAClientThatDoesNotRead(t *testing.T) {
	t.Parallel()
	n := start(t, "--stop-timeout=1s")
	holder, waiter := n.dial(), n.dial()
	holder.acquire("k", "30")
	waiter.send("A k 0 30")
	n.waiting(1)
	clog(n)
	begin := time.Now()
	n.signal(syscall.SIGTERM)
	waiter.want("E A k stopping")
	waiter.closed()
	if d := time.Since(begin); d > tooLate {
		t.Errorf("the others were answered after %v", d)
	}
	if status := n.status(patience); status != 0 {
		t.Errorf("exit status %d", status)
	}
	if d := time.Since(begin); d > time.Second+tooLate {
		t.Errorf("stopped after %v", d)
	} else {
		t.Logf("stopped after %v, with a timeout of 1 s", d)
	}
	n.waitFor("connections were cut")
}

// sameSignal is how soon after the first a second signal counts as the same.
const sameSignal = 100 * time.Millisecond

func TestSecondSignalEndsItAtOnce(t *testing.T) {
	t.Parallel()
	for name, sig := range stopSignals {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := start(t, "--stop-timeout=1h")
			clog(n)
			n.signal(syscall.SIGTERM)
			n.waitFor("stiled stops")
			time.Sleep(sameSignal + 50*time.Millisecond)
			n.signal(sig)
			begin := time.Now()
			if status := n.status(patience); status == 0 {
				t.Error("exit status 0, though clients were cut off")
			}
			if d := time.Since(begin); d > tooLate {
				t.Errorf("ended after %v", d)
			}
			n.waitFor("exits at once")
		})
	}
}

// A stop timeout of 0 cuts everybody at once, and is no failure.
func TestStopWithoutPatience(t *testing.T) {
	t.Parallel()
	n := start(t, "--stop-timeout=0s")
	clog(n)
	begin := time.Now()
	n.signal(syscall.SIGTERM)
	if status := n.status(patience); status != 0 || time.Since(begin) > tooLate {
		t.Errorf("exit status %d after %v", status, time.Since(begin))
	}
}
