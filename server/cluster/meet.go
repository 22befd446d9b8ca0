package cluster

import (
	"log/slog"

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
	for _, p := range m.peers {
		if m.role != Active {
			return
		}
		switch {
		case p.mismatch:
		case p.reached == live && p.st.Role == Active && p.rank > m.rank:
			m.meetLower(p)
		case p.reached == live && p.st.Role == Active:
			m.meetHigher(p)
		case p.reached != live && p.rank < m.rank:
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
	if m.meeting != nil || m.settled[p.id] == reign {
		return
	}
	if m.place() == p.st.Base && !m.guard {
		// Nothing has changed here since the other began from this very
		// place: this node slept, or nobody reached it. It follows, loses
		// nothing, and gets the role back by take-back.
		m.stepDown(m.place(), "another active went on from where this one was", slog.Int("active", int(p.id)))
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
	case p.st.Meeting == m.cfg.Self+1,
		waited > 2*m.cfg.FailureTimeout,
		waited > m.cfg.FailureTimeout && p.st.Place != m.base:
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

func (m *Machine) giveWay(to, via uint8, reign replica.Epoch) {
	m.higher[to] = 0
	m.do(SendOffer{to, via, m.epoch})
	m.stepDown(m.base, "another active has higher priority", slog.Int("active", int(to)), slog.Uint64("reign", uint64(reign.N)))
}

func (m *Machine) receiveOffer(p *peer, o *Offer) {
	if o.To != m.cfg.Self {
		if q := m.byID[o.To]; q != nil && q.out.up {
			m.do(Send{o.To, o})
		}
		return
	}
	m.learn(o.Epoch)
	if m.role != Active {
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
// failure timeout has passed. The epoch is above the other's by then.
func (m *Machine) endMeeting() {
	g := m.meeting
	if g == nil || m.guard {
		return
	}
	p := m.byID[g.with]
	if !g.done && m.now-g.since <= m.cfg.FailureTimeout && !(p.reached == gone && p.refused) {
		return
	}
	m.learn(g.epoch)
	if less(m.epoch, m.known) {
		return // see overtakeKnown
	}
	m.meeting = nil
	m.settled[g.with] = g.reign
	m.do(Adopt{g.with})
	m.say(slog.LevelWarn, "this node stays active", slog.Int("other", int(g.with)), slog.Bool("offer_complete", g.done))
}
