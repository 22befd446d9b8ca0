package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stile-lock/stile/client"
	"github.com/stile-lock/stile/conformance/cluster/rig"
)

// by are the grants of one node.
func by(grants []rig.Grant, node int) (of []rig.Grant) {
	for _, g := range grants {
		if g.Node == node {
			of = append(of, g)
		}
	}
	return of
}

// A partition has an active on each side. When it ends, one of them steps
// down, and everybody goes on with the other.
func TestPartition(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, true)
	p := c.ProbeEvery(5 * time.Millisecond)
	resource := new(rig.Resource)
	one := c.load(func(l *rig.Load) {
		l.Addrs, l.Options, l.Resource, l.Lease = c.Node(1).Listen, []client.Option{client.OnlyListed()}, resource, 300*time.Millisecond
	})

	c.Net.Partition([]int{1}, []int{2, 3})
	c.active(2)
	other := c.load(func(l *rig.Load) {
		l.Addrs, l.Resource, l.Lease = c.Node(2).Advertise+","+c.Node(3).Advertise, resource, 300*time.Millisecond
	})
	busy, parked := c.dial(2), c.dial(2)
	if answer := ask(t, busy, "A busy -1 60"); answer[0] != 'A' {
		t.Errorf("node 2 answered %q", answer)
	}
	ok(t, parked.Send("A busy 60 60"))
	time.Sleep(2 * failureTimeout)
	until(t, "a node serves on each side", func() bool { return c.serving() == 2 })

	healed := time.Now()
	c.Net.Heal()
	answer, err := parked.Read(rig.Patience)
	if told := time.Since(healed); err != nil || answer[0] != 'M' || told > 2*time.Second {
		t.Errorf("a waiter on the side that gave way was told %q (%v) after %v", answer, err, told)
	}
	c.settled(1)
	settled := time.Now()
	t.Logf("one active %v after the end of the partition", settled.Sub(healed))
	if settled.Sub(healed) > 3*time.Second+2*failureTimeout {
		t.Errorf("one active %v after the end of the partition", settled.Sub(healed))
	}
	c.remains(p, settled, 500*time.Millisecond)
	p.Stop()
	grants := p.Grants()
	all := append(rig.Grants(one.Stop()), rig.Grants(other.Stop())...)
	if err := rig.CheckTokens(append(all, grants...), false); err != nil {
		t.Error(err)
	}
	for id := 1; id <= 3; id++ {
		if err := rig.CheckTokens(by(grants, id), true); err != nil {
			t.Error(err)
		}
	}
	highest := max(rig.Highest(grants, settled), rig.Highest(all, healed))
	for _, g := range grants {
		if g.Sent.After(settled) && g.Token <= highest {
			t.Fatalf("after all had settled node %d gave token %d, but %d was there before", g.Node, g.Token, highest)
		}
	}
	counts := resource.Count()
	t.Logf("%d and %d grants for load; %+v", len(rig.Grants(one.Stop())), len(rig.Grants(other.Stop())), counts)
	if counts.Backwards > 0 {
		t.Errorf("%d stale writes were accepted", counts.Backwards)
	}
}

// Nodes 1 and 2 do not see each other, but node 3 sees both: no second active.
func TestPartialPartition(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(*rig.Network){
		"silent":  func(n *rig.Network) { n.Cut(1, 2) },
		"refused": func(n *rig.Network) { n.Refuse(1, 2) },
		"1 to 2":  func(n *rig.Network) { n.CutOneWay(1, 2) },
		"2 to 1":  func(n *rig.Network) { n.CutOneWay(2, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			c := startCluster(t, 3, true)
			p := c.ProbeEvery(10 * time.Millisecond)
			from := time.Now()
			cut(c.Net)
			c.remains(p, from, 4*failureTimeout)
			if got, want := ask(t, c.dial(2), "A k -1 1"), "M A k "+c.Node(1).Advertise; got != want {
				t.Errorf("node 2 answered %q, want %q", got, want)
			}
			c.Net.Heal()
			c.settled(1)
			c.remains(p, from, 0)
			p.Stop()
			if n := c.BecameActive(); n != 1 {
				t.Errorf("nodes became active %d times", n)
			}
		})
	}
}

// Of two nodes, one does not hear the other: both may serve, but when it ends
// one of them does, soon, every time.
func TestOneWayCuts(t *testing.T) {
	t.Parallel()
	const timeout = 300 * time.Millisecond
	c := startCluster(t, 2, true, "--failure-timeout=300ms", "--takeback=0s")
	p := c.ProbeEvery(5 * time.Millisecond)
	var worst time.Duration
	for round := range 10 {
		from, to := 1+round%2, 2-round%2
		c.Net.CutOneWay(from, to)
		time.Sleep(2 * timeout)
		healed := time.Now()
		c.Net.Heal()
		_, err := rig.Until(rig.Patience, fmt.Sprintf("one active after round %d", round), func() (bool, error) {
			return c.serving() == 1, nil
		})
		ok(t, err)
		worst = max(worst, time.Since(healed))
		c.settled(1)
	}
	p.Stop()
	t.Logf("one active after at most %v", worst)
	if worst > timeout+2*heartbeat+time.Second {
		t.Errorf("one active only %v after a cut was healed", worst)
	}
	grants := p.Grants()
	if err := rig.CheckTokens(grants, false); err != nil {
		t.Error(err)
	}
	for id := 1; id <= 2; id++ {
		if err := rig.CheckTokens(by(grants, id), true); err != nil {
			t.Error(err)
		}
	}
}

// Connections between nodes are reset, and are there again at once: nobody
// takes that for a death.
func TestResets(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 2, true)
	l := c.load()
	p := c.ProbeEvery(5 * time.Millisecond)
	from := time.Now()
	for range 10 {
		c.Net.Reset(1, 2)
		time.Sleep(50 * time.Millisecond)
	}
	c.settled(1)
	c.remains(p, from, 0)
	p.Stop()
	if n := c.BecameActive(); n != 1 {
		t.Errorf("nodes became active %d times", n)
	}
	ops := l.Stop()
	noneFailed(t, ops)
	judge(t, l, ops, true)
}

// What the side that gives way was told by clients counts: a lock from before
// the partition that was released there is free after it, and one that nobody
// released is not.
func TestReleasedInAPartition(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, true)
	one := c.dial(1)
	tokens := map[string]string{}
	for _, key := range []string{"released", "ended", "held"} {
		_, token, _ := strings.Cut(ask(t, one, "A %s -1 60", key), " "+key+" ")
		tokens[key], _, _ = strings.Cut(token, " ")
	}
	until(t, "node 2 has the grants", func() bool { return c.status(2).Held == 3 })

	c.Net.Partition([]int{1}, []int{2, 3})
	c.active(2)
	two := c.dial(2)
	if got, want := ask(t, two, "R released %s", tokens["released"]), "R released "+tokens["released"]; got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
	// Held on both sides, with other tokens: the greater one stays.
	ask(t, two, "R ended %s", tokens["ended"])
	again := ask(t, two, "A ended -1 60")
	if again[0] != 'A' {
		t.Fatalf("got %q", again)
	}

	c.Net.Heal()
	c.settled(1)
	one = c.dial(1)
	if got := ask(t, one, "A released -1 60"); got[0] != 'A' {
		t.Errorf("a lock that was released on the side that gave way: got %q", got)
	}
	for _, key := range []string{"ended", "held"} {
		if got, want := ask(t, one, "A %s -1 60", key), "T "+key; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := ask(t, one, "K ended %s 60", strings.Fields(again)[2]); got[0] != 'K' {
		t.Errorf("the greater token of a key that both sides had granted: got %q", got)
	}
	if got := ask(t, one, "K held %s 60", tokens["held"]); got[0] != 'K' {
		t.Errorf("a lock that nobody released: got %q", got)
	}
}
