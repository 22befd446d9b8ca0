package member

import (
	"errors"
	"log/slog"
	"slices"

	"github.com/stile-lock/stile/server/cluster"
	"github.com/stile-lock/stile/server/lockspace"
	"github.com/stile-lock/stile/server/replica"
)

// World is what a member reaches the outside by. No call blocks, and none
// calls back.
type World interface {
	// Dial, Cut, Ban and Send are about links; see package cluster.
	Dial(peer uint8)
	Cut(peer uint8)
	Ban(boot uint64)
	// Send sends a message of the roles ahead of all data. The payload is
	// the World's to keep.
	Send(peer uint8, payload []byte)
	// Kick says that Next may have something for the peer.
	Kick(peer uint8)

	// StoreEpoch writes an epoch down, perhaps once more; [Member.StoredEpoch]
	// follows.
	StoreEpoch(e replica.Epoch)
	// TakeEpoch chooses an epoch above the number and writes it down, with
	// clock only if it is the clock's second, else it tells of none;
	// [Member.TookEpoch] follows.
	TakeEpoch(op uint64, above uint32, clock bool)

	Log(level slog.Level, text string, attrs []slog.Attr)
	// Fail ends the process; Done says that it may end.
	Fail(reason string)
	Done()
}

// Table is the shards of a lock table with what is around them. Every method
// has its whole effect when it returns.
type Table interface {
	Now() lockspace.Time
	Shards() int
	// ShardOf is the shard of the keys with the hash; see [lockspace.HashKey].
	ShardOf(keyHash uint64) int
	// With calls f under the shard's lock, delivers the effects, and appends
	// the changes to the log, if there is one, under the same lock. f may be
	// called with no other shard's lock held.
	With(shard int, f func(*lockspace.Space))
	// NewSpace makes an empty Space of the shard's configuration.
	NewSpace(shard int) *lockspace.Space

	// SetLog names the log that changes are appended to, nil for none.
	SetLog(*replica.Log)
	// SetMode says how clients are answered from now on; active is the
	// address for Redirect.
	SetMode(mode cluster.Mode, active string)
	// UseTokens gives tokens after (epoch, start) from now on, or, with
	// ahead, when the present epoch's are used up.
	UseTokens(e replica.Epoch, start uint32, ahead bool)
	// Committed lets out the answers to changes up to the position. Abandon
	// resets the sessions whose answers were not let out.
	Committed(pos uint64)
	Abandon()
}

// Config is what a Member is made with.
type Config struct {
	Roles cluster.Config // Place is set by the member
	// Addr is the address by which clients know a node.
	Addr func(id uint8) string
	// KeepLog is how many bytes of the stream are kept for standbys;
	// 0: replica.DefaultKeep.
	KeepLog int
}

// Member is one node's part in a cluster. Its owner calls it from one
// goroutine, but for Next and KickAll, which are safe for any.
type Member struct {
	cfg   Config
	world World
	table Table
	roles *cluster.Machine
	now   cluster.Time

	// The table's place is receiver.Place() for a standby and log.Place()
	// for an active.
	active   bool
	receiver *replica.Receiver
	log      *replica.Log // what can be fed to others; of a standby: what it applied
	staged   []*lockspace.Space
	// forked: this node served beside another active and gave way. Its place
	// is where its reign began, but its table is another. As long as it still
	// offers that table, it is told as forked in any case: the other active
	// waits for the rest.
	forked bool
	from   int // the peer that the stream comes from; -1: nobody
	stream uint64
	frames uint64 // of the stream, that have come

	ackDue    bool          // places were reached that are not acknowledged
	frameDue  bool          // frames have come that are not
	acked     replica.Place // as last told
	committed uint64

	reign     replica.Epoch
	floor     uint64 // the highest token of the table at its promotion
	offers    [16]*offer
	conflicts uint64

	feeds feeds
}

// New returns a member of a cluster that has not begun: its first actions are
// carried out by the first Tick.
func New(cfg Config, world World, table Table, now cluster.Time) *Member {
	m := &Member{cfg: cfg, world: world, table: table, now: now, from: -1,
		receiver: replica.NewReceiver(replica.Place{}), committed: 1<<64 - 1}
	m.cfg.Roles.Place = m.Place
	m.cfg.Roles.Forked = func() bool { return m.forked || m.feeds.offering.Load() != 0 }
	for i := range table.Shards() {
		table.With(i, func(s *lockspace.Space) { s.Follow(table.Now()) })
	}
	m.roles = cluster.New(m.cfg.Roles, now)
	return m
}

// Place is where the table stands.
func (m *Member) Place() replica.Place {
	if m.active {
		return m.log.Place()
	}
	return m.receiver.Place()
}

// Active reports whether the node is active.
func (m *Member) Active() bool { return m.active }

// Role is what the node is.
func (m *Member) Role() cluster.Role { return m.roles.Role() }

// Other is another node that is active, by its own word, and its reign.
func (m *Member) Other() (id uint8, reign replica.Epoch, ok bool) { return m.roles.Other() }

// Joining reports whether the node has only just started.
func (m *Member) Joining() bool { return m.roles.Role() == cluster.Joining }

// Hello is the first payload of a new link.
func (m *Member) Hello() []byte { return cluster.Append(nil, m.roles.Hello()) }

// Tick lets time pass. It is due at least every quarter of a heartbeat.
func (m *Member) Tick(now cluster.Time) {
	m.now = now
	m.roles.Tick(now)
	m.carry()
	m.KickAll() // a stream that had to wait may go on; see flow
}

// Stop makes the node hand its role over; World.Done follows.
func (m *Member) Stop(now cluster.Time) {
	m.now = now
	m.roles.Stop(now)
	m.carry()
}

// errHello is an error of a peer's hello. Peers agree on the version before.
var errHello = errors.New("it is there, but what it says of itself can't be read; run the same release on both")

// LinkUp tells of a new connection; see [cluster.Machine.LinkUp]. A hello that
// is none has the link cut, and is an error: of one that this node dialed, the
// dial has failed.
func (m *Member) LinkUp(now cluster.Time, peer uint8, out bool, gen uint64, hello []byte) error {
	m.now = now
	msg, err := cluster.Decode(hello)
	status, ok := msg.(*cluster.Status)
	if err != nil || !ok {
		m.roles.BadHello(now, peer, out)
		m.carry()
		return errHello
	}
	m.roles.LinkUp(now, peer, out, gen, status)
	m.carry()
	return nil
}

// LinkDown tells of the end of a connection.
func (m *Member) LinkDown(now cluster.Time, peer uint8, out bool, gen uint64, refused bool) {
	m.now = now
	m.roles.LinkDown(now, peer, out, gen, refused)
	m.carry()
}

// DialFailed tells that a peer could not be reached.
func (m *Member) DialFailed(now cluster.Time, peer uint8, refused, misfit bool) {
	m.now = now
	m.roles.DialFailed(now, peer, refused, misfit)
	m.carry()
}

// Receive takes what a peer sent. The payload is not kept.
func (m *Member) Receive(now cluster.Time, peer uint8, payload []byte) {
	m.now = now
	if replica.IsFrame(payload) {
		m.takeFrame(peer, payload)
		m.carry()
		return
	}
	msg, err := cluster.Decode(payload)
	if err != nil {
		m.world.Log(slog.LevelError, "a peer's message can't be read", []slog.Attr{slog.Int("peer", int(peer))})
		m.roles.CutOff(now, peer)
		m.carry()
		return
	}
	switch msg := msg.(type) {
	case *cluster.Offer:
		msg.Rows = slices.Clone(msg.Rows) // it is kept, here or on its way to another
		m.takeOffer(msg)
	case *cluster.Ack:
		m.taken(peer, msg)
	}
	m.roles.Receive(now, peer, msg)
	m.carry()
}

// StoredEpoch tells how StoreEpoch went.
func (m *Member) StoredEpoch(now cluster.Time, e replica.Epoch, err error) {
	m.now = now
	m.roles.StoredEpoch(now, e, err)
	m.carry()
}

// TookEpoch tells how TakeEpoch went.
func (m *Member) TookEpoch(now cluster.Time, op uint64, e replica.Epoch, start uint32, err error) {
	m.now = now
	m.roles.TookEpoch(now, op, e, start, err)
	m.carry()
}

// WantEpoch tells that the tokens of the epoch run out.
func (m *Member) WantEpoch(now cluster.Time) {
	m.now = now
	m.roles.WantEpoch(now)
	m.carry()
}

// Overrun tells that Next found a peer too slow for its stream.
func (m *Member) Overrun(now cluster.Time, peer uint8, stream uint64) {
	m.now = now
	m.roles.FeedEnded(now, peer, stream)
	m.carry()
}
