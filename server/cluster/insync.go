package cluster

import (
	"log/slog"
	"math/bits"
	"time"
)

const (
	// keepUpFor is how long a standby that was dropped because it lagged must
	// have kept up before it counts again; it doubles with each such drop. One
	// that was stopped, or whose process ended, cost nobody any time, and counts
	// as soon as it has the table.
	keepUpFor    = 5 * time.Second
	maxKeepUpFor = time.Minute
	// keepUpForgiven is how long it must have been in sync for its drops to be
	// forgotten.
	keepUpForgiven = 5 * time.Minute
)

// insync is the set of standbys that must have applied a change before it is
// answered, in sync mode.
//
// Invariant: whoever was in the set when a change was made, and has not
// applied it, is dropped only by a record that the rest has applied. So an
// answered change is on every node that the set's latest record names.
type insync struct {
	members uint16
	// leaving were dropped by the record at leavingAt, which the members have
	// not all applied yet.
	leaving   uint16
	leavingAt uint64
	asked     bool // a SetInSync is under way
	committed uint64
}

func (s *insync) count() int { return bits.OnesCount16(s.members) }

func (m *Machine) startInSync(members uint16) {
	if !m.cfg.Sync {
		return
	}
	m.insync = insync{members: members}
	m.sayFew(m.cfg.MinInSync, members)
	for _, p := range m.peers {
		p.keptUp = 0
	}
	m.setInSync(members)
}

func (m *Machine) setInSync(members uint16) {
	m.insync.asked = true
	m.do(SetInSync{members})
}

// InSyncAt tells at which position the set is in the stream.
func (m *Machine) InSyncAt(now Time, members uint16, pos uint64) {
	m.pass(now)
	s := &m.insync
	s.asked = false
	if gone := s.members &^ members; gone != 0 {
		s.leaving |= gone
		s.leavingAt = pos
	}
	s.members = members
	m.step()
}

// appliedBy is the position that the peer is known to have applied.
func (m *Machine) appliedBy(p *peer) uint64 {
	if p.feeding == 0 || p.acked.Reign != m.reign {
		return 0
	}
	return p.acked.Pos
}

// Committed is the position up to which changes may be answered.
func (m *Machine) Committed() uint64 {
	if !m.cfg.Sync || m.role != Active {
		return 1<<64 - 1
	}
	s := &m.insync
	if s.leaving != 0 {
		all := true
		for _, p := range m.peers {
			all = all && (s.members&bit(p.id) == 0 || m.appliedBy(p) >= s.leavingAt)
		}
		if all {
			s.leaving = 0
		}
	}
	if s.count() < m.cfg.MinInSync {
		return s.committed // nobody vouches for what came after
	}
	s.committed = 1<<64 - 1
	for _, p := range m.peers {
		if (s.members|s.leaving)&bit(p.id) != 0 {
			s.committed = min(s.committed, m.appliedBy(p))
		}
	}
	return s.committed
}

// noteBehind notes since when each peer lacks something that was there then.
func (m *Machine) noteBehind() {
	if m.guard || m.insync.asked {
		return
	}
	at := m.place().Pos
	for _, p := range m.peers {
		switch applied := m.appliedBy(p); {
		case applied >= at && p.reached == live && !p.mismatch:
			p.behind = 0
		case p.behind == 0 || applied >= p.target:
			p.behind, p.target = m.now, at
		}
	}
}

// keepInSync drops who lags, and takes in who has kept up.
func (m *Machine) keepInSync() {
	if !m.cfg.Sync || m.guard || m.insync.asked {
		return
	}
	at := m.place().Pos
	members := m.insync.members
	for _, p := range m.peers {
		applied, in := m.appliedBy(p), members&bit(p.id) != 0
		ok := p.reached == live && !p.mismatch
		lags := p.behind != 0 && m.now-p.behind > m.cfg.SyncTimeout || p.reached == gone
		switch {
		case in && (lags || p.st.Stopping):
			members &^= bit(p.id)
			p.keptUp = 0
			if p.inWait = min(max(2*p.inWait, keepUpFor), maxKeepUpFor); p.st.Stopping || p.reached == gone && p.refused {
				p.inWait = 0
			}
			m.say(slog.LevelWarn, "a standby is no longer in sync: answers do not wait for it", slog.Int("peer", int(p.id)))
		case in:
			if m.now-p.keptUp > keepUpForgiven {
				p.inWait = 0
			}
		case !ok || lags || p.feeding == 0 || p.acked.Reign != m.reign || p.st.Stopping:
			p.keptUp = 0
		case p.keptUp == 0:
			p.keptUp = m.now
		}
		if !in && p.keptUp != 0 && m.now-p.keptUp >= p.inWait && applied+closeBehind > at {
			members |= bit(p.id)
			p.keptUp = m.now
			m.say(slog.LevelInfo, "a standby is in sync: answers wait for it", slog.Int("peer", int(p.id)))
		}
	}
	if members != m.insync.members {
		m.sayFew(m.insync.count(), members)
		m.setInSync(members)
	}
}

// sayFew warns when there are too few in sync now, and were not before.
func (m *Machine) sayFew(before int, members uint16) {
	now, least := bits.OnesCount16(members), m.cfg.MinInSync
	switch {
	case least > 0 && now < least && before >= least:
		m.say(slog.LevelWarn, "too few standbys are in sync: clients get no-active until --min-in-sync of them are",
			slog.Int("in_sync", now), slog.Int("min_in_sync", least))
	case least > 0 && now >= least && before < least:
		m.say(slog.LevelInfo, "enough standbys are in sync: clients are served", slog.Int("in_sync", now))
	case least == 0 && now == 0:
		m.say(slog.LevelWarn, "no standby is in sync: what is answered now is lost if this node dies")
	}
}
