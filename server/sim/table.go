package sim

import (
	"slices"
	"time"

	"github.com/stile-lock/stile/protocol"
	"github.com/stile-lock/stile/server/cluster"
	"github.com/stile-lock/stile/server/fencing"
	"github.com/stile-lock/stile/server/gate"
	"github.com/stile-lock/stile/server/lockspace"
	"github.com/stile-lock/stile/server/replica"
)

const (
	shardCount   = 2
	defaultLease = 5 * time.Second
	spentFor     = 10 * time.Second
	holdFor      = failureTimeout + time.Second
)

// table is the lock table of a process with its clients.
type table struct {
	shards    [shardCount]*shard
	mode      cluster.Mode
	redirect  string
	log       *replica.Log
	alloc     *fencing.Allocator
	committed uint64

	// Answers that wait for standbys, or for the table to stand still no
	// longer, in order.
	held []heldAnswer

	sessions    map[lockspace.Session]*session
	sessionList []*session // in order of their beginning
	lastSession lockspace.Session

	fresh     []uint64 // tokens made in the call of the table that is going on
	lastToken uint64
	reign     *reign   // the last one that it had
	within    bool     // the member works on the table
	forked    bool     // the table is not what its place says, until a stream has begun
	view      lineView // for the checks
}

type shard struct {
	p     *process
	id    int
	gate  *gate.Gate
	armed lockspace.Time
	undo  []undoGrant
}

type undoGrant struct {
	session lockspace.Session
	key     []byte
	token   uint64
	place   lockspace.Place
}

type heldAnswer struct {
	r     *request
	a     answer
	pos   uint64
	since Time
	shard *shard
	place lockspace.Place // of a grant that can be undone
	first bool            // it is one
}

func (p *process) initTable() {
	p.sessions = make(map[lockspace.Session]*session)
	p.committed = 1<<64 - 1
	for i := range p.shards {
		sh := &shard{p: p, id: i, armed: lockspace.Never}
		sh.gate = gate.New(p.NewSpace(i), gate.Config{HoldFor: holdFor, Out: sh})
		p.shards[i] = sh
	}
	p.view.init()
}

// Shards, ShardOf and so on make process a member.Table.
func (p *process) Shards() int { return shardCount }

func (p *process) ShardOf(hash uint64) int { return int(hash % shardCount) }

func (p *process) shardOf(key string) *shard {
	return p.shards[p.ShardOf(lockspace.HashKey([]byte(key)))]
}

func (p *process) With(i int, f func(*lockspace.Space)) {
	sh := p.shards[i]
	p.within = true
	f(sh.gate.Space)
	sh.Settle()
	p.within = false
	sh.arm()
}

func (p *process) NewSpace(i int) *lockspace.Space {
	return lockspace.New(lockspace.Config{
		DefaultLease: defaultLease, MaxLease: time.Minute,
		ReattachGrace: time.Second, SpentFor: spentFor, MaxSpent: 1 << 16,
		MaxWaitersPerKey: 1 << 16, Seed: p.boot + uint64(i),
		NextToken: p.nextToken, Record: true,
	})
}

func (p *process) nextToken() (uint64, bool) {
	if p.alloc == nil {
		p.s.fail("n%d grants before it has an epoch", p.n.id)
	}
	token, ok := p.alloc.Next()
	if ok {
		p.fresh = append(p.fresh, token)
		p.s.checkToken(p, token)
	} else {
		p.s.count("out of tokens")
	}
	return token, ok
}

func (p *process) SetLog(l *replica.Log) {
	p.log = l
	if l != nil {
		p.s.checkReign(p, l)
		p.forked = false // its table is the one of the new reign
	} else {
		clear(p.view.lines)
	}
}

// Abandon is for what could not be answered in time: who asked finds out at
// the next active.
func (p *process) Abandon() {
	if p.log == nil { // else it goes on, and refuses
		p.forked = true
		p.s.checkGivesWay(p)
		if p.reign != nil {
			p.reign.gaveWay = true
		}
	}
	held := p.held
	p.held = nil
	for i := range held {
		c := held[i].r.session
		if !c.nodeOpen {
			continue
		}
		p.s.count("sessions reset with answers held")
		c.closeAtNode(false)
		p.s.after(0, func() { p.deliver(func() { p.drop(c) }) })
	}
}

func (p *process) SetMode(mode cluster.Mode, active string) {
	p.s.logf("n%d: mode %v %s", p.n.id, mode, active)
	p.s.count("mode " + mode.String())
	p.mode, p.redirect = mode, active
	p.s.checkMode(p)
	p.release()
	if mode == cluster.Serve {
		p.view.serve(p)
	}
	if p.s.breaks(standbyGrants) && mode == cluster.Redirect {
		p.mode, mode = cluster.Serve, cluster.Serve
	}
	if p.s.breaks(heldForgotten) && mode == cluster.Serve {
		for _, sh := range p.shards {
			sh.gate = gate.New(sh.gate.Space, gate.Config{HoldFor: holdFor, Out: sh})
		}
	}
	for _, sh := range p.shards {
		sh.gate.SetMode(p.Now(), mode)
		sh.arm()
	}
	p.kick()
}

func (p *process) UseTokens(e replica.Epoch, start uint32, ahead bool) {
	p.s.logf("n%d: tokens of %v after %d, ahead %v", p.n.id, e, start, ahead)
	p.s.checkEpoch(p, e, start)
	if ahead {
		p.alloc.Reserve(e.N, e.Node, start)
	} else {
		p.alloc = fencing.NewAllocator(e.N, e.Node, start)
	}
}

func (p *process) Committed(pos uint64) {
	p.committed = pos
	p.release()
}

// release lets out the answers that have waited long enough.
func (p *process) release() {
	for len(p.held) > 0 && p.mode != cluster.Freeze && p.held[0].pos <= p.committed {
		h := p.held[0]
		p.held = p.held[1:]
		if h.a.kind == protocol.OpAcquire {
			h.a.lease = max(0, h.a.lease-(p.s.now-h.since)).Truncate(time.Millisecond)
		}
		p.s.checkReleased(p, &h)
		h.r.session.answer(h.r, h.a)
	}
}

// reply answers a request, or keeps the answer until it may go out.
func (p *process) reply(r *request, a answer, sh *shard, place lockspace.Place, first bool) {
	r.session.inOrder(r)
	a.reign = p.s.reignOf(p)
	h := heldAnswer{r: r, a: a, since: p.s.now, shard: sh, place: place, first: first}
	if p.log != nil {
		h.pos = p.log.Pos()
		if a.kind == protocol.OpError && a.code != protocol.CodeNotHeld && a.code != protocol.CodeSpent && a.code != protocol.CodeSuperseded {
			h.pos = 0 // it tells nothing of the table
		}
		if p.s.eager(&a) {
			p.s.checkReleased(p, &h)
			r.session.answer(r, a)
			return
		}
		if p.mode == cluster.Freeze || h.pos > p.committed || len(p.held) > 0 {
			p.held = append(p.held, h)
			return
		}
	}
	if a.kind == protocol.OpMoved && a.addr == "" {
		p.s.fail("n%d answers #%d with M and no address, in mode %v", p.n.id, r.id, p.mode)
	}
	p.s.checkReleased(p, &h)
	r.session.answer(r, a)
}

// kick tells the streams that there is more.
func (p *process) kick() {
	if p.log != nil && p.member != nil {
		p.member.KickAll()
	}
}

// Settle and Answer make shard a gate.Out.
func (sh *shard) Settle() {
	p := sh.p
	for {
		changes := sh.gate.Space.Changes()
		if p.log != nil && len(changes) > 0 {
			p.log.AppendChanges(changes)
		}
		p.s.checkChanges(p, sh, changes)
		p.fresh = p.fresh[:0]
		effects := sh.gate.Space.Effects()
		for i := range effects {
			sh.effect(&effects[i])
		}
		if p.log != nil && len(changes) > 0 {
			p.s.checkTable(p)
		}
		last := len(sh.undo) - 1
		if last < 0 {
			break
		}
		u := sh.undo[last]
		sh.undo = sh.undo[:last]
		p.s.count("grants undone")
		sh.gate.Undo(p.Now(), u.session, u.key, u.token, u.place)
	}
}

func (sh *shard) effect(e *lockspace.Effect) {
	p := sh.p
	p.s.checkEffect(p, e)
	c := p.sessions[e.Session]
	first := e.Kind == lockspace.Granted && !e.Repeat
	if c == nil || !c.nodeOpen {
		if first {
			sh.undo = append(sh.undo, undoGrant{e.Session, slices.Clone(e.Key), e.Token, e.Place})
		}
		return
	}
	r := p.s.requests[e.Tag]
	a := answer{kind: protocol.OpAcquire, token: e.Token, lease: e.Lease}
	switch e.Kind {
	case lockspace.TimedOut:
		a.kind = protocol.OpTimeout
	case lockspace.Refused:
		a.kind, a.code = protocol.OpError, e.Code
	case lockspace.Moved:
		a.kind, a.addr = protocol.OpMoved, p.redirect
	}
	p.reply(r, a, sh, e.Place, first)
}

func (sh *shard) Answer(g *gate.Answer) {
	p := sh.p
	c := p.sessions[g.Session]
	if c == nil || !c.nodeOpen {
		return
	}
	r := c.oldest(g.Op, string(g.Key))
	if r == nil || r.token != g.Token || r.nonce != string(g.Nonce.Bytes()) {
		p.s.fail("n%d answers a %c of %s that was not asked, or not in turn", p.n.id, g.Op, g.Key)
	}
	p.verdict(r, g.Verdict, g.Code, g.Lease, sh)
}

func (p *process) verdict(r *request, v gate.Verdict, code protocol.Code, lease time.Duration, sh *shard) {
	a := answer{kind: r.op, token: r.token, lease: lease}
	switch v {
	case gate.Refused:
		a.kind, a.code = protocol.OpError, code
	case gate.Moved:
		a.kind, a.addr = protocol.OpMoved, p.redirect
	}
	p.reply(r, a, sh, lockspace.Place{}, false)
}

// arm sets the timer of the shard.
func (sh *shard) arm() {
	p := sh.p
	next := sh.gate.Next()
	if next >= sh.armed {
		return
	}
	sh.armed = next
	p.s.at(max(p.s.now, Time(next)-p.origin+p.begun), func() {
		p.deliver(func() { sh.advance(next) })
	})
}

func (sh *shard) advance(at lockspace.Time) {
	if sh.armed != at {
		return
	}
	sh.armed = lockspace.Never
	for sh.gate.Advance(sh.p.Now(), 256) {
	}
	sh.p.kick()
	sh.arm()
}

// drop forgets a session.
func (p *process) drop(c *session) {
	if p.sessions[c.id] == nil {
		return
	}
	delete(p.sessions, c.id)
	p.sessionList = slices.DeleteFunc(p.sessionList, func(d *session) bool { return c == d })
	p.s.logf("n%d: drops session %d of c%d", p.n.id, c.id, c.c.id)
	p.view.drop(c)
	left := p.held[:0]
	var undo []heldAnswer
	for _, h := range p.held {
		if h.r.session != c {
			left = append(left, h)
		} else if h.first {
			undo = append(undo, h)
		}
	}
	p.held = left
	for _, sh := range p.shards {
		sh.gate.Drop(p.Now(), c.id)
		sh.arm()
	}
	for _, h := range undo {
		p.s.count("grants undone whose answer was held")
		p.view.undone(h.r.key, h.r.nonce)
		h.shard.gate.Undo(p.Now(), c.id, []byte(h.r.key), h.a.token, h.place)
		h.shard.arm()
	}
	p.kick()
}
