package node

import (
	"runtime"
	"sync"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/stile-lock/stile/protocol"
	"github.com/stile-lock/stile/server/lockspace"
)

// advanceAtOnce is how many leases and waits end under one hold of a shard's
// lock, so that a million that end together don't keep others waiting.
const advanceAtOnce = 256

// shard is a part of the lock table with its lock and its timer.
type shard struct {
	n  *Node
	mu sync.Mutex // guards all below
	_  [48]byte   // the next shard's lock is on another cache line

	space    *lockspace.Space
	waiting  int  // as last added to n.waiting
	stopping bool // acquires are refused
	undo     []undoGrant

	timer *time.Timer
	armed lockspace.Time // what the timer will fire for; Never: it is not set
}

// undoGrant is a grant to a session that is gone.
type undoGrant struct {
	session lockspace.Session
	key     []byte
	token   uint64
	place   lockspace.Place
}

func newShard(n *Node, cfg lockspace.Config) *shard {
	sh := &shard{n: n, space: lockspace.New(cfg), armed: lockspace.Never}
	sh.timer = time.AfterFunc(time.Hour, sh.advance)
	sh.timer.Stop()
	return sh
}

func (n *Node) shardOf(key []byte) *shard {
	return n.shards[xxh3.HashSeed(key, n.seed)%shardCount]
}

// finish ends a call of the space: it delivers the effects, takes back the
// grants that nobody was there for, keeps the books and sets the timer.
// Called with sh.mu held.
func (sh *shard) finish(t *touched) {
	sh.deliver(t)
	for last := len(sh.undo) - 1; last >= 0; last = len(sh.undo) - 1 {
		// The key is valid still: the grant keeps its entry in use.
		u := sh.undo[last]
		sh.undo = sh.undo[:last]
		sh.space.Undo(sh.n.now(), u.session, u.key, u.token, u.place)
		sh.deliver(t)
	}
	if w := sh.space.Waiting(); w != sh.waiting {
		sh.n.waiting.Add(int64(w - sh.waiting))
		sh.waiting = w
	}
	if next := sh.space.Next(); next < sh.armed {
		sh.armed = next
		sh.timer.Reset(time.Duration(next - sh.n.now()))
	}
}

func (sh *shard) deliver(t *touched) {
	effects, at := sh.space.Effects(), sh.space.Now()
	for i := range effects {
		e := &effects[i]
		c := sh.n.connOf(e.Session)
		if c != nil && c.answerAcquire(e, at, t) {
			continue
		}
		if e.Kind == lockspace.Granted && !e.Repeat {
			sh.undo = append(sh.undo, undoGrant{e.Session, e.Key, e.Token, e.Place})
		}
	}
}

// advance is the timer: it ends the leases and waits that are due.
func (sh *shard) advance() {
	var t touched
	for more := true; more; {
		sh.mu.Lock()
		sh.armed = lockspace.Never
		more = sh.space.Advance(sh.n.now(), advanceAtOnce)
		sh.finish(&t)
		sh.mu.Unlock()
		t.flush()
		if more {
			runtime.Gosched() // let those in who wait for the lock
		}
	}
}

// endWaiters answers everybody who waits with `stopping`, and everybody who
// comes later.
func (sh *shard) endWaiters(t *touched) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.stopping = true
	sh.space.EndWaiters(sh.n.now(), protocol.CodeStopping)
	sh.finish(t)
}

// drop forgets a session.
func (sh *shard) drop(s lockspace.Session, t *touched) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.space.Drop(sh.n.now(), s)
	sh.finish(t)
}

// undoUndelivered takes back a grant whose line did not reach the kernel.
func (sh *shard) undoUndelivered(s lockspace.Session, g *pendingGrant, key []byte, t *touched) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.space.Undo(sh.n.now(), s, key, g.token, g.place)
	sh.finish(t)
}
