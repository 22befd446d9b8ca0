package cluster

import (
	"fmt"
	"strings"

	"github.com/stile-lock/stile/server/internal/broken"
)

// bar is what keeps a peer from being given the role of this active.
type bar uint8

const (
	noBar bar = iota
	unreached
	otherList
	alsoStopping
	cannotStore
	justWoken
	hasNoTable
	lacksMuch
	notInSync
	reachesLess
)

// Each goes on from the name of a node.
var barTexts = [...]string{
	noBar:        "did not take it in time",
	unreached:    "is not reached",
	otherList:    "has a list of peers that does not go with this node's",
	alsoStopping: "is stopping",
	cannotStore:  "can't store epochs: see its log, and its state directory",
	justWoken:    "was paused, and waits to hear from all nodes",
	hasNoTable:   "has not got the table yet",
	lacksMuch:    fmt.Sprintf("lacks more than the last %d changes of the table", closeBehind),
	notInSync:    "is not in sync",
	reachesLess:  "does not reach all the nodes that this one reaches",
}

// unfitFor is why nobody gives the peer the role.
func (m *Machine) unfitFor(p *peer) bar {
	switch {
	case p.reached != live:
		return unreached
	case p.mismatch:
		return otherList
	case p.st.Stopping && !broken.Rule("stopping-successor"):
		return alsoStopping
	case p.st.Unfit:
		return cannotStore
	}
	return noBar
}

// lacks is what the peer lacks of the table, where it is much.
func (m *Machine) lacks(p *peer) bar {
	switch at := m.place(); {
	case p.feeding == 0 || p.acked.Reign != at.Reign:
		return hasNoTable
	case p.acked.Pos+closeBehind <= at.Pos:
		return lacksMuch
	}
	return noBar
}

// noSuccessor is why each of the other nodes does not get the role of one that
// stops.
func (m *Machine) noSuccessor() string {
	if len(m.peers) == 0 {
		return "there is no other node"
	}
	var all []string
	for _, p := range m.peers {
		b := m.unfitFor(p)
		if b == noBar {
			b = m.lacks(p)
		}
		if b == noBar && m.cfg.Sync && m.insync.members&bit(p.id) == 0 {
			b = notInSync
		}
		all = append(all, fmt.Sprintf("node %d %s", p.id, barTexts[b]))
	}
	return strings.Join(all, "; ")
}

// notBack is why a node of higher priority does not have the role of this
// active; empty if there is none.
func (m *Machine) notBack() string {
	var all []string
	for _, p := range m.peers {
		if p.rank >= m.rank {
			continue
		}
		b := m.unfitFor(p)
		says := barTexts[b]
		if b == noBar {
			says = m.awaited(p)
		}
		all = append(all, fmt.Sprintf("node %d, of higher priority, %s", p.id, says))
		if b == noBar {
			break // nobody below it gets the role
		}
	}
	return strings.Join(all, "; ")
}

// awaited is what the peer, which is fit, has to wait for until it has the role
// back.
func (m *Machine) awaited(p *peer) string {
	if m.cfg.Takeback < 0 {
		return "does not get the role back by itself (--takeback manual)"
	}
	switch b := m.notReady(p, m.reachable()); {
	case b != noBar:
		return barTexts[b]
	case p.eligible != 0 && m.now-p.eligible >= m.takebackWait:
		return "is about to get the role back"
	case m.takebackWait > m.cfg.Takeback:
		return fmt.Sprintf("gets the role back when it has been ready for %v: it failed soon after it last had it back", m.takebackWait)
	}
	return fmt.Sprintf("gets the role back when it has been ready for %v", m.takebackWait)
}
