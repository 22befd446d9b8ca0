package sim

import (
	"slices"
	"time"

	"github.com/stile-lock/stile/server/lockspace"
)

// fault is a kind of fault. Each can be drawn many times in a run.
type fault struct {
	name string
	do   func(s *Sim)
}

var faults []fault

func init() {
	faults = []fault{
		{"crash", (*Sim).faultCrash},
		{"quick-restart", (*Sim).faultQuickRestart},
		{"disk-loss", (*Sim).faultDiskLoss},
		{"pause", (*Sim).faultPause},
		{"one-way", (*Sim).faultOneWay},
		{"two-way", (*Sim).faultTwoWay},
		{"partition", (*Sim).faultPartition},
		{"isolate", (*Sim).faultIsolate},
		{"reset", (*Sim).faultReset},
		{"disk", (*Sim).faultDisk},
		{"stop", (*Sim).faultStop},
		{"stop-crash", (*Sim).faultStopCrash},
		{"rolling", (*Sim).faultRolling},
		{"slow-link", (*Sim).faultSlowLink},
		{"flap", (*Sim).faultFlap},
		{"host-down", (*Sim).faultHostDown},
		{"all-down", (*Sim).faultAllDown},
		{"clock", (*Sim).faultClock},
		{"client-cut", (*Sim).faultClientCut},
		{"client-reset", (*Sim).faultClientReset},
		{"client-pause", (*Sim).faultClientPause},
		{"hiccup", (*Sim).faultHiccup},
		{"break", (*Sim).faultBreak},
		{"misfit", (*Sim).faultMisfit},
	}
}

// FaultKinds are the names of all kinds of faults.
func FaultKinds() (names []string) {
	for _, f := range faults {
		names = append(names, f.name)
	}
	return names
}

// nextFault lets something go wrong, until the faults are over.
func (s *Sim) nextFault() {
	if s.quiet {
		return
	}
	sum := 0
	for _, w := range s.plan.weights {
		sum += w
	}
	if sum == 0 {
		return
	}
	at := s.rng.IntN(sum)
	for i, w := range s.plan.weights {
		if at -= w; at < 0 {
			s.logf("fault: %s", faults[i].name)
			s.count("fault: " + faults[i].name)
			faults[i].do(s)
			break
		}
	}
	if s.chance(s.plan.hurry) {
		s.after(s.between(0, 400*time.Millisecond), s.nextFault)
	} else {
		s.after(s.between(s.plan.gap/2, s.plan.gap*3/2), s.nextFault)
	}
}

// later does something in the course of a fault, unless the faults are over.
func (s *Sim) later(d Time, f func()) {
	s.after(d, func() {
		if !s.quiet {
			f()
		}
	})
}

// active is a node that says it is active, the highest one; nil if there is
// none.
func (s *Sim) active() *node {
	for _, n := range s.nodes {
		if n.proc != nil && n.proc.member.Active() {
			return n
		}
	}
	return nil
}

// victim draws a node, often the active one.
func (s *Sim) victim() *node {
	if s.chance(0.5) {
		if n := s.active(); n != nil {
			return n
		}
	}
	return s.nodes[s.rng.IntN(len(s.nodes))]
}

// another draws another node.
func (s *Sim) another(n *node) *node {
	return s.nodes[(n.id+1+s.rng.IntN(len(s.nodes)-1))%len(s.nodes)]
}

// lostResets says of each reset of an ending process whether it is lost.
func (s *Sim) lostResets() func() bool {
	all := s.chance(s.plan.lostResets)
	return func() bool { return all && s.chance(0.8) }
}

func (s *Sim) crash(n *node) bool {
	if n.proc == nil {
		return false
	}
	n.proc.end("killed", s.lostResets())
	return true
}

// restart starts a node's next process after a time.
func (s *Sim) restart(n *node, d Time) {
	if n.restarting || n.proc != nil {
		return
	}
	n.restarting = true
	s.after(d, func() {
		if n.proc == nil && n.restarting {
			n.start()
		}
	})
}

func (s *Sim) anyTime() Time {
	return pick(s, s.between(10*time.Millisecond, 300*time.Millisecond), s.between(300*time.Millisecond, 2*time.Second), s.between(2*time.Second, 6*time.Second))
}

func (s *Sim) faultCrash() {
	n := s.victim()
	s.crash(n)
	s.restart(n, s.anyTime())
}

func (s *Sim) faultQuickRestart() {
	n := s.victim()
	if s.crash(n) {
		s.restart(n, s.between(10*time.Millisecond, 300*time.Millisecond))
	}
}

// faultDiskLoss is a restart, often within the same second, without what the
// node had on its disk.
func (s *Sim) faultDiskLoss() {
	n := s.victim()
	if s.crash(n) {
		n.loseDisk()
		s.restart(n, pick(s, s.between(10*time.Millisecond, 300*time.Millisecond), s.anyTime()))
	}
}

func (s *Sim) faultPause() {
	n := s.victim()
	d := pick(s,
		s.between(failureTimeout*7/10, failureTimeout*13/10), s.between(failureTimeout*7/10, failureTimeout*13/10),
		s.between(failureTimeout/4, failureTimeout*7/10), s.between(failureTimeout*13/10, 5*failureTimeout))
	if n.proc != nil {
		n.proc.pause(d)
	}
}

// faultHiccup is a pause that is too short to be taken for one.
func (s *Sim) faultHiccup() {
	if n := s.victim(); n.proc != nil {
		n.proc.pause(s.between(20*time.Millisecond, heartbeat))
	}
}

// cut cuts a direction between two hosts for a time.
func (s *Sim) cut(from, to int, d Time) {
	s.net.block(from, to)
	s.cutBegins(from, to)
	s.after(d, func() {
		s.net.unblock(from, to)
		s.cutEnds(from, to)
	})
}

func (s *Sim) cutTime() Time {
	return pick(s, s.between(100*time.Millisecond, 900*time.Millisecond), s.between(700*time.Millisecond, 1500*time.Millisecond), s.between(1500*time.Millisecond, 5*time.Second))
}

func (s *Sim) faultOneWay() {
	a := s.victim()
	b := s.another(a)
	if s.chance(0.5) {
		a, b = b, a
	}
	d := s.cutTime()
	s.logf("cut n%d > n%d for %v", a.id, b.id, d)
	s.cut(a.id, b.id, d)
}

func (s *Sim) faultTwoWay() {
	a := s.victim()
	b := s.another(a)
	d := s.cutTime()
	s.logf("cut n%d - n%d for %v", a.id, b.id, d)
	s.cut(a.id, b.id, d)
	s.cut(b.id, a.id, d)
}

// faultPartition puts nodes and clients into groups that do not reach each
// other.
func (s *Sim) faultPartition() {
	groups := 2
	if len(s.nodes) > 2 && s.chance(0.35) {
		groups = 3
	}
	d := s.cutTime()
	of := make([]int, s.net.hosts)
	for i := range of {
		of[i] = s.rng.IntN(groups)
	}
	free := s.chance(0.5) // clients reach all
	for i := range of {
		for j := range of {
			if of[i] != of[j] && !(free && (i >= len(s.nodes) || j >= len(s.nodes))) && i < s.net.hosts-1 && j < s.net.hosts-1 {
				s.cut(i, j, d)
			}
		}
	}
	s.logf("partition %v for %v", of, d)
}

// faultIsolate cuts a node from all others, but not from clients.
func (s *Sim) faultIsolate() {
	n := s.victim()
	d := s.cutTime()
	in, out := s.chance(0.8), s.chance(0.8)
	s.logf("n%d is isolated for %v: in %v, out %v", n.id, d, in, out)
	for _, o := range s.nodes {
		if o == n {
			continue
		}
		if in {
			s.cut(o.id, n.id, d)
		}
		if out {
			s.cut(n.id, o.id, d)
		}
	}
}

// faultReset resets the connections of a pair.
func (s *Sim) faultReset() {
	a := s.victim()
	b := s.another(a)
	if a.proc == nil {
		return
	}
	s.logf("links of n%d and n%d are reset", a.id, b.id)
	s.disturb(uint(1<<a.id|1<<b.id), false)
	if l := a.proc.outs[b.id]; l != nil && l.b != nil { // else there is none yet
		l.fwd.reset(false, l.lostB)
		l.lostA()
	}
	if l := a.proc.ins[b.id]; l != nil && s.chance(0.7) {
		l.back.reset(s.chance(0.2), l.lostA)
		l.lostB()
	}
}

func (s *Sim) faultDisk() {
	n := s.victim()
	d := s.now + s.between(500*time.Millisecond, 4*time.Second)
	s.disturbFor(n.id, d, false)
	if s.chance(0.5) {
		s.logf("the disk of n%d fails until %v", n.id, d)
		n.disk.badUntil = d
	} else {
		s.logf("the disk of n%d is slow until %v", n.id, d)
		n.disk.slowUntil = d
	}
}

func (s *Sim) faultStop() {
	n := s.victim()
	if n.proc == nil {
		return
	}
	n.proc.stop()
	s.awaitEnd(n, n.proc, s.anyTime())
}

// awaitEnd restarts a node some time after its process has ended, and kills
// it if that takes too long.
func (s *Sim) awaitEnd(n *node, p *process, d Time) {
	waited := Time(0)
	var look func()
	look = func() {
		switch {
		case p.dead:
			s.restart(n, d)
		case waited > 15*time.Second:
			s.fail("n%d does not end", n.id)
		default:
			if !p.paused {
				waited += 50 * time.Millisecond
			}
			s.after(50*time.Millisecond, look)
		}
	}
	look()
}

// faultStopCrash is the death of the successor right after, or in, a handoff.
func (s *Sim) faultStopCrash() {
	n := s.active()
	if n == nil {
		return
	}
	n.proc.stop()
	s.awaitEnd(n, n.proc, s.anyTime())
	s.later(s.between(0, 250*time.Millisecond), func() {
		v := s.another(n)
		if a := s.active(); a != nil && a != n {
			v = a
		}
		s.crash(v)
		s.restart(v, s.anyTime())
	})
}

func (s *Sim) faultRolling() {
	order := s.rng.Perm(len(s.nodes))
	gap := s.between(200*time.Millisecond, 2*time.Second)
	var next func(i int)
	next = func(i int) {
		if i == len(order) || s.quiet {
			return
		}
		n := s.nodes[order[i]]
		if n.proc != nil {
			n.proc.stop()
			s.awaitEnd(n, n.proc, s.between(10*time.Millisecond, time.Second))
		}
		s.after(gap, func() { next(i + 1) })
	}
	next(0)
}

func (s *Sim) faultSlowLink() {
	a := s.victim()
	b := s.another(a)
	if s.chance(0.3) {
		a, b = b, a
	}
	until := s.now + s.between(time.Second, 6*time.Second)
	s.logf("n%d > n%d is slow until %v", a.id, b.id, until)
	s.slow[a.id*len(s.nodes)+b.id] = until
	s.ages.delayed(until)
	// Heartbeats wait behind the data: on the slowest line for so long that it
	// is as good as cut.
	s.disturbFor(b.id, until, s.plan.slowBandwidth <= 1<<10)
}

// faultFlap repeats one fault on one node.
func (s *Sim) faultFlap() {
	n := s.victim()
	o := s.another(n)
	kind := s.rng.IntN(4)
	gap := s.between(20*time.Millisecond, 700*time.Millisecond)
	for i := range 3 + s.rng.IntN(4) {
		s.later(Time(i)*gap, func() {
			switch kind {
			case 0:
				if s.crash(n) {
					s.restart(n, s.between(5*time.Millisecond, gap))
				}
			case 1:
				if n.proc != nil {
					n.proc.pause(s.between(gap/4, gap))
				}
			case 2:
				s.cut(n.id, o.id, s.between(gap/4, gap))
			case 3:
				d := s.between(gap/4, gap)
				s.cut(n.id, o.id, d)
				s.cut(o.id, n.id, d)
			}
		})
	}
}

// faultHostDown is a machine without power: nothing answers for it.
func (s *Sim) faultHostDown() {
	n := s.victim()
	if n.proc == nil {
		return
	}
	d := s.anyTime()
	s.logf("the host of n%d is down for %v", n.id, d)
	for h := range s.net.hosts {
		if h != n.id {
			s.cut(h, n.id, d)
			s.cut(n.id, h, d)
		}
	}
	n.proc.end("the power is off", func() bool { return true })
	s.restart(n, d+s.between(0, 200*time.Millisecond))
}

func (s *Sim) faultAllDown() {
	for _, n := range s.nodes {
		s.crash(n)
		if s.chance(0.1) {
			n.loseDisk()
		}
		s.restart(n, pick(s, s.between(0, 300*time.Millisecond), s.between(0, 3*time.Second)))
	}
}

// faultClock sets the clock of a node.
func (s *Sim) faultClock() {
	n := s.victim()
	offset := s.drawOffset()
	if s.losesDisks() {
		// The clock is all that such a node has to be above its past.
		offset = max(offset, n.clockOffset)
	}
	n.clockOffset = offset
	s.logf("the clock of n%d is %v off", n.id, n.clockOffset)
}

// losesDisks reports whether disks are lost in this run.
func (s *Sim) losesDisks() bool {
	for i, w := range s.plan.weights {
		if w > 0 && (faults[i].name == "disk-loss" || faults[i].name == "all-down") {
			return true
		}
	}
	return false
}

func (s *Sim) someClient() *client { return s.clients[s.rng.IntN(s.plan.clients)] }

func (s *Sim) faultClientCut() {
	c, n := s.someClient(), s.victim()
	d := s.cutTime()
	s.logf("cut c%d - n%d for %v", c.id, n.id, d)
	if s.chance(0.8) {
		s.cut(c.host, n.id, d)
	}
	if s.chance(0.8) {
		s.cut(n.id, c.host, d)
	}
}

func (s *Sim) faultClientReset() {
	for range 1 + s.rng.IntN(4) {
		c := s.someClient()
		if x := c.sessions[s.victim().id]; x != nil && x.connected {
			s.logf("c%d - n%d is reset", c.id, x.n.id)
			if s.chance(0.5) {
				x.closeAtClient()
			} else {
				x.lostAtNode()
				x.down.reset(false, x.lostAtClient)
			}
		}
	}
}

func (s *Sim) faultClientPause() {
	s.someClient().pause(s.between(500*time.Millisecond, 6*time.Second))
}

// faultMisfit restarts a node with settings that let it have no link with the
// others, and some time later with the right ones.
func (s *Sim) faultMisfit() {
	n := s.victim()
	if !s.crash(n) {
		return
	}
	n.misfit = true
	s.restart(n, s.between(10*time.Millisecond, time.Second))
	s.later(s.between(time.Second, 6*time.Second), func() {
		n.misfit = false
		if n.proc != nil && n.proc.misfit && s.crash(n) {
			s.restart(n, s.anyTime())
		}
	})
}

// faultBreak has an operator break a lock at the active, on purpose or by an
// old token.
func (s *Sim) faultBreak() {
	n := s.active()
	if n == nil {
		return
	}
	p := n.proc
	sh := p.shards[s.rng.IntN(shardCount)]
	var held []lockspace.Holding
	for l, more := sh.gate.Space.List(), true; more; {
		more = l.Next(1, func(h *lockspace.Holding) {
			h.Key = slices.Clone(h.Key)
			held = append(held, *h)
		})
	}
	if len(held) == 0 {
		return
	}
	h := held[s.rng.IntN(len(held))]
	if s.chance(0.1) {
		h.Token--
	}
	p.deliver(func() {
		holder, next, ok := sh.gate.Break(p.Now(), h.Key, h.Token)
		if ok && holder == h.Token {
			s.logf("n%d: %s is broken, %d after %d", n.id, h.Key, next, holder)
			s.count("locks broken")
			s.broken[holder] = true
		}
		sh.Settle()
		sh.arm()
		p.kick()
	})
}
