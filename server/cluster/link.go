package cluster

import (
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/stile-lock/stile/server/internal/broken"
	"github.com/stile-lock/stile/server/replica"
)

// peer is another node as this one sees it.
type peer struct {
	id   uint8
	rank int // lower is higher priority; above all listed ones if this node does not list it

	out, in  link
	dialing  bool
	dialed   Time // when the last dial began
	nextDial Time

	boot, before uint64 // the instance, and the one before it
	known        bool   // st is of this instance
	st           Status
	mismatch     bool // its peers list does not go with ours

	heard     Time // the last message, of any kind
	echo      Time // the latest beat of ours that came back
	theirBeat uint64
	theirAsk  uint64
	answerNow bool
	beatAt    Time // when the next heartbeat is due

	refused   bool // nobody was there when we last looked
	refusedAt Time
	misfit    Time // when it last answered our dial, and no link came of it; see there
	saidThere bool // the log has it
	began     Time // when this instance was first heard
	upAt      Time // when the last connection came up
	rival     *rival
	wrong     uint64 // the process that said it is this node and can't be
	mute      bool   // it was given up though a link was up: only a live link counts
	reached   reach  // as of the last step
	linked    bool   // as the log says

	// What this node feeds it.
	join     *Join // not served yet
	feeding  uint64
	acked    replica.Place
	joinFrom Time // not before
	joinWait time.Duration
	fedSince Time

	// What an active asks of it; see insync.go and handoff.go.
	behind      Time // since when it has not had target
	target      uint64
	keptUp      Time
	inWait      time.Duration
	eligible    Time // since when it could take the role back
	freshSolved uint64
}

// rival is a process that says it is a peer whose older process may live.
type rival struct {
	link  link
	hello *Status
	at    Time // the last beat before it came
}

// link is one connection.
type link struct {
	up  bool
	gen uint64
}

// reach says what is known of a peer's being there.
type reach uint8

const (
	undecided reach = iota
	live            // a heartbeat of ours came back within the failure timeout
	gone            // refused, or silent for longer than that
)

func (m *Machine) reach(p *peer) reach {
	if p.out.up && p.in.up && p.known && p.echo > 0 && m.now-p.echo <= m.cfg.FailureTimeout {
		return live
	}
	if p.refused && !p.in.up && !p.out.up {
		return gone
	}
	if m.there(p) && m.hasNothing() {
		// It may serve clients. That there is no link is an error of somebody's
		// settings, most likely of ours, and no reason for a node that comes
		// new to serve beside it. One that has the table goes on: else anybody
		// at a peer's address could keep a cluster from its failover.
		return undecided
	}
	if p.mute {
		return gone
	}
	// Silence counts only while this node was running: from the waking on.
	since, limit := max(p.echo, m.woke, p.began, p.upAt), m.cfg.FailureTimeout
	if !p.known {
		// Since the start nothing was heard of it.
		limit = m.cfg.BootGrace
		if p.out.up || p.in.up {
			limit = 3 * m.cfg.FailureTimeout
		}
	}
	if m.now-since > limit {
		return gone
	}
	return undecided
}

// there reports whether the peer answers when it is dialed, and yet no link
// comes about: it can't be spoken with, or says that there is an active and does
// not dial this node. It was so within two failure timeouts: one is what a dial
// may take.
func (m *Machine) there(p *peer) bool {
	return p.reached != live && p.misfit > 0 && m.now-p.misfit <= 2*m.cfg.FailureTimeout && !broken.Rule("misfits-are-gone")
}

// hasNothing reports whether this node has no table of any reign, as one that
// has just started.
func (m *Machine) hasNothing() bool {
	return m.role != Active && m.place() == (replica.Place{}) && !m.cfg.Forked()
}

// links keeps the links: what is down is dialed, what is silent is cut. A cut
// matters: what a silent link delivers late, such as a Go, must not arrive.
func (m *Machine) links() {
	for _, p := range m.peers {
		was := p.reached
		p.reached = m.reach(p)
		switch {
		case p.reached == live:
			p.mute, p.misfit, p.saidThere = false, 0, false
			if !p.linked {
				m.say(slog.LevelInfo, "linked to a node", slog.Int("peer", int(p.id)), slog.String("role", p.st.Role.String()))
			}
			p.linked = true
		case p.reached == gone && was != gone:
			p.saidThere = false
			if m.deciding && was == live && m.now-m.asked > m.witnessFor() {
				m.open = true // the others answered while it was silent
			}
			if p.out.up || p.in.up {
				// Else a peer that reaches us, but not we it, would be
				// undecided again with each link, and nobody would promote.
				p.mute = !p.linked
				m.cut(p)
			}
			if p.linked {
				m.say(slog.LevelWarn, "lost a node", slog.Int("peer", int(p.id)),
					slog.Bool("refused", p.refused), slog.Duration("silent", (m.now-max(p.echo, p.began)).Round(time.Millisecond)))
			}
			p.linked = false
			m.unlink(p)
			m.adoptRival(p)
		case p.reached == undecided && p.out.up && m.there(p) && m.now-max(p.upAt, p.misfit) > m.cfg.FailureTimeout:
			m.cut(p) // and dialed anew, which shows whether it is there still
		}
		if !p.out.up && !p.dialing && m.now >= p.nextDial {
			p.dialing, p.dialed = true, m.now
			m.do(Dial{p.id})
		}
	}
}

// unlink forgets what held only by the link.
func (m *Machine) unlink(p *peer) {
	if p.feeding != 0 {
		p.feeding = 0
		m.do(Unfeed{p.id})
	}
	p.join = nil
	p.eligible = 0
	if m.follow != nil && m.follow.peer == p.id {
		m.follow = nil
	}
	if m.prepared != nil && m.prepared.from == p.id {
		m.prepared = nil
	}
}

func (m *Machine) cut(p *peer) {
	m.do(Cut{p.id})
	p.out.up, p.in.up, p.dialing = false, false, false
	p.nextDial = m.now
	m.unlink(p)
}

func (m *Machine) linkUp(id uint8, out bool, gen uint64, hello *Status) {
	p := m.byID[id]
	if p == nil {
		if id == m.cfg.Self {
			return
		}
		// A node that is in its own list but not in ours ranks below ours.
		p = m.addPeer(id, len(m.cfg.Order)+int(id))
	}
	if m.cfg.Listed != nil && !m.cfg.Listed(id, hello.Advertise) {
		if err := m.incompatible(hello.Peers); err != nil && m.role == Joining {
			m.failList(id, hello.Peers, err)
		}
		if p.wrong != hello.Boot {
			p.wrong = hello.Boot
			m.say(slog.LevelError, "a node has the id of another by its own peers list", slog.Int("id", int(id)),
				slog.String("address", hello.Advertise), slog.String("theirs", hello.Peers), slog.String("ours", m.cfg.Peers))
		}
		if out {
			// It is at the address that we have for another.
			m.cut(p)
			p.nextDial = m.now + time.Second
		}
		return
	}
	if p.boot != hello.Boot {
		switch stale := p.out.up; {
		case out && hello.Boot == p.before && p.dialed <= p.began:
			// The dial is older than the process that came after this one.
			m.cut(p)
			return
		case out:
			r := p.rival
			m.newInstance(p, hello.Boot)
			if r != nil && r.hello.Boot == hello.Boot {
				p.in = r.link
			}
		case hello.Boot == p.before:
			return // a dead process may still have dialed; only an answer proves life
		case stale && m.now-p.echo <= m.cfg.FailureTimeout:
			// The process we know may have died, and we were not told yet; or
			// there are two. What we send it now will show.
			p.rival, p.answerNow = &rival{link{true, gen}, hello, Time(m.beat)}, true
			return
		default:
			m.newInstance(p, hello.Boot)
			if stale {
				m.cut(p) // our connection is to the one before
				return
			}
		}
	}
	l := &p.in
	if out {
		l = &p.out
		p.dialing = false
		// The answer to our hello came after the dial began.
		p.echo = max(p.echo, p.dialed)
		if hello.Role == Active || len(hello.Sees) > 0 {
			p.misfit = m.now // until the link is live; it may never be
		}
	} else if m.follow != nil && m.follow.peer == id {
		m.unlink(p) // the stream came on the connection before
	}
	l.up, l.gen = true, gen
	p.upAt = m.now
	p.refused = false
	p.heard = m.now
	p.answerNow = true
	p.nextDial = m.now
	m.receiveStatus(p, hello)
}

// newInstance begins with a process of the peer that was not there before.
// Whatever the last one said or was asked is void.
func (m *Machine) newInstance(p *peer, boot uint64) {
	if p.boot != 0 {
		if boot == p.before {
			// The older one lives, so there are two.
			m.do(Ban{p.boot})
			m.say(slog.LevelError, "two nodes run with one id: the newer is turned away", slog.Int("peer", int(p.id)))
		}
		p.in.up, p.out.up = false, false
		m.unlink(p)
	}
	*p = peer{
		id: p.id, rank: p.rank, out: p.out, in: p.in, dialing: p.dialing, dialed: p.dialed,
		boot: boot, before: p.boot, began: m.now, reached: p.reached, linked: p.linked,
		joinWait: p.joinWait, inWait: p.inWait, freshSolved: p.freshSolved,
	}
	m.passed &^= bit(p.id)
	m.due[p.id] = 0
	m.failedDonor &^= bit(p.id)
}

func (m *Machine) linkDown(id uint8, out bool, gen uint64, refused bool) {
	p := m.byID[id]
	if p == nil {
		return
	}
	l := &p.in
	if out {
		l = &p.out
	} else if p.rival != nil && p.rival.link.gen == gen {
		p.rival.link.up = false
	}
	if !l.up || l.gen != gen {
		return
	}
	l.up = false
	if out {
		p.nextDial = m.now // whether it is there shows at once
		if refused && p.dialed >= m.woke {
			p.refused, p.refusedAt = true, m.now
		}
	}
	m.unlink(p)
	if out {
		m.adoptRival(p)
	}
}

// adoptRival takes the process that said it is the peer for it: the one before
// does not answer any more.
func (m *Machine) adoptRival(p *peer) {
	r := p.rival
	if r == nil {
		return
	}
	m.newInstance(p, r.hello.Boot)
	p.in = r.link
	p.refused = false
	m.receiveStatus(p, r.hello)
}

func (m *Machine) dialFailed(id uint8, refused, misfit bool) {
	p := m.byID[id]
	if p == nil || !p.dialing {
		return
	}
	p.dialing = false
	if p.dialed < m.woke {
		// It tells how things were before this node was paused.
		p.nextDial = m.now
		return
	}
	p.nextDial = m.now + m.cfg.Heartbeat/2
	if refused {
		p.refused, p.refusedAt = true, m.now
	} else if misfit {
		p.refused, p.misfit = false, m.now
	}
}

func (m *Machine) receiveStatus(p *peer, s *Status) {
	if s.Boot != p.boot || p.known && s.Beat <= p.theirBeat {
		return // of an instance before, or overtaken
	}
	first := !p.known
	if p.known && p.st.Role != s.Role {
		m.passed &^= bit(p.id)
		m.due[p.id] = 0
	}
	p.known, p.st, p.theirBeat = true, *s, s.Beat
	if s.Echo <= m.beat && Time(s.Echo) > m.booted {
		p.echo = max(p.echo, min(Time(s.Echo), m.now))
	}
	if r := p.rival; r != nil && p.echo > r.at {
		p.rival = nil
		m.do(Ban{r.hello.Boot})
		m.say(slog.LevelError, "two nodes run with one id: the newer is turned away", slog.Int("peer", int(p.id)))
	}
	if s.Ask > p.theirAsk {
		p.theirAsk, p.answerNow = s.Ask, true
	}
	if s.Role == Active {
		m.lastActive = m.now
	}
	if first {
		m.checkList(p)
		m.checkSettings(p)
	}
	if p.mismatch {
		// Nothing of it counts, or two actives that must not meet would outdo
		// each other's epochs for ever. The next promotion is above all the
		// same.
		m.tried = max(m.tried, s.Known.N, s.Epoch.N)
	} else {
		m.learn(s.Known)
		m.learn(s.Epoch)
	}
	if p.feeding != 0 && m.role != Active && (s.Role == Active || m.seesOther(s)) {
		// It has got what it lacked, or gets it from the active.
		p.feeding = 0
		m.do(Unfeed{p.id})
	}
}

// seesOther reports whether a peer has fresh word from an active other than
// this node. It follows that one, and takes no stream of this node.
func (m *Machine) seesOther(s *Status) bool {
	return slices.ContainsFunc(s.Sees, func(a Sighted) bool { return a.ID != m.cfg.Self })
}

// checkList compares the peers lists (section 10).
func (m *Machine) checkList(p *peer) {
	if p.st.Peers == m.cfg.Peers {
		p.mismatch = false
		return
	}
	err := m.incompatible(p.st.Peers)
	p.mismatch = err != nil
	switch {
	case err != nil && m.role == Joining:
		m.failList(p.id, p.st.Peers, err)
	case err != nil:
		m.say(slog.LevelError, "a peer has a list that does not go with ours: no data is exchanged", slog.Int("peer", int(p.id)),
			slog.String("ours", m.cfg.Peers), slog.String("theirs", p.st.Peers), slog.String("difference", err.Error()))
	default:
		m.say(slog.LevelWarn, "a peer has another peers list, which goes with ours", slog.Int("peer", int(p.id)),
			slog.String("ours", m.cfg.Peers), slog.String("theirs", p.st.Peers))
	}
}

// checkSettings warns of what should be the same everywhere and is not: each
// node goes by its own.
func (m *Machine) checkSettings(p *peer) {
	for _, text := range m.differences(&p.st) {
		m.say(slog.LevelWarn, "a peer has other settings", slog.Int("peer", int(p.id)), slog.String("difference", text))
	}
}

// differences are how the settings of a peer differ that should be the same.
func (m *Machine) differences(s *Status) (all []string) {
	if s.Sync != m.cfg.Sync {
		modes := map[bool]string{false: "async", true: "sync"}
		all = append(all, fmt.Sprintf("--replication is %s there and %s here: what is promised depends on which node is active", modes[s.Sync], modes[m.cfg.Sync]))
	}
	if theirs := time.Duration(s.FailureTimeout); theirs != m.cfg.FailureTimeout {
		all = append(all, fmt.Sprintf("--failure-timeout is %v there and %v here: one may take over while the other is still sure of its role", theirs, m.cfg.FailureTimeout))
	}
	return all
}

// incompatible says why a peer's list does not go with this node's.
func (m *Machine) incompatible(list string) error {
	if m.cfg.Compatible == nil {
		return nil
	}
	return m.cfg.Compatible(list)
}

func (m *Machine) failList(id uint8, list string, err error) {
	m.do(Fail{"the peers list of this node, " + m.cfg.Peers + ", does not go with that of node " + strconv.Itoa(int(id)) + ", which runs, " + list + ": " + err.Error()})
}

// tell sends statuses: to all at once when something in them has changed, to
// a peer that asked, and as heartbeats.
func (m *Machine) tell() {
	s := m.status()
	changed := s.Role != m.told.Role || s.Place.Reign != m.told.Place.Reign || s.Base != m.told.Base ||
		s.Epoch != m.told.Epoch || s.Known != m.told.Known || s.Stopping != m.told.Stopping ||
		s.Unfit != m.told.Unfit || s.Forked != m.told.Forked || s.Paused != m.told.Paused || s.Meeting != m.told.Meeting ||
		s.Reach != m.told.Reach || s.Ask != m.told.Ask || !slices.Equal(s.Sees, m.told.Sees)
	m.told = s
	for _, p := range m.peers {
		if !p.out.up || !changed && !p.answerNow && m.now < p.beatAt {
			continue
		}
		p.answerNow = false
		p.beatAt = m.now + m.cfg.Heartbeat
		own := s
		own.Beat, own.Echo, own.Answer, own.Feeds = m.nextBeat(), p.theirBeat, p.theirAsk, p.feeding
		if p.join != nil {
			own.Feeds = p.join.Stream
		}
		if !p.in.up {
			own.Echo = 0 // of a link that does not stand any more
		}
		m.do(Send{p.id, &own})
	}
}

// Hello is the status for a new link.
func (m *Machine) Hello() *Status {
	s := m.status()
	s.Beat = m.nextBeat()
	return &s
}

// nextBeat is the time, but never the same twice.
func (m *Machine) nextBeat() uint64 {
	m.beat = max(uint64(m.now), m.beat+1)
	return m.beat
}

// witnessFor is how long the word of an active is fresh: two heartbeats may be
// late together. It ends before a failure timeout does, which is at least
// three heartbeats: so a node that died silently is not vouched for when its
// peers have given it up.
func (m *Machine) witnessFor() time.Duration {
	return min(m.cfg.Heartbeat*5/2, m.cfg.FailureTimeout-m.cfg.Heartbeat/4)
}

func (m *Machine) status() Status {
	s := Status{
		Boot: m.cfg.Boot, Role: m.role, Place: m.place(), Known: m.known,
		Stopping: m.stopping, Unfit: m.unfit, Fresh: m.fresh, Forked: m.cfg.Forked(), Paused: m.guard, Sync: m.cfg.Sync,
		Ask: m.question, FailureTimeout: uint64(m.cfg.FailureTimeout),
		Advertise: m.cfg.Advertise, Peers: m.cfg.Peers,
	}
	if m.role == Active {
		s.Base, s.Epoch = m.base, m.topEpoch()
		if s.Place.Reign != m.reign {
			s.Place = m.start // the table is about to be told
		}
		if m.meeting != nil {
			s.Meeting = m.meeting.with + 1
		}
	}
	for _, p := range m.peers {
		if p.reached != live {
			continue
		}
		s.Reach |= bit(p.id)
		if p.st.Role == Active && m.now-p.heard <= m.witnessFor() {
			s.Sees = append(s.Sees, Sighted{p.id, p.st.Place.Reign})
		}
	}
	return s
}
