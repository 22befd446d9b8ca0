package member

import (
	"errors"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/stile-lock/stile/server/cluster"
	"github.com/stile-lock/stile/server/replica"
)

// feeds is what goes to each peer as data: parts of an offer first, then the
// stream. The writers of the links pull it.
type feeds struct {
	fed      atomic.Uint32 // ids of the peers that are fed, as bits
	offering atomic.Uint32 // and of those that an offer goes to
	each     [16]struct {
		mu     sync.Mutex
		sender *replica.Sender
		stream uint64
		flow   flow
		offers [][]byte
	}
}

// Next appends the next frame for the peer to buf, at most `most` bytes of
// data, if there is one. overrun names the stream that the peer is too slow
// for, 0 if there is none: the owner then calls Overrun.
func (m *Member) Next(peer uint8, most int, buf []byte) (frame []byte, ok bool, overrun uint64) {
	f := &m.feeds.each[peer]
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.offers) > 0 {
		frame = append(buf, f.offers[0]...)
		if f.offers = f.offers[1:]; len(f.offers) == 0 {
			m.feeds.offering.And(^uint32(1 << peer))
		}
		return frame, true, 0
	}
	if f.sender == nil || f.flow.full(m.table.Now()) {
		return buf, false, 0
	}
	frame, ok, err := f.sender.Next(min(most, f.flow.frame), buf)
	if ok {
		f.flow.send(m.table.Now())
	}
	if errors.Is(err, replica.ErrOverrun) {
		f.sender = nil
		return buf, false, f.stream
	}
	return frame, ok, 0
}

// KickAll says that the stream has grown.
func (m *Member) KickAll() {
	for fed := m.feeds.fed.Load(); fed != 0; fed &= fed - 1 {
		m.world.Kick(uint8(bits.TrailingZeros32(fed)))
	}
}

// feed begins a stream.
func (m *Member) feed(a cluster.Feed) {
	src := replica.NewSource(m.table.Shards(), m.table.With, m.log, m.table.Now, false)
	f := &m.feeds.each[a.Peer]
	f.mu.Lock()
	f.sender, f.stream = replica.NewSender(m.log, a.Stream, a.Place, src), a.Stream
	f.flow = newFlow(m.cfg.Roles.FailureTimeout / 8)
	f.mu.Unlock()
	m.feeds.fed.Or(1 << a.Peer)
	m.world.Kick(a.Peer)
}

// taken notes that a peer has taken in frames of its stream.
func (m *Member) taken(peer uint8, a *cluster.Ack) {
	f := &m.feeds.each[peer]
	f.mu.Lock()
	if f.stream == a.Stream {
		f.flow.ack(a.Frames, m.table.Now())
	}
	f.mu.Unlock()
	m.world.Kick(peer)
}

// stop ends the stream to a peer.
func (f *feeds) stop(peer uint8) {
	e := &f.each[peer]
	e.mu.Lock()
	e.sender, e.stream = nil, 0
	if len(e.offers) == 0 {
		f.fed.And(^uint32(1 << peer))
	}
	e.mu.Unlock()
}

// stopSnapshots ends the streams that still have to send rows of the table.
// Those that only hand on records of a log go on to its end.
func (f *feeds) stopSnapshots() {
	for id := range f.each {
		e := &f.each[id]
		e.mu.Lock()
		syncing := e.sender != nil && e.sender.Syncing()
		e.mu.Unlock()
		if syncing {
			f.stop(uint8(id))
		}
	}
}

// clear forgets all that a peer was to get.
func (f *feeds) clear(peer uint8) {
	e := &f.each[peer]
	e.mu.Lock()
	e.sender, e.stream, e.offers = nil, 0, nil
	f.offering.And(^uint32(1 << peer))
	f.fed.And(^uint32(1 << peer))
	e.mu.Unlock()
}

// offerPart is how many bytes of rows travel in one message.
const offerPart = 60 << 10

// sendOffer takes the whole table down, since it is about to be a copy of
// another.
func (m *Member) sendOffer(a cluster.SendOffer) {
	src := replica.NewSource(m.table.Shards(), m.table.With, nil, m.table.Now, true)
	var parts [][]byte
	for seq, more := uint32(0), true; more; seq++ {
		var rows []byte
		for more && len(rows) < offerPart/2 {
			rows, _, more = src.Rows(offerPart/2, rows)
		}
		parts = append(parts, cluster.Append(nil, &cluster.Offer{
			From: m.cfg.Roles.Self, To: a.To, Epoch: a.Epoch, Seq: seq, Last: !more, Rows: rows,
		}))
	}
	f := &m.feeds.each[a.Via]
	f.mu.Lock()
	f.offers = parts
	m.feeds.offering.Or(1 << a.Via)
	f.mu.Unlock()
	m.feeds.fed.Or(1 << a.Via)
	m.world.Kick(a.Via)
}
