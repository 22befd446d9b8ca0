package sim

import (
	"slices"
	"time"

	"github.com/stile-lock/stile/server/cluster"
	"github.com/stile-lock/stile/server/replica"
)

// link is a connection from one node to another: the dialer sends, the other
// end receives. A pair of nodes that reach each other has two.
type link struct {
	s        *Sim
	from, to *node
	a, b     *process // at the two ends; b from the acceptance on
	serial   uint64   // grows with each dial of a process
	genA     uint64   // names it at the dialer
	genB     uint64   // and at the other end

	aOpen, bOpen bool
	aUp, bUp     bool // the members know of it
	spoken       bool // the other end has said a word
	again        bool // it is the second try; see lostA

	fwd, back *pipe

	// The writer at the dialer.
	control  [][]byte
	kicked   bool
	writing  bool // a data frame is going out
	inFlight int  // bytes that the other process has not read
}

// dial begins a connection. An earlier one is reset.
func (p *process) dial(peer int) {
	if old := p.outs[peer]; old != nil {
		old.closeA(false)
	}
	p.gens++
	p.dialAs(peer, p.gens, false)
}

func (p *process) dialAs(peer int, gen uint64, again bool) {
	s := p.s
	l := &link{s: s, from: p.n, to: s.nodes[peer], a: p, aOpen: true, serial: p.gens, genA: gen, again: again}
	l.fwd, l.back = s.net.pipe(p.n.id, peer), s.net.pipe(peer, p.n.id)
	p.outs[peer] = l
	p.addLink(l)
	l.fwd.send(l.arrive)
	s.after(failureTimeout, func() {
		p.deliver(func() {
			if l.aOpen && !l.aUp {
				s.logf("n%d: no answer from n%d", p.n.id, peer)
				l.closeA(false)
				p.member.DialFailed(p.clock(), uint8(peer), false, false)
			}
		})
	})
}

// arrive is the first packet at the other host.
func (l *link) arrive() {
	b := l.to.proc
	if b == nil {
		l.back.reset(false, func() { l.lostA() })
		return
	}
	l.b, l.bOpen = b, true
	b.addLink(l)
	l.atB(func() {
		if b.misfit != l.a.misfit {
			l.sendBack(func() { l.spoken = true })
			l.closeB(false)
			return
		}
		l.sendBack(func() {
			l.spoken = true
			hello := l.a.member.Hello()
			l.sendFwd(func() { l.greet(hello) })
		})
	})
}

// greet completes the connection at the acceptor.
func (l *link) greet(hello []byte) {
	b, from := l.b, l.from.id
	old := b.ins[from]
	if old != nil && old.a == l.a && old.serial > l.serial {
		l.closeB(false)
		return
	}
	mine := b.member.Hello()
	l.sendBack(func() { l.upA(mine) })
	if old != nil {
		up := old.bUp
		old.closeB(false)
		if up {
			b.member.LinkDown(b.clock(), uint8(from), false, old.genB, false)
			if !l.bOpen || b.dead {
				return
			}
		}
	}
	b.ins[from] = l
	b.gens++
	l.genB, l.bUp = b.gens, true
	l.s.logf("n%d: link in from n%d, gen %d", b.n.id, from, l.genB)
	b.member.LinkUp(b.clock(), uint8(from), false, l.genB, hello)
}

// upA completes it at the dialer.
func (l *link) upA(hello []byte) {
	l.aUp = true
	l.s.logf("n%d: link out to n%d, gen %d", l.a.n.id, l.to.id, l.genA)
	l.a.member.LinkUp(l.a.clock(), uint8(l.to.id), true, l.genA, hello)
}

// sendFwd and sendBack carry something to the other end, where a closed end
// answers with a reset.
func (l *link) sendFwd(f func()) { l.fwd.send(func() { l.atB(f) }) }

func (l *link) sendBack(f func()) { l.back.send(func() { l.atA(f) }) }

func (l *link) atB(f func()) {
	if !l.bOpen || l.b.dead {
		l.back.reset(false, l.lostA)
		return
	}
	l.b.deliver(func() {
		if l.bOpen {
			f()
		}
	})
}

func (l *link) atA(f func()) {
	if !l.aOpen || l.a.dead {
		l.fwd.reset(false, l.lostB)
		return
	}
	l.a.deliver(func() {
		if l.aOpen {
			f()
		}
	})
}

// lostA is a reset that reaches the dialer.
func (l *link) lostA() {
	l.a.deliver(func() {
		if !l.aOpen {
			return
		}
		up := l.aUp
		l.endA()
		if up {
			l.s.logf("n%d: lost link out to n%d, gen %d", l.a.n.id, l.to.id, l.genA)
			l.a.member.LinkDown(l.a.clock(), uint8(l.to.id), true, l.genA, false)
		} else if l.b != nil && !l.spoken && !l.again {
			// Accepted, then reset before a word: perhaps only this connection.
			l.a.gens++
			l.a.dialAs(l.to.id, l.genA, true)
		} else {
			l.s.logf("n%d: n%d refused", l.a.n.id, l.to.id)
			l.a.member.DialFailed(l.a.clock(), uint8(l.to.id), !l.spoken, l.spoken)
		}
	})
}

// lostB is a reset that reaches the other end.
func (l *link) lostB() {
	if l.b == nil {
		return
	}
	l.b.deliver(func() {
		if !l.bOpen {
			return
		}
		up := l.bUp
		l.endB()
		if up {
			l.s.logf("n%d: lost link in from n%d, gen %d", l.b.n.id, l.from.id, l.genB)
			l.b.member.LinkDown(l.b.clock(), uint8(l.from.id), false, l.genB, false)
		}
	})
}

func (l *link) endA() {
	l.aOpen, l.aUp, l.control, l.kicked = false, false, nil, false
	if l.a.outs[l.to.id] == l {
		l.a.outs[l.to.id] = nil
	}
}

func (l *link) endB() {
	l.bOpen, l.bUp = false, false
	if l.b.ins[l.from.id] == l {
		l.b.ins[l.from.id] = nil
	}
}

// closeA and closeB reset the connection from one end. Its member is not
// told.
func (l *link) closeA(lost bool) {
	if l.aOpen {
		l.endA()
		l.fwd.reset(lost, l.lostB)
	}
}

func (l *link) closeB(lost bool) {
	if l.bOpen {
		l.endB()
		l.back.reset(lost, l.lostA)
	}
}

func (p *process) addLink(l *link) {
	if len(p.links) > 64 {
		p.links = slices.DeleteFunc(p.links, func(l *link) bool {
			return !(l.a == p && l.aOpen || l.b == p && l.bOpen)
		})
	}
	p.links = append(p.links, l)
}

// pump writes what there is: messages first, then data, one frame after the
// other.
func (l *link) pump() {
	s := l.s
	if !l.aUp || l.writing || l.a.dead {
		return
	}
	for len(l.control) > 0 && l.inFlight < s.plan.window {
		l.transmit(l.control[0])
		l.control = l.control[1:]
	}
	if len(l.control) > 0 || !l.kicked || l.inFlight >= s.plan.window {
		return
	}
	frame, ok, overrun := l.a.member.Next(uint8(l.to.id), s.plan.chunk, nil)
	if !ok {
		l.kicked = false
		if overrun != 0 {
			s.logf("n%d: n%d is too slow for stream %d", l.a.n.id, l.to.id, overrun)
			s.after(0, func() {
				l.a.deliver(func() { l.a.member.Overrun(l.a.clock(), uint8(l.to.id), overrun) })
			})
		}
		return
	}
	s.countFrame(frame)
	l.writing = true
	s.after(Time(len(frame))*time.Second/Time(s.bandwidth(l.from.id, l.to.id)), func() {
		l.a.deliver(func() {
			l.writing = false
			if l.aUp {
				l.transmit(frame)
				l.pump()
			}
		})
	})
}

// countFrame counts how streams begin, and the snapshots that are complete.
func (s *Sim) countFrame(frame []byte) {
	switch frame[0] & 0x0F {
	case 0:
		s.count("streams, " + replica.Mode(frame[13]).String())
	case 3:
		s.count("snapshots sent")
	}
}

func (l *link) transmit(payload []byte) {
	s := l.s
	l.inFlight += len(payload)
	if s.log.on {
		l.logPayload(payload)
	}
	size := len(payload)
	payload = s.twist(payload)
	l.fwd.send(func() {
		buffered := l.b.paused
		l.atB(func() {
			if buffered {
				payload = s.twistBuffered(l.b, payload)
			}
			full := l.inFlight >= s.plan.window
			l.inFlight -= size
			before, fork := l.b.member.Place(), l.b.forked
			l.b.member.Receive(l.b.clock(), uint8(l.from.id), payload)
			if replica.IsFrame(payload) {
				s.checkCopy(l.b, before, fork)
			}
			if full {
				s.after(s.latency(l.to.id, l.from.id), func() { l.a.deliver(l.pump) })
			}
		})
	})
}

func (l *link) logPayload(payload []byte) {
	if replica.IsFrame(payload) {
		l.s.logf("n%d > n%d: frame %x of %d bytes", l.from.id, l.to.id, payload[0], len(payload))
		return
	}
	msg, err := cluster.Decode(payload)
	if err != nil {
		l.s.logf("n%d > n%d: %v", l.from.id, l.to.id, err)
		return
	}
	switch m := msg.(type) {
	case *cluster.Status:
		l.s.logf("n%d > n%d: status %v at %v base %v epoch %v known %v reach %b sees %v ask %d answer %d%s%s%s%s meeting %d",
			l.from.id, l.to.id, m.Role, m.Place, m.Base, m.Epoch, m.Known, m.Reach, m.Sees, m.Ask, m.Answer,
			when(m.Stopping, " stopping"), when(m.Unfit, " unfit"), when(m.Fresh, " fresh"), when(m.Paused, " paused"), m.Meeting)
	case *cluster.Offer:
		l.s.logf("n%d > n%d: offer %d to %d part %d last %v", l.from.id, l.to.id, m.From, m.To, m.Seq, m.Last)
	default:
		l.s.logf("n%d > n%d: %T %+v", l.from.id, l.to.id, m, m)
	}
}

func when(on bool, name string) string {
	if on {
		return name
	}
	return ""
}
