package lockspace

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stile-lock/stile/protocol"
)

// tb is what *testing.T and *rapid.T have in common and the rig needs.
type tb interface {
	Helper()
	Fatalf(format string, args ...any)
}

// rig makes every call twice, on a Space and on the model, and fails the
// test when the two do not answer alike. An observer that knows neither
// judges the effects as well.
type rig struct {
	t        tb
	space    *Space
	model    *model
	observer *observer
	copies   copies
	now      Time
	ops      int

	noTokens bool // the sources of tokens are dry

	lastTag     uint64
	lastSession Session
	live        []Session
	fresh       map[Session][]granted // grants that may not have been read yet
	lost        []granted             // such grants of dropped sessions
	last        map[string]uint64     // the newest token known of a key
	older       map[string]uint64     // some token before it
	keyBuf      []byte

	seen func(e *Effect) // is shown every effect; may be nil
}

// granted is what Undo needs, on either side.
type granted struct {
	session                Session
	key                    string
	token                  uint64
	spacePlace, modelPlace Place
}

func newRig(t tb, cfg Config, hashMask uint64) *rig {
	g := &rig{
		t:        t,
		observer: newObserver(t, cfg),
		fresh:    map[Session][]granted{},
		last:     map[string]uint64{},
		older:    map[string]uint64{},
	}
	source := func() func() (uint64, bool) {
		n := uint64(0)
		return func() (uint64, bool) {
			if g.noTokens {
				return 0, false
			}
			n++
			return n, true
		}
	}
	cfg.NextToken = source()
	cfg.Record = true
	g.space = New(cfg)
	g.space.hashMask = hashMask
	cfg.NextToken = source()
	g.model = newModel(cfg)
	g.copies = newCopies(t, g.space)

	g.observer.now = math.MinInt64
	return g
}

func (g *rig) connect() Session {
	g.lastSession++
	g.live = append(g.live, g.lastSession)
	return g.lastSession
}

// begin starts a call. The observer's time is the one that a Space goes by:
// it never goes back.
func (g *rig) begin() { g.observer.now = max(g.observer.now, g.now) }

// key returns the key in a buffer that after overwrites: a Space must copy
// what it keeps.
func (g *rig) key(key string) []byte {
	g.keyBuf = append(g.keyBuf[:0], key...)
	return g.keyBuf
}

// after compares what the last call caused.
func (g *rig) after() {
	g.t.Helper()
	g.ops++
	g.copies.follow()
	for i := range g.keyBuf {
		g.keyBuf[i] = '!'
	}
	got, want := g.space.Effects(), g.model.effects()
	same := len(got) == len(want)
	for i := 0; same && i < len(got); i++ {
		a, b := &got[i], &want[i]
		same = a.Session == b.Session && a.Tag == b.Tag && a.Kind == b.Kind && a.Code == b.Code &&
			bytes.Equal(a.Key, b.Key) && a.Token == b.Token && a.Lease == b.Lease && a.Repeat == b.Repeat
	}
	if !same {
		g.t.Fatalf("effects (-model +space):\n%s", cmp.Diff(show(want), show(got)))
	}
	g.observer.effects(got)
	for i, e := range got {
		if g.seen != nil {
			g.seen(&e)
		}
		if e.Kind != Granted {
			continue
		}
		key := string(e.Key)
		if e.Token > g.last[key] {
			g.older[key], g.last[key] = g.last[key], e.Token
		}
		if !e.Repeat {
			g.fresh[e.Session] = append(g.fresh[e.Session], granted{
				session: e.Session, key: key, token: e.Token,
				spacePlace: e.Place, modelPlace: want[i].Place,
			})
		}
	}
	if got, want := g.space.Held(), g.model.held(); got != want {
		g.t.Fatalf("%d keys held, want %d", got, want)
	}
	if got, want := g.space.Waiting(), g.model.waiting(); got != want {
		g.t.Fatalf("%d waiters, want %d", got, want)
	}
	g.checkNext()
	g.checkStats()
}

// ending is after, for a call that may have ended a grant.
func (g *rig) ending(key string, token uint64, nonce Nonce) {
	g.t.Helper()
	g.observer.over(key, token, nonce)
	g.after()
	g.observer.over("", 0, Nonce{})
}

// checkStats checks that the grants that were made, and have not ended, are
// those that are held, and that all answers were counted.
func (g *rig) checkStats() {
	g.t.Helper()
	st := g.space.Stats()
	made, over := st.Granted[Immediate]+st.Granted[HandedOver]+st.Granted[Adopted], uint64(0)
	for _, n := range st.Ended {
		over += n
	}
	if made-over != uint64(g.space.Held()) {
		g.t.Fatalf("%d grants were counted and %d ends, but %d keys are held", made, over, g.space.Held())
	}
	if n := st.Wait.Count(); n != made {
		g.t.Fatalf("%d grants were made, and %d waits counted", made, n)
	}
	if n := st.Hold.Count(); n != over-st.Ended[Undone] {
		g.t.Fatalf("%d grants ended that were not undone, and %d holds were counted", over-st.Ended[Undone], n)
	}
}

// checkNext compares Next. A Space may also want to be woken to forget spent
// nonces, which the model does whenever it is asked anything.
func (g *rig) checkNext() {
	g.t.Helper()
	got, want := g.space.Next(), g.model.next()
	if got == want {
		return
	}
	if len(g.model.spent) > 0 {
		first := g.model.spent[0].until
		if got < want && got >= first && got <= first+Time(g.model.cfg.SpentFor/4) {
			return
		}
	}
	g.t.Fatalf("Next is %v, want %v", time.Duration(got), time.Duration(want))
}

func (g *rig) acquire(a Acquire, key string) {
	g.t.Helper()
	g.begin()
	g.lastTag++
	a.Tag = g.lastTag
	a.Key = g.key(key)
	g.observer.acquire(&a)
	g.model.acquire(g.now, a)
	g.space.Acquire(g.now, a)
	g.after()
}

func (g *rig) refuse(session Session, key string, code protocol.Code) {
	g.t.Helper()
	g.begin()
	g.lastTag++
	g.observer.refuse(session, g.lastTag, key)
	k := g.key(key)
	g.model.refuse(g.now, session, g.lastTag, k, code)
	g.space.Refuse(g.now, session, g.lastTag, k, code)
	g.after()
}

func (g *rig) release(key string, token uint64) bool {
	g.t.Helper()
	g.begin()
	k := g.key(key)
	want := g.model.release(g.now, k, token)
	got := g.space.Release(g.now, k, token)
	if got != want {
		g.t.Fatalf("Release(%q, %d) = %v, want %v", key, token, got, want)
	}
	g.observer.release(key, token, got)
	if !got {
		token = 0
	}
	g.ending(key, token, Nonce{})
	return got
}

// breakKey breaks the lock, and returns the token of its holder.
func (g *rig) breakKey(key string, token uint64) (holder, next uint64) {
	g.t.Helper()
	g.begin()
	k := g.key(key)
	wantHolder, wantNext := g.model.breakKey(g.now, k, token)
	holder, next = g.space.Break(g.now, k, token)
	if holder != wantHolder || next != wantNext {
		g.t.Fatalf("Break(%q, %d) = %d, %d, want %d, %d", key, token, holder, next, wantHolder, wantNext)
	}
	broken := holder == token && token != 0
	g.observer.release(key, token, broken) // who may do it is another matter
	if !broken {
		token = 0
	}
	g.ending(key, token, Nonce{})
	return holder, next
}

func (g *rig) keep(session Session, key string, token uint64, lease time.Duration) (time.Duration, bool) {
	g.t.Helper()
	g.begin()
	k := g.key(key)
	want, wantOK := g.model.keep(g.now, session, k, token, lease)
	got, ok := g.space.Keep(g.now, session, k, token, lease)
	if got != want || ok != wantOK {
		g.t.Fatalf("Keep(%q, %d, %v) = %v, %v, want %v, %v", key, token, lease, got, ok, want, wantOK)
	}
	g.after()
	g.observer.keep(key, token, got, ok)
	return got, ok
}

func (g *rig) cancel(key string, nonce Nonce) {
	g.t.Helper()
	g.begin()
	k := g.key(key)
	g.observer.cancel(key, nonce)
	g.model.cancel(g.now, k, nonce)
	g.space.Cancel(g.now, k, nonce)
	g.ending(key, 0, nonce)
}

// drop ends a session. Of the grants it was answered last, `unread` did not
// reach it; they wait for undo.
func (g *rig) drop(session Session, unread int) {
	g.t.Helper()
	g.begin()
	for i, s := range g.live {
		if s == session {
			g.live = append(g.live[:i], g.live[i+1:]...)
			break
		}
	}
	fresh := g.fresh[session]
	delete(g.fresh, session)
	g.lost = append(g.lost, fresh[len(fresh)-min(unread, len(fresh)):]...)
	g.observer.drop(session)
	g.model.drop(g.now, session)
	g.space.Drop(g.now, session)
	g.after()
}

// undoLost takes back one of the lost grants.
func (g *rig) undoLost(i int) {
	g.t.Helper()
	u := g.lost[i]
	g.lost = append(g.lost[:i], g.lost[i+1:]...)
	g.undo(u)
}

func (g *rig) undo(u granted) {
	g.t.Helper()
	g.begin()
	k := g.key(u.key)
	g.model.undo(g.now, u.session, k, u.token, u.modelPlace)
	g.space.Undo(g.now, u.session, k, u.token, u.spacePlace)
	g.ending(u.key, u.token, Nonce{})
}

func (g *rig) advance(most int) (more bool) {
	g.t.Helper()
	g.begin()
	want := g.model.advance(g.now, most)
	got := g.space.Advance(g.now, most)
	if got != want {
		g.t.Fatalf("Advance(%v, %d) = %v, want %v", time.Duration(g.now), most, got, want)
	}
	g.after()
	return got
}

func (g *rig) endWaiters(code protocol.Code) {
	g.t.Helper()
	g.begin()
	g.model.endWaiters(g.now, code)
	g.space.EndSessions(g.now, Refused, code)
	g.after()
}

// drain lets everything end and checks that a Space keeps nothing of what
// has ended.
func (g *rig) drain(dropFirst bool) {
	g.t.Helper()
	for dropFirst && len(g.live) > 0 {
		g.drop(g.live[0], 0)
	}
	for g.space.Next() != Never {
		g.now = max(g.now, g.space.Next())
		for g.advance(3) {
		}
	}
	g.observer.drained(g.live)
	nothingLeft(g.t, g.space)
}

func nothingLeft(t tb, s *Space) {
	t.Helper()
	for what, n := range map[string]int{
		"keys": s.keys.len(), "leases": s.leases.len(), "waits": s.waits.len(), "turns": s.turns.len(),
		"sessions": len(s.sessions), "names": s.names.len(), "spent nonces": s.spent.n,
	} {
		if n != 0 {
			t.Fatalf("%d %s are left", n, what)
		}
	}
}

// show writes effects for people.
func show(effects []Effect) []string {
	lines := []string{}
	for _, e := range effects {
		lines = append(lines, showEffect(&e, fmt.Sprintf("session %d", e.Session), fmt.Sprintf("#%d", e.Tag)))
	}
	return lines
}

func showEffect(e *Effect, session, tag string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: ", session, tag)
	switch e.Kind {
	case Granted:
		fmt.Fprintf(&b, "%s granted, token %d, lease %v", e.Key, e.Token, e.Lease)
		if e.Repeat {
			b.WriteString(", again")
		}
	case TimedOut:
		fmt.Fprintf(&b, "%s timed out", e.Key)
	case Refused:
		fmt.Fprintf(&b, "%s refused: %v", e.Key, e.Code)
	case Moved:
		fmt.Fprintf(&b, "%s moved", e.Key)
	default:
		fmt.Fprintf(&b, "%s kind %d", e.Key, e.Kind)
	}
	return b.String()
}
