package sim

import (
	"encoding/binary"
	"math"

	"github.com/stile-lock/stile/protocol"
	"github.com/stile-lock/stile/server/cluster"
	"github.com/stile-lock/stile/server/internal/broken"
	"github.com/stile-lock/stile/server/lockspace"
	"github.com/stile-lock/stile/server/replica"
)

// mutant is a rule that a run breaks on purpose, to prove that the checks
// notice. These are broken from the outside: in what a node hears, in what its
// disk and its clock tell it, in how it is asked.
type mutant string

const (
	// A promotion takes the epoch that is on the disk already.
	tokenReuse mutant = "token-reuse"
	// An epoch counts as stored before it is.
	earlyEpoch mutant = "early-epoch"
	// Nobody hears who else has a link to an active.
	noWitness mutant = "no-witness"
	// Nobody hears what table others have: priority alone decides.
	priorityAlone mutant = "priority-alone"
	// A node without a table never becomes active.
	neverEmpty mutant = "never-empty"
	// A standby grants.
	standbyGrants mutant = "standby-grants"
	// The order of waiters is lost on its way to the standbys.
	orderLost mutant = "order-lost"
	// For how long they have waited is lost on its way.
	agesLost mutant = "ages-lost"
	// What was sent before a pause counts as said after it.
	bufferedGuard mutant = "buffered-guard"
	// A node does not notice that it was paused: to it all others were silent.
	pauseUnnoticed mutant = "pause-unnoticed"
	// Answers to keeps and releases do not wait for the standbys.
	eagerKeep mutant = "eager-keep"
	// Nor do grants.
	eagerGrant mutant = "eager-grant"
	// Grants are lost on their way to the standbys.
	grantsLost mutant = "grants-lost"
	// Requests that were held are forgotten when the node becomes active.
	heldForgotten mutant = "held-forgotten"
	// Whatever is held when the role changes is answered at once, again.
	doubleAnswers mutant = "double-answers"
)

// Rules that are broken from within; see package broken.
const (
	// The giver of a role goes on as if it had kept it.
	giverResumes mutant = "giver-resumes"
	// A node that is stopping is handed the role.
	stoppingSuccessor mutant = "stopping-successor"
	// A woken node takes the silence of its own pause for that of others.
	wokenPromotes mutant = "woken-promotes"
	// A grant that has ended here is taken over from the other active again.
	adoptKnown mutant = "adopt-known"
	// Of two actives the one gives way that has served on from where the other,
	// of higher priority, slept.
	freshYields mutant = "fresh-yields"
	// Who answers, but can't be linked with, counts as gone for a node that has
	// just started.
	misfitsAreGone mutant = "misfits-are-gone"
)

var within = []mutant{giverResumes, stoppingSuccessor, wokenPromotes, adoptKnown, freshYields, misfitsAreGone}

// Mutants are the names of all.
func Mutants() []string {
	var out []string
	for _, m := range []mutant{
		tokenReuse, earlyEpoch, noWitness, priorityAlone, neverEmpty, standbyGrants, orderLost, agesLost,
		bufferedGuard, pauseUnnoticed, eagerKeep, eagerGrant, grantsLost, heldForgotten, doubleAnswers,
	} {
		out = append(out, string(m))
	}
	if broken.Enabled {
		for _, m := range within {
			out = append(out, string(m))
		}
	}
	return out
}

func (s *Sim) breaks(m mutant) bool { return s.opt.Mutant == string(m) }

// twist changes what travels from one node to another.
func (s *Sim) twist(payload []byte) []byte {
	switch mutant(s.opt.Mutant) {
	case orderLost, agesLost, grantsLost:
		if replica.IsFrame(payload) {
			return s.twistFrame(payload)
		}
	case noWitness, priorityAlone:
		return s.twistStatus(payload, func(m *cluster.Status) {
			switch mutant(s.opt.Mutant) {
			case noWitness:
				m.Sees = nil
			case priorityAlone:
				if m.Role != cluster.Active {
					m.Place = replica.Place{}
				}
			}
		})
	}
	return payload
}

func (s *Sim) twistStatus(payload []byte, f func(*cluster.Status)) []byte {
	if replica.IsFrame(payload) {
		return payload
	}
	msg, err := cluster.Decode(payload)
	if m, ok := msg.(*cluster.Status); ok && err == nil {
		f(m)
		return cluster.Append(nil, m)
	}
	return payload
}

// Where the records of a frame begin, and their count before them.
const (
	frameRecords = 13 + 8 + 4
	frameCount   = 13 + 8
)

func (s *Sim) twistFrame(payload []byte) []byte {
	if kind := payload[0] & 0x0F; kind != 1 && kind != 2 {
		return payload
	}
	out := append([]byte(nil), payload[:frameRecords]...)
	count := binary.BigEndian.Uint32(payload[frameCount:])
	rest := payload[frameRecords:]
	var rec replica.Record
	for range count {
		var err error
		if rest, err = replica.DecodeRecord(rest, &rec); err != nil {
			s.fail("a frame can't be read: %v", err)
		}
		if rec.Kind == replica.TableChange {
			switch c := &rec.Change; {
			case s.breaks(orderLost) && c.Kind == lockspace.WaiterQueued:
				c.Arrival = math.MaxInt32 - c.Arrival
			case s.breaks(agesLost) && c.Kind == lockspace.WaiterQueued:
				c.Age = 0
			case s.breaks(grantsLost) && c.Kind == lockspace.GrantMade && s.chance(0.05):
				rec = replica.Record{Kind: replica.TableChange, Change: lockspace.Change{Kind: lockspace.TokenSeen, Token: c.Token}}
			}
		}
		out = replica.AppendRecord(out, &rec)
	}
	return out
}

// twistBuffered changes what a process finds when it wakes.
func (s *Sim) twistBuffered(p *process, payload []byte) []byte {
	if !s.breaks(bufferedGuard) {
		return payload
	}
	return s.twistStatus(payload, func(m *cluster.Status) { m.Answer, m.Echo = math.MaxUint64>>1, uint64(p.clock()) })
}

// eager reports whether an answer goes out without waiting.
func (s *Sim) eager(a *answer) bool {
	switch a.kind {
	case protocol.OpKeep, protocol.OpRelease:
		return s.breaks(eagerKeep)
	case protocol.OpAcquire:
		return s.breaks(eagerGrant)
	}
	return false
}
