package cluster

import (
	"log/slog"

	"github.com/stile-lock/stile/server/internal/broken"
	"github.com/stile-lock/stile/server/replica"
)

// meeting is what an active holds its service for: another active of lower
// priority is there, which steps down and offers its table.
type meeting struct {
	with  uint8
	epoch replica.Epoch // of the other
	reign replica.Epoch // of the other; zero if it is known only by its offer
	since Time
	done  bool // the whole offer is here
}

// meet looks for other actives.
func (m *Machine) meet() {
	m.halt = false
	// One at a time, the highest first: who gives way itself takes nothing.
	var highest *peer
	for _, p := range m.peers {
		if p.reached == live && p.st.Role == Active && !p.mismatch && p.rank < m.rank && (highest == nil || p.rank < highest.rank) {
			highest = p
		}
	}
	for _, p := range m.peers {
		if m.role != Active {
			return
		}
		switch {
		case p.mismatch:
			m.higher[p.id] = 0
		case p == highest:
			m.meetHigher(p)
		case p.reached == live && p.st.Role == Active && p.rank > m.rank:
			if highest == nil {
				m.meetLower(p)
			}
		case p.reached != live && p.rank < m.rank && highest == nil:
			m.meetByWitness(p)
		default:
			m.higher[p.id] = 0
		}
	}
	if m.role == Active {
		m.endMeeting()
	}
}

// meetLower is for the active of higher priority.
func (m *Machine) meetLower(p *peer) {
	reign := p.st.Place.Reign
	if m.place() == p.st.Base && !broken.Rule("fresh-yields") {
		if !m.halted() {
			return
		}
		// Nothing has changed here since the other began from this very
		// place: this node slept, or nobody reached it. It follows, loses
		// nothing, and gets the role back by take-back.
		m.stepDown(slog.LevelWarn, m.place(), "another active went on from where this one was", slog.Int("active", int(p.id)))
		return
	}
	if m.meeting != nil || m.settled[p.id] == reign {
		return
	}
	m.say(slog.LevelWarn, "another active is there: this node waits for its table", slog.Int("peer", int(p.id)))
	m.meeting = &meeting{with: p.id, epoch: p.st.Epoch, reign: reign, since: m.now}
}

// meetHigher is for the active of lower priority. It waits until the other
// holds for it: only then is the other's place final, and both draw the same
// conclusion from it.
func (m *Machine) meetHigher(p *peer) {
	if m.higher[p.id] == 0 {
		m.higher[p.id] = m.now
	}
	waited := m.now - m.higher[p.id]
	switch {
	case m.place() == p.st.Base:
		// The other went on from this very place, and nothing has changed
		// here since.
		if !m.halted() {
			return
		}
		m.stepDown(slog.LevelWarn, m.place(), "another active went on from where this one was", slog.Int("active", int(p.id)))
	case p.st.Place == m.base && waited <= 2*m.cfg.FailureTimeout && !broken.Rule("fresh-yields"):
		// It is the other that follows.
	case p.st.Paused && waited <= 2*m.cfg.FailureTimeout:
		// It has just woken, and may follow a third active as soon as it has
		// heard from all: who gives way to it would lose what was granted
		// since it fell asleep.
	case p.st.Meeting == m.cfg.Self+1, waited > m.cfg.FailureTimeout:
		m.giveWay(p.id, p.id, p.st.Place.Reign)
	}
}

// meetByWitness is for the active of lower priority that has no link to the
// other, but shares a peer with it.
func (m *Machine) meetByWitness(other *peer) {
	via := -1
	var reign replica.Epoch
	for _, p := range m.peers {
		if p.reached != live || p.mismatch || p.st.Role == Active {
			continue
		}
		for _, s := range p.st.Sees {
			if s.ID == other.id {
				via, reign = int(p.id), s.Reign
			}
		}
	}
	switch {
	case via < 0:
		m.higher[other.id] = 0
	case m.higher[other.id] == 0:
		m.higher[other.id] = m.now
	case m.now-m.higher[other.id] > m.cfg.FailureTimeout:
		m.giveWay(other.id, uint8(via), reign)
	}
}

// activeComing reports whether a link with another active is about to be live.
func (m *Machine) activeComing() bool {
	for _, p := range m.peers {
		if p.reached != live && (p.in.up || p.out.up) && m.now-p.upAt <= m.cfg.FailureTimeout &&
			p.known && p.st.Role == Active && !p.mismatch {
			return true
		}
	}
	return false
}

// halted reports whether nobody is answered any more. If somebody is, it asks
// for a halt: a table that becomes a copy, or is offered, must stand still
// first, and where it stands is known only then.
func (m *Machine) halted() bool {
	if m.mode == Freeze {
		return true
	}
	m.halt = true
	return false
}

// sawHigher reports whether an active of higher priority is there.
func (m *Machine) sawHigher() bool {
	for _, since := range m.higher {
		if since != 0 {
			return true
		}
	}
	return false
}

func (m *Machine) giveWay(to, via uint8, reign replica.Epoch) {
	if !m.halted() {
		return
	}
	m.higher[to] = 0
	m.do(SendOffer{to, via, m.topEpoch()})
	m.stepDown(slog.LevelWarn, m.base, "another active has higher priority", slog.Int("active", int(to)), slog.Uint64("reign", uint64(reign.N)))
}

func (m *Machine) receiveOffer(p *peer, o *Offer) {
	if o.To != m.cfg.Self {
		if q := m.byID[o.To]; q != nil && q.out.up {
			m.do(Send{o.To, o})
		}
		return
	}
	if m.byID[o.From] == nil {
		return
	}
	m.learn(o.Epoch)
	if m.role != Active {
		// It gave way itself meanwhile.
		if q := m.liveActive(); q != nil && q.id != o.From {
			pass := *o
			pass.To = q.id
			m.do(Send{q.id, &pass})
		}
		return
	}
	if m.meeting == nil {
		// By way of a peer, or late: it is heard all the same.
		m.say(slog.LevelWarn, "another active gave way and offers its table", slog.Int("peer", int(o.From)))
		m.meeting = &meeting{with: o.From, epoch: o.Epoch, since: m.now}
	}
	if m.meeting.with == o.From && o.Last {
		m.meeting.done = true
	}
}

// endMeeting takes over what was offered and goes on, when all has come or a
// failure timeout has passed. The epoch is above the other's by then; a node
// that can't store one grants nothing, and hands over.
func (m *Machine) endMeeting() {
	g := m.meeting
	if g == nil || m.guard || m.mode != Freeze {
		return // nobody may be granted anything between the rows of an offer
	}
	p := m.byID[g.with]
	coming := p.reached != live && !(p.reached == gone && p.refused) ||
		p.reached == live && (p.st.Role == Active || p.st.Forked)
	if coming && !g.done && m.now-g.since <= m.cfg.FailureTimeout {
		return
	}
	m.learn(g.epoch)
	if m.behindKnown() && !m.unfit {
		return // see overtakeKnown
	}
	m.meeting = nil
	m.settled[g.with] = g.reign
	m.do(Adopt{g.with})
	m.say(slog.LevelWarn, "this node stays active", slog.Int("other", int(g.with)), slog.Bool("offer_complete", g.done))
}
