package cluster

import (
	"fmt"
	"time"
)

// View is what an operator sees of the roles.
type View struct {
	ID         uint8  `json:"id"`
	Rank       int    `json:"rank"` // in the list of peers: 0 is the highest priority
	Role       string `json:"role"`
	Why        string `json:"why"`  // it has the role, and a node of higher priority has not
	RoleWhy    string `json:"-"`    // the first half of that
	Mode       string `json:"mode"` // how clients are answered
	Place      string `json:"place"`
	Epoch      string `json:"epoch"` // known, the highest
	KnownEpoch uint32 `json:"-"`     // its number
	// Active is the id of the active, -1 if none is known.
	Active int `json:"active"`
	// Behind is how many records of the stream a standby has not applied, of those
	// that the active last told of; missing: it has none of this reign yet.
	Behind *uint64 `json:"behind,omitempty"`
	// Complete: it has the table that is served from.
	Complete  bool   `json:"complete"`
	Unfit     bool   `json:"unfit"`
	Stopping  bool   `json:"stopping"`
	Sync      bool   `json:"sync"`              // answers wait for the standbys in sync
	InSync    []int  `json:"in_sync,omitempty"` // of an active
	MinInSync int    `json:"min_in_sync,omitempty"`
	Handoff   string `json:"handoff,omitempty"`
	// Idle is for how long clients have neither been served here nor sent on by a
	// node that has the table; 0: they are.
	Idle time.Duration `json:"-"`
	// How often it became active, gave the role away by a handoff, and stepped
	// down for another active, since it was started.
	Promotions uint64     `json:"promotions"`
	Handoffs   uint64     `json:"handoffs"`
	StepDowns  uint64     `json:"step_downs"`
	PeerViews  []PeerView `json:"peers"`
}

// PeerView is another node as this one sees it.
type PeerView struct {
	ID       uint8    `json:"id"`
	Rank     int      `json:"rank"`
	Addr     string   `json:"addr"`
	Role     string   `json:"role"`
	Epoch    string   `json:"epoch,omitempty"` // the highest that it knows; missing while it is not reached
	Reached  bool     `json:"reached"`
	There    bool     `json:"there,omitempty"`    // not reached, and yet it answers: a misfit
	Problem  string   `json:"problem,omitempty"`  // why it is not reached, or not fed
	Mismatch bool     `json:"-"`                  // its peers list does not go with ours
	Differs  []string `json:"-"`                  // how its settings differ that should be the same everywhere
	Fed      bool     `json:"fed"`                // by this node
	Lag      *uint64  `json:"lag,omitempty"`      // records of the stream it has not applied; missing: it has none of this reign yet
	LagS     *float64 `json:"lag_s,omitempty"`    // of an active: for how long it has not had all there is; missing: as lag
	Silent   *float64 `json:"silent_s,omitempty"` // since a heartbeat came back; missing: none ever has
}

// View is the present state.
func (m *Machine) View() View {
	at := m.place()
	v := View{
		ID: m.cfg.Self, Rank: m.rank, Role: m.role.String(), Why: m.why, Mode: m.mode.String(), Place: at.String(), Epoch: m.known.String(), KnownEpoch: m.known.N,
		Promotions: m.promotions, Handoffs: m.given, StepDowns: m.stepDowns, PeerViews: []PeerView{},
		Active: m.knownActive(), Unfit: m.unfit, Stopping: m.stopping, Sync: m.cfg.Sync, MinInSync: m.cfg.MinInSync,
	}
	if m.idle {
		v.Idle = m.now - m.useful
	}
	v.Complete = m.complete()
	if m.role == Active {
		v.Active = int(m.cfg.Self)
	} else if v.Complete {
		place := m.byID[uint8(v.Active)].st.Place
		behind := place.Pos - min(place.Pos, at.Pos)
		v.Behind = &behind
	}
	beside := -1
	for _, p := range m.peers {
		if p.saidThere && m.there(p) && m.hasNothing() {
			beside = int(p.id)
		}
	}
	switch {
	case beside >= 0 && v.Active < 0:
		v.Why = fmt.Sprintf("node %d is there and may be active, but there can be no link with it: see its problem", beside)
	case m.role == Candidate:
		v.Why = "it is about to become active"
	case m.unfit && m.role != Active && v.Active < 0:
		v.Why = "it can't store epochs, so it can't become active"
	case v.Why != "":
	case m.role == Joining:
		v.Why = "it waits until each peer has answered, or its time is over"
	case v.Active >= 0:
		v.Why = "another node is active"
	default:
		v.Why = "it waits for a node to become active"
	}
	v.RoleWhy = v.Why
	if m.handoff != nil {
		v.Handoff = m.handoff.why
	} else if m.role == Active && !m.stopping {
		if back := m.notBack(); back != "" {
			v.Why += "; " + back
		}
	}
	for _, p := range m.peers {
		pv := PeerView{ID: p.id, Rank: p.rank, Role: "unknown", Reached: p.reached == live, Mismatch: p.mismatch, Fed: p.feeding != 0,
			There: m.there(p) && (p.saidThere || !p.out.up)}
		if p.reached == live {
			pv.Role, pv.Epoch = p.st.Role.String(), p.st.Known.String()
			pv.Differs = m.differences(&p.st)
		}
		if p.echo > 0 {
			s := time.Duration(m.now - p.echo).Round(time.Millisecond).Seconds()
			pv.Silent = &s
		}
		if p.mismatch {
			pv.Problem = "its peers list does not go with this node's"
		}
		if pv.Fed && p.acked.Reign == at.Reign {
			lag := at.Pos - min(at.Pos, p.acked.Pos)
			pv.Lag = &lag
			if m.role == Active {
				behind := time.Duration(0)
				if lag > 0 && p.behind != 0 {
					behind = (m.now - p.behind).Round(time.Millisecond)
				}
				s := behind.Seconds()
				pv.LagS = &s
			}
		}
		if m.role == Active && m.insync.members&bit(p.id) != 0 {
			v.InSync = append(v.InSync, int(p.id))
		}
		v.PeerViews = append(v.PeerViews, pv)
	}
	return v
}
