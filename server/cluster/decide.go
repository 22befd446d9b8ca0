package cluster

import (
	"log/slog"
	"time"

	"github.com/stile-lock/stile/server/replica"
)

// pullFor is how long a donor has to give a candidate what it lacks.
const pullFor = 500 * time.Millisecond

// following is the stream a standby takes, or a candidate pulls.
type following struct {
	peer   uint8
	stream uint64
	gen    uint64        // of the connection it comes on
	reign  replica.Epoch // of an active
	pull   bool          // from a donor, not from an active
	since  Time
	target replica.Place // pull: what the donor had
}

// candidacy is a promotion under way.
type candidacy struct {
	stored bool // then comes the last look
	epoch  replica.Epoch
	start  uint32
}

// passive is what a node looks at that is not active.
func (m *Machine) passive() {
	if m.prepared != nil && m.now-m.prepared.since > 2*m.cfg.FailureTimeout {
		m.prepared = nil
	}
	if p := m.liveActive(); p != nil {
		m.withdraw("another node is active")
		m.deciding, m.passed, m.due = false, 0, [16]Time{}
		m.settle()
		m.followActive(p)
		return
	}
	if m.follow != nil && !m.follow.pull {
		m.follow = nil
	}
	if m.stopping {
		m.withdraw("this node is stopping")
		return
	}
	if !m.deciding {
		m.deciding, m.failedDonor = true, 0
		m.ask()
	}
	m.decide()
}

// settle ends the joining.
func (m *Machine) settle() {
	if m.role == Joining {
		m.role, m.why = Standby, "another node is active, or comes first"
	}
}

// liveActive is a peer that says it is active, on a live link; where two say
// so, the one that is followed already, then the one of higher priority.
func (m *Machine) liveActive() *peer {
	var found *peer
	for _, p := range m.peers {
		if p.reached != live || p.st.Role != Active || p.mismatch {
			continue
		}
		if m.follow != nil && m.follow.peer == p.id {
			return p
		}
		if found == nil || p.rank < found.rank {
			found = p
		}
	}
	return found
}

// Other is another node that says it is active, on a live link, and the epoch
// that its reign began with.
func (m *Machine) Other() (id uint8, reign replica.Epoch, ok bool) {
	p := m.liveActive()
	if p == nil {
		return 0, replica.Epoch{}, false
	}
	return p.id, p.st.Place.Reign, true
}

// followActive asks the active for its stream, unless it comes already.
func (m *Machine) followActive(p *peer) {
	if f := m.follow; f != nil && f.peer == p.id && !f.pull && f.reign == p.st.Place.Reign && f.gen == p.in.gen {
		if p.st.Feeds == f.stream {
			f.since = m.now
		}
		if m.now-f.since <= m.cfg.FailureTimeout {
			return
		}
		// It has lost the request, or waits before it starts anew.
		m.pull(p, false)
		return
	}
	m.pull(p, false)
	m.say(slog.LevelInfo, "this node follows the active", slog.Int("active", int(p.id)),
		slog.Uint64("reign", uint64(p.st.Place.Reign.N)))
}

func (m *Machine) pull(p *peer, fromDonor bool) {
	m.streams++
	m.follow = &following{
		peer: p.id, stream: m.streams, gen: p.in.gen, reign: p.st.Place.Reign,
		pull: fromDonor, since: m.now, target: p.st.Place,
	}
	m.do(Pull{p.id, m.streams})
	at := m.place()
	if m.cfg.Forked() {
		at = replica.Place{} // nothing leads on from this table
	}
	m.do(Send{p.id, &Join{m.streams, at}})
}

// decide promotes this node, if it is its turn, once every peer has answered
// or is gone.
func (m *Machine) decide() {
	for _, p := range m.peers {
		switch {
		case p.mismatch && (p.reached == live && p.st.Role == Active || p.reached == gone && !p.refused):
			return // it may serve clients that we could not tell from ours
		case p.reached == undecided:
			m.open = true
			if m.there(p) && !p.out.up && !p.saidThere {
				p.saidThere = true
				m.say(slog.LevelWarn, "this node does not become active: a peer is there that it has no link with, and that may be active",
					slog.Int("peer", int(p.id)))
			}
			return
		}
	}
	if m.open {
		// What the others said while one was still undecided, or silent, may
		// be old, and so may be the epoch: who was promoted elsewhere meanwhile
		// should not have the greater tokens.
		m.open = false
		if c := m.cand; c != nil && c.stored && m.take(toPromote) {
			c.stored = false
		}
		m.ask()
	}
	for _, p := range m.peers {
		if p.reached == live && p.st.Answer < m.question {
			return
		}
	}
	if m.witnessed() >= 0 {
		m.withdraw("another node has a link to an active")
		m.settle()
		return
	}
	best, reign := m.choose()
	if best != m.cfg.Self {
		m.withdraw("another node comes first")
		m.settle()
		m.await(best)
		return
	}
	if m.pullMissing(reign) {
		return
	}
	switch c := m.cand; {
	case c == nil:
		if !m.unfit && m.take(toPromote) {
			m.role, m.cand = Candidate, new(candidacy)
		}
	case !c.stored:
	case less(c.epoch, m.known):
		// Somebody came with a higher one meanwhile.
		if m.take(toPromote) {
			c.stored = false
		}
	default:
		m.becomeActive(c.epoch, c.start, false, "nobody else is active, and it is this node's turn")
	}
}

// choose returns whose turn it is among the nodes that are there, and the most
// recent reign that any of them has a table of. Who has that table comes
// first; then priority.
//
// Priority alone would let a node that lost its table take over empty; never
// taking over empty would leave a new cluster without an active.
func (m *Machine) choose() (best uint8, reign replica.Epoch) {
	reign = m.place().Reign
	for _, p := range m.peers {
		if p.reached == live && !p.mismatch && less(reign, p.st.Place.Reign) {
			reign = p.st.Place.Reign
		}
	}
	bestRank, bestHas, found := 0, false, false
	consider := func(id uint8, rank int, has, fit bool) {
		if !fit || m.passed&bit(id) != 0 {
			return
		}
		if !found || has && !bestHas || has == bestHas && rank < bestRank {
			best, bestRank, bestHas, found = id, rank, has, true
		}
	}
	// Unfit, it still tries again when there is nobody else.
	consider(m.cfg.Self, m.rank, m.place().Reign == reign, !m.unfit)
	for _, p := range m.peers {
		if p.reached == live && !p.mismatch {
			consider(p.id, p.rank, p.st.Place.Reign == reign, !p.st.Unfit && !p.st.Stopping)
		}
	}
	if !found {
		return m.cfg.Self, reign
	}
	return best, reign
}

// await gives the node two failure timeouts to promote; then it is passed
// over.
func (m *Machine) await(id uint8) {
	if m.due[id] == 0 {
		m.due[id] = m.now
	} else if m.now-m.due[id] > 2*m.cfg.FailureTimeout {
		m.passed |= bit(id)
		m.say(slog.LevelWarn, "a node should have become active and did not: it is passed over", slog.Int("peer", int(id)))
		m.ask()
	}
}

// pullMissing gets what others have of the reign and this node lacks. It
// reports whether that is under way.
func (m *Machine) pullMissing(reign replica.Epoch) bool {
	mine := m.place()
	if f := m.follow; f != nil && f.pull {
		switch {
		case mine.Reign == f.target.Reign && mine.Pos >= f.target.Pos:
			m.follow = nil
		case m.now-f.since > pullFor:
			m.failedDonor |= bit(f.peer)
			m.follow = nil
			m.ask()
			return true
		default:
			return true
		}
	}
	var donor *peer
	for _, p := range m.peers {
		at := p.st.Place
		if p.reached != live || p.mismatch || at.Reign != reign || m.failedDonor&bit(p.id) != 0 ||
			mine.Reign == reign && at.Pos <= mine.Pos || at == (replica.Place{}) {
			continue
		}
		if donor == nil || at.Pos > donor.st.Place.Pos {
			donor = p
		}
	}
	if donor == nil {
		return false
	}
	m.say(slog.LevelInfo, "another node has more of the table: this node gets that first", slog.Int("peer", int(donor.id)))
	m.pull(donor, true)
	return true
}

func (m *Machine) candidateStored(e replica.Epoch, start uint32, err error) {
	if m.cand == nil {
		return
	}
	if err != nil {
		m.withdraw("its epoch can't be stored")
		return
	}
	*m.cand = candidacy{true, e, start}
	m.ask() // the last look
}

// withdraw ends a candidacy. The epoch taken for it counts as used.
func (m *Machine) withdraw(why string) {
	if m.cand == nil {
		return
	}
	m.cand, m.role, m.deciding = nil, Standby, false
	m.say(slog.LevelInfo, "this node does not become active", slog.String("why", why))
}

// Start is the place where a reign begins whose tokens come after start. The
// start counts, since a node that lost its disk and restarts within the second
// may take the same epoch again: those are two reigns, and a place in the one
// is none in the other.
func Start(reign replica.Epoch, start uint32) replica.Place {
	return replica.Place{Reign: reign, Pos: uint64(start) << 16}
}

func (m *Machine) becomeActive(e replica.Epoch, start uint32, handed bool, why string) {
	m.promotions++
	m.why = why
	m.base = m.place()
	if m.cfg.Forked() {
		m.base = replica.Place{}
	}
	m.start = Start(e, start)
	gap := m.now - m.lastActive
	m.role, m.reign, m.epoch, m.ahead, m.outdo = Active, e, e, replica.Epoch{}, false
	m.do(Promote{e, start, m.base, gap})
	m.learn(e)
	m.cand, m.follow, m.prepared, m.meeting, m.handoff = nil, nil, nil, nil, nil
	m.deciding, m.guard, m.wantNext = false, false, false
	m.handedTo, m.passed, m.due = -1, 0, [16]Time{}
	m.handoffAfter, m.handoffPause = 0, 0
	m.higher = [16]Time{}
	m.fresh = false
	members := uint16(0)
	for _, p := range m.peers {
		p.eligible, p.behind, p.acked = 0, 0, replica.Place{}
		if p.feeding != 0 {
			p.feeding = 0
			m.do(Unfeed{p.id})
		}
		if p.reached == live {
			p.freshSolved = p.boot
			if !p.st.Stopping && !p.mismatch {
				members |= bit(p.id)
			}
		}
	}
	m.startInSync(members)
	if !handed {
		m.dampTakeback()
	}
	level := slog.LevelWarn
	if handed || m.base == (replica.Place{}) {
		level = slog.LevelInfo // as planned, or the cluster's first
	}
	m.say(level, "this node is active", slog.String("why", why), slog.Uint64("epoch", uint64(e.N)),
		slog.Uint64("base_reign", uint64(m.base.Reign.N)), slog.Uint64("base_position", m.base.Pos))
	for _, p := range m.peers {
		if !p.mismatch && less(m.base.Reign, p.st.Place.Reign) {
			m.say(slog.LevelWarn, "a node that is gone had a more recent table: locks that only it knows of are lost", slog.Int("peer", int(p.id)),
				slog.Uint64("its_reign", uint64(p.st.Place.Reign.N)))
		}
	}
}

// stepDown makes an active a standby at the place.
func (m *Machine) stepDown(level slog.Level, at replica.Place, why string, attrs ...slog.Attr) {
	m.role, m.guard, m.meeting, m.handoff, m.deciding = Standby, false, nil, nil, false
	if m.handedTo < 0 {
		m.stepDowns++
	} else {
		m.given++
	}
	m.why = why
	m.lastActive = m.now
	m.insync = insync{}
	if at != m.place() {
		// The table is a fork: nobody is fed from it.
		for _, p := range m.peers {
			if p.feeding != 0 {
				p.feeding = 0
				m.do(Unfeed{p.id})
			}
		}
	}
	m.do(Demote{at})
	m.say(level, "this node is no longer active", append([]slog.Attr{slog.String("why", why)}, attrs...)...)
}

// feed starts the streams that peers asked for.
func (m *Machine) feed() {
	for _, p := range m.peers {
		if p.join == nil || p.reached != live || p.mismatch || m.now < p.joinFrom || m.place() == (replica.Place{}) || m.cfg.Forked() {
			continue
		}
		j := p.join
		p.join, p.feeding, p.acked, p.behind, p.fedSince = nil, j.Stream, replica.Place{}, 0, m.now
		m.do(Feed{p.id, j.Stream, j.Place})
	}
}

const (
	firstJoinWait = time.Second
	maxJoinWait   = time.Minute
)

// overrun drops a standby that is too slow for the stream. It starts anew
// after a pause, which doubles if the same happens soon again: else a slow one
// would be sent snapshots in a loop.
func (m *Machine) overrun(p *peer) {
	p.feeding = 0
	if m.now-p.fedSince > maxJoinWait {
		p.joinWait = 0
	}
	p.joinWait = min(max(2*p.joinWait, firstJoinWait), maxJoinWait)
	p.joinFrom = m.now + p.joinWait
	m.do(Unfeed{p.id})
	m.do(Send{p.id, new(Join)})
	m.say(slog.LevelWarn, "a standby is too slow for the stream and was dropped from it", slog.Int("peer", int(p.id)),
		slog.Duration("again_in", p.joinWait))
}

func (m *Machine) receiveAck(p *peer, a *Ack) {
	if a.Stream != p.feeding {
		return
	}
	if m.role == Active && a.Place.Reign == m.reign && p.acked.Reign != m.reign {
		m.say(slog.LevelInfo, "a standby has the table", slog.Int("peer", int(p.id)))
	}
	p.acked = a.Place
}

// stop tells when a node that was asked to may end.
func (m *Machine) stop() {
	if !m.stopping || m.done {
		return
	}
	switch {
	case m.modeSet && m.mode == Ending, m.modeSet && m.mode == Redirect && m.role != Active:
		// As set at an earlier step: everybody was answered by it.
		m.done = true
		m.do(Done{})
	case m.role != Active && (m.handedTo < 0 || m.now-max(m.stopSince, m.lastActive) > m.cfg.FailureTimeout+time.Second):
		m.finished = m.knownActive() < 0
	}
}
