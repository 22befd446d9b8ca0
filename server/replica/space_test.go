package replica

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stile-lock/stile/server/lockspace"
)

const ms = time.Millisecond

// node is a lock table in shards, as a node has it. Each has a seed of its
// own for them, so a key is in other shards elsewhere.
type node struct {
	shards []*lockspace.Space
	seed   int
	cfg    lockspace.Config
	now    *lockspace.Time
}

func newNode(shards, seed int, now *lockspace.Time, next func() (uint64, bool)) *node {
	n := &node{seed: seed, now: now, cfg: lockspace.Config{
		DefaultLease: 4 * ms, MaxLease: 15 * ms, ReattachGrace: 5 * ms,
		SpentFor: 20 * ms, MaxSpent: 65536, MaxWaitersPerKey: 5,
		Seed: uint64(seed), NextToken: next, Record: true,
	}}
	for range shards {
		n.shards = append(n.shards, lockspace.New(n.cfg))
	}
	return n
}

func (n *node) shardOf(key []byte) *lockspace.Space { return n.shard(lockspace.HashKey(key)) }

func (n *node) shard(hash uint64) *lockspace.Space {
	return n.shards[(hash+uint64(n.seed))%uint64(len(n.shards))]
}

// follow makes all shards standbys.
func (n *node) follow() *node {
	for _, sp := range n.shards {
		sp.Follow(*n.now)
	}
	return n
}

func (n *node) apply(c *lockspace.Change) {
	if c.Kind != lockspace.TokenSeen {
		n.shard(c.KeyHash()).Apply(*n.now, c)
		return
	}
	for _, sp := range n.shards {
		sp.Apply(*n.now, c)
	}
}

func (n *node) digest() string {
	var all []byte
	for _, sp := range n.shards {
		all = sp.Digest(all)
	}
	lines := strings.SplitAfter(string(all), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// rest is what a digest does not tell.
type rest struct {
	highest uint64
	spent   map[[16]byte]bool // not those that may be forgotten
}

func (n *node) rest(t *rapid.T) rest {
	out := rest{spent: map[[16]byte]bool{}}
	src := NewSource(len(n.shards), func(shard int, f func(*lockspace.Space)) { f(n.shards[shard]) }, nil,
		func() lockspace.Time { return *n.now }, true)
	for more := true; more; {
		var b []byte
		for b, _, more = src.Rows(MaxFrame, nil); len(b) > 0; {
			var rec Record
			var err error
			if b, err = DecodeRecord(b, &rec); err != nil {
				t.Fatal(err)
			}
			switch c := &rec.Change; c.Kind {
			case lockspace.TokenSeen:
				out.highest = max(out.highest, c.Token)
			case lockspace.SpentKnown:
				if c.Age < n.cfg.SpentFor-ms {
					out.spent[c.Pair] = true
				}
			}
		}
	}
	return out
}

// copySink keeps a node's table as a copy.
type copySink struct {
	*node
	staged *node
}

func (c *copySink) Apply(r *Record) {
	if r.Kind == TableChange {
		c.apply(&r.Change)
	}
}

func (c *copySink) Stage() {
	c.staged = newNode(len(c.shards), c.seed, c.now, nil).follow()
}

func (c *copySink) StageApply(r *Record) {
	if r.Kind == TableChange {
		c.staged.apply(&r.Change)
	}
}

func (c *copySink) Install() {
	for i, sp := range c.shards {
		sp.Install(c.staged.shards[i], *c.now)
	}
	c.staged = nil
}

// server makes random calls on a node and records what they change.
type server struct {
	*node
	t       *rapid.T
	log     *Log
	granted []grant
	tags    uint64
	bytes   int // of records
}

type grant struct {
	session lockspace.Session
	key     string
	token   uint64
	place   lockspace.Place
}

// after takes what a call has caused, as a node does under the shard's lock.
func (s *server) after(sp *lockspace.Space) {
	for _, e := range sp.Effects() {
		if e.Kind == lockspace.Granted {
			s.granted = append(s.granted, grant{e.Session, string(e.Key), e.Token, e.Place})
		}
	}
	s.log.AppendChanges(sp.Changes())
}

func (s *server) step() {
	t := s.t
	key := []byte(rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}).Draw(t, "key"))
	// Nobody uses a nonce again after it may have been forgotten.
	drawNonce := func() lockspace.Nonce {
		name := rapid.SampledFrom([]string{"n1", "n2", "n3", "n4"}).Draw(t, "nonce")
		return nonce(fmt.Sprintf("%s-%d", name, *s.now/lockspace.Time(s.cfg.SpentFor)))
	}
	sp, now := s.shardOf(key), *s.now
	session := lockspace.Session(rapid.IntRange(1, 4).Draw(t, "session"))
	switch rapid.IntRange(0, 11).Draw(t, "call") {
	default:
		var n lockspace.Nonce
		if rapid.IntRange(0, 3).Draw(t, "with nonce") > 0 {
			n = drawNonce()
		}
		s.tags++
		sp.Acquire(now, lockspace.Acquire{
			Session: session, Tag: s.tags, Key: key, Nonce: n, MayQueue: true,
			Wait:  rapid.SampledFrom([]time.Duration{-1, 0, 0, 2 * ms, 20 * ms}).Draw(t, "wait"),
			Lease: rapid.SampledFrom([]time.Duration{0, ms, 10 * ms}).Draw(t, "lease"),
		})
	case 6, 7:
		if len(s.granted) == 0 {
			return
		}
		g := rapid.SampledFrom(s.granted).Draw(t, "grant")
		key = []byte(g.key)
		switch sp = s.shardOf(key); rapid.IntRange(0, 3).Draw(t, "what") {
		case 0, 1:
			sp.Release(now, key, g.token)
		case 2:
			sp.Keep(now, g.session, key, g.token, 8*ms)
		case 3:
			sp.Undo(now, g.session, key, g.token, g.place)
		}
	case 8:
		sp.Cancel(now, key, drawNonce())
	case 9:
		for _, sp := range s.shards {
			sp.Drop(now, session)
			s.after(sp)
		}
		return
	case 10, 11:
		*s.now += lockspace.Time(rapid.SampledFrom([]time.Duration{0, 1, ms, 3 * ms}).Draw(t, "time"))
		for _, sp := range s.shards {
			for more := true; more; {
				more = sp.Advance(*s.now, 2)
				s.after(sp)
			}
		}
		return
	}
	s.after(sp)
}

// TestSpaces: the copy of real tables, over snapshots and tails, is the table.
func TestSpaces(t *testing.T) {
	var modes [Snapshot + 1]int
	compared, nonEmpty, spent, overruns := 0, 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		var now lockspace.Time
		tokens := uint64(0)
		next := func() (uint64, bool) { tokens++; return tokens, true }
		blocks := rapid.SampledFrom([]int{2, 20, 1000}).Draw(t, "blocks")
		srv := &server{node: newNode(3, 1, &now, next), t: t, log: newLog(Place{Reign: Epoch{N: 1}}, Place{}, blocks, 2*MaxRecord)}
		sink := &copySink{node: newNode(2, 2, &now, nil).follow()}
		recv := NewReceiver(Place{})
		var sender *Sender
		streams := uint64(0)

		with := func(shard int, f func(*lockspace.Space)) {
			for range rapid.IntRange(0, 2).Draw(t, "before") {
				srv.step()
			}
			f(srv.shards[shard])
			for range rapid.IntRange(0, 2).Draw(t, "after") {
				srv.step()
			}
		}
		move := func() bool {
			if sender == nil {
				streams++
				sender = NewSender(srv.log, streams, recv.Place(), NewSource(len(srv.shards), with, srv.log, func() lockspace.Time { return now }, false))
				modes[sender.Mode()]++
				recv.Expect(streams)
			}
			frame, ok, err := sender.Next(rapid.SampledFrom([]int{0, MaxFrame}).Draw(t, "most"), nil)
			if err != nil {
				if !errors.Is(err, ErrOverrun) {
					t.Fatal(err)
				}
				overruns++
				sender = nil
				return true
			}
			if ok {
				if err := recv.Frame(frame, sink); err != nil {
					t.Fatal(err)
				}
			}
			return ok
		}
		compare := func() {
			for move() {
			}
			want, got := srv.digest(), sink.digest()
			if recv.Place() != srv.log.Place() || got != want {
				t.Fatalf("at %v, the copy is\n%s\nat %v, want\n%s", recv.Place(), got, srv.log.Place(), want)
			}
			if want, got := srv.rest(t), sink.rest(t); got.highest != want.highest {
				t.Fatalf("the copy's highest token is %d, want %d", got.highest, want.highest)
			} else {
				for pair := range want.spent {
					if spent++; !got.spent[pair] {
						t.Fatalf("a spent nonce is unknown to the copy")
					}
				}
			}
			if compared++; want != "" {
				nonEmpty++
			}
		}
		call := func(*rapid.T) { srv.step() }
		t.Repeat(map[string]func(*rapid.T){
			"call": call, "call2": call, "call3": call,
			"burst": func(*rapid.T) {
				for range rapid.IntRange(0, 60).Draw(t, "calls") {
					srv.step()
				}
			},
			"move":    func(*rapid.T) { move() },
			"move2":   func(*rapid.T) { move() },
			"cut":     func(*rapid.T) { sender = nil },
			"compare": func(*rapid.T) { compare() },
			"lose all": func(*rapid.T) {
				sender, recv = nil, NewReceiver(Place{})
			},
		})
		compare()
	})
	t.Logf("compared %d times, %d of them with something in it, %d spent nonces; %d tails, %d snapshots, %d overruns", compared, nonEmpty, spent, modes[Tail], modes[Snapshot], overruns)
	if !t.Failed() && !testing.Short() && (nonEmpty == 0 || spent == 0 || modes[Tail] == 0 || modes[Snapshot] == 0 || overruns == 0) {
		t.Error("too little has happened")
	}
}

// TestSource: portions stay within the limit, and within what is true at
// their position.
func TestSource(t *testing.T) {
	var now lockspace.Time
	tokens := uint64(0)
	n := newNode(3, 0, &now, func() (uint64, bool) { tokens++; return tokens, true })
	log := NewLog(Epoch{N: 1}, Place{}, 0)
	const keys = 2000
	for i := range keys {
		key := fmt.Appendf(nil, "%s%04d", strings.Repeat("k", i%240), i)
		sp := n.shardOf(key)
		sp.Acquire(0, lockspace.Acquire{Session: 1, Key: key, Nonce: nonce("n")})
		sp.Effects()
		log.AppendChanges(sp.Changes())
	}
	locked, holds := false, 0
	with := func(shard int, f func(*lockspace.Space)) {
		locked, holds = true, holds+1
		f(n.shards[shard])
		locked = false
		// Somebody else goes on at once.
		rec := numbered(1)
		log.Append(&rec)
	}
	clock := func() lockspace.Time {
		if !locked {
			t.Error("the time was asked for without the lock")
		}
		return now
	}
	for _, most := range []int{0, MaxRecord, 5000, MaxFrame} {
		for _, src := range []Source{NewSource(3, with, log, clock, false), NewSource(3, with, nil, clock, true)} {
			seen := map[string]bool{}
			highest, seenHighest := log.Pos(), uint64(0)
			holds = 0
			for more := true; more; {
				var b []byte
				var at uint64
				before := log.Pos()
				b, at, more = src.Rows(most, []byte("before"))
				b, ok := bytes.CutPrefix(b, []byte("before"))
				if !ok || len(b) > max(most, MaxRecord) {
					t.Fatalf("%d bytes, at most %d", len(b), most)
				}
				if at != 0 && (at < highest || at > before) {
					t.Fatalf("at %d, after %d, before %d", at, highest, before)
				}
				highest = max(highest, at)
				for len(b) > 0 {
					var rec Record
					var err error
					if b, err = DecodeRecord(b, &rec); err != nil {
						t.Fatal(err)
					}
					switch c := &rec.Change; c.Kind {
					case lockspace.GrantMade:
						seen[string(c.Key)] = true
					case lockspace.TokenSeen:
						seenHighest = max(seenHighest, c.Token)
					default:
						t.Fatalf("a row of kind %d", c.Kind)
					}
				}
			}
			if len(seen) != keys || seenHighest != tokens {
				t.Errorf("at most %d: %d keys, want %d; highest token %d, want %d", most, len(seen), keys, seenHighest, tokens)
			}
			if holds < keys/256 {
				t.Errorf("the locks were taken %d times: too much under one hold", holds)
			}
			if b, _, more := src.Rows(most, nil); len(b) > 0 || more {
				t.Errorf("after the end there is more: %x", b)
			}
		}
	}
}
