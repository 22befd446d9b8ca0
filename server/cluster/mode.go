package cluster

// Mode is how a node treats what clients ask.
type Mode uint8

const (
	// Hold keeps requests for a moment; the limits of waits go on.
	Hold Mode = iota
	// Freeze keeps requests too, and nothing whatever happens to the table.
	Freeze
	// Serve answers them.
	Serve
	// Redirect names the active.
	Redirect
	// Refuse says no-active.
	Refuse
	// Ending says stopping: there is nobody to hand over to.
	Ending
)

var modeNames = [...]string{"hold", "freeze", "serve", "redirect", "refuse", "ending"}

func (m Mode) String() string { return modeNames[m] }

// answer is the one place that decides whether clients are answered. Every
// way to an answer goes through the mode that comes from here.
func (m *Machine) answer() (Mode, int) {
	if m.role == Active {
		switch {
		case m.finished:
			return Ending, 0
		case m.guard, // another may be active by now
			m.halt, m.meeting != nil, // another is
			m.behindKnown(),                         // ours would not be the greatest tokens
			m.handoff != nil && m.handoff.holding(): // the table must stand still
			return Freeze, 0
		case m.cfg.Sync && m.insync.count() < m.cfg.MinInSync:
			return Refuse, 0
		}
		return Serve, 0
	}
	if m.prepared != nil {
		return Hold, 0
	}
	if id := m.knownActive(); id >= 0 {
		return Redirect, id
	}
	if m.finished {
		return Ending, 0
	}
	return Hold, 0
}

// knownActive is the id of the node that is active by its own word, or by that
// of a peer with fresh word from it; -1 if there is none. Nobody names itself,
// or a node that is stopping.
func (m *Machine) knownActive() int {
	if p := m.liveActive(); p != nil {
		if p.st.Stopping {
			return -1
		}
		return int(p.id)
	}
	return m.witnessed()
}

// witnessed is the active that a live peer sees, -1 if there is none.
func (m *Machine) witnessed() int {
	for _, p := range m.peers {
		if p.reached != live || p.mismatch {
			continue
		}
		for _, s := range p.st.Sees {
			if s.ID == m.cfg.Self {
				continue // we know better
			}
			if q := m.byID[s.ID]; q != nil && !(q.reached == live && q.st.Role != Active) {
				return int(s.ID)
			}
		}
	}
	return -1
}

// complete reports whether this node has the table that is served from.
func (m *Machine) complete() bool {
	if m.role == Active {
		return true
	}
	id := m.knownActive()
	if id < 0 || m.cfg.Forked() {
		return false
	}
	a := m.byID[id]
	return a != nil && a.st.Role == Active && a.st.Place.Reign == m.place().Reign
}

func (m *Machine) setMode() {
	mode, at := m.answer()
	if m.idle = !(mode == Serve || mode == Redirect && m.complete()); !m.idle {
		m.useful = m.now
	}
	if m.modeSet && mode == m.mode && at == m.modeAt {
		return
	}
	m.mode, m.modeAt, m.modeSet = mode, at, true
	m.do(SetMode{mode, uint8(at)})
}
