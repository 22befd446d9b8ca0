package lockspace

import (
	"bytes"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/stile-lock/stile/protocol"
)

// pair is two nodes of which one serves and the other follows, with sessions
// on both.
type pair struct {
	t      tb
	nodes  [2]*Space
	active int
	now    Time
	ops    int
	tag    uint64
	token  uint64
	next   Session

	adopting bool // another node's grant passes over everybody

	live    [2][]Session
	pending map[turnName][]uint64 // tags not answered yet, oldest first
	last    map[string]uint64     // the newest token of a key
	grants  [2][]granted          // that the session may not have read
}

type turnName struct {
	node    int
	session Session
	key     string
}

func newPair(t tb) *pair {
	p := &pair{t: t, pending: map[turnName][]uint64{}, last: map[string]uint64{}}
	for i := range p.nodes {
		p.nodes[i] = New(Config{
			DefaultLease: 400 * ms, MaxLease: time.Second, ReattachGrace: 100 * ms,
			SpentFor: 2 * time.Second, MaxSpent: 65536, MaxWaitersPerKey: 4, Record: true,
			Seed:      uint64(i),
			NextToken: func() (uint64, bool) { p.token++; return p.token, true },
		})
	}
	p.nodes[1].Follow(0)
	return p
}

func (p *pair) session(t *rapid.T) (int, Session) {
	node, i := rapid.IntRange(0, 1).Draw(t, "node"), genSession.Draw(t, "session")
	for len(p.live[node]) <= i {
		p.next++
		p.live[node] = append(p.live[node], p.next)
	}
	return node, p.live[node][i]
}

// after takes what the last call on a node caused, and lets the other node
// follow. ends says whether the call may end a lease before its time.
func (p *pair) after(node int, ends bool) {
	p.t.Helper()
	p.ops++
	s := p.nodes[node]
	for _, e := range s.Effects() {
		of := turnName{node, e.Session, string(e.Key)}
		if len(p.pending[of]) == 0 || p.pending[of][0] != e.Tag {
			p.t.Fatalf("%v, but %v wait for an answer", show([]Effect{e}), p.pending[of])
		}
		p.pending[of] = p.pending[of][1:]
		if e.Kind != Granted {
			continue
		}
		p.last[string(e.Key)] = e.Token
		if e.Repeat {
			continue
		}
		p.grants[node] = append(p.grants[node], granted{session: e.Session, key: string(e.Key), token: e.Token, spacePlace: e.Place})
	}
	if s.standby && len(s.changes) > 0 {
		p.t.Fatalf("a standby changed its table")
	}
	changes := s.Changes()
	for i := range changes {
		c := &changes[i]
		if c.Kind == GrantEnded && !ends && p.now < s.reservedUntil {
			p.t.Fatalf("a lease ended %v after the promotion", time.Duration(p.now-s.reservedUntil)+ReserveFor)
		}
		if c.Kind == GrantMade && !p.adopting && p.now < s.reservedUntil {
			p.mayHave(s, c)
		}
		p.nodes[1-node].Apply(p.now, c)
	}
	want, got := p.nodes[p.active].Digest(nil), p.nodes[1-p.active].Digest(nil)
	if !bytes.Equal(want, got) {
		p.t.Fatalf("tables (-serving +standby):\n%s", cmp.Diff(string(want), string(got)))
	}
	if len(p.nodes[1-p.active].effects) > 0 && node == p.active {
		p.t.Fatalf("a standby answered because of a change")
	}
}

// mayHave checks a grant that was made while keys are reserved: the grantee
// must have had no replica before it. The table of the other node shows who
// was in line just before.
func (p *pair) mayHave(s *Space, c *Change) {
	p.t.Helper()
	before := p.nodes[0]
	if s == before {
		before = p.nodes[1]
	}
	e := s.find(c.Key)
	of := uint64(math.MaxUint64)
	if !c.Nonce.none() {
		if n := before.nameOf(fingerprintOf(c.Key, &c.Nonce)); n != nil && n.r != nil {
			of = n.r.place.arrival
		}
	}
	if e == nil || e.line == nil {
		return // it has ended again in the same step, as by a cancel
	}
	for _, it := range e.line.replicas.items {
		if it.at < int64(min(of, math.MaxInt64)) {
			p.t.Fatalf("token %d of %q went past %s", c.Token, c.Key, it.v.name.bytes())
		}
	}
}

func TestRoles(t *testing.T) {
	runs, ops := 0, 0
	genTime := rapid.SampledFrom([]time.Duration{0, 0, 0, ms, 20 * ms, 90 * ms, 240 * ms})
	genKey := rapid.SampledFrom(allKeys[:2])
	genNonce := rapid.SampledFrom(append([]string{"", "n3", "n4", "n5"}, allNonces...))
	genWait := rapid.SampledFrom([]time.Duration{protocol.NoQueue, 0, 0, 50 * ms, 500 * ms, 5 * time.Second})
	genLease := rapid.SampledFrom([]time.Duration{0, 10 * ms, 100 * ms, 300 * ms})
	rapid.Check(t, func(t *rapid.T) {
		p := newPair(t)
		pass := func(t *rapid.T) { p.now += Time(genTime.Draw(t, "time")) }
		ask := func(t *rapid.T) {
			pass(t)
			node, session := p.session(t)
			p.tag++
			a := Acquire{
				Session: session, Tag: p.tag, Key: []byte(genKey.Draw(t, "key")), MayQueue: true,
				Wait: genWait.Draw(t, "wait"), Lease: genLease.Draw(t, "lease"),
				Nonce: MakeNonce([]byte(genNonce.Draw(t, "nonce"))),
			}
			of := turnName{node, session, string(a.Key)}
			p.pending[of] = append(p.pending[of], p.tag)
			if node != p.active || genTenth.Draw(t, "hold") == 0 {
				p.nodes[node].Hold(p.now, a, p.now+Time(200*ms))
			} else {
				p.nodes[node].Acquire(p.now, a)
			}
			p.after(node, false)
		}
		advance := func(t *rapid.T) {
			pass(t)
			for node, s := range p.nodes {
				more := s.Advance(p.now, genMost.Draw(t, "most"))
				p.after(node, false)
				if more || p.now < s.reservedUntil || s.standby {
					continue
				}
				s.keys.all(func(e *entry) {
					if e.token == 0 && e.line != nil && e.line.attached.len() > 0 {
						t.Fatalf("%q is free though somebody waits", e.key)
					}
				})
			}
		}
		serve := func(t *rapid.T) {
			p.nodes[p.active].Serve(p.now)
			p.after(p.active, false)
		}
		release := func(t *rapid.T) {
			pass(t)
			key := genKey.Draw(t, "key")
			p.nodes[p.active].Release(p.now, []byte(key), p.last[key])
			p.after(p.active, true)
		}
		t.Repeat(map[string]func(*rapid.T){
			"ask": ask, "ask2": ask, "ask3": ask,
			"advance": advance, "advance2": advance,
			"serve": serve, "serve2": serve,
			"release": release, "release2": release,
			"keep": func(t *rapid.T) {
				pass(t)
				key := genKey.Draw(t, "key")
				p.nodes[p.active].Keep(p.now, 1, []byte(key), p.last[key], genLease.Draw(t, "lease"))
				p.after(p.active, false)
			},
			"cancel": func(t *rapid.T) {
				pass(t)
				key, nonce := genKey.Draw(t, "key"), MakeNonce([]byte(genNonce.Draw(t, "nonce")))
				if !nonce.none() {
					p.nodes[p.active].Cancel(p.now, []byte(key), nonce)
					p.after(p.active, true)
				}
			},
			"refuse": func(t *rapid.T) {
				node, session := p.session(t)
				p.tag++
				key := genKey.Draw(t, "key")
				of := turnName{node, session, key}
				p.pending[of] = append(p.pending[of], p.tag)
				p.nodes[node].Refuse(p.now, session, p.tag, []byte(key), protocol.CodeBadRequest)
				p.after(node, false)
			},
			"drop": func(t *rapid.T) {
				pass(t)
				node, session := p.session(t)
				for i, of := range p.live[node] {
					if of == session {
						p.live[node] = append(p.live[node][:i], p.live[node][i+1:]...)
						break
					}
				}
				for of := range p.pending {
					if of.session == session {
						delete(p.pending, of)
					}
				}
				p.nodes[node].Drop(p.now, session)
				p.after(node, true)
			},
			"undo": func(t *rapid.T) {
				pass(t)
				node := rapid.IntRange(0, 1).Draw(t, "node")
				if n := len(p.grants[node]); n > 0 {
					u := p.grants[node][n-1]
					p.grants[node] = p.grants[node][:n-1]
					p.nodes[node].Undo(p.now, u.session, []byte(u.key), u.token, u.spacePlace)
					p.after(node, true)
				}
			},
			"role": func(t *rapid.T) {
				pass(t)
				if genTenth.Draw(t, "now") > 2 {
					return
				}
				old := p.active
				held, wait := p.nodes[old].Held(), p.nodes[old].HeldBack()+p.nodes[old].Waiting()
				p.nodes[old].Follow(p.now)
				if p.nodes[old].Held() != held || p.nodes[old].HeldBack()+p.nodes[old].Waiting() < wait {
					t.Fatalf("something was lost on becoming a standby")
				}
				p.after(old, false)
				p.active = 1 - old
				p.nodes[p.active].Promote(p.now, genTime.Draw(t, "gap"))
				p.after(p.active, false)
			},
			"sync": func(t *rapid.T) {
				// The standby gets the whole table anew, while sessions wait.
				s := p.nodes[1-p.active]
				staged := New(s.cfg)
				staged.Follow(p.now)
				held := s.HeldBack()
				snapshot := p.nodes[p.active].Snapshot(false)
				for more := true; more; {
					var rows []Change
					rows, more = snapshot.Next(p.now, 3, nil)
					for i := range rows {
						staged.Apply(p.now, &rows[i])
					}
				}
				s.Install(staged, p.now)
				if s.HeldBack() != held {
					t.Fatalf("%d are held, want %d", s.HeldBack(), held)
				}
				p.after(1-p.active, false)
				p.after(p.active, false)
			},
			"adopt": func(t *rapid.T) {
				pass(t)
				c := Change{
					Kind:  rapid.SampledFrom([]ChangeKind{GrantMade, GrantEnded, WaiterQueued}).Draw(t, "kind"),
					Key:   []byte(genKey.Draw(t, "key")),
					Nonce: MakeNonce([]byte(genNonce.Draw(t, "nonce"))),
					Lease: genLease.Draw(t, "lease"),
					Wait:  rapid.SampledFrom([]time.Duration{0, 50 * ms, Forever}).Draw(t, "wait"),
				}
				c.Token = rapid.SampledFrom([]uint64{1, p.token, p.token + 5}).Draw(t, "token")
				p.token = max(p.token, c.Token)
				p.nodes[p.active].Adopt(p.now, &c, genTenth.Draw(t, "known") < 3)
				p.adopting = true
				p.after(p.active, true)
				p.adopting = false
			},
			"moved": func(t *rapid.T) {
				p.nodes[1-p.active].EndSessions(p.now, Moved, 0)
				p.after(1-p.active, false)
				for of, tags := range p.pending {
					if of.node != p.active && len(tags) > 0 {
						t.Fatalf("%v were not answered", tags)
					}
				}
			},
			"stop": func(t *rapid.T) {
				if genTenth.Draw(t, "now") == 0 {
					p.nodes[p.active].EndSessions(p.now, Refused, protocol.CodeStopping)
					p.after(p.active, false)
				}
			},
		})
		for i, node := range []int{p.active, 1 - p.active} {
			p.nodes[node].EndSessions(p.now, []Kind{Refused, Moved}[i], protocol.CodeStopping)
			p.after(node, false)
		}
		for of, tags := range p.pending {
			if len(tags) > 0 {
				t.Fatalf("%v of node %d were never answered", tags, of.node)
			}
		}
		for _, node := range []int{p.active, 1 - p.active} {
			for s := p.nodes[node]; s.Next() != Never; {
				p.now = max(p.now, s.Next())
				for more := true; more; {
					more = s.Advance(p.now, 2)
					p.after(node, true)
				}
			}
		}
		for _, s := range p.nodes {
			nothingLeft(t, s)
			if n := s.holds.len() + s.heldOrder.len(); n != 0 {
				t.Fatalf("%d are still held", n)
			}
		}
		runs, ops = runs+1, ops+p.ops
	})
	t.Logf("%d operations in %d runs", ops, runs)
}

// TestCopyCatchesUp: a standby may have forgotten a spent nonce later than
// the node that serves, which has let a client use it again.
func TestCopyCatchesUp(t *testing.T) {
	cfg := roomy()
	s := New(cfg)
	s.Follow(0)
	key := []byte("k")
	for i := range 10 {
		n := nonceOf(i)
		s.Apply(Time(i), &Change{Kind: NonceSpent, Key: key, Nonce: n})
	}
	n := nonceOf(3)
	for token, c := range []Change{
		{Kind: GrantMade, Nonce: n, Lease: time.Minute},
		{Kind: GrantEnded},
		{Kind: WaiterQueued, Nonce: n, Wait: Forever},
		{Kind: NonceSpent, Nonce: n},
		{Kind: WaiterQueued, Nonce: n, Wait: time.Second},
		{Kind: WaiterLeft, Nonce: n},
		{Kind: NonceSpent, Nonce: n},
	} {
		c.Key = key
		if token < 2 {
			c.Token = 1
		}
		s.Apply(100, &c)
		s.check()
	}
	if s.spent.n != 10 {
		t.Errorf("%d nonces are spent, want 10", s.spent.n)
	}
	// The oldest are forgotten first, the one used again last.
	s.Advance(Time(cfg.SpentFor)+50, math.MaxInt)
	if last := s.isSpent(fingerprintOf(key, &n)); !last || s.spent.n != 1 {
		t.Errorf("%d nonces are spent, the last one: %v", s.spent.n, last)
	}
}

func TestKeyHash(t *testing.T) {
	nonce := MakeNonce([]byte("n"))
	seen := map[uint64]int{}
	for i := range 64_000 {
		key := keyOf(i)
		want := HashKey(key)
		seen[want>>58]++
		seen[100+want%64]++
		for _, c := range []Change{
			{Kind: GrantMade, Key: key},
			{Kind: SpentKnown, Pair: pairOf(fingerprintOf(key, &nonce))},
		} {
			if got := c.KeyHash(); got != want {
				t.Fatalf("the hash of %s is %x, want %x", key, got, want)
			}
		}
	}
	for part, n := range seen {
		if n < 800 || n > 1200 {
			t.Errorf("%d of 64,000 keys fall into part %d of 64", n, part)
		}
	}
	fp := fingerprintOf([]byte("k"), &nonce)
	if got := fingerprintFrom(pairOf(fp)); got != fp {
		t.Errorf("a fingerprint comes back as %v, want %v", got, fp)
	}
}
