package cluster

import (
	"log/slog"
	"time"

	"github.com/stile-lock/stile/server/replica"
)

const (
	// retryStore is the pause after an epoch could not be stored.
	retryStore = time.Second
	// tryStoreEvery is for how long an epoch that was stored proves that the
	// next one can be.
	tryStoreEvery = time.Minute
)

// purpose is what an epoch is taken for.
type purpose uint8

const (
	noPurpose purpose = iota
	toPromote
	toPrepare
	toOvertake // a higher one is known
	toGoOn     // the sequence runs out
	toRenew    // a peer may have forgotten one
	toProve    // whether the disk works again
)

// learn notes an epoch that somebody knows of.
func (m *Machine) learn(e replica.Epoch) {
	if m.role == Active && less(m.epoch, e) && e != m.ahead {
		m.outdo = true
	}
	if less(m.known, e) {
		m.known = e
		m.tried = max(m.tried, e.N)
	}
}

// behindKnown reports whether a higher epoch is known than the one that tokens
// are given under. The one that is taken ahead is nobody else's.
func (m *Machine) behindKnown() bool { return m.outdo }

// topEpoch is the highest that this active has given, or may give, tokens
// under.
func (m *Machine) topEpoch() replica.Epoch {
	if less(m.epoch, m.ahead) {
		return m.ahead
	}
	return m.epoch
}

// Learn notes an epoch that came with the stream. The next call looks at what
// follows from it.
func (m *Machine) Learn(e replica.Epoch) { m.learn(e) }

// storeKnown writes the highest known epoch down: after a loss of all nodes
// but this one it must still be above.
//
// What is stored already is stored again from time to time: to see whether the
// disk still works, or does by now. Else a standby whose disk is full would
// find that out when its turn has come.
func (m *Machine) storeKnown() {
	if m.storing || m.taking != noPurpose || m.now < m.storeAt {
		return
	}
	switch {
	case less(m.stored, m.known), m.known.N > 0 && (m.unfit || m.now >= m.tryAt):
		m.storing = true
		m.do(StoreEpoch{m.known})
	case m.unfit && m.role != Active:
		m.take(toProve)
	}
}

// StoredEpoch tells how StoreEpoch went.
func (m *Machine) StoredEpoch(now Time, e replica.Epoch, err error) {
	m.pass(now)
	m.storing = false
	m.tryAt = m.now + tryStoreEvery
	if err != nil {
		m.storeAt = m.now + retryStore
	} else if less(m.stored, e) {
		m.stored = e
	}
	m.setFit(err)
	m.step()
}

func (m *Machine) setFit(err error) {
	switch {
	case err != nil && !m.unfit:
		m.unfit = true
		text := "an epoch can't be stored: this node can't become active"
		if m.role == Active {
			text = "an epoch can't be stored: this node serves no longer than its tokens last"
		}
		m.say(slog.LevelError, text, slog.Any("error", err))
	case err == nil && m.unfit:
		m.unfit = false
		m.say(slog.LevelInfo, "epochs can be stored again")
	}
}

// MayAck reports whether the records applied may be acknowledged: an epoch
// that came with them must be on disk first.
func (m *Machine) MayAck() bool { return !less(m.stored, m.known) }

// take takes an epoch, unless one is being taken. It reports whether that has
// begun.
func (m *Machine) take(why purpose) bool {
	if m.taking != noPurpose || m.now < m.takeAt {
		return false
	}
	m.taking = why
	m.takeOp++
	m.do(TakeEpoch{m.takeOp, m.tried, why == toRenew})
	return true
}

// TookEpoch tells how TakeEpoch went. The number counts as used either way.
func (m *Machine) TookEpoch(now Time, op uint64, e replica.Epoch, start uint32, err error) {
	m.pass(now)
	if op != m.takeOp {
		return
	}
	why := m.taking
	m.taking = noPurpose
	m.tried = max(m.tried, e.N)
	if err != nil {
		m.takeAt = m.now + retryStore
	} else if less(m.stored, e) {
		m.stored, m.tryAt = e, m.now+tryStoreEvery
	}
	m.setFit(err)
	switch why {
	case toPromote:
		m.candidateStored(e, start, err)
	case toPrepare:
		m.preparedStored(e, start, err)
	default:
		if m.role != Active || e.N == 0 && err == nil {
			break
		}
		if err == nil && why != toGoOn && less(e, m.known) {
			m.outdo = true // a higher one has turned up since
			break
		}
		if err != nil {
			if why == toGoOn {
				m.handoffAfter = 0 // see successor
			}
			break
		}
		if why == toGoOn {
			m.wantNext = false
		}
		if why == toGoOn {
			if m.ahead.N != 0 {
				m.epoch = m.ahead // it has been in use
			}
			m.ahead = e
		} else {
			m.epoch, m.ahead, m.outdo = e, replica.Epoch{}, less(e, m.known)
		}
		m.learn(e)
		m.do(UseEpoch{e, start, why == toGoOn})
		m.say(slog.LevelInfo, "took an epoch", slog.Uint64("epoch", uint64(e.N)), slog.String("why", map[purpose]string{
			toOvertake: "a higher one was known", toGoOn: "to have one ahead of need", toRenew: "a node came without an epoch file",
		}[why]))
	}
	m.step()
}

// WantEpoch tells that 7/8 of the tokens are used.
func (m *Machine) WantEpoch(now Time) {
	m.pass(now)
	m.wantNext = true
	m.step()
}

// overtakeKnown keeps the active's epoch the highest known one, and takes the
// next one ahead of need.
func (m *Machine) overtakeKnown() {
	if m.guard {
		return
	}
	switch {
	case m.behindKnown():
		// Of two actives that hear of each other by a third, the lower one is
		// about to give way; they would outdo each other until then. And one
		// whose link is not yet live may have gone on from this very place:
		// then this node follows it, if nothing has changed here.
		if !m.sawHigher() && !m.activeComing() {
			m.take(toOvertake)
		}
	case m.wantNext:
		m.take(toGoOn)
	default:
		m.renew()
	}
}

// renewAfter lets the clock's second pass in which the peer has started: what
// it may have forgotten is not above that.
const renewAfter = time.Second + 10*time.Millisecond

// renew takes an epoch from the clock when a peer has come without an epoch
// file: it may have used one that nobody remembers. If the clock is not above
// the known ones, nothing is needed, and an epoch that runs ahead of the clock
// would do harm: nodes that all lose their disks could fall below it.
func (m *Machine) renew() {
	if !m.freshSince(renewAfter) || !m.take(toRenew) {
		return
	}
	for _, p := range m.peers {
		if p.reached == live && m.now-p.began > renewAfter {
			p.freshSolved = p.boot
		}
	}
}

// freshSince reports whether a peer without an epoch file, that no epoch was
// taken for yet, has been there for longer than d.
func (m *Machine) freshSince(d time.Duration) bool {
	for _, p := range m.peers {
		if p.reached == live && p.st.Fresh && p.freshSolved != p.boot && m.now-p.began > d {
			return true
		}
	}
	return false
}
