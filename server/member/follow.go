package member

import (
	"log/slog"

	"github.com/stile-lock/stile/server/cluster"
	"github.com/stile-lock/stile/server/fencing"
	"github.com/stile-lock/stile/server/internal/broken"
	"github.com/stile-lock/stile/server/lockspace"
	"github.com/stile-lock/stile/server/replica"
)

// takeFrame takes in a part of the stream.
func (m *Member) takeFrame(peer uint8, frame []byte) {
	m.roles.Heard(m.now, peer)
	if m.active || int(peer) != m.from {
		return
	}
	if replica.StreamOf(frame) == m.stream {
		m.frames++
	}
	err := m.receiver.Frame(frame, sink{m})
	if err != nil {
		m.world.Log(slog.LevelWarn, "the stream can't be followed", []slog.Attr{slog.Int("peer", int(peer)), slog.Any("error", err)})
	}
	at := m.receiver.Place()
	if m.log != nil && m.log.Reign() != at.Reign {
		m.feeds.stopSnapshots() // their rows would be of this reign, under places of the one before
	}
	if m.log == nil && at != (replica.Place{}) && !m.forked || m.log != nil && m.log.Place() != at {
		m.log = replica.NewLogAt(at, replica.Place{}, m.cfg.KeepLog)
	}
	// Also of what moves no place, a snapshot's rows for instance: who feeds
	// this node has to know that they have come.
	m.ackDue, m.frameDue = m.ackDue || err == nil, err == nil
	m.roles.Progress(m.now, err != nil)
}

// sink applies what the receiver reads.
type sink struct{ m *Member }

func (s sink) Apply(r *replica.Record) {
	m := s.m
	switch r.Kind {
	case replica.TableChange:
		m.table.With(m.shardOf(&r.Change), func(sp *lockspace.Space) { sp.Apply(m.table.Now(), &r.Change) })
	case replica.EpochTaken:
		m.roles.Learn(r.Epoch)
	}
	if m.log != nil && m.log.Place() == m.receiver.Place() {
		m.log.Append(r)
	}
}

// shardOf is where a change belongs. Of a spent nonce only a hash of its key
// is known.
func (m *Member) shardOf(c *lockspace.Change) int {
	if c.Kind == lockspace.SpentKnown {
		return m.table.ShardOf(c.KeyHash())
	}
	return m.table.ShardOf(lockspace.HashKey(c.Key))
}

func (s sink) Stage() {
	m := s.m
	m.staged = make([]*lockspace.Space, m.table.Shards())
	for i := range m.staged {
		m.staged[i] = m.table.NewSpace(i)
		m.staged[i].Follow(m.table.Now())
	}
}

func (s sink) StageApply(r *replica.Record) {
	m := s.m
	switch r.Kind {
	case replica.TableChange:
		m.staged[m.shardOf(&r.Change)].Apply(m.table.Now(), &r.Change)
	case replica.EpochTaken:
		m.roles.Learn(r.Epoch)
	}
}

func (s sink) Install() {
	m := s.m
	for i, staged := range m.staged {
		m.table.With(i, func(sp *lockspace.Space) { sp.Install(staged, m.table.Now()) })
	}
	m.staged = nil
	m.log, m.forked = nil, false // the log is begun anew by takeFrame
	for id := range m.feeds.each {
		m.feeds.stop(uint8(id)) // rows of a table that is no more
	}
}

// offer is the table of another active that has stepped down, as far as it
// has come.
type offer struct {
	next uint32
	rows [][]byte
	torn bool
}

func (m *Member) takeOffer(o *cluster.Offer) {
	if o.To != m.cfg.Roles.Self || !m.active {
		return
	}
	have := m.offers[o.From]
	if o.Seq == 0 || have == nil {
		have = new(offer)
		m.offers[o.From] = have
	}
	if have.torn = have.torn || o.Seq != have.next; have.torn {
		return
	}
	have.next++
	have.rows = append(have.rows, o.Rows)
}

// adopt takes over what the other active has granted and this one cannot know
// of.
func (m *Member) adopt(from uint8) {
	o := m.offers[from]
	m.offers[from] = nil
	if o == nil {
		return
	}
	conflicts, adopted := 0, 0
	var rec replica.Record
	for _, rows := range o.rows {
		for len(rows) > 0 {
			var err error
			if rows, err = replica.DecodeRecord(rows, &rec); err != nil {
				m.world.Log(slog.LevelError, "an offer can't be read", []slog.Attr{slog.Int("peer", int(from)), slog.Any("error", err)})
				return
			}
			if rec.Kind != replica.TableChange {
				continue
			}
			c := &rec.Change
			known := c.Token <= m.floor || fencing.Node(c.Token) == m.cfg.Roles.Self && fencing.Epoch(c.Token) >= m.reign.N
			known = known && !broken.Rule("adopt-known")
			m.table.With(m.shardOf(c), func(s *lockspace.Space) {
				if s.Adopt(m.table.Now(), c, known) {
					conflicts++
				}
			})
			adopted++
		}
	}
	m.conflicts += uint64(conflicts)
	level := slog.LevelInfo
	if conflicts > 0 {
		level = slog.LevelWarn
	}
	m.world.Log(level, "took over the other active's table", []slog.Attr{
		slog.Int("from", int(from)), slog.Int("rows", adopted), slog.Int("keys_held_on_both_sides", conflicts)})
	m.KickAll()
}
