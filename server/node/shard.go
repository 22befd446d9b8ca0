package node

import (
	"runtime"
	"sync"
	"time"

	"github.com/stile-lock/stile/server/cluster"
	"github.com/stile-lock/stile/server/gate"
	"github.com/stile-lock/stile/server/lockspace"
	"github.com/stile-lock/stile/server/replica"
)

// advanceAtOnce is how many leases and waits end under one hold of a shard's
// lock, so that a million that end together don't keep others waiting.
const advanceAtOnce = 256

// shard is a part of the lock table with its lock and its timer.
type shard struct {
	n  *Node
	mu sync.Mutex // guards all below
	_  [48]byte   // the next shard's lock is on another cache line

	gate    *gate.Gate
	space   *lockspace.Space // of the gate
	waiting int              // as last added to n.waiting
	held    int              // as last added to n.held
	undo    []undoGrant

	log    *replica.Log // that changes go to; nil: nobody is told
	pos    uint64       // of the log, as far as this shard has appended
	active []byte       // the address to redirect to

	t *touched // of the call under way

	timer *time.Timer
	armed lockspace.Time // what the timer will fire for; Never: it is not set

	counts counts
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
	sh.gate = gate.New(sh.space, gate.Config{HoldFor: n.holdFor(), Out: (*gateOut)(sh)})
	sh.timer = time.AfterFunc(time.Hour, sh.advance)
	sh.timer.Stop()
	return sh
}

// shardOf picks the shard of the keys with a hash. The seed keeps clients from
// choosing keys that meet in one shard.
func (n *Node) shardOf(keyHash uint64) int {
	return int((keyHash ^ n.seed) * 0x9E3779B97F4A7C15 >> 32 % shardCount)
}

func (n *Node) shardOfKey(key []byte) *shard { return n.shards[n.shardOf(lockspace.HashKey(key))] }

// lock begins a call, finish or unlock ends it.
func (sh *shard) lock(t *touched) {
	sh.mu.Lock()
	sh.t = t
}

// finish settles, keeps the books, sets the timer and unlocks.
func (sh *shard) finish() {
	sh.settle()
	if w := sh.space.Waiting(); w != sh.waiting {
		sh.n.waiting.Add(int64(w - sh.waiting))
		sh.waiting = w
	}
	if h := sh.gate.Held(); h != sh.held {
		sh.n.held.Add(int64(h - sh.held))
		sh.held = h
	}
	if next := sh.gate.Next(); next < sh.armed {
		sh.armed = next
		sh.timer.Reset(time.Duration(next - sh.n.now()))
	}
	sh.t = nil
	sh.mu.Unlock()
}

// settle appends the changes of the last call of the space to the log,
// delivers its effects, and takes back the grants that nobody was there for.
func (sh *shard) settle() {
	sh.deliver()
	for last := len(sh.undo) - 1; last >= 0; last = len(sh.undo) - 1 {
		// The key is valid still: the grant keeps its entry in use.
		u := sh.undo[last]
		sh.undo = sh.undo[:last]
		sh.space.Undo(sh.n.now(), u.session, u.key, u.token, u.place)
		sh.deliver()
	}
}

func (sh *shard) deliver() {
	if sh.n.cfg.Cluster != nil {
		if changes := sh.space.Changes(); len(changes) > 0 && sh.log != nil {
			sh.pos = sh.log.AppendChanges(changes)
			sh.t.grown = sh.n
		}
	}
	effects, at := sh.space.Effects(), sh.space.Now()
	for i := range effects {
		e := &effects[i]
		sh.counts.effect(e)
		c := sh.n.connOf(e.Session)
		if c != nil && c.answerAcquire(sh, e, at) {
			continue
		}
		if e.Kind == lockspace.Granted && !e.Repeat {
			sh.undo = append(sh.undo, undoGrant{e.Session, e.Key, e.Token, e.Place})
		}
	}
}

// gateOut is the shard as its gate sees it.
type gateOut shard

func (o *gateOut) Settle() { (*shard)(o).settle() }

func (o *gateOut) Answer(a *gate.Answer) {
	sh := (*shard)(o)
	if c := sh.n.connOf(a.Session); c != nil {
		c.unanswered.Add(-1)
		c.answer(sh, &a.Request, a.Verdict, a.Code, a.Lease)
	}
}

// advance is the timer: it ends the leases and waits that are due, in turn with
// the other shards where many are.
func (sh *shard) advance() {
	var t touched
	for more := true; more; {
		sh.n.advancing <- struct{}{}
		sh.n.awaitPass() // now, as the process may have been paused while it waited for its turn
		sh.lock(&t)
		sh.armed = lockspace.Never
		more = sh.gate.Advance(sh.n.now(), advanceAtOnce)
		sh.finish()
		t.flush()
		<-sh.n.advancing
		if more {
			runtime.Gosched() // let those in who wait for the lock
		}
	}
}

// setMode changes how clients are answered. active is the address that
// Redirect names.
func (sh *shard) setMode(mode cluster.Mode, active []byte, t *touched) {
	sh.lock(t)
	sh.active = active
	sh.gate.SetMode(sh.n.now(), mode)
	sh.finish()
}

// end answers everybody who waits, and everybody who comes later, that the
// node ends.
func (sh *shard) end(t *touched) {
	sh.lock(t)
	if sh.gate.Mode() != cluster.Redirect {
		sh.gate.SetMode(sh.n.now(), cluster.Ending)
	}
	sh.finish()
}

// drop forgets a session.
func (sh *shard) drop(s lockspace.Session, t *touched) {
	sh.lock(t)
	sh.gate.Drop(sh.n.now(), s)
	sh.finish()
}

// undoUndelivered takes back a grant whose line did not reach the kernel.
func (sh *shard) undoUndelivered(s lockspace.Session, g *pendingGrant, key []byte, t *touched) {
	sh.lock(t)
	sh.gate.Undo(sh.n.now(), s, key, g.token, g.place)
	sh.finish()
}
