package member

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stile-lock/stile/server/cluster"
	"github.com/stile-lock/stile/server/fencing"
	"github.com/stile-lock/stile/server/lockspace"
	"github.com/stile-lock/stile/server/replica"
)

// Before the first client is answered the epoch is stored, tokens are of that
// epoch, and what changes goes into the log.
func TestPromotion(t *testing.T) {
	r := newRig(t, 1, 2)
	n := r.nodes[0]
	n.slow = true
	r.run(100 * time.Millisecond)
	if n.m.Active() || slices.Contains(n.calls, "mode serve") || len(n.pending) != 1 {
		t.Fatalf("active before the epoch is stored: %v", n.calls)
	}
	n.finish(nil)
	r.roles(0)
	i := slices.Index(n.calls, "mode serve")
	if !slices.Contains(n.calls[:i], "tokens 1000.0") || !slices.Contains(n.calls[:i], "log true") {
		t.Errorf("calls: %v", n.calls)
	}
	token := n.acquire("k", "")
	if fencing.Epoch(token) != 1000 || fencing.Node(token) != 0 {
		t.Errorf("token %x", token)
	}
	if got, want := n.m.Place(), (replica.Place{Reign: replica.Epoch{N: 1000}, Pos: 1}); got != want {
		t.Errorf("at %v, want %v", got, want)
	}
	if got := n.m.Status(); got.Role != "active" || got.Mode != "serve" || got.Active != 0 || got.Syncing || got.Behind != nil || got.PeerViews == nil {
		t.Errorf("status: %+v", got)
	}
	if id, reign, ok := n.m.Other(); ok {
		t.Errorf("node %d is active too, in the reign of %v", id, reign)
	}
}

func TestPromotionFails(t *testing.T) {
	r := newRig(t, 1, 1)
	n := r.nodes[0]
	n.slow = true
	r.run(100 * time.Millisecond)
	n.finish(errDisk)
	if n.m.Active() || !n.m.Status().Unfit {
		t.Error("it is active, though its epoch was not stored")
	}
	n.slow = false
	r.run(2 * time.Second)
	r.roles(0)
}

// A node that comes later gets a snapshot, and then the stream.
func TestSnapshotAndStream(t *testing.T) {
	r := newRig(t, 2, 3)
	a, b := r.nodes[0], r.nodes[1]
	b.done = true // not there yet
	r.run(100 * time.Millisecond)
	for i := range 500 {
		key := fmt.Sprintf("key-%d", i)
		token := a.acquire(key, fmt.Sprintf("nonce-%d", i))
		switch i % 5 {
		case 0:
			a.release(key, token)
		case 1:
			a.acquire(key, fmt.Sprintf("waiter-%d", i))
		}
	}
	b.done = false
	r.run(200 * time.Millisecond)
	r.roles(0)
	r.same(0, 1)
	if a.digest() == "" {
		t.Fatal("the table is empty")
	}
	if diff := cmp.Diff([]byte{byte(replica.Snapshot)}, a.modes[1]); diff != "" {
		t.Errorf("how the streams began:\n%s", diff)
	}
	for i := range 50 {
		key := fmt.Sprintf("later-%d", i)
		if token := a.acquire(key, ""); i%3 == 0 {
			a.release(key, token)
		}
	}
	r.rest()
	r.same(0, 1)
	for _, p := range a.m.Status().PeerViews {
		if !p.Fed || lagOf(p) != 0 {
			t.Errorf("peer %d is fed: %t, with a lag of %d", p.ID, p.Fed, lagOf(p))
		}
	}
	// What the standby says of it.
	s := b.m.Status()
	if s.Rank != 1 || s.Behind == nil || *s.Behind != 0 || s.PeerViews[0].Rank != 0 || s.PeerViews[0].Epoch != s.Epoch {
		t.Errorf("%+v", s)
	}
	if id, reign, ok := b.m.Other(); !ok || id != 0 || reign != a.m.Place().Reign {
		t.Errorf("the other active is node %d in the reign of %v, %t", id, reign, ok)
	}
}

// What changes while a snapshot is under way is in it, or follows it.
func TestChangesDuringSnapshot(t *testing.T) {
	r := newRig(t, 2, 3)
	a, b := r.nodes[0], r.nodes[1]
	b.done = true
	r.run(100 * time.Millisecond)
	long := strings.Repeat("x", 200)
	tokens := map[string]uint64{}
	for i := range 3000 {
		key := fmt.Sprintf("%s-%d", long, i)
		tokens[key] = a.acquire(key, "")
	}
	b.done = false
	a.slowPeer[1] = true
	r.run(200 * time.Millisecond)
	a.slowPeer[1] = false
	i := 0
	for key, token := range tokens {
		if i++; i%10 == 0 {
			a.release(key, token)
			a.acquire(fmt.Sprintf("during-%d", i), "")
			a.pump(1)
			r.deliver()
		}
		if i == 200 && !b.m.Status().Syncing {
			t.Error("the snapshot is over already: this test is of no use")
		}
	}
	r.run(100 * time.Millisecond)
	r.same(0, 1)
}

// After a link broke and came back only the rest is sent; and it is
// acknowledged even if there is none.
func TestTailAfterReset(t *testing.T) {
	r := newRig(t, 2, 2)
	a := r.nodes[0]
	r.run(time.Second)
	a.acquire("k", "")
	r.run(100 * time.Millisecond)
	for range 2 {
		r.reset(0, 1)
		r.run(time.Second)
		r.roles(0)
		r.same(0, 1)
		if p := a.m.Status().PeerViews[0]; !p.Fed || lagOf(p) != 0 {
			t.Errorf("fed: %t, with a lag of %d", p.Fed, lagOf(p))
		}
	}
	if diff := cmp.Diff([]byte{byte(replica.Snapshot), byte(replica.Tail), byte(replica.Tail)}, a.modes[1]); diff != "" {
		t.Errorf("how the streams began:\n%s", diff)
	}
	// It is good enough to hand over to.
	a.m.Stop(r.now)
	r.run(200 * time.Millisecond)
	if !a.done {
		t.Error("the node found nobody to hand over to")
	}
	r.roles(1)
}

// At a handoff every standby goes on from where it is.
func TestHandoff(t *testing.T) {
	r := newRig(t, 3, 2)
	a, b := r.nodes[0], r.nodes[1]
	r.run(time.Second)
	held := a.acquire("k", "n")
	a.acquire("k", "w")
	r.run(100 * time.Millisecond)
	before := a.digest()
	a.m.Stop(r.now)
	r.run(200 * time.Millisecond)
	if !a.done {
		t.Error("the node has not ended")
	}
	r.roles(1)
	r.same(1, 2)
	if diff := cmp.Diff(before, b.digest()); diff != "" {
		t.Errorf("the table has changed:\n%s", diff)
	}
	if diff := cmp.Diff([]byte{byte(replica.FromBase)}, b.modes[2]); diff != "" {
		t.Errorf("how the stream to the third began:\n%s", diff)
	}
	if later := b.acquire("other", ""); later <= held {
		t.Errorf("token %x after %x", later, held)
	}
	if !b.release("k", held) {
		t.Error("the grant has gone")
	}
	r.rest()
	r.same(1, 2)
}

// A failover: the one with the table goes on, also for whoever restarts empty.
func TestFailover(t *testing.T) {
	r := newRig(t, 3, 2)
	a, b := r.nodes[0], r.nodes[1]
	r.run(time.Second)
	held := a.acquire("k", "n")
	r.run(100 * time.Millisecond)
	r.crash(0)
	r.run(100 * time.Millisecond)
	r.roles(1)
	r.same(1, 2)
	if !strings.Contains(b.digest(), fmt.Sprintf("k %d n", held)) {
		t.Errorf("the grant has gone: %s", b.digest())
	}
	if later := b.acquire("other", ""); later <= held {
		t.Errorf("token %x after %x", later, held)
	}
}

// splitAndHeal has two actives with their clients, and then brings them
// together.
func splitAndHeal(t *testing.T, during func(a, b *node), opts ...option) *rig {
	r := newRig(t, 2, 3, opts...)
	a, b := r.nodes[0], r.nodes[1]
	r.run(time.Second)
	a.acquire("before", "before")
	r.run(100 * time.Millisecond)
	r.split(0, 1)
	r.run(2 * time.Second)
	if !a.m.Active() || !b.m.Active() {
		t.Fatal("there are not two actives")
	}
	during(a, b)
	r.heal(0, 1)
	r.run(3 * time.Second)
	r.roles(0)
	r.same(0, 1)
	if a.stream == nil || b.stream != nil {
		t.Errorf("changes go into a log of 0: %t, of 1: %t", a.stream != nil, b.stream != nil)
	}
	return r
}

// Two actives meet: the lower one becomes a standby, and what it has granted is
// taken over.
func TestOffer(t *testing.T) {
	var both [2]uint64
	var theirs uint64
	r := splitAndHeal(t, func(a, b *node) {
		a.acquire("a", "")
		theirs = b.acquire("b", "n")
		b.acquire("b", "waiter")
		both = [2]uint64{a.acquire("both", ""), b.acquire("both", "")}
	})
	a, b := r.nodes[0], r.nodes[1]
	digest := a.digest()
	for _, want := range []string{
		fmt.Sprintf("b %d n < waiter 0ns\n", theirs),
		fmt.Sprintf("both %d -\n", max(both[0], both[1])),
	} {
		if !strings.Contains(digest, want) {
			t.Errorf("there is no %q in\n%s", want, digest)
		}
	}
	if got := a.m.Status().Conflicts; got != 1 {
		t.Errorf("%d conflicts were counted", got)
	}
	if b.abandons != 1 || a.abandons != 0 {
		t.Errorf("answers were abandoned %d and %d times", a.abandons, b.abandons)
	}
	if later := a.acquire("later", ""); later <= max(theirs, both[0], both[1]) {
		t.Errorf("token %x after %x", later, max(theirs, both[0], both[1]))
	}
}

// A grant from before that ended on one side has ended; but not if it was
// renewed on the other.
func TestOfferOfEnded(t *testing.T) {
	for _, renewed := range []bool{false, true} {
		t.Run(fmt.Sprintf("renewed %t", renewed), func(t *testing.T) {
			// 1 goes on from the table of 0; for 0 what it granted itself is not
			// inherited, so it keeps its own record.
			r := newRig(t, 3, 2)
			a, b, c := r.nodes[0], r.nodes[1], r.nodes[2]
			a.done = true
			r.run(time.Second)
			token := b.acquire("k", "n")
			r.run(100 * time.Millisecond)
			a.done = false
			r.run(100 * time.Millisecond)
			b.m.Stop(r.now) // 0 inherits
			r.run(200 * time.Millisecond)
			r.roles(0)
			r.split(0, 2)
			r.run(2 * time.Second)
			if !a.m.Active() || !c.m.Active() {
				t.Fatal("there are not two actives")
			}
			if !c.release("k", token) {
				t.Fatal("2 does not know the grant")
			}
			a.acquire("other", "") // else it slept, as far as can be seen
			if renewed {
				a.at("k", func(s *lockspace.Space) { s.Keep(a.Now(), 1, []byte("k"), token, time.Minute) })
			}
			r.heal(0, 2)
			r.run(3 * time.Second)
			r.roles(0)
			r.same(0, 2)
			if got := strings.Contains(a.digest(), fmt.Sprintf("k %d n", token)); got != renewed {
				t.Errorf("the grant is there: %t", got)
			}
		})
	}
}

// A table that does not fit one message.
func TestLargeOffer(t *testing.T) {
	long := strings.Repeat("x", 200)
	r := splitAndHeal(t, func(a, b *node) {
		a.acquire("a", "")
		for i := range 2000 {
			b.acquire(fmt.Sprintf("%s-%d", long, i), "")
		}
	})
	a, b := r.nodes[0], r.nodes[1]
	if got := strings.Count(a.digest(), "\n"); got != 2002 {
		t.Errorf("%d keys are held, want 2002", got)
	}
	if !a.logged("rows=") {
		t.Errorf("log: %q", a.log)
	}
	parts := bytes.Count(b.frames[0], []byte{7})
	if parts < 5 {
		t.Errorf("the offer came in %d parts: this test is of no use", parts)
	}
}

// An offer by way of a node that both reach.
func TestOfferByWayOfAnother(t *testing.T) {
	r := newRig(t, 3, 2)
	a, b := r.nodes[0], r.nodes[1]
	r.run(time.Second)
	r.split(0, 1)
	r.split(0, 2)
	r.run(2 * time.Second)
	if !a.m.Active() || !b.m.Active() {
		t.Fatal("there are not two actives")
	}
	a.acquire("a", "")
	token := b.acquire("b", "n")
	r.run(100 * time.Millisecond)
	r.heal(0, 2)
	r.run(5 * time.Second)
	r.roles(0)
	if !strings.Contains(a.digest(), fmt.Sprintf("b %d n", token)) {
		t.Errorf("the table of 0:\n%s", a.digest())
	}
	r.same(0, 2)
	r.heal(0, 1)
	r.run(time.Second)
	r.roles(0)
	r.same(0, 1, 2)
}

// The one that slept has nothing to offer: it becomes a standby, and nothing is
// lost.
func TestSleeper(t *testing.T) {
	r := newRig(t, 2, 2)
	a, b := r.nodes[0], r.nodes[1]
	r.run(time.Second)
	a.acquire("k", "")
	r.run(100 * time.Millisecond)
	r.split(0, 1)
	r.run(2 * time.Second)
	if !a.m.Active() || !b.m.Active() {
		t.Fatal("there are not two actives")
	}
	b.acquire("b", "")
	r.heal(0, 1)
	r.run(time.Second)
	r.roles(1)
	r.same(1, 0)
	if diff := cmp.Diff([]byte{byte(replica.FromBase)}, b.modes[0]); diff != "" {
		t.Errorf("how the stream began:\n%s", diff)
	}
}

// Nobody is fed from a table that its own node has given up.
func TestForkIsNotHandedOn(t *testing.T) {
	r := newRig(t, 3, 2)
	a, b := r.nodes[0], r.nodes[1]
	r.run(time.Second)
	r.split(0, 1)
	r.split(0, 2)
	r.run(2 * time.Second)
	a.acquire("a", "")
	b.acquire("b", "")
	r.run(100 * time.Millisecond)
	a.slowPeer[1] = true // 1 does not get the table of 0
	r.heal(0, 1)
	r.run(500 * time.Millisecond)
	if b.m.Active() || b.m.Place().Reign.N != 1000 {
		t.Fatalf("1 is active: %t, at %v", b.m.Active(), b.m.Place())
	}
	sent := len(b.frames[2])
	r.crash(0)
	r.run(2 * time.Second)
	// 2 has the latest reign, that of 1, and so it goes on; 1 follows it.
	if !r.nodes[2].m.Active() {
		t.Errorf("1 is active: %t, 2: %t", b.m.Active(), r.nodes[2].m.Active())
	}
	if got := b.frames[2][sent:]; len(got) > 0 {
		t.Errorf("1 has sent %x", got)
	}
	if b.m.Active() {
		return
	}
	r.same(2, 1)
}

// Records are acknowledged when the epochs that came with them, or before
// them, are on the disk.
func TestAckWaitsForEpoch(t *testing.T) {
	r := newRig(t, 2, 1)
	a, b := r.nodes[0], r.nodes[1]
	r.run(time.Second)
	b.slow = true
	before := b.acks
	a.m.WantEpoch(r.now)
	r.run(100 * time.Millisecond)
	a.acquire("k", "")
	r.run(100 * time.Millisecond)
	r.same(0, 1)
	if b.acks != before || len(b.pending) != 1 {
		t.Fatalf("%d acknowledgements, %d epochs are being stored", b.acks-before, len(b.pending))
	}
	if lag := lagOf(a.m.Status().PeerViews[0]); lag != 2 {
		t.Errorf("the lag is %d, want 2", lag)
	}
	b.finish(errDisk)
	r.run(500 * time.Millisecond)
	if b.acks != before {
		t.Fatal("acknowledged, though it could not be stored")
	}
	r.run(time.Second)
	b.finish(nil)
	r.rest()
	if b.acks == before {
		t.Error("it is not acknowledged at all")
	}
	if lag := lagOf(a.m.Status().PeerViews[0]); lag != 0 {
		t.Errorf("the lag is %d", lag)
	}
	if b.disk != (replica.Epoch{N: 1001}) {
		t.Errorf("the standby has %v on its disk", b.disk)
	}
	if len(a.aheads) != 1 || a.calls[len(a.calls)-1] != "tokens 1001.0" {
		t.Errorf("calls: %v", a.calls)
	}
}

// In sync mode nothing is let out before all have it.
func TestSync(t *testing.T) {
	r := newRig(t, 3, 2, syncMode)
	a := r.nodes[0]
	r.run(time.Second)
	r.roles(0)
	serve := slices.Index(a.calls, "mode serve")
	if i := slices.Index(a.calls, "committed"); i < 0 || i > serve {
		t.Errorf("calls: %v", a.calls)
	}
	if a.commit != a.m.Place().Pos {
		t.Errorf("committed up to %d, at %v", a.commit, a.m.Place())
	}
	a.slowPeer[2] = true
	a.acquire("k", "")
	r.run(100 * time.Millisecond)
	if a.commit != a.m.Place().Pos-1 {
		t.Errorf("committed up to %d, at %v", a.commit, a.m.Place())
	}
	a.slowPeer[2] = false
	a.m.KickAll()
	r.rest()
	if a.commit != a.m.Place().Pos {
		t.Errorf("committed up to %d, at %v", a.commit, a.m.Place())
	}
	// A link that comes back drops nobody.
	r.reset(0, 1)
	r.run(2 * time.Second)
	if diff := cmp.Diff([]int{1, 2}, a.m.Status().InSync); diff != "" {
		t.Errorf("in sync:\n%s", diff)
	}
	// One that stays behind is dropped.
	a.slowPeer[1] = true
	a.acquire("l", "")
	r.run(time.Second)
	if diff := cmp.Diff([]int{2}, a.m.Status().InSync); diff != "" {
		t.Errorf("in sync:\n%s", diff)
	}
	if a.commit != a.m.Place().Pos {
		t.Errorf("committed up to %d, at %v", a.commit, a.m.Place())
	}
}

// A standby that is too slow for what the log keeps starts anew.
func TestOverrun(t *testing.T) {
	r := newRig(t, 2, 2, func(_ *cluster.Config, c *Config) { c.KeepLog = 1 })
	a := r.nodes[0]
	r.run(time.Second)
	a.slowPeer[1] = true
	long := strings.Repeat("x", 200)
	for i := range 2000 {
		a.acquire(fmt.Sprintf("%s-%d", long, i), "")
	}
	r.run(100 * time.Millisecond)
	a.slowPeer[1] = false
	a.m.KickAll()
	r.run(5 * time.Second)
	r.roles(0)
	r.same(0, 1)
	if !a.logged("too slow for the stream") {
		t.Errorf("log: %q", a.log)
	}
	if len(r.nodes[1].frames[0]) > 0 {
		t.Error("the standby has sent the active a stream")
	}
	if got := a.modes[1]; len(got) != 2 || got[1] != byte(replica.Snapshot) {
		t.Errorf("how the streams began: %v", got)
	}
}

// A damaged stream: the link is closed, and the stream starts anew.
func TestGap(t *testing.T) {
	r := newRig(t, 2, 2)
	a, b := r.nodes[0], r.nodes[1]
	r.run(time.Second)
	a.acquire("k", "")
	frame, ok, _ := a.m.Next(1, replica.MaxFrame, nil) // this one is lost
	if !ok {
		t.Fatal("there is nothing to send")
	}
	_ = frame
	a.acquire("l", "")
	r.run(3 * time.Second)
	r.roles(0)
	r.same(0, 1)
	if !b.logged("can't be followed") {
		t.Errorf("log: %q", b.log)
	}
}

func TestNonsense(t *testing.T) {
	r := newRig(t, 2, 1)
	a, b := r.nodes[0], r.nodes[1]
	r.run(time.Second)
	token := a.acquire("k", "")
	for _, payload := range [][]byte{{0}, {1, 2, 3}, {99}, bytes.Repeat([]byte{0xFF}, 100), {0x80}, {0x81, 1, 2}, {0x8F}} {
		b.m.Receive(r.now, 0, payload)
		a.m.Receive(r.now, 1, payload)
		r.run(500 * time.Millisecond)
	}
	b.m.Receive(r.now, 0, nil)
	r.run(500 * time.Millisecond)
	r.roles(0)
	r.same(0, 1)
	if !strings.Contains(b.digest(), fmt.Sprint(token)) {
		t.Error("the table has suffered")
	}
	for _, hello := range [][]byte{nil, {1}, cluster.Append(nil, &cluster.Join{Stream: 1})} {
		for _, out := range []bool{true, false} {
			if err := a.m.LinkUp(r.now, 1, out, 1<<40, hello); err == nil {
				t.Errorf("a hello of %x was taken", hello)
			}
			r.run(time.Second)
		}
	}
	r.roles(0)
	r.same(0, 1)
}

// Messages from or about nodes that are none of the cluster.
func TestStrangers(t *testing.T) {
	r := newRig(t, 2, 1)
	a := r.nodes[0]
	r.run(time.Second)
	for _, msg := range []cluster.Message{
		&cluster.Join{Stream: 1}, &cluster.Go{ID: 1}, &cluster.Prepare{ID: 1},
		&cluster.Offer{From: 15, To: 0, Last: true}, &cluster.Offer{From: 1, To: 9, Last: true},
		&cluster.Offer{From: 0, To: 0, Last: true},
	} {
		a.m.Receive(r.now, 9, cluster.Append(nil, msg))
		a.m.Receive(r.now, 1, cluster.Append(nil, msg))
		r.run(2 * time.Second)
	}
	r.roles(0)
	r.same(0, 1)
}

// An epoch that comes with the stream is known from then on, whatever statuses
// tell.
func TestEpochByStream(t *testing.T) {
	r := newRig(t, 2, 1)
	a, b := r.nodes[0], r.nodes[1]
	r.run(time.Second)
	b.slow = true
	a.m.WantEpoch(r.now)
	a.finish(nil)
	frame, ok, _ := a.m.Next(1, replica.MaxFrame, nil)
	if !ok || len(b.pending) != 0 {
		t.Fatalf("a frame: %t; %d epochs are being stored", ok, len(b.pending))
	}
	before := b.acks
	b.m.Receive(r.now, 0, frame)
	if len(b.pending) != 1 || b.acks != before {
		t.Errorf("%d epochs are being stored, %d acknowledgements", len(b.pending), b.acks-before)
	}
	b.finish(nil)
	if b.disk != (replica.Epoch{N: 1001}) || b.acks != before+1 {
		t.Errorf("stored %v, %d acknowledgements", b.disk, b.acks-before)
	}
}

// Of a grant that a node knew when it became active its own record stands: if
// it has ended here, it is not taken over from a side where it still runs.
func TestOfferOfKnown(t *testing.T) {
	r := newRig(t, 3, 2)
	a, b, c := r.nodes[0], r.nodes[1], r.nodes[2]
	a.done = true
	r.run(time.Second)
	token := b.acquire("k", "n")
	r.run(100 * time.Millisecond)
	a.done = false
	r.run(100 * time.Millisecond)
	b.m.Stop(r.now) // 0 inherits
	r.run(200 * time.Millisecond)
	r.roles(0)
	r.split(0, 2)
	r.run(2 * time.Second)
	if !a.m.Active() || !c.m.Active() {
		t.Fatal("there are not two actives")
	}
	if !a.release("k", token) {
		t.Fatal("0 does not know the grant")
	}
	c.acquire("other", "")
	r.heal(0, 2)
	r.run(3 * time.Second)
	r.roles(0)
	r.same(0, 2)
	if strings.Contains(a.digest(), fmt.Sprintf("k %d", token)) {
		t.Errorf("a grant that had ended is back:\n%s", a.digest())
	}
}

// lagOf is the lag of a peer, -1 if it has nothing of the reign.
func lagOf(p cluster.PeerView) int {
	if p.Lag == nil {
		return -1
	}
	return int(*p.Lag)
}
