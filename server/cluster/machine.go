package cluster

import (
	"log/slog"
	"time"

	"github.com/stile-lock/stile/server/replica"
)

// Time is an instant on a clock of the node that also runs while the machine
// it is on sleeps; the origin does not matter, but it is above 0.
type Time = time.Duration

// Config is what a Machine is made with.
type Config struct {
	Self uint8
	// Order has the ids of all listed nodes, Self too, highest priority first.
	Order []uint8
	Boot  uint64 // a random number of this process

	// Told to the other nodes.
	Advertise, Peers string
	// Compatible says why a peer's list does not go with this node's own, nil
	// if it does.
	Compatible func(peers string) error
	// Listed reports whether the address may be that of the node with the id;
	// nil: always.
	Listed func(id uint8, advertise string) bool

	Heartbeat, FailureTimeout, BootGrace, StopTimeout time.Duration
	// Takeback is how long a node of higher priority must have been fit for
	// the role before it gets it back. Negative: never.
	Takeback time.Duration

	Sync        bool
	SyncTimeout time.Duration
	MinInSync   int

	// Known is the highest epoch in the epoch file; zero if there was none.
	Known replica.Epoch

	// Place is where this node's table stands.
	Place func() replica.Place
	// Forked reports whether the table is another than the place says: that
	// of an active that gave way to another, until it has that one's table.
	// nil: never.
	Forked func() bool
}

// Machine decides the role of one node.
//
// Its owner calls the methods below, each with the time, one at a time, and
// after each call carries out Actions, in order, until there are none. Tick
// is due at least every quarter of a heartbeat, and after Actions were
// carried out.
type Machine struct {
	cfg   Config
	rank  int // of this node
	peers []*peer
	byID  [16]*peer

	now     Time
	beat    uint64 // of the last status
	booted  Time
	actions []Action

	role  Role
	why   string        // it has the role
	reign replica.Epoch // Active: what the reign began with
	base  replica.Place // Active: where it began from
	start replica.Place // Active: and its own first place
	epoch replica.Epoch // Active: what tokens are given under
	ahead replica.Epoch // Active: and then under this one, if it is not zero
	outdo bool          // Active: a higher one was heard of, which is not ahead

	// guard.go
	woke  Time // when this node last found it was paused; boot counts
	guard bool

	// epoch.go
	known    replica.Epoch // the highest heard of
	stored   replica.Epoch // the highest on this node's disk
	tried    uint32        // the highest number ever chosen here
	storing  bool
	storeAt  Time // not before
	tryAt    Time // whether the disk works
	unfit    bool
	taking   purpose
	takeOp   uint64
	takeAt   Time // not before
	wantNext bool // the sequence runs out
	fresh    bool // this node had no epoch file

	// decide.go
	deciding    bool
	question    uint64
	asked       Time // the question
	open        bool // a peer kept the others' answers waiting, and they may be old
	failedDonor uint16
	due         [16]Time // since when the node should have promoted
	passed      uint16   // ids of nodes that did not, though due
	cand        *candidacy
	follow      *following
	streams     uint64
	lastActive  Time // when an active was last heard

	// handoff.go
	handoff      *handoff
	handoffs     uint64
	handoffAfter Time
	handoffPause time.Duration
	prepared     *prepared
	handedTo     int // id, -1: nobody
	takebackGo   Time
	takebackWait time.Duration
	stopping     bool
	stopSince    Time
	finished     bool
	done         bool

	// meet.go
	meeting *meeting
	halt    bool              // the table must stand still for the next step
	settled [16]replica.Epoch // reigns of others that were met and dealt with
	higher  [16]Time          // since when the node has been seen active above this one
	// insync.go
	insync insync

	promotions, given, stepDowns uint64 // for the view

	told    Status // as last sent to all
	mode    Mode
	modeAt  int
	modeSet bool
	idle    bool // clients are neither served nor sent to who serves by a node with the table
	useful  Time // when it last was not
}

// Action is something to be carried out.
type Action interface{ action() }

type (
	// Dial tries to reach the peer, once. LinkUp or DialFailed follows.
	Dial struct{ Peer uint8 }
	// Cut resets all connections with the peer. No LinkDown follows.
	Cut struct{ Peer uint8 }
	// Ban turns away a process: an older one with its id lives.
	Ban struct{ Boot uint64 }
	// Send sends a message, if the link is up.
	Send struct {
		Peer uint8
		Msg  Message
	}
	// StoreEpoch writes down an epoch that is known, perhaps once more;
	// StoredEpoch follows.
	StoreEpoch struct{ Epoch replica.Epoch }
	// TakeEpoch chooses a number above Above, and at least the clock's
	// second, and writes it down; TookEpoch follows. If Clock is set, only the
	// clock's second will do: if that is not above Above, nothing is taken, and
	// TookEpoch tells of the zero epoch.
	TakeEpoch struct {
		Op    uint64
		Above uint32
		Clock bool
	}
	// Pull expects the stream from the peer; the Join is sent after it.
	Pull struct {
		Peer   uint8
		Stream uint64
	}
	// Feed starts to send the peer the stream, from its place on.
	Feed struct {
		Peer   uint8
		Stream uint64
		Place  replica.Place
	}
	// Unfeed ends that.
	Unfeed struct{ Peer uint8 }
	// Promote makes the table serve: a new reign begins at Base, with tokens
	// of the epoch after Start. Gap is for how long nobody was heard that
	// ended leases.
	Promote struct {
		Reign replica.Epoch
		Start uint32
		Base  replica.Place
		Gap   time.Duration
	}
	// UseEpoch gives tokens under a further epoch of this node: at once, or
	// when the current one's are used up. It is a record of the stream.
	UseEpoch struct {
		Epoch replica.Epoch
		Start uint32
		Ahead bool
	}
	// Demote makes the table a standby's, at the place.
	Demote struct{ Place replica.Place }
	// SetMode says how clients are answered. It holds when it returns:
	// nobody is answered by the mode before it any more.
	SetMode struct {
		Mode   Mode
		Active uint8 // Redirect
	}
	// SetInSync puts the set into the stream; InSyncAt follows.
	SetInSync struct{ Members uint16 }
	// SendOffer offers the table as it is to another active; Via is the peer
	// that the offer goes by, To itself where there is a link.
	SendOffer struct {
		To, Via uint8
		Epoch   replica.Epoch
	}
	// Adopt takes over the offer of the node, as far as it has come.
	Adopt struct{ From uint8 }
	// Say is for the log.
	Say struct {
		Level slog.Level
		Text  string
		Attrs []slog.Attr
	}
	// Fail ends the process: going on would do harm.
	Fail struct{ Reason string }
	// Done: the node has given its role away, or has none; it may end.
	Done struct{}
)

func (Dial) action()       {}
func (Cut) action()        {}
func (Ban) action()        {}
func (Send) action()       {}
func (StoreEpoch) action() {}
func (TakeEpoch) action()  {}
func (Pull) action()       {}
func (Feed) action()       {}
func (Unfeed) action()     {}
func (Promote) action()    {}
func (UseEpoch) action()   {}
func (Demote) action()     {}
func (SetMode) action()    {}
func (SetInSync) action()  {}
func (SendOffer) action()  {}
func (Adopt) action()      {}
func (Say) action()        {}
func (Fail) action()       {}
func (Done) action()       {}

// New returns a joining node.
func New(cfg Config, now Time) *Machine {
	if cfg.Forked == nil {
		cfg.Forked = func() bool { return false }
	}
	m := &Machine{
		cfg: cfg, now: now, booted: now, woke: now, lastActive: now, useful: now,
		known: cfg.Known, stored: cfg.Known, tried: cfg.Known.N,
		fresh: cfg.Known.N == 0, handedTo: -1,
		takebackWait: cfg.Takeback,
	}
	for rank, id := range cfg.Order {
		if id == cfg.Self {
			m.rank = rank
			continue
		}
		m.addPeer(id, rank)
	}
	m.step()
	return m
}

func (m *Machine) addPeer(id uint8, rank int) *peer {
	p := &peer{id: id, rank: rank}
	m.peers = append(m.peers, p)
	m.byID[id] = p
	return p
}

// Actions returns what is to be done, in order.
func (m *Machine) Actions() []Action {
	out := m.actions
	m.actions = nil
	return out
}

func (m *Machine) do(a Action) { m.actions = append(m.actions, a) }

func (m *Machine) say(level slog.Level, text string, attrs ...slog.Attr) {
	m.do(Say{level, text, attrs})
}

// Tick lets time pass.
func (m *Machine) Tick(now Time) {
	m.pass(now)
	m.step()
}

// LinkUp tells of a connection whose handshake is complete: out is the one
// this node dialed and sends on, else the one it receives on. gen names it.
func (m *Machine) LinkUp(now Time, id uint8, out bool, gen uint64, hello *Status) {
	m.pass(now)
	m.linkUp(id, out, gen, hello)
	m.step()
}

// BadHello tells of a connection whose hello can't be read. It is cut; one that
// this node dialed is a dial that has failed, at a misfit.
func (m *Machine) BadHello(now Time, id uint8, out bool) {
	m.pass(now)
	if p := m.byID[id]; p == nil {
		m.do(Cut{id})
	} else {
		m.cut(p)
		p.dialing = out
		m.dialFailed(id, false, true)
	}
	m.step()
}

// LinkDown tells of the end of a connection. refused: nobody is there.
func (m *Machine) LinkDown(now Time, id uint8, out bool, gen uint64, refused bool) {
	m.pass(now)
	m.linkDown(id, out, gen, refused)
	m.step()
}

// DialFailed tells that the peer could not be reached. refused: nobody is
// there; misfit: somebody is and has answered, but there can be no link; else
// there was no answer.
func (m *Machine) DialFailed(now Time, id uint8, refused, misfit bool) {
	m.pass(now)
	m.dialFailed(id, refused, misfit)
	m.step()
}

// Heard tells that bytes of the stream came from the peer: it lives.
func (m *Machine) Heard(now Time, id uint8) {
	m.pass(now)
	if p := m.byID[id]; p != nil {
		p.heard = m.now
		if p.known && p.st.Role == Active {
			m.lastActive = m.now
		}
	}
}

// Receive takes a message.
func (m *Machine) Receive(now Time, id uint8, msg Message) {
	m.pass(now)
	p := m.byID[id]
	if p == nil {
		return
	}
	p.heard = m.now
	switch msg := msg.(type) {
	case *Status:
		m.receiveStatus(p, msg)
	case *Join:
		switch {
		case msg.Stream != 0:
			p.join = msg
		case m.follow != nil && m.follow.peer == p.id:
			m.follow = nil // its stream has ended
		}
	case *Ack:
		m.receiveAck(p, msg)
	case *Prepare:
		m.receivePrepare(p, msg)
	case *Prepared:
		m.receivePrepared(p, msg)
	case *Go:
		m.receiveGo(p, msg)
	case *Offer:
		m.receiveOffer(p, msg)
	}
	m.step()
}

// Progress tells that the stream has moved the table on, or that the stream
// from the peer can't go on from here.
func (m *Machine) Progress(now Time, broken bool) {
	m.pass(now)
	if broken && m.follow != nil {
		p := m.byID[m.follow.peer]
		m.say(slog.LevelWarn, "the stream has a gap: the link is closed, to start anew", slog.Int("peer", int(p.id)))
		m.cut(p)
	}
	m.step()
}

// CutOff resets the connections with a peer that sends what can't be read.
func (m *Machine) CutOff(now Time, id uint8) {
	m.pass(now)
	if p := m.byID[id]; p != nil {
		m.cut(p)
	} else {
		m.do(Cut{id})
	}
	m.step()
}

// FeedEnded tells that the stream to the peer was given up: the peer was too
// slow for it.
func (m *Machine) FeedEnded(now Time, id uint8, stream uint64) {
	m.pass(now)
	if p := m.byID[id]; p != nil && p.feeding == stream {
		m.overrun(p)
	}
	m.step()
}

// Stop makes the node give its role away and end: Done follows.
func (m *Machine) Stop(now Time) {
	m.pass(now)
	if !m.stopping {
		m.stopping, m.stopSince = true, m.now
	}
	m.step()
}

// step looks at everything that could follow from what is known by now.
func (m *Machine) step() {
	m.links()
	m.storeKnown()
	m.checkGuard()
	was := m.role
	if was == Active {
		m.active()
	} else {
		m.passive()
	}
	if was == Active && m.role != Active {
		// The rest is looked at when the table is a copy: at the Tick that
		// follows the actions.
		m.setMode()
		return
	}
	if m.role == Active {
		m.noteBehind()
		m.keepInSync()
	}
	m.feed()
	m.stop()
	m.setMode()
	m.tell()
}

// Role is what the node is.
func (m *Machine) Role() Role { return m.role }

// place is where the table stands.
func (m *Machine) place() replica.Place { return m.cfg.Place() }

// active is what an active looks at.
func (m *Machine) active() {
	m.meet()
	if m.role != Active {
		return
	}
	m.overtakeKnown()
	m.handOff()
}

func bit(id uint8) uint16 { return 1 << id }

func less(a, b replica.Epoch) bool { return a.Compare(b) < 0 }
