package lockspace

import (
	"testing"
	"time"
)

// sinceRig is three nodes whose clocks have nothing to do with each other. The
// key is held all the while, and "w" is the nonce of who waits for it.
type sinceRig struct {
	t      *testing.T
	nodes  []*Space
	clocks []Time
}

func sinceConfig() Config {
	token := uint64(0)
	return Config{
		DefaultLease: time.Hour, MaxLease: 100 * time.Hour, ReattachGrace: time.Minute,
		SpentFor: 10 * time.Second, MaxSpent: 100, MaxWaitersPerKey: 100, Record: true,
		NextToken: func() (uint64, bool) { token++; return token, true },
	}
}

var sinceKey, sinceNonce = []byte("k"), MakeNonce([]byte("w"))

func newSinceRig(t *testing.T) *sinceRig {
	const hour = Time(time.Hour)
	g := &sinceRig{t: t, clocks: []Time{3 * hour, -2 * hour, 1000 * hour}}
	for i := range g.clocks {
		g.nodes = append(g.nodes, New(sinceConfig()))
		if i > 0 {
			g.nodes[i].Follow(g.clocks[i])
		}
	}
	g.nodes[0].Acquire(g.clocks[0], Acquire{Session: 1, Key: sinceKey, Lease: 100 * time.Hour})
	g.stream(0, 1, 2)
	return g
}

func (g *sinceRig) pass(d time.Duration) {
	for i := range g.clocks {
		g.clocks[i] += Time(d)
	}
}

func (g *sinceRig) acquire(node int, session Session) {
	g.nodes[node].Acquire(g.clocks[node], Acquire{Session: session, Key: sinceKey, Nonce: sinceNonce, MayQueue: true})
}

// stream hands on what has changed.
func (g *sinceRig) stream(from int, to ...int) {
	g.nodes[from].Effects()
	changes := g.nodes[from].Changes()
	for i := range changes {
		for _, n := range to {
			g.nodes[n].Apply(g.clocks[n], &changes[i])
		}
	}
}

// copyTo sends the whole table.
func (g *sinceRig) copyTo(from, to int) {
	g.stream(from)
	staged := New(sinceConfig())
	staged.Follow(g.clocks[to])
	rows, more := g.nodes[from].Snapshot(false).Next(g.clocks[from], 1000, nil)
	if more {
		g.t.Fatal("more than everything")
	}
	for i := range rows {
		staged.Apply(g.clocks[to], &rows[i])
		staged.Apply(g.clocks[to], &rows[i])
	}
	g.nodes[to].Install(staged, g.clocks[to])
}

// waits says for how long the waiter has, as the nodes see it.
func (g *sinceRig) waits(want time.Duration, when string, nodes ...int) {
	g.t.Helper()
	for _, i := range nodes {
		_, first, ok := g.nodes[i].Look(sinceKey, 9)
		if !ok || len(first) != 1 {
			g.t.Fatalf("%s: on node %d the line is %+v, held: %v", when, i, first, ok)
		}
		if got := time.Duration(g.clocks[i] - first[0].Since); got != want {
			g.t.Errorf("%s: node %d says that it has waited for %v, want %v", when, i, got, want)
		}
	}
}

// granted releases the key and says for how long its next holder had waited, as
// the node's statistics have it.
func (g *sinceRig) granted(node int, want time.Duration) {
	g.t.Helper()
	s := g.nodes[node]
	h, _, _ := s.Look(sinceKey, 0)
	wait := s.Stats().Wait
	wait.Observe(want)
	if !s.Release(g.clocks[node], sinceKey, h.Token) {
		g.t.Fatal("not released")
	}
	if effects := s.Effects(); len(effects) != 1 || effects[0].Kind != Granted {
		g.t.Fatalf("the release brings %+v", effects)
	}
	if got := s.Stats().Wait; got != wait {
		g.t.Errorf("the waits of node %d are %+v, want %+v", node, got, wait)
	}
}

// TestWaitingSince: how long somebody has waited is told of who asked, wherever
// that was, over copies, changes of who serves, and connections.
func TestWaitingSince(t *testing.T) {
	g := newSinceRig(t)
	g.acquire(0, 2)
	g.stream(0, 1)
	g.pass(30 * time.Minute)
	g.acquire(0, 3) // from another connection
	g.stream(0, 1)
	g.waits(30*time.Minute, "asked again", 0, 1)

	g.pass(10 * time.Hour)
	g.copyTo(0, 2)
	g.copyTo(0, 1) // as after a lost link
	g.waits(10*time.Hour+30*time.Minute, "by a snapshot", 0, 1, 2)

	// A handoff, before which the client has gone to the successor.
	g.nodes[0].Follow(g.clocks[0])
	g.nodes[1].Hold(g.clocks[1], Acquire{Session: 1, Key: sinceKey, Nonce: sinceNonce, MayQueue: true}, Never)
	g.pass(time.Second)
	g.nodes[1].Promote(g.clocks[1], 0)
	g.nodes[0].EndSessions(g.clocks[0], Moved, 0)
	g.nodes[0].Effects()
	g.waits(10*time.Hour+30*time.Minute+time.Second, "handed over", 0, 1, 2)
	g.nodes[1].Serve(g.clocks[1])
	g.stream(1, 0, 2)
	g.waits(10*time.Hour+30*time.Minute+time.Second, "come to the successor", 0, 1, 2)

	// A failover, after which the client comes later.
	g.pass(29*time.Minute + 58*time.Second)
	g.nodes[2].Promote(g.clocks[2], time.Second)
	g.nodes[1].Follow(g.clocks[1])
	g.nodes[1].EndSessions(g.clocks[1], Moved, 0)
	g.nodes[1].Effects()
	g.pass(time.Second)
	g.waits(11*time.Hour, "failed over", 0, 1, 2)
	g.acquire(2, 1)
	g.stream(2, 0)
	g.copyTo(2, 1)
	g.waits(11*time.Hour, "come again", 0, 1, 2)

	// The connection is lost, and then the answer with the next one.
	g.nodes[2].Drop(g.clocks[2], 1)
	g.pass(time.Second)
	g.acquire(2, 2)
	g.stream(2, 0, 1)
	g.waits(11*time.Hour+time.Second, "attached again", 0, 1, 2)
	g.pass(time.Hour)
	h, _, _ := g.nodes[2].Look(sinceKey, 0)
	g.nodes[2].Release(g.clocks[2], sinceKey, h.Token)
	lost := g.nodes[2].Effects()[0]
	g.stream(2, 0, 1)
	g.nodes[2].Undo(g.clocks[2], 2, sinceKey, lost.Token, lost.Place)
	g.stream(2, 0, 1)
	g.nodes[2].Acquire(g.clocks[2], Acquire{Session: 3, Key: sinceKey, Lease: 100 * time.Hour})
	g.stream(2, 0, 1)
	g.pass(time.Second)
	g.waits(12*time.Hour+2*time.Second, "undone", 0, 1)
	g.acquire(2, 4)
	g.stream(2, 0, 1)
	g.waits(12*time.Hour+2*time.Second, "come for the lost answer", 0, 1, 2)
	g.granted(2, 12*time.Hour+2*time.Second)
}

// TestWaitingSinceUnknown: who comes to a node that has never heard of him has
// waited there since he came; kept requests since they were kept.
func TestWaitingSinceUnknown(t *testing.T) {
	g := newSinceRig(t)
	g.pass(time.Hour)
	g.nodes[1].Hold(g.clocks[1], Acquire{Session: 1, Key: sinceKey, MayQueue: true}, Never)
	g.pass(time.Second)
	g.nodes[1].Promote(g.clocks[1], 0)
	g.nodes[1].Serve(g.clocks[1])
	g.pass(time.Minute)
	g.waits(time.Minute+time.Second, "without a nonce", 1)
	g.granted(1, time.Minute+time.Second)
}

// TestWaitingSinceOlderPeer: of a peer that tells no ages, the copy has what it
// has seen itself.
func TestWaitingSinceOlderPeer(t *testing.T) {
	g := newSinceRig(t)
	queued := Change{Kind: WaiterQueued, Key: sinceKey, Nonce: sinceNonce, Arrival: 1, Wait: Forever}
	g.nodes[1].Apply(g.clocks[1], &queued)
	g.pass(time.Minute)
	g.nodes[1].Apply(g.clocks[1], &queued)
	g.waits(time.Minute, "told twice", 1)
}

// TestWaitingSinceParted: where two actives meet, the waiter is as old as the
// longer of its two waits, and the standbys of who stays learn of that.
func TestWaitingSinceParted(t *testing.T) {
	for _, here := range []string{"not asked", "asked", "asked first"} {
		t.Run(here, func(t *testing.T) {
			g := newSinceRig(t)
			g.nodes[2].Promote(g.clocks[2], 0)
			if here == "asked first" {
				g.acquire(0, 2)
				g.stream(0, 1)
				g.pass(time.Hour)
			}
			g.acquire(2, 1)
			g.stream(2)
			g.pass(time.Hour)
			if here == "asked" {
				g.acquire(0, 2)
				g.stream(0, 1)
			}
			g.pass(time.Minute)
			rows, _ := g.nodes[2].Snapshot(true).Next(g.clocks[2], 1000, nil)
			for i := range rows {
				g.nodes[0].Adopt(g.clocks[0], &rows[i], rows[i].Kind == GrantMade)
				g.stream(0, 1)
			}
			want := time.Hour + time.Minute
			if here == "asked first" {
				want += time.Hour
			}
			if here != "not asked" {
				g.waits(want, here, 0)
			}
			g.waits(want, here, 1)
			g.acquire(0, 3)
			g.stream(0, 1)
			g.waits(want, here+", and comes again", 0, 1)
			g.granted(0, want)
		})
	}
}
