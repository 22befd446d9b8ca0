package member

import (
	"github.com/stile-lock/stile/server/cluster"
	"github.com/stile-lock/stile/server/lockspace"
	"github.com/stile-lock/stile/server/replica"
)

// carry carries out what the roles ask for, until they ask for nothing.
func (m *Member) carry() {
	for {
		actions := m.roles.Actions()
		for _, a := range actions {
			m.do(a)
		}
		m.ack()
		m.commit()
		if len(actions) == 0 {
			return
		}
		m.roles.Tick(m.now)
	}
}

// ack tells who feeds this node what has come, and what of it counts: a place
// only when the epochs that came before it are on the disk.
func (m *Member) ack() {
	may := m.roles.MayAck()
	if !m.frameDue && !(m.ackDue && may) {
		return
	}
	if may {
		m.acked, m.ackDue = m.Place(), false
	}
	m.frameDue = false
	if m.from >= 0 {
		m.world.Send(uint8(m.from), cluster.Append(nil, &cluster.Ack{Stream: m.stream, Place: m.acked, Frames: m.frames}))
	}
}

func (m *Member) commit() {
	if c := m.roles.Committed(); c != m.committed {
		m.committed = c
		m.table.Committed(c)
	}
}

func (m *Member) do(a cluster.Action) {
	switch a := a.(type) {
	case cluster.Dial:
		m.world.Dial(a.Peer)
	case cluster.Cut:
		m.feeds.clear(a.Peer)
		m.world.Cut(a.Peer)
	case cluster.Ban:
		m.world.Ban(a.Boot)
	case cluster.Send:
		m.world.Send(a.Peer, cluster.Append(nil, a.Msg))
	case cluster.StoreEpoch:
		m.world.StoreEpoch(a.Epoch)
	case cluster.TakeEpoch:
		m.world.TakeEpoch(a.Op, a.Above, a.Clock)
	case cluster.Pull:
		m.from, m.stream, m.frames = int(a.Peer), a.Stream, 0
		m.acked = replica.Place{}
		m.receiver.Expect(a.Stream)
	case cluster.Feed:
		m.feed(a)
	case cluster.Unfeed:
		m.feeds.stop(a.Peer)
	case cluster.Promote:
		m.promote(a)
	case cluster.UseEpoch:
		m.log.Append(&replica.Record{Kind: replica.EpochTaken, Epoch: a.Epoch})
		m.table.UseTokens(a.Epoch, a.Start, a.Ahead)
		m.KickAll()
	case cluster.Demote:
		m.demote(a.Place)
	case cluster.SetMode:
		m.commit() // what is answered under the mode waits for whom it must
		addr := ""
		if a.Mode == cluster.Redirect {
			addr = m.cfg.Addr(a.Active)
		}
		m.table.SetMode(a.Mode, addr)
		if a.Mode == cluster.Refuse {
			// What waited for the standbys is not known to be on any.
			m.table.Abandon()
		}
	case cluster.SetInSync:
		pos := m.log.Append(&replica.Record{Kind: replica.InSync, Members: a.Members})
		m.roles.InSyncAt(m.now, a.Members, pos)
		m.KickAll()
	case cluster.SendOffer:
		m.sendOffer(a)
	case cluster.Adopt:
		m.adopt(a.From)
	case cluster.Say:
		m.world.Log(a.Level, a.Text, a.Attrs)
	case cluster.Fail:
		m.world.Fail(a.Reason)
	case cluster.Done:
		m.world.Done()
	}
}

// promote makes the table serve under a new reign. Nobody is answered before
// the mode says so.
func (m *Member) promote(a cluster.Promote) {
	m.log = replica.NewLogAt(cluster.Start(a.Reign, a.Start), a.Base, m.cfg.KeepLog)
	m.active, m.from, m.staged, m.ackDue, m.forked = true, -1, nil, false, false
	m.reign, m.floor = a.Reign, 0
	for i := range m.table.Shards() {
		m.table.With(i, func(s *lockspace.Space) { m.floor = max(m.floor, s.HighestToken()) })
	}
	m.table.UseTokens(a.Reign, a.Start, false)
	m.table.SetLog(m.log)
	now := m.table.Now()
	for i := range m.table.Shards() {
		m.table.With(i, func(s *lockspace.Space) { s.Promote(now, a.Gap) })
	}
}

// demote makes the table a copy again. What it can hand on is still its log,
// if the table is what the place says.
func (m *Member) demote(at replica.Place) {
	m.table.SetLog(nil)
	now := m.table.Now()
	for i := range m.table.Shards() {
		m.table.With(i, func(s *lockspace.Space) { s.Follow(now) })
	}
	if at != m.log.Place() {
		// What was changed here and not let out may be lost.
		m.table.Abandon()
		m.log, m.forked = nil, true
		for i := range m.table.Shards() {
			m.table.With(i, func(s *lockspace.Space) { s.Disown(now) })
		}
	}
	m.active, m.from = false, -1
	m.receiver = replica.NewReceiver(at)
	m.offers = [16]*offer{}
}
