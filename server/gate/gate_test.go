package gate

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stile-lock/stile/protocol"
	"github.com/stile-lock/stile/server/cluster"
	"github.com/stile-lock/stile/server/lockspace"
)

const (
	ms      = lockspace.Time(time.Millisecond)
	holdFor = 2 * time.Second
)

// rig is a gate with a client that writes down what it is answered, a line
// each, in order.
type rig struct {
	t     *testing.T
	gate  *Gate
	now   lockspace.Time
	token uint64
	tag   uint64
	lines []string
	moved map[uint64]bool
	keys  []byte // what the last request's key lay in
}

func newRig(t *testing.T, mode cluster.Mode) *rig {
	g := &rig{t: t, token: 100, now: 1000 * ms, moved: map[uint64]bool{}}
	space := lockspace.New(lockspace.Config{
		DefaultLease: 30 * time.Second, MaxLease: time.Minute, ReattachGrace: time.Second,
		SpentFor: 10 * time.Second, MaxSpent: 100, MaxWaitersPerKey: 100,
		NextToken: func() (uint64, bool) { g.token++; return g.token, true },
	})
	g.gate = New(space, Config{HoldFor: holdFor, Out: g})
	g.setMode(mode)
	g.take()
	return g
}

// setMode changes the mode as a node's role does: only an active's table
// serves.
func (g *rig) setMode(mode cluster.Mode) {
	g.gate.SetMode(g.now, mode)
}

// Settle writes down the effects.
func (g *rig) Settle() {
	for _, e := range g.gate.Space.Effects() {
		line := fmt.Sprintf("%d: A %s #%d", e.Session, e.Key, e.Tag)
		switch e.Kind {
		case lockspace.Granted:
			line += fmt.Sprintf(" token %d", e.Token)
		case lockspace.TimedOut:
			line += " timed out"
		case lockspace.Refused:
			line += " " + e.Code.String()
		case lockspace.Moved:
			line += " moved"
		}
		g.lines = append(g.lines, line)
	}
}

// Answer writes down the end of a kept request.
func (g *rig) Answer(a *Answer) {
	g.lines = append(g.lines, fmt.Sprintf("%d: %s %s %s", a.Session, letter(a.Op), a.Key, verdict(a.Verdict, a.Code, a.Lease)))
}

func letter(op protocol.Op) string {
	switch op {
	case protocol.OpRelease:
		return "R"
	case protocol.OpKeep:
		return "K"
	case protocol.OpCancel:
		return "C"
	}
	return "?"
}

func verdict(v Verdict, code protocol.Code, lease time.Duration) string {
	switch v {
	case Kept:
		return "kept"
	case Done:
		if lease > 0 {
			return "done, lease " + lease.String()
		}
		return "done"
	case Refused:
		return code.String()
	case Moved:
		return "moved"
	}
	return "?"
}

// key returns the key in a buffer that is overwritten when the request has
// been made.
func (g *rig) key(key string) []byte {
	g.keys = []byte(key)
	return g.keys
}

func (g *rig) spoil() {
	for i := range g.keys {
		g.keys[i] = '!'
	}
}

func (g *rig) acquire(session lockspace.Session, key string, opts ...func(*lockspace.Acquire)) {
	g.t.Helper()
	g.tag++
	a := &lockspace.Acquire{Session: session, Tag: g.tag, Key: g.key(key), MayQueue: true}
	for _, o := range opts {
		o(a)
	}
	if !g.gate.Acquire(g.now, a, true) {
		g.lines = append(g.lines, fmt.Sprintf("%d: A %s #%d moved at once", session, key, g.tag))
	}
	g.Settle()
	g.spoil()
}

func wait(d time.Duration) func(*lockspace.Acquire) {
	return func(a *lockspace.Acquire) { a.Wait = d }
}

func nonce(n string) func(*lockspace.Acquire) {
	return func(a *lockspace.Acquire) { a.Nonce = lockspace.MakeNonce([]byte(n)) }
}

func (g *rig) do(session lockspace.Session, op protocol.Op, key string, token uint64, opts ...func(*Request)) {
	g.t.Helper()
	r := &Request{Session: session, Op: op, Key: g.key(key), Token: token}
	for _, o := range opts {
		o(r)
	}
	v, code, lease := g.gate.Do(g.now, r, true)
	g.Settle()
	if v != Kept {
		g.lines = append(g.lines, fmt.Sprintf("%d: %s %s %s at once", session, letter(op), key, verdict(v, code, lease)))
	}
	g.spoil()
}

func ofNonce(n string) func(*Request) {
	return func(r *Request) { r.Nonce = lockspace.MakeNonce([]byte(n)) }
}

func (g *rig) advance(by time.Duration) {
	g.now += lockspace.Time(by)
	for g.gate.Advance(g.now, math.MaxInt) {
	}
}

func (g *rig) take() []string {
	lines := g.lines
	g.lines = nil
	return lines
}

// expect compares what was answered since the last time.
func (g *rig) expect(want ...string) {
	g.t.Helper()
	if diff := cmp.Diff(want, g.take()); diff != "" {
		g.t.Errorf("answers (-want +got):\n%s", diff)
	}
}

// loaded returns a gate in the mode over a table in which 1 holds "held"
// with token 101, and 2 waits for it.
func loaded(t *testing.T, mode cluster.Mode) *rig {
	g := newRig(t, cluster.Serve)
	g.acquire(1, "held")
	g.acquire(2, "held")
	g.expect("1: A held #1 token 101")
	g.setMode(mode)
	g.take()
	return g
}

func TestEachModeAndOp(t *testing.T) {
	ops := []struct {
		name string
		do   func(*rig)
	}{
		{"A free", func(g *rig) { g.acquire(3, "free") }},
		{"A held, no wait", func(g *rig) { g.acquire(3, "held", wait(protocol.NoQueue)) }},
		{"R", func(g *rig) { g.do(1, protocol.OpRelease, "held", 101) }},
		{"R not held", func(g *rig) { g.do(1, protocol.OpRelease, "held", 7) }},
		{"K", func(g *rig) {
			g.do(1, protocol.OpKeep, "held", 101, func(r *Request) { r.Lease = 5 * time.Second })
		}},
		{"K not held", func(g *rig) { g.do(1, protocol.OpKeep, "other", 101) }},
		{"C", func(g *rig) { g.do(2, protocol.OpCancel, "other", 0, ofNonce("n")) }},
	}
	want := map[cluster.Mode][]string{
		cluster.Serve: {
			"3: A free #3 token 102",
			"3: A held #3 timed out",
			"2: A held #2 token 102; 1: R held done at once",
			"1: R held not-held at once",
			"1: K held done, lease 5s at once",
			"1: K other not-held at once",
			"2: C other done at once",
		},
		cluster.Hold:   {"", "", "", "", "", "", ""},
		cluster.Freeze: {"", "", "", "", "", "", ""},
		cluster.Redirect: {
			"3: A free #3 moved at once",
			"3: A held #3 moved at once",
			"1: R held moved at once",
			"1: R held moved at once",
			"1: K held moved at once",
			"1: K other moved at once",
			"2: C other moved at once",
		},
		cluster.Refuse: {
			"3: A free #3 no-active",
			"3: A held #3 no-active",
			"1: R held no-active at once",
			"1: R held no-active at once",
			"1: K held no-active at once",
			"1: K other no-active at once",
			"2: C other no-active at once",
		},
		cluster.Ending: {
			"3: A free #3 stopping",
			"3: A held #3 stopping",
			"1: R held done at once", // whoever waited was told that the node ends
			"1: R held not-held at once",
			"1: K held done, lease 5s at once",
			"1: K other not-held at once",
			"2: C other done at once",
		},
	}
	for mode, answers := range want {
		for i, op := range ops {
			t.Run(mode.String()+"/"+op.name, func(t *testing.T) {
				g := loaded(t, mode)
				op.do(g)
				if got := strings.Join(g.take(), "; "); got != answers[i] {
					t.Errorf("answered %q, want %q", got, answers[i])
				}
				kept := mode == cluster.Hold || mode == cluster.Freeze
				if got := g.gate.Held(); (got == 1) != kept || got > 1 {
					t.Errorf("%d requests are kept", got)
				}
				if g.gate.Mode() != mode {
					t.Errorf("the mode is %v", g.gate.Mode())
				}
			})
		}
	}
}

func TestNoRoom(t *testing.T) {
	for _, mode := range []cluster.Mode{cluster.Hold, cluster.Freeze} {
		t.Run(mode.String(), func(t *testing.T) {
			g := newRig(t, mode)
			g.gate.Acquire(g.now, &lockspace.Acquire{Session: 1, Tag: 1, Key: []byte("k"), MayQueue: true}, false)
			g.Settle()
			for _, op := range []protocol.Op{protocol.OpRelease, protocol.OpKeep, protocol.OpCancel} {
				v, code, _ := g.gate.Do(g.now, &Request{Session: 1, Op: op, Key: []byte("k"), Token: 1}, false)
				g.lines = append(g.lines, verdict(v, code, 0))
			}
			g.expect("1: A k #1 no-active", "no-active", "no-active", "no-active")
			if g.gate.Held() != 0 {
				t.Errorf("%d requests are kept", g.gate.Held())
			}
		})
	}
}

// keepSome makes requests of all kinds that are kept.
func keepSome(g *rig) {
	g.acquire(3, "free", nonce("a"))                      // #3
	g.acquire(3, "held")                                  // #4
	g.do(3, protocol.OpCancel, "free", 0, ofNonce("b"))   // in vain
	g.acquire(4, "free", nonce("b"))                      // #5
	g.do(1, protocol.OpKeep, "held", 101)                 //
	g.do(1, protocol.OpRelease, "held", 101)              //
	g.acquire(4, "held", wait(protocol.NoQueue))          // #6
	g.do(1, protocol.OpKeep, "held", 101)                 // too late
	g.do(2, protocol.OpRelease, "other", 7)               // never was
	g.acquire(3, "free", wait(time.Minute), nonce("new")) // #7
}

// Releases, keeps and cancels are served first, in order, then acquires in the
// order in which they came.
func TestServeWhatWasKept(t *testing.T) {
	for _, mode := range []cluster.Mode{cluster.Hold, cluster.Freeze} {
		t.Run(mode.String(), func(t *testing.T) {
			g := loaded(t, mode)
			keepSome(g)
			g.expect()
			if got := g.gate.Held(); got != 10 {
				t.Errorf("%d requests are kept, want 10", got)
			}
			g.advance(time.Second)
			g.setMode(cluster.Serve)
			g.expect(
				"3: C free done",
				"1: K held done, lease 30s",
				"2: A held #2 token 102", // by the release
				"1: R held done",
				"1: K held not-held",
				"2: R other not-held",
				"3: A free #3 token 103",
				"4: A free #5 spent",
				"4: A held #6 timed out",
			)
			g.do(2, protocol.OpRelease, "held", 102)
			g.do(3, protocol.OpRelease, "free", 103)
			g.expect(
				"3: A held #4 token 104", "2: R held done at once",
				"3: A free #7 token 105", "3: R free done at once",
			)
			if g.gate.Held() != 0 {
				t.Errorf("%d requests are still kept", g.gate.Held())
			}
		})
	}
}

// Where another node is active whoever waits is told, with all that was kept.
func TestRedirectWhatWasKept(t *testing.T) {
	g := loaded(t, cluster.Hold)
	keepSome(g)
	g.setMode(cluster.Redirect)
	g.expect(
		"2: A held #2 moved",
		"3: A free #3 moved",
		"3: A held #4 moved",
		"4: A free #5 moved",
		"4: A held #6 moved",
		"3: A free #7 moved",
		"3: C free moved",
		"1: K held moved",
		"1: R held moved",
		"1: K held moved",
		"2: R other moved",
	)
	if g.gate.Held() != 0 || g.gate.Space.Waiting() != 0 {
		t.Errorf("%d requests are kept, %d wait", g.gate.Held(), g.gate.Space.Waiting())
	}
	if g.gate.Space.Held() != 1 {
		t.Error("the grant has gone")
	}
}

func TestEndWhatWasKept(t *testing.T) {
	g := loaded(t, cluster.Hold)
	keepSome(g)
	g.setMode(cluster.Ending)
	got := g.take()
	// Releases, keeps and cancels are served as long as the node lives.
	want := []string{
		"3: C free done", "1: K held done, lease 30s",
		"2: A held #2 token 102", "1: R held done", "1: K held not-held", "2: R other not-held",
		"3: A free #3 stopping", "3: A held #4 stopping", "4: A free #5 stopping", "4: A held #6 stopping", "3: A free #7 stopping",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
}

func TestRefuseWhatWasKept(t *testing.T) {
	g := loaded(t, cluster.Freeze)
	keepSome(g)
	g.setMode(cluster.Refuse)
	got := g.take()
	for _, line := range got {
		if !strings.Contains(line, "no-active") {
			t.Errorf("answered %q", line)
		}
	}
	// The acquires: nobody may grant them, so they must be ended, too.
	if len(got) != 11 {
		t.Errorf("%d of 11 are answered: %q", len(got), got)
	}
	if g.gate.Space.Waiting() != 0 {
		t.Errorf("%d wait in line", g.gate.Space.Waiting())
	}
}

// From one mode that keeps requests to another nothing is answered.
func TestStaysKept(t *testing.T) {
	g := loaded(t, cluster.Freeze)
	keepSome(g)
	g.setMode(cluster.Hold)
	g.setMode(cluster.Freeze)
	g.setMode(cluster.Hold)
	g.expect()
	if got := g.gate.Held(); got != 10 {
		t.Errorf("%d requests are kept, want 10", got)
	}
}

// A session's answers to acquires of one key come in the order of the
// requests, whatever the mode was in between.
func TestOrderPerSessionAndKey(t *testing.T) {
	for _, first := range []cluster.Mode{cluster.Serve, cluster.Hold, cluster.Freeze} {
		for _, then := range []cluster.Mode{cluster.Refuse, cluster.Ending, cluster.Redirect, cluster.Serve} {
			t.Run(first.String()+"/"+then.String(), func(t *testing.T) {
				g := newRig(t, cluster.Serve)
				g.acquire(1, "k")
				g.expect("1: A k #1 token 101")
				g.setMode(first)
				g.acquire(2, "k") // waits, or is kept
				g.acquire(2, "k", nonce("n"))
				g.expect()
				g.setMode(then)
				g.acquire(2, "k", wait(protocol.NoQueue)) // has an answer at once
				g.setMode(cluster.Serve)
				g.do(1, protocol.OpRelease, "k", 101)
				last := uint64(0)
				for _, line := range g.take() {
					var session, tag uint64
					if n, _ := fmt.Sscanf(line, "%d: A k #%d", &session, &tag); n < 2 {
						continue
					}
					if tag < last {
						t.Errorf("#%d is answered after #%d", tag, last)
					}
					last = tag
				}
				if last < 2 {
					t.Error("nothing was answered")
				}
			})
		}
	}
}

// What is kept too long ends with no-active, at its own limit with a timeout.
func TestDeadlines(t *testing.T) {
	g := loaded(t, cluster.Hold)
	g.acquire(3, "a")                         // #3
	g.acquire(3, "b", wait(time.Second))      // #4
	g.acquire(3, "c", wait(protocol.NoQueue)) // #5
	g.do(1, protocol.OpRelease, "held", 101)
	if next := g.gate.Next(); next != g.now+1000*ms {
		t.Errorf("Next is in %v", time.Duration(next-g.now))
	}
	g.advance(500 * time.Millisecond)
	g.do(1, protocol.OpKeep, "held", 101)
	g.acquire(3, "d", wait(time.Minute)) // #6
	g.advance(499 * time.Millisecond)
	g.expect()
	g.advance(time.Millisecond)
	g.expect("3: A b #4 timed out")
	g.advance(999 * time.Millisecond)
	g.expect()
	if next := g.gate.Next(); next != g.now+ms {
		t.Errorf("Next is in %v", time.Duration(next-g.now))
	}
	g.advance(time.Millisecond)
	got := g.take()
	slices.Sort(got)
	if diff := cmp.Diff([]string{"1: R held no-active", "3: A a #3 no-active", "3: A c #5 no-active"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	g.advance(499 * time.Millisecond)
	g.expect()
	g.advance(time.Millisecond)
	g.expect("1: K held no-active", "3: A d #6 no-active")
	if g.gate.Held() != 0 {
		t.Errorf("%d are still kept", g.gate.Held())
	}
	// Nothing was done.
	g.setMode(cluster.Serve)
	g.expect()
	if g.gate.Space.Held() != 1 {
		t.Error("the release was carried out after all")
	}
}

// Where the table stands still nothing happens, whatever the time: no lease, no
// wait, nothing that is kept ends. Afterwards all of it is due.
func TestFreezeStandsStill(t *testing.T) {
	g := newRig(t, cluster.Serve)
	g.acquire(1, "k", func(a *lockspace.Acquire) { a.Lease = time.Second })
	g.acquire(2, "k", wait(500*time.Millisecond))
	g.acquire(3, "k")
	g.expect("1: A k #1 token 101")
	g.setMode(cluster.Freeze)
	g.acquire(4, "other", wait(time.Second))
	g.do(1, protocol.OpKeep, "k", 101)
	g.advance(time.Hour)
	g.expect()
	if next := g.gate.Next(); next != lockspace.Never {
		t.Errorf("Next is in %v", time.Duration(next-g.now))
	}
	if g.gate.Space.Held() != 1 || g.gate.Space.Waiting() != 2 || g.gate.Held() != 2 {
		t.Errorf("held %d, waiting %d, kept %d", g.gate.Space.Held(), g.gate.Space.Waiting(), g.gate.Held())
	}
	g.setMode(cluster.Hold)
	g.advance(0)
	got := g.take()
	slices.Sort(got)
	want := []string{"1: K k no-active", "2: A k #2 timed out", "3: A k #3 token 102", "4: A other #4 timed out"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("after it (-want +got):\n%s", diff)
	}
}

func TestDrop(t *testing.T) {
	g := loaded(t, cluster.Hold)
	g.acquire(3, "free")
	g.do(3, protocol.OpRelease, "held", 101)
	g.do(4, protocol.OpKeep, "held", 101)
	g.do(3, protocol.OpCancel, "held", 0, ofNonce("n"))
	g.acquire(4, "free") // #4
	g.gate.Drop(g.now, 3)
	if got := g.gate.Held(); got != 2 {
		t.Errorf("%d are kept, want 2", got)
	}
	g.setMode(cluster.Serve)
	g.expect("4: K held done, lease 30s", "4: A free #4 token 102")
	if g.gate.Space.Held() != 2 {
		t.Error("a dropped session's release was carried out")
	}
}

// A kept request's key is the gate's own.
func TestKeysAreCopied(t *testing.T) {
	g := newRig(t, cluster.Hold)
	r := &Request{Session: 1, Op: protocol.OpRelease, Key: []byte("abc"), Token: 1}
	g.gate.Do(g.now, r, true)
	copy(r.Key, "xyz")
	a := &lockspace.Acquire{Session: 1, Tag: 1, Key: []byte("abc"), MayQueue: true}
	g.gate.Acquire(g.now, a, true)
	g.Settle()
	copy(a.Key, "xyz")
	g.setMode(cluster.Serve)
	g.expect("1: R abc not-held", "1: A abc #1 token 101")
}

// Many are kept and end one by one: what is left stays in order.
func TestKeptInOrder(t *testing.T) {
	g := newRig(t, cluster.Hold)
	for i := range 100 {
		g.do(lockspace.Session(i%7+1), protocol.OpRelease, fmt.Sprintf("k%02d", i), 1)
		g.advance(10 * time.Millisecond)
	}
	g.gate.Drop(g.now, 3)
	g.advance(holdFor - time.Second + 100*time.Millisecond) // the first eleven are due
	for i, line := range g.take() {
		if !strings.HasSuffix(line, "no-active") {
			t.Errorf("%d: %s", i, line)
		}
	}
	g.setMode(cluster.Serve)
	last := ""
	for _, line := range g.take() {
		key := strings.Fields(line)[2]
		if key <= last || strings.HasPrefix(line, "3:") {
			t.Errorf("%s after %s", line, last)
		}
		last = key
	}
	if last != "k99" {
		t.Errorf("the last one was %s", last)
	}
}

// A standby's table may not be asked anything that it would have to serve.
func TestStandby(t *testing.T) {
	g := loaded(t, cluster.Serve)
	g.gate.Space.Follow(g.now)
	g.Settle()
	g.setMode(cluster.Hold)
	keepSome(g)
	g.advance(time.Second)
	g.expect()
	g.setMode(cluster.Redirect)
	if got := g.take(); len(got) != 11 {
		t.Errorf("%d of 11 are answered: %q", len(got), got)
	}
	g.acquire(5, "free")
	g.do(5, protocol.OpRelease, "held", 101)
	g.expect("5: A free #8 moved at once", "5: R held moved at once")
	g.advance(time.Hour)
	g.expect()
	if g.gate.Space.Held() != 1 {
		t.Error("a standby has ended a lease")
	}
}
