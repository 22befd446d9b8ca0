package cluster

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stile-lock/stile/conformance/cluster/rig"
)

// A node is stopped whose successor is far away: it ends in time, nobody is
// sent in circles, and nothing is lost.
func TestStopOverASlowLine(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, true, "--stop-timeout=5s")
	held := c.hold(1, 50, time.Minute)
	l := c.load()
	p := c.Probe()
	for _, to := range []int{2, 3} {
		c.Net.Delay(1, to, 100*time.Millisecond)
		c.Net.Delay(to, 1, 100*time.Millisecond)
	}
	time.Sleep(500 * time.Millisecond)
	stopped := time.Now()
	c.stop(1)
	took := time.Since(stopped)
	c.settled(2)
	gap := rig.Gap(p.Grants(), stopped, time.Now())
	p.Stop()
	t.Logf("node 1 ended after %v, with %v without a grant", took, gap)
	if took > 8*time.Second || gap > tooLong {
		t.Errorf("node 1 ended after %v, with %v without a grant", took, gap)
	}
	c.stillHeld(2, held)
	ops := l.Stop()
	noneFailed(t, ops)
	judge(t, l, ops, true)
	c.released(2, held)
}

// The giver stands still in the middle of a handoff: the others go on without
// it, and it does not go on when it wakes.
func TestStopInterrupted(t *testing.T) {
	t.Parallel()
	for range 4 {
		c := startCluster(t, 3, true, "--replication=sync")
		held := c.hold(1, 20, time.Minute)
		l := c.load()
		time.Sleep(100 * time.Millisecond)
		c.Node(1).Terminate()
		time.Sleep(rand.N(6 * time.Millisecond))
		c.Node(1).Pause()
		c.active(2)
		time.Sleep(rand.N(failureTimeout))
		c.Node(1).Resume()
		if status, err := c.Node(1).Wait(rig.Patience); err != nil || status != 0 {
			t.Errorf("node 1 ended with status %d, %v", status, err)
		}
		c.settled(2)
		c.stillHeld(2, held)
		ops := l.Stop()
		noneFailed(t, ops)
		judge(t, l, ops, true)
		c.released(2, held)
		c.Close()
	}
}

// The successor dies right after it was handed the role.
func TestSuccessorDies(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, true)
	held := c.hold(1, 200, time.Minute)
	p := c.Probe()
	time.Sleep(300 * time.Millisecond)
	c.Node(1).Terminate()
	c.active(2)
	time.Sleep(50 * time.Millisecond)
	c.Node(2).Kill()
	if status, err := c.Node(1).Wait(rig.Patience); err != nil || status != 0 {
		t.Errorf("node 1 ended with status %d, %v", status, err)
	}
	c.active(3)
	time.Sleep(100 * time.Millisecond)
	p.Stop()
	if err := rig.CheckTokens(p.Grants(), true); err != nil {
		t.Error(err)
	}
	c.stillHeld(3, held)
	c.released(3, held)
}

// When all nodes have died, locks are free, and tokens go on: above what is on
// the disks, and above the clock where the disks are lost as well.
func TestAllDie(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, false)
	p := c.ProbeEvery(5 * time.Millisecond)
	for life, wipe := range []bool{false, false, false, true, true, true} {
		if wipe && life == 3 {
			// Epochs that were taken faster than one a second are above the
			// clock, and only the disks know.
			highest := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(c.status(1).Epoch) * time.Second)
			time.Sleep(time.Until(highest.Add(time.Second)))
		}
		held := c.hold(1, 10, time.Minute)
		// The active last, so that nobody follows it.
		for _, n := range slices.Backward(c.Nodes()) {
			n.Kill()
			if wipe {
				ok(t, n.Wipe())
			}
		}
		ok(t, c.StartAll())
		c.settled(1)
		again := c.hold(1, 10, time.Minute)
		for i := range again {
			if again[i].token <= held[i].token {
				t.Errorf("life %d, disks lost %t: token %d after %d", life, wipe, again[i].token, held[i].token)
				break
			}
		}
		for _, h := range again {
			ask(t, c.dial(1), "R %s %d", h.key, h.token)
		}
	}
	p.Stop()
	if err := rig.CheckTokens(p.Grants(), true); err != nil {
		t.Error(err)
	}
}
