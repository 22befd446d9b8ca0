package lockspace

import "time"

// Snapshot is the table of a Space as rows, which a standby applies like
// changes. It is read in portions between which the table goes on: a row
// tells of a thing as it is when the row is made. Nothing is lost by that.
// What was in the table when the snapshot began gets a row while it is there,
// and what came later, or has changed, is in the changes, which the reader
// gets in one order with the rows.
//
// It ends with the table: at an [Space.Install].
type Snapshot struct {
	s       *Space
	begun   bool
	ended   []Ended
	grants  []*entry
	waiters []*request

	// Spent nonces come last, and those spent on the way among them: their
	// grants may have ended before the reader knew of them.
	spending           bool
	spentNext, spentTo uint64 // places among all that were ever spent
}

// Snapshot begins a snapshot. An offer to another node that has served says
// as well which inherited grants have ended in this reign.
func (s *Space) Snapshot(offer bool) *Snapshot {
	n := &Snapshot{
		s:       s,
		grants:  make([]*entry, len(s.leases.items)),
		waiters: make([]*request, len(s.waits.items)),
	}
	for i := range s.leases.items {
		n.grants[i] = s.leases.items[i].v
	}
	for i := range s.waits.items {
		n.waiters[i] = s.waits.items[i].v
	}
	if offer {
		n.ended = s.ended
	}
	return n
}

// Next makes the next rows in buf, looking at no more than `most` things. It
// reports whether there is more. The keys are valid until the next call of a
// method of the Space, whose changes must have been taken before.
func (n *Snapshot) Next(now Time, most int, buf []Change) (rows []Change, more bool) {
	s, rows := n.s, buf[:0]
	s.begin(now)
	for ; most > 0; most-- {
		switch {
		case !n.begun:
			n.begun = true
			rows = append(rows, Change{Kind: TokenSeen, Token: s.highest})
		case len(n.ended) > 0:
			rows = append(rows, Change{Kind: GrantEnded, Key: n.ended[0].Key, Token: n.ended[0].Token})
			n.ended = n.ended[1:]
		case len(n.grants) > 0:
			if e := n.grants[0]; e.token != 0 {
				rows = append(rows, Change{
					Kind: GrantMade, Key: e.key, Token: e.token, Nonce: e.name.value(),
					Lease: max(0, time.Duration(e.deadline-s.now)), Age: time.Duration(s.now - e.since),
				})
			}
			n.grants = n.grants[1:]
		case len(n.waiters) > 0:
			// Whose place another request has taken over, a change told of that.
			if r := n.waiters[0]; r.name != nil && r.name.r == r {
				rows = append(rows, s.waiterRow(r))
			}
			n.waiters = n.waiters[1:]
		case !n.spending:
			n.spending = true
			n.spentNext, n.spentTo = s.spent.first, s.spent.next
		default:
			if n.spentNext = max(n.spentNext, s.spent.first); n.spentNext >= n.spentTo {
				return rows, false
			}
			if sp := s.spent.at(n.spentNext); !sp.gone {
				rows = append(rows, Change{Kind: SpentKnown, Pair: pairOf(sp.fp), Age: time.Duration(s.now - sp.at)})
			}
			n.spentNext++
		}
	}
	return rows, true
}
