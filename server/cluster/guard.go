package cluster

import (
	"log/slog"
	"time"

	"github.com/stile-lock/stile/server/internal/broken"
)

// pass begins every call: it moves the time on, and notices that the node was
// paused. A process that was stopped, or slept with its machine, must not
// believe what it knows: somebody else may have the role by now.
func (m *Machine) pass(now Time) {
	gap := now - m.now
	m.now = max(m.now, now)
	if gap <= m.pauseLimit() {
		return
	}
	// Whoever is silent gets a full failure timeout from here.
	if !broken.Rule("woken-promotes") {
		m.woke = m.now
	}
	m.say(slog.LevelWarn, "this node was paused", slog.Duration("for", gap))
	m.abortHandoff("this node was paused")
	m.prepared = nil
	m.withdraw("this node was paused")
	for _, p := range m.peers {
		p.nextDial, p.mute, p.refused = m.now, false, false
	}
	if m.role == Active {
		m.guard = true
		m.ask()
	}
	m.deciding = false
	for i := range m.due {
		m.due[i] = 0
	}
}

// pauseLimit is a heartbeat, and no more than anybody's failure timeout.
func (m *Machine) pauseLimit() time.Duration {
	limit := m.cfg.Heartbeat
	for _, p := range m.peers {
		if p.known && p.st.FailureTimeout > 0 {
			limit = min(limit, time.Duration(p.st.FailureTimeout))
		}
	}
	return limit
}

// checkGuard lets a woken active go on when every peer has answered a question
// asked after the waking, or refused after it, or stayed silent for a failure
// timeout from it.
func (m *Machine) checkGuard() {
	if !m.guard {
		return
	}
	for _, p := range m.peers {
		switch p.reached {
		case live:
			if p.st.Answer < m.question {
				return
			}
		case undecided:
			return
		case gone:
			if m.now-m.woke <= m.cfg.FailureTimeout && !(p.refused && p.refusedAt >= m.woke) {
				return
			}
		}
	}
	m.guard = false
}

// ask puts a question to all: whatever a peer says with an answer to it was
// true after now.
func (m *Machine) ask() {
	m.question++
	m.asked = m.now
}
