package cluster

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stile-lock/stile/client"
	"github.com/stile-lock/stile/conformance/cluster/history"
	"github.com/stile-lock/stile/conformance/cluster/rig"
)

// tooLong is how long a failover may take here. What is aimed at is far less,
// and is for the report to judge, on a machine with time.
const tooLong = 2 * time.Second

// holder is a grant that is held through what happens.
type holder struct {
	key   string
	token uint64
}

// hold takes n keys over a raw connection to the node.
func (c *cluster) hold(id, n int, lease time.Duration) []holder {
	c.t.Helper()
	conn := c.dial(id)
	var hs []holder
	for i := range n {
		ok(c.t, conn.Send("A held/%d -1 %g", i, lease.Seconds()))
	}
	for range n {
		answer, err := conn.Read(rig.Patience)
		ok(c.t, err)
		key, token, granted := rig.Granted(answer)
		if !granted {
			c.t.Fatalf("want a grant, got %q", answer)
		}
		hs = append(hs, holder{key, token})
	}
	return hs
}

// stillHeld checks that nobody else gets the keys.
func (c *cluster) stillHeld(id int, hs []holder) {
	c.t.Helper()
	c.all(id, hs, func(h holder) (line, want string) { return "A " + h.key + " -1 1", "T " + h.key })
}

// released checks that the holders can release their keys.
func (c *cluster) released(id int, hs []holder) {
	c.t.Helper()
	c.all(id, hs, func(h holder) (line, want string) {
		line = fmt.Sprintf("R %s %d", h.key, h.token)
		return line, line
	})
}

// all sends a line for each key, and wants an answer to each.
func (c *cluster) all(id int, hs []holder, f func(holder) (line, want string)) {
	c.t.Helper()
	conn := c.dial(id)
	wanted := map[string]bool{}
	for _, h := range hs {
		line, want := f(h)
		wanted[want] = true
		ok(c.t, conn.Send("%s", line))
	}
	bad := 0
	for range hs {
		answer, err := conn.Read(rig.Patience)
		ok(c.t, err)
		if !wanted[answer] {
			if bad++; bad <= 3 {
				c.t.Errorf("node %d answered %q", id, answer)
			}
		}
		delete(wanted, answer)
	}
	if bad > 3 {
		c.t.Errorf("and %d more of %d keys", bad-3, len(hs))
	}
}

// waiters are calls in line for one key, each of a client of its own, in a
// known order.
type waiters struct {
	key  string
	wg   sync.WaitGroup
	mu   sync.Mutex
	got  []int
	errs []error
}

// wait puts n clients in line for a key that is held.
func (c *cluster) wait(active int, key string, n int) *waiters {
	c.t.Helper()
	w := &waiters{key: key}
	before := c.status(active).Waiting
	for i := range n {
		cl := c.client()
		w.wg.Go(func() {
			lock, err := cl.Acquire(c.t.Context(), key, client.Wait(2*rig.Patience), client.Lease(time.Minute))
			w.mu.Lock()
			w.got = append(w.got, i)
			if err != nil {
				w.errs = append(w.errs, err)
			}
			w.mu.Unlock()
			if err == nil {
				lock.Release(c.t.Context())
			}
		})
		until(c.t, "it waits", func() bool { return c.status(active).Waiting == before+i+1 })
	}
	return w
}

// inOrder waits until all had their turn.
func (w *waiters) inOrder(t *testing.T) {
	t.Helper()
	w.wg.Wait()
	for _, err := range w.errs {
		t.Errorf("a waiter's acquire failed: %v", err)
	}
	for i, got := range w.got {
		if i != got {
			t.Errorf("the line was served in the order %v", w.got)
			break
		}
	}
}

// judge checks the calls of a load as strictly as asked.
func judge(t *testing.T, l *rig.Load, ops []rig.Op, strict bool) {
	t.Helper()
	if err := rig.CheckTokens(rig.Grants(ops), true); err != nil {
		t.Error(err)
	}
	counts := l.Resource.Count()
	if counts.Backwards > 0 {
		t.Errorf("%d writes with a token lower than an earlier one were accepted", counts.Backwards)
	}
	t.Logf("%d calls; %+v", len(ops), counts)
	if len(ops) < 40 {
		t.Errorf("only %d calls to judge by", len(ops))
	}
	if !strict {
		return
	}
	if counts.Overlaps > 0 || counts.Stale > 0 {
		t.Errorf("%d holders came while there was another one, %d stale writes", counts.Overlaps, counts.Stale)
	}
	switch verdict, why := history.Check(ops, 20*time.Second); verdict {
	case history.Bad:
		t.Error(why)
	case history.Unknown:
		t.Errorf("the history could not be judged: %s", why)
	}
}

func noneFailed(t *testing.T, ops []rig.Op) {
	t.Helper()
	for i, o := range rig.Failed(ops) {
		if i < 5 {
			t.Errorf("a failed acquire: %v", o)
		}
	}
}

// Kill -9 of the active under load: its successor serves soon, with greater
// tokens, and whoever held a lock still does.
func TestKill(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, true)
	held := c.hold(1, 200, time.Minute)
	line := c.wait(1, held[0].key, 10)
	l := c.load()
	p := c.Probe()
	time.Sleep(time.Second)

	killed := time.Now()
	c.Node(1).Kill()
	c.active(2)
	c.stillHeld(2, held)
	time.Sleep(500 * time.Millisecond)
	end := time.Now()
	p.Stop()
	noneFailed(t, l.Stop())
	judge(t, l, l.Stop(), false)

	grants := p.Grants()
	gap := rig.Gap(grants, killed, end)
	t.Logf("%v without a grant", gap)
	if gap > tooLong {
		t.Errorf("%v without a grant", gap)
	}
	if err := rig.CheckTokens(append(grants, rig.Grants(l.Ops())...), true); err != nil {
		t.Error(err)
	}
	c.released(2, held)
	line.inOrder(t)
}

// SIGTERM of the active under load: it hands over. Nobody notices but by the
// address.
func TestStop(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, true)
	held := c.hold(1, 200, time.Minute)
	line := c.wait(1, held[0].key, 10)
	bare := c.dial(1) // waits without a nonce, and is told where to go
	ok(t, bare.Send("A %s 60 60", held[1].key))
	l := c.load()
	p := c.Probe()
	time.Sleep(time.Second)

	stopped := time.Now()
	c.Node(1).Terminate()
	if answer, err := bare.Read(time.Second); answer != fmt.Sprintf("M A %s %s", held[1].key, c.Node(2).Advertise) {
		t.Errorf("a waiter read %q, %v", answer, err)
	}
	status, err := c.Node(1).Wait(rig.Patience)
	ok(t, err)
	if took := time.Since(stopped); status != 0 || took > 5*time.Second {
		t.Errorf("node 1 ended after %v with status %d", took, status)
	}
	c.active(2)
	c.stillHeld(2, held)
	time.Sleep(500 * time.Millisecond)
	end := time.Now()
	p.Stop()
	ops := l.Stop()
	noneFailed(t, ops)
	judge(t, l, ops, true)

	grants := p.Grants()
	gap := rig.Gap(grants, stopped, end)
	t.Logf("%v without a grant", gap)
	if gap > tooLong {
		t.Errorf("%v without a grant", gap)
	}
	if err := rig.CheckTokens(append(grants, rig.Grants(ops)...), true); err != nil {
		t.Error(err)
	}
	c.released(2, held)
	line.inOrder(t)
}
