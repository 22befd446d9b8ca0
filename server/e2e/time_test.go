package e2e

import (
	"fmt"
	"io"
	"sync"
	"testing"
	"time"
)

// The tests of this file are not parallel: they print how late things were.

var times = []time.Duration{50 * time.Millisecond, 250 * time.Millisecond, 999 * time.Millisecond, time.Second, 1500 * time.Millisecond}

const samples = 30

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }

// ofEach runs f, on a node of their own, for all times at once.
func ofEach(t *testing.T, f func(t *testing.T, n *node, d time.Duration)) {
	n := start(t)
	t.Run("", func(t *testing.T) {
		for _, d := range times {
			t.Run(d.String(), func(t *testing.T) {
				t.Parallel()
				f(t, n.on(t), d)
			})
		}
	})
}

// paced sends a request for each sample, 3 ms apart so that each has a timer
// of its own, while the caller reads. It returns when each was sent.
func paced(c *client, request func(i int) string) (sent func(i int) time.Time) {
	var mu sync.Mutex
	var begin [samples]time.Time
	go func() {
		for i := range samples {
			mu.Lock()
			begin[i] = time.Now()
			mu.Unlock()
			if _, err := io.WriteString(c, request(i)+"\n"); err != nil {
				c.t.Errorf("sending: %v", err)
				return
			}
			time.Sleep(3 * time.Millisecond)
		}
	}()
	return func(i int) time.Time {
		mu.Lock()
		defer mu.Unlock()
		return begin[i]
	}
}

// A lease ends at its time: the next in line is granted then, not before.
func TestLeasesEndOnTime(t *testing.T) {
	ofEach(t, func(t *testing.T, n *node, d time.Duration) {
		late := lateness{t: t, what: "lease of " + d.String()}
		c := n.dial()
		sent := paced(c, func(i int) string {
			return fmt.Sprintf("A lease-%v-%d 0 %s\nA lease-%[1]v-%[2]d 0 60", d, i, seconds(d))
		})
		var first [samples]uint64
		for range 2 * samples {
			var i int
			var token uint64
			line := c.line()
			if _, err := fmt.Sscanf(line, "A lease-"+d.String()+"-%d %d", &i, &token); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			if first[i] == 0 {
				first[i] = token
				continue
			}
			late.add(sent(i), d)
			if token <= first[i] {
				t.Errorf("token %d after %d", token, first[i])
			}
		}
		late.print()
	})
}

// A wait ends at its time with a T, not before.
func TestWaitsEndOnTime(t *testing.T) {
	ofEach(t, func(t *testing.T, n *node, d time.Duration) {
		late := lateness{t: t, what: "wait of " + d.String()}
		key := "wait-" + d.String()
		c := n.dial()
		token := c.acquire(key, "60")
		sent := paced(c, func(int) string { return fmt.Sprintf("A %s %s 60", key, seconds(d)) })
		for i := range samples {
			c.want("T %s", key)
			late.add(sent(i), d)
		}
		late.print()
		// They left nothing behind.
		c.release(key, token)
		c.release(key, c.acquire(key, "60"))
	})
}

// A keep counts from the keep, whether it makes the lease longer or shorter.
func TestKeptLeasesEndOnTime(t *testing.T) {
	ofEach(t, func(t *testing.T, n *node, d time.Duration) {
		late := lateness{t: t, what: "lease kept for " + d.String()}
		c := n.dial()
		for _, lease := range []string{"60", "1.6"} {
			key := "keep-" + lease + "-" + d.String()
			token := c.acquire(key, lease)
			c.send("A %s 0 60", key)
			begin := time.Now()
			c.send("K %s %d %s", key, token, seconds(d))
			if line := c.line(); !same(line[:2], "K ") {
				t.Fatalf("got %q", line)
			}
			c.grant(key)
			late.add(begin, d)
		}
		late.print()
	})
}

// A release hands the key on at once.
func TestHandOver(t *testing.T) {
	n := start(t)
	a, b := n.dial(), n.dial()
	late := lateness{t: t, what: "hand-over by release"}
	token := a.acquire("k", "60")
	for range 500 {
		b.send("A k 0 60")
		b.inStep()
		begin := time.Now()
		a.send("R k %d", token)
		next := b.grant("k")
		late.add(begin, 0)
		a.want("R k %d", token)
		if next != token+1 {
			t.Fatalf("token %d after %d", next, token)
		}
		a, b, token = b, a, next
	}
	late.print()
}

// A lease runs from the grant, not from when its request began to wait.
func TestLeaseRunsFromTheGrant(t *testing.T) {
	t.Parallel()
	n := start(t)
	a, b, c := n.dial(), n.dial(), n.dial()
	token := a.acquire("k", "20")
	b.send("A k 30 0.3")
	b.inStep()
	c.send("A k 30 10")
	c.inStep()
	time.Sleep(600 * time.Millisecond) // longer than the lease of b
	late := lateness{t: t, what: "lease after a wait"}
	begin := time.Now()
	a.release("k", token)
	b.granted("k", token+1, 0.3)
	c.granted("k", token+2, 10)
	late.add(begin, 300*time.Millisecond)
	late.print()
}
