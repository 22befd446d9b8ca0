package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stile-lock/stile/conformance/cluster/rig"
)

// With synchronous replication nothing that was answered is lost with the node
// that answered it, as long as another one was there.
func TestSyncKill(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, true, "--replication=sync")
	l := c.load()
	for id := 1; id <= 2; id++ {
		b, err := rig.StartBulk(c.Node(id), "bulk", 3, 32)
		ok(t, err)
		time.Sleep(500 * time.Millisecond)
		c.Node(id).Kill()
		b.Wait()
		c.active(id + 1)
		lost, err := b.Lost(c.Node(id + 1))
		ok(t, err)
		t.Logf("%+v", lost)
		if lost.Grants < 100 || lost.Releases < 50 {
			t.Errorf("only %d grants and %d releases to judge by", lost.Grants, lost.Releases)
		}
		if lost.LostGrants > 0 || lost.LostReleases > 0 {
			t.Errorf("%d of %d answered grants were lost, and %d of %d answered releases",
				lost.LostGrants, lost.Grants, lost.LostReleases, lost.Releases)
		}
	}
	ops := l.Stop()
	noneFailed(t, ops)
	judge(t, l, ops, true)
}

// A standby that stands still is dropped after the sync timeout: until then
// answers wait for it, and then they do not.
func TestSyncWithAPausedStandby(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, true, "--replication=sync", "--sync-timeout=300ms")
	l := c.load()
	p := c.Probe()
	time.Sleep(200 * time.Millisecond)
	paused := time.Now()
	c.Node(3).Pause()
	time.Sleep(time.Second)
	gap := rig.Gap(p.Grants(), paused, time.Now())
	c.Node(3).Resume()
	c.settled(1)
	p.Stop()
	t.Logf("%v without a grant", gap)
	if gap > time.Second-100*time.Millisecond {
		t.Errorf("%v without a grant, with a sync timeout of 0.3 s", gap)
	}
	c.Node(1).Kill() // node 2 has everything
	c.active(2)
	time.Sleep(300 * time.Millisecond)
	ops := l.Stop()
	noneFailed(t, ops)
	judge(t, l, ops, true)
}

// An active that must have a standby in sync serves nobody without.
func TestMinInSync(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 2, true, "--replication=sync", "--min-in-sync=1", "--sync-timeout=300ms")
	conn := c.dial(1)
	if answer := ask(t, conn, "A k -1 60"); answer[0] != 'A' {
		t.Fatalf("got %q", answer)
	}
	parked := c.dial(1)
	ok(t, parked.Send("A k 60 60"))
	until(t, "there is a waiter", func() bool { return c.status(1).Waiting == 1 })
	c.Node(2).Kill()
	until(t, "node 1 does not serve", func() bool { return !c.status(1).Serves() })
	// It could not be granted the key, nor be told at its limit that it was not.
	if answer, err := parked.Read(rig.Patience); err != nil || !strings.HasPrefix(answer, "E A k no-active") {
		t.Errorf("a waiter in line was told %q (%v)", answer, err)
	}
	if got, want := ask(t, conn, "A other -1 60"), "E A other no-active"; !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	c.start(2)
	// It did not lag, so it need not prove that it keeps up.
	if took := until(t, "node 1 serves again", func() bool { return c.status(1).Serves() }); took > 3*time.Second {
		t.Errorf("node 1 served again %v after the return of its standby", took)
	}
	if got, want := ask(t, conn, "A k -1 60"), "T k"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// An active that must have a standby in sync, and is cut off from it, answers
// nothing that could be lost: neither what it was asked before it knew, nor
// what it is asked then.
func TestMinInSyncCutOff(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, true, "--replication=sync", "--min-in-sync=1")
	conns := make([]*rig.Conn, 40)
	for i := range conns {
		conns[i] = c.dial(1)
	}
	c.Net.Partition([]int{1}, []int{2, 3})
	var granted []string
	for i, conn := range conns {
		key := fmt.Sprintf("k%d", i)
		ok(t, conn.Send("A "+key+" -1 60"))
		time.Sleep(50 * time.Millisecond)
	}
	c.active(2)
	for i, conn := range conns {
		if answer, err := conn.Read(100 * time.Millisecond); err == nil && answer[0] == 'A' {
			granted = append(granted, fmt.Sprintf("k%d: %s", i, answer))
		}
	}
	if len(granted) > 0 {
		t.Errorf("answered with nobody in sync: %q", granted)
	}
	if answer := ask(t, c.dial(2), "A k0 -1 60"); answer[0] != 'A' {
		t.Errorf("node 2, which has node 3 in sync, answered %q", answer)
	}
	c.Net.Heal()
	c.settled(1)
}
