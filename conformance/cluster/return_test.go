package cluster

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stile-lock/stile/conformance/cluster/rig"
)

// reattach is how long clients get that were sent to and fro, until they are
// in line again at the new active, which keeps their places for longer.
const reattach = time.Second

// nobodyGets asks every node for the keys again and again, until stop is
// called.
func (c *cluster) nobodyGets(hs []holder) (stop func()) {
	var done atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for !done.Load() {
			for _, n := range c.Nodes() {
				conn, err := rig.Dial(n.Listen)
				if err != nil {
					continue
				}
				for _, h := range hs[:10] {
					if conn.Send("A %s -1 1", h.key) != nil {
						break
					}
				}
				for range hs[:10] {
					answer, err := conn.Read(4 * time.Second)
					if err != nil {
						break
					}
					if key, token, granted := rig.Granted(answer); granted {
						c.t.Errorf("node %d granted %s, which is held, with token %d", n.ID, key, token)
					}
				}
				conn.Close()
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	return func() {
		done.Store(true)
		<-ended
	}
}

// An active that dies and is there again before anybody can have noticed, with
// nothing in its memory, does not take the role back with that.
func TestReborn(t *testing.T) {
	for _, test := range []struct {
		name     string
		after    time.Duration
		wipe     bool
		lostNews bool // of its death
	}{
		{"at once", 30 * time.Millisecond, true, false},
		{"soon", 200 * time.Millisecond, true, false},
		{"with its disk", 30 * time.Millisecond, false, false},
		{"and its end was not heard of", 30 * time.Millisecond, true, true},
		{"late, and its end was not heard of", 250 * time.Millisecond, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := startCluster(t, 3, true)
			held := c.hold(1, 200, time.Minute)
			line := c.wait(1, held[0].key, 10)
			p := c.ProbeEvery(5 * time.Millisecond)
			time.Sleep(300 * time.Millisecond)

			if test.lostNews {
				c.Net.Silence(1)
			}
			stop := c.nobodyGets(held)
			c.Node(1).Kill()
			time.Sleep(test.after)
			if test.wipe {
				ok(t, c.Node(1).Wipe())
			}
			c.start(1)
			c.settled(1)
			stop()
			p.Stop()
			c.stillHeld(1, held)
			time.Sleep(reattach)
			c.released(1, held)
			line.inOrder(t)
			if err := rig.CheckTokens(p.Grants(), true); err != nil {
				t.Error(err)
			}
		})
	}
}

// A node that comes back gets its role back once, and nobody's request fails.
func TestTakeback(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, true)
	c.Node(1).Kill()
	c.active(2)
	held := c.hold(2, 200, time.Minute)
	line := c.wait(2, held[0].key, 10)
	l := c.load()
	before := c.BecameActive()
	c.start(1)
	c.settled(1)
	time.Sleep(2 * failureTimeout)
	if n := c.BecameActive() - before; n != 1 {
		t.Errorf("nodes became active %d times", n)
	}
	c.settled(1)
	ops := l.Stop()
	noneFailed(t, ops)
	judge(t, l, ops, true)
	c.stillHeld(1, held)
	c.released(1, held)
	line.inOrder(t)
}

// The first node is killed and started again and again.
func TestFlapping(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, true)
	l := c.load(func(l *rig.Load) { l.Lease = 2 * time.Second })
	p := c.Probe()
	from := time.Now()
	const flaps, half = 6, 700 * time.Millisecond
	for range flaps {
		c.Node(1).Kill()
		time.Sleep(half)
		c.start(1)
		time.Sleep(half)
	}
	to := time.Now()
	c.settled(1)
	p.Stop()
	grants := p.Grants()
	var without time.Duration
	last := from
	for _, g := range grants {
		if g.At.Before(to) && g.At.After(from) {
			if gap := g.At.Sub(last); gap > 50*time.Millisecond {
				without += gap
			}
			last = g.At
		}
	}
	available := 1 - without.Seconds()/to.Sub(from).Seconds()
	t.Logf("available %.1f %% of the time", 100*available)
	if available < 0.8 {
		t.Errorf("available %.1f %% of the time", 100*available)
	}
	ops := l.Stop()
	noneFailed(t, ops)
	judge(t, l, ops, false)
	if err := rig.CheckTokens(append(grants, rig.Grants(ops)...), true); err != nil {
		t.Error(err)
	}
	conn := c.dial(1)
	for _, key := range []string{"load/0", "load/1", "load/2"} {
		if answer := ask(t, conn, "A %s 5 1", key); answer[0] != 'A' {
			t.Errorf("key %s is stuck: %q", key, answer)
		}
	}
}

// All three are stopped and started again, one after the other, under load.
// Nobody notices.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, true)
	held := c.hold(1, 200, time.Minute)
	line := c.wait(1, held[0].key, 10)
	l := c.load()
	for _, id := range []int{3, 2, 1} {
		c.stop(id)
		c.start(id)
		c.settled(1)
	}
	ops := l.Stop()
	noneFailed(t, ops)
	judge(t, l, ops, true)
	c.stillHeld(1, held)
	time.Sleep(reattach)
	c.released(1, held)
	line.inOrder(t)
}
