package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stile-lock/stile/conformance/cluster/rig"
)

// An active that was stopped for longer than the failure timeout wakes up with
// requests before it, and answers none of them as the active.
func TestPausedActive(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, true, "--replication=sync", "--takeback=manual")
	held := c.hold(1, 50, time.Minute)
	conn := c.dial(1)
	ask(t, conn, "P here")
	// What only it knows would be a reason to keep the role.
	time.Sleep(300 * time.Millisecond)

	c.Node(1).Pause()
	ok(t, conn.Send("A fresh -1 60\nA %[1]s 0 60\nR %[1]s %[2]d\nK %[1]s %[2]d 60\nC fresh nonce9", held[0].key, held[0].token))
	c.active(2)
	l := c.load()
	time.Sleep(failureTimeout)
	c.Node(1).Resume()
	for range 5 {
		answer, err := conn.Read(rig.Patience)
		ok(t, err)
		var op, key, addr string
		if fmt.Sscanf(answer, "M %s %s %s", &op, &key, &addr); addr != c.Node(2).Advertise {
			t.Errorf("the woken active answered %q", answer)
		}
	}
	c.settled(2)
	c.stillHeld(2, held)
	until(t, "the load goes on", func() bool { return l.Done() > 100 })
	ops := l.Stop()
	noneFailed(t, ops)
	judge(t, l, ops, true)
	c.released(2, held)
}

// Pauses around the failure timeout never make two holders.
func TestPauses(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, true, "--replication=sync")
	l := c.load()
	for _, f := range []float64{0.7, 0.9, 1, 1.1, 1.3} {
		time.Sleep(200 * time.Millisecond)
		c.Node(1).Pause()
		time.Sleep(time.Duration(f * float64(failureTimeout)))
		c.Node(1).Resume()
		time.Sleep(200 * time.Millisecond)
		// Whoever it is now.
		_, err := rig.Until(rig.Patience, "one node serves", func() (bool, error) { return c.serving() == 1, nil })
		ok(t, err)
	}
	ops := l.Stop()
	noneFailed(t, ops)
	judge(t, l, ops, true)
}

// serving counts the nodes that say that they serve.
func (c *cluster) serving() (count int) {
	for _, n := range c.Nodes() {
		if !n.Running() {
			continue
		}
		if s, err := n.Status(); err == nil && s.Serves() {
			count++
		}
	}
	return count
}

// latencies asks and releases over a raw connection, and returns how long the
// slowest in a hundred grants took.
func (c *cluster) latency(id int, d time.Duration) time.Duration {
	c.t.Helper()
	conn := c.dial(id)
	var took []time.Duration
	for i, start := 0, time.Now(); time.Since(start) < d; i++ {
		begin := time.Now()
		_, token, granted := rig.Granted(ask(c.t, conn, "A latency/%d -1 5", i))
		took = append(took, time.Since(begin))
		if !granted {
			c.t.Fatal("not granted")
		}
		ask(c.t, conn, "R latency/%d %d", i, token)
		time.Sleep(time.Millisecond)
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}

// A standby that stands still, or is slow, does not slow the active, and is in
// sync again soon after.
func TestSlowStandby(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, true)
	l := c.load()
	calm := c.latency(1, time.Second)

	c.Node(3).Pause()
	stopped := c.latency(1, 2*time.Second)
	if s := c.status(2); s.Cluster.Active != 0 {
		t.Errorf("node 2 follows node %d", s.Cluster.Active)
	}
	c.Node(3).Resume()
	c.settled(1)

	// Now it runs a third of the time.
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			c.Node(3).Pause()
			time.Sleep(200 * time.Millisecond)
			c.Node(3).Resume()
			select {
			case <-quit:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	slow := c.latency(1, 2*time.Second)
	close(quit)
	<-done
	c.settled(1)
	t.Logf("p99 of an acquire: %v with all well, %v with one stopped, %v with one slow", calm, stopped, slow)
	if limit := max(4*calm, 100*time.Millisecond); stopped > limit || slow > limit {
		t.Errorf("p99 of an acquire: %v with all well, %v with one stopped, %v with one slow", calm, stopped, slow)
	}
	follows := c.Node(3).Count("this node follows the active")
	time.Sleep(2 * failureTimeout)
	if now := c.Node(3).Count("this node follows the active"); now != follows || now > 20 {
		t.Errorf("node 3 began to follow the active %d times, and %d times more with nothing wrong", follows, now-follows)
	}
	ops := l.Stop()
	noneFailed(t, ops)
	judge(t, l, ops, true)
	if n := c.BecameActive(); n != 1 {
		t.Errorf("nodes became active %d times", n)
	}
}

// A standby behind a slow line, which lacks more and more, does not slow the
// active, and is there again when the line is.
func TestSlowLine(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, true)
	l := c.load()
	p := c.ProbeEvery(5 * time.Millisecond)
	calm := c.latency(1, 500*time.Millisecond)
	from := time.Now()
	c.Net.Throttle(1, 3, 100<<10)
	b, err := rig.StartBulk(c.Node(1), strings.Repeat("long", 60), 3, 64)
	ok(t, err)
	slow := c.latency(1, 5*time.Second)
	b.Stop()
	c.remains(p, from, 0)
	behind := c.status(1).Cluster.Peers[1]
	t.Logf("p99 of an acquire: %v with all well, %v with much to do and a slow standby, which lacks %d records (fed: %t), dropped %d times",
		calm, slow, rig.Lag(behind), behind.Fed, c.Node(1).Count("too slow for the stream"))
	if slow > 250*time.Millisecond {
		t.Errorf("p99 of an acquire: %v with all well, %v with much to do and a slow standby", calm, slow)
	}
	// It is dropped, and tries again after pauses that grow.
	if tries := c.Node(3).Count("this node follows the active"); tries > 6 {
		t.Errorf("node 3 began to follow the active %d times in 5 s", tries)
	}
	c.Net.Heal()
	c.settled(1)
	follows := c.Node(3).Count("this node follows the active")
	time.Sleep(2 * failureTimeout)
	if now := c.Node(3).Count("this node follows the active"); now != follows {
		t.Errorf("node 3 began to follow the active %d times more with nothing wrong", now-follows)
	}
	c.remains(p, from, 0)
	p.Stop()
	ops := l.Stop()
	noneFailed(t, ops)
	judge(t, l, ops, true)
	if n := c.BecameActive(); n != 1 {
		t.Errorf("nodes became active %d times", n)
	}
}

// A node that is stopped while its first successor stands still hands over to
// the next.
func TestStopWithAStandbyPaused(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, true)
	held := c.hold(1, 50, time.Minute)
	l := c.load()
	time.Sleep(200 * time.Millisecond)
	c.Node(2).Pause()
	stopped := time.Now()
	c.stop(1)
	t.Logf("node 1 ended after %v", time.Since(stopped))
	if took := time.Since(stopped); took > 10*time.Second {
		t.Errorf("node 1 ended after %v", took)
	}
	c.active(3)
	c.stillHeld(3, held)
	c.Node(2).Resume()
	c.settled(2)
	ops := l.Stop()
	noneFailed(t, ops)
	judge(t, l, ops, true)
	c.released(2, held)
}
