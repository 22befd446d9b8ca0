package cluster

import (
	"log/slog"
	"time"

	"github.com/stile-lock/stile/server/internal/broken"
	"github.com/stile-lock/stile/server/replica"
)

const (
	// holdFor is how long the table stands still for a handoff, unless the
	// successor is far away.
	holdFor = 50 * time.Millisecond
	// closeBehind is how few records a successor may lack for a handoff to
	// begin.
	closeBehind = 1000

	firstHandoffPause = 100 * time.Millisecond
	maxHandoffPause   = 5 * time.Second

	// A take-back that ends in a failure so soon makes the next one wait
	// longer.
	takebackTrial    = 10 * time.Second
	minTakebackWait  = time.Second
	maxTakebackWait  = time.Minute
	takebackForgiven = 5 * time.Minute
)

// handoff is the giver's side. Until Go it can be given up at no cost; from
// Go on the giver is a standby like any other.
type handoff struct {
	id       uint64
	to       uint8
	boot     uint64
	why      string
	takeback bool
	prepared bool // the table stands still until the successor has all of it
	since    Time
	hold     time.Duration // how long it may
	epoch    replica.Epoch // that the successor has stored
}

func (h *handoff) holding() bool { return h.prepared }

// prepared is the successor's side.
type prepared struct {
	id    uint64
	from  uint8
	gen   uint64 // of the connection that Go must come on
	since Time
	epoch replica.Epoch
	start uint32
}

// handOff moves a handoff on, or begins one.
func (m *Machine) handOff() {
	h := m.handoff
	if h == nil {
		if m.guard || m.meeting != nil || m.now < m.handoffAfter || m.behindKnown() && !m.unfit {
			return
		}
		p, why, takeback := m.successor()
		if p == nil || takeback && (m.taking != noPurpose || m.freshSince(0)) {
			return // an epoch that is taken meanwhile would spoil it
		}
		m.handoffs++
		m.handoff = &handoff{id: m.handoffs, to: p.id, boot: p.boot, why: why, takeback: takeback, since: m.now}
		m.do(Send{p.id, &Prepare{m.handoffs, m.known}})
		return
	}
	p := m.byID[h.to]
	switch {
	case p.reached != live || p.boot != h.boot || p.feeding == 0:
		m.abortHandoff("the successor was lost")
	case p.st.Stopping && !broken.Rule("stopping-successor"):
		m.abortHandoff("the successor is stopping")
	case m.behindKnown() && !m.unfit:
		m.abortHandoff("a higher epoch turned up")
	case m.meeting != nil:
		m.abortHandoff("another active turned up")
	case !h.prepared && m.now-h.since > m.cfg.FailureTimeout+time.Second:
		m.abortHandoff("the successor did not get ready")
		m.pauseHandoffs()
	case h.prepared && less(h.epoch, m.known):
		// The successor would have to refuse it.
		m.abortHandoff("a higher epoch was taken meanwhile")
	case h.prepared && m.now-h.since > h.hold:
		m.abortHandoff("the successor did not catch up in time")
		m.pauseHandoffs()
	case h.prepared && m.mode == Freeze && p.acked == m.place():
		m.give(h, p)
	}
}

func (m *Machine) pauseHandoffs() {
	m.handoffPause = min(max(2*m.handoffPause, firstHandoffPause), maxHandoffPause)
	m.handoffAfter = m.now + m.handoffPause
}

// give sends Go: the role travels in it.
func (m *Machine) give(h *handoff, p *peer) {
	at := m.place()
	m.do(Send{p.id, &Go{h.id, at}})
	m.handedTo = int(p.id)
	if h.takeback {
		m.takebackGo = m.now
	}
	if broken.Rule("giver-resumes") {
		m.handoff = nil
		return
	}
	m.stepDown(slog.LevelInfo, at, h.why, slog.Int("successor", int(p.id)))
}

func (m *Machine) abortHandoff(why string) {
	h := m.handoff
	if h == nil {
		return
	}
	m.handoff = nil
	m.do(Send{h.to, new(Prepare)})
	m.say(slog.LevelWarn, "a handoff was given up, this node stays active", slog.Int("successor", int(h.to)), slog.String("why", why))
}

// successor is the node that should get the role from this one now.
func (m *Machine) successor() (p *peer, why string, takeback bool) {
	switch {
	case m.stopping:
		return m.stopSuccessor(), "it is stopping", false
	case m.unfit && (m.wantNext || m.behindKnown()):
		return m.best(m.closeBehind), "it can't store an epoch", false
	case m.cfg.Takeback >= 0:
		return m.takebackSuccessor(), "a node of higher priority is back", true
	}
	return nil, "", false
}

// best is the fit peer of highest priority for which ok holds.
func (m *Machine) best(ok func(*peer) bool) *peer {
	var found *peer
	for _, p := range m.peers {
		if m.unfitFor(p) == noBar && ok(p) && (found == nil || p.rank < found.rank) {
			found = p
		}
	}
	return found
}

// closeBehind reports whether the peer has nearly all of the table.
func (m *Machine) closeBehind(p *peer) bool { return m.lacks(p) == noBar }

// stopSuccessor also waits for one that is still syncing.
func (m *Machine) stopSuccessor() *peer {
	if m.finished {
		return nil
	}
	ready := m.best(func(p *peer) bool {
		return m.closeBehind(p) && (!m.cfg.Sync || m.insync.members&bit(p.id) != 0)
	})
	if ready == nil && m.cfg.Sync {
		// Rather one that may lack something than none.
		if m.insync.count() == 0 {
			ready = m.best(m.closeBehind)
		}
	}
	if ready != nil {
		return ready
	}
	left := m.stopSince + m.cfg.StopTimeout - m.now
	if left > 0 && left < m.cfg.StopTimeout/2 {
		// It may catch up while the table stands still. There is no better time
		// to come.
		at := m.place()
		if far := m.best(func(p *peer) bool { return p.feeding != 0 && p.acked.Reign == at.Reign }); far != nil {
			return far
		}
	}
	if left > 0 && m.best(func(*peer) bool { return true }) != nil {
		return nil // it may still get there
	}
	for _, p := range m.peers {
		if left > 0 && p.reached == undecided && m.now-m.stopSince <= m.cfg.FailureTimeout {
			return nil
		}
	}
	m.finished = true
	m.say(slog.LevelWarn, "no node can take the role over: locks end with this one", slog.String("why", m.noSuccessor()))
	return nil
}

// takebackSuccessor is the highest node that has been fit for the role long
// enough. Where a higher one is on its way, a lower one does not get it first.
func (m *Machine) takebackSuccessor() *peer {
	reach := m.reachable()
	for _, p := range m.peers {
		if p.rank >= m.rank || m.notReady(p, reach) != noBar {
			p.eligible = 0
		} else if p.eligible == 0 {
			p.eligible = m.now
		}
	}
	p := m.best(func(p *peer) bool { return p.rank < m.rank })
	if p == nil || p.eligible == 0 || m.now-p.eligible < m.takebackWait {
		return nil
	}
	return p
}

// notReady is what keeps the peer from taking the role back. reach are the
// nodes that it has to reach.
func (m *Machine) notReady(p *peer, reach uint16) bar {
	if b := m.unfitFor(p); b != noBar {
		return b
	}
	if p.st.Paused {
		return justWoken
	}
	if b := m.lacks(p); b != noBar {
		return b
	}
	if there := p.st.Reach | bit(p.id); there|reach != there {
		return reachesLess
	}
	return noBar
}

// reachable has this node, and those that it reaches.
func (m *Machine) reachable() uint16 {
	reach := bit(m.cfg.Self)
	for _, p := range m.peers {
		if p.reached == live && !p.mismatch {
			reach |= bit(p.id)
		}
	}
	return reach
}

// dampTakeback is called by a node that has become active: if it gave the role
// to a higher node a moment ago, that one failed.
func (m *Machine) dampTakeback() {
	if m.takebackGo == 0 {
		return
	}
	switch since := m.now - m.takebackGo; {
	case since < takebackTrial:
		m.takebackWait = min(max(2*m.takebackWait, minTakebackWait), max(maxTakebackWait, m.cfg.Takeback))
	case since > takebackForgiven:
		m.takebackWait = m.cfg.Takeback
	}
	m.takebackGo = 0
}

func (m *Machine) receivePrepare(p *peer, msg *Prepare) {
	if msg.ID == 0 {
		if m.prepared != nil && m.prepared.from == p.id {
			m.prepared = nil
		}
		return
	}
	m.learn(msg.Above)
	f := m.follow
	if m.role != Standby || m.stopping && !broken.Rule("stopping-successor") || m.unfit || f == nil || f.peer != p.id || f.pull || m.reach(p) != live || !m.take(toPrepare) {
		m.do(Send{p.id, &Prepared{ID: msg.ID}})
		return
	}
	m.prepared = &prepared{id: msg.ID, from: p.id, gen: p.in.gen, since: m.now}
}

func (m *Machine) preparedStored(e replica.Epoch, start uint32, err error) {
	s := m.prepared
	if s == nil {
		return
	}
	if err != nil {
		e = replica.Epoch{}
		m.prepared = nil
	} else {
		s.epoch, s.start = e, start
	}
	m.do(Send{s.from, &Prepared{s.id, e}})
}

func (m *Machine) receivePrepared(p *peer, msg *Prepared) {
	h := m.handoff
	if h == nil || h.id != msg.ID || h.to != p.id {
		return
	}
	if msg.Epoch.N == 0 {
		m.abortHandoff("the successor can't take the role now")
		m.pauseHandoffs()
		return
	}
	m.tried = max(m.tried, msg.Epoch.N)
	// Where the way to the successor is long, what it has to acknowledge needs
	// as long.
	h.hold = max(holdFor, min(m.now-h.since, m.cfg.FailureTimeout/4))
	if m.stopping {
		// There may be no other time.
		h.hold = max(holdFor, min(2*(m.now-h.since), m.cfg.FailureTimeout))
	}
	h.prepared, h.since, h.epoch = true, m.now, msg.Epoch
}

// receiveGo makes this node active, if nothing has changed since it was
// prepared. Otherwise both are standbys at the same place, and decide.
func (m *Machine) receiveGo(p *peer, msg *Go) {
	s := m.prepared
	m.prepared = nil
	if s == nil || s.id != msg.ID || s.from != p.id || s.epoch.N == 0 || m.role != Standby || m.stopping && !broken.Rule("stopping-successor") ||
		m.follow == nil || m.follow.peer != p.id || s.gen != p.in.gen || m.follow.gen != p.in.gen ||
		m.reach(p) != live || m.place() != msg.Place || less(s.epoch, m.known) {
		m.say(slog.LevelWarn, "the role was offered too late", slog.Int("peer", int(p.id)))
		return
	}
	m.lastActive = m.now
	p.st.Role = Standby // as its next status will say
	m.becomeActive(s.epoch, s.start, true, "it was handed the role")
}
