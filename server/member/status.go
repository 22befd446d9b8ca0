package member

import "github.com/stile-lock/stile/server/cluster"

// Status is what an operator sees of a member.
type Status struct {
	cluster.View
	// Conflicts is how many keys were found held on both sides when two
	// actives met.
	Conflicts uint64 `json:"conflicts"`
	Syncing   bool   `json:"syncing"` // a snapshot is under way
}

// Status is called from the owner's goroutine, like all else.
func (m *Member) Status() Status {
	s := Status{View: m.roles.View(), Conflicts: m.conflicts, Syncing: !m.active && m.receiver.Syncing()}
	for i := range s.PeerViews {
		s.PeerViews[i].Addr = m.cfg.Addr(s.PeerViews[i].ID)
	}
	return s
}
