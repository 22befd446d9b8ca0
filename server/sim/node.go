package sim

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/stile-lock/stile/server/cluster"
	"github.com/stile-lock/stile/server/fencing"
	"github.com/stile-lock/stile/server/lockspace"
	"github.com/stile-lock/stile/server/member"
	"github.com/stile-lock/stile/server/replica"
)

const (
	heartbeat      = 200 * time.Millisecond
	failureTimeout = time.Second
)

// node is a machine with a disk, on which one process after the other runs.
type node struct {
	s    *Sim
	id   int
	proc *process // nil: none runs
	disk disk

	clockOffset time.Duration // of its wall clock
	boots       int
	taken       uint32 // the highest epoch it ever took
	downAt      Time   // when the last process ended
	wantUp      bool   // it is to be restarted in the end
	restarting  bool
	misfit      bool // its next process has other settings
}

// process is one life of a node. It is the World and the Table of its member.
type process struct {
	s      *Sim
	n      *node
	boot   uint64
	begun  Time
	origin Time // of its clock

	misfit     bool // there is no link with those that are none, but each answers
	dead, done bool
	stopping   bool
	told       bool // the member knows that it is to stop
	paused     bool
	pausedAt   Time
	backlog    []func()

	member *member.Member
	table
	tried replica.Epoch // the highest that was to be written

	gens  uint64
	outs  []*link // by node
	ins   []*link
	links []*link // all that have an open end here
}

func (n *node) start() {
	s := n.s
	n.boots++
	p := &process{
		s: s, n: n, misfit: n.misfit, boot: s.rng.Uint64() | 1, begun: s.now, origin: s.between(time.Second, time.Hour),
		outs: make([]*link, len(s.nodes)), ins: make([]*link, len(s.nodes)),
	}
	n.proc = p
	n.restarting = false
	s.shake(n.id)
	known := n.disk.epoch
	s.logf("n%d: process %d starts, epoch on disk %v", n.id, n.boots, known)
	order := make([]uint8, len(s.nodes))
	for i := range order {
		order[i] = uint8(i)
	}
	p.tried = known
	p.initTable()
	p.member = member.New(member.Config{
		Roles: cluster.Config{
			Self: uint8(n.id), Order: order, Boot: p.boot,
			Advertise: address(n.id), Peers: "all",
			Heartbeat: heartbeat, FailureTimeout: failureTimeout, BootGrace: time.Second, StopTimeout: 10 * time.Second,
			Takeback: s.plan.takeback,
			Sync:     s.plan.sync, SyncTimeout: time.Second, MinInSync: s.plan.minInSync,
			Known: known,
		},
		Addr:    func(id uint8) string { return address(int(id)) },
		KeepLog: s.plan.keepLog,
	}, p, p, p.clock())
	s.after(0, p.tick)
}

func address(id int) string { return fmt.Sprintf("n%d", id) }

// clock is the process's monotonic clock.
func (p *process) clock() Time { return p.origin + p.s.now - p.begun }

// deliver makes something happen in the process: now, or when it wakes, or
// never.
func (p *process) deliver(f func()) {
	switch {
	case p.dead:
	case p.paused:
		p.backlog = append(p.backlog, f)
	default:
		f()
	}
}

func (p *process) tick() {
	if p.dead {
		return
	}
	p.s.after(heartbeat/4-p.s.between(0, 5*time.Millisecond), p.tick)
	if p.paused {
		return
	}
	p.member.Tick(p.clock())
	p.wantEpoch()
}

func (p *process) wantEpoch() {
	if p.alloc == nil || p.dead {
		return
	}
	select {
	case <-p.alloc.Want():
		p.s.count("tokens run out: next epoch wanted")
		p.member.WantEpoch(p.clock())
	default:
	}
}

// pause stops the process for a time, as a debugger or a suspended machine
// does.
func (p *process) pause(d Time) {
	s := p.s
	if p.dead || p.paused {
		return
	}
	s.logf("n%d: paused for %v", p.n.id, d)
	p.paused, p.pausedAt = true, s.now
	s.ages.delayed(s.now + d)
	s.shake(p.n.id)
	s.after(d, p.wake)
}

func (p *process) wake() {
	if p.dead || !p.paused {
		return
	}
	p.s.logf("n%d: wakes, %d events wait", p.n.id, len(p.backlog))
	p.paused = false
	p.s.shake(p.n.id)
	if p.s.breaks(pauseUnnoticed) {
		for at := p.clock() - (p.s.now - p.pausedAt); at < p.clock() && !p.dead; at += heartbeat / 4 {
			p.member.Tick(at)
		}
	}
	p.member.Tick(p.clock())
	backlog := p.backlog
	p.backlog = nil
	for _, f := range backlog {
		p.deliver(f)
	}
}

// stop asks the process to end, as SIGTERM does.
func (p *process) stop() {
	if p.dead || p.stopping {
		return
	}
	p.stopping = true
	p.s.logf("n%d: told to stop", p.n.id)
	p.s.shake(p.n.id)
	p.deliver(func() {
		p.told = true
		p.member.Stop(p.clock())
	})
}

// end ends the process. Resets tell its peers and clients, unless they are
// lost.
func (p *process) end(why string, lost func() bool) {
	if p.dead {
		return
	}
	s := p.s
	s.logf("n%d: process ends: %s", p.n.id, why)
	s.shake(p.n.id)
	s.checkEnd(p)
	for _, l := range p.links {
		if l.a == p {
			l.closeA(lost())
		}
		if l.b == p {
			l.closeB(lost())
		}
	}
	for _, c := range p.sessionList {
		c.closeAtNode(lost())
	}
	p.dead = true
	p.n.disk.crash()
	p.n.proc, p.n.downAt = nil, s.now
}

// Now makes process a member.Table, with what is below a member.World.
func (p *process) Now() lockspace.Time { return lockspace.Time(p.clock()) }

func (p *process) Dial(peer uint8) { p.dial(int(peer)) }

func (p *process) Cut(peer uint8) {
	p.s.logf("n%d: cuts the links with n%d", p.n.id, peer)
	if l := p.outs[peer]; l != nil {
		l.closeA(false)
	}
	if l := p.ins[peer]; l != nil {
		l.closeB(false)
	}
}

// Ban is for a second process with the id of an older one. There is none.
func (p *process) Ban(boot uint64) {
	for _, n := range p.s.nodes {
		if n.proc != nil && n.proc.boot == boot {
			p.s.fail("n%d takes n%d for two processes", p.n.id, n.id)
		}
	}
	p.s.count("banned: a process that has ended")
}

func (p *process) Send(peer uint8, payload []byte) {
	if l := p.outs[peer]; l != nil && l.aUp {
		l.control = append(l.control, payload)
		l.pump()
	}
}

func (p *process) Kick(peer uint8) {
	if l := p.outs[peer]; l != nil && l.aUp && !l.kicked {
		l.kicked = true
		// Not at once: the writer is not called from within the member.
		p.s.after(0, func() { l.a.deliver(l.pump) })
	}
}

func (p *process) StoreEpoch(e replica.Epoch) {
	// The file never goes back.
	if p.tried.Less(e) {
		p.tried = e
	}
	p.n.disk.write(p.tried, func(err error) {
		p.deliver(func() { p.member.StoredEpoch(p.clock(), e, err) })
	})
}

func (p *process) TakeEpoch(op uint64, above uint32, fromClock bool) {
	s := p.s
	clock := fencing.Origin.Add(s.plan.wall + s.now + p.n.clockOffset)
	c, err := fencing.Choose(max(above, p.tried.N), clock)
	if err != nil {
		s.fail("no epoch is left: %v", err)
	}
	if fromClock && !c.FromClock {
		s.after(0, func() { p.deliver(func() { p.member.TookEpoch(p.clock(), op, replica.Epoch{}, 0, nil) }) })
		return
	}
	if s.plan.fewTokens {
		c.Start = 1<<28 - 1 - uint32(s.rng.IntN(60))
	}
	e := replica.Epoch{N: c.Epoch, Node: uint8(p.n.id)}
	if s.breaks(tokenReuse) && p.n.disk.epoch.N > 0 {
		e.N = p.n.disk.epoch.N
	}
	if s.breaks(neverEmpty) && p.member.Place() == (replica.Place{}) {
		return
	}
	p.tried, p.n.taken = e, max(p.n.taken, e.N)
	s.logf("n%d: takes epoch %v, start %d", p.n.id, e, c.Start)
	if s.breaks(earlyEpoch) {
		p.n.disk.write(e, func(error) {})
		s.after(0, func() { p.deliver(func() { p.member.TookEpoch(p.clock(), op, e, c.Start, nil) }) })
		return
	}
	p.n.disk.write(e, func(err error) {
		p.deliver(func() { p.member.TookEpoch(p.clock(), op, e, c.Start, err) })
	})
}

func (p *process) Log(level slog.Level, text string, attrs []slog.Attr) {
	p.s.count(text)
	for _, a := range attrs {
		if a.Key == "why" {
			p.s.count(text + ": " + a.Value.String())
		}
	}
	if p.s.log.on {
		line := fmt.Sprintf("n%d: %v %s", p.n.id, level, text)
		for _, a := range attrs {
			line += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		}
		p.s.logf("%s", line)
	}
}

func (p *process) Fail(reason string) {
	p.s.fail("n%d gives up: %s", p.n.id, reason)
}

// Done lets the process end, once its last answers are on their way.
func (p *process) Done() {
	if p.done {
		return
	}
	p.done = true
	p.s.logf("n%d: done", p.n.id)
	p.s.count("graceful ends")
	p.s.after(p.s.between(0, 20*time.Millisecond), func() {
		p.deliver(func() { p.end("it has handed over", func() bool { return false }) })
	})
}
