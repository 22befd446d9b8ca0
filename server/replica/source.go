package replica

import (
	"math"

	"github.com/stile-lock/stile/server/lockspace"
)

// rowsAtOnce is how many rows are taken under one hold of a shard's lock: as
// many as leases that end under one hold, so that nobody waits much longer.
const rowsAtOnce = 256

// tableSource reads one shard after the other. It is for one goroutine.
type tableSource struct {
	shards int
	with   func(shard int, f func(*lockspace.Space))
	log    *Log
	now    func() lockspace.Time
	offer  bool
	take   func(*lockspace.Space) // takePortion, bound once

	shard   int
	snap    *lockspace.Snapshot // of the shard; nil before its first portion
	changes []lockspace.Change
	buf     []byte // what take appends to

	at   uint64 // when the latest portion was true
	over []byte // what of it did not fit
}

// NewSource returns the rows of a table in shards. `with` calls f with a
// shard's Space under that shard's lock, and whatever changes a Space appends
// the change to the log under the same lock. log is nil if the rows are for no
// stream; their position is then 0.
//
// With offer, the rows are what a node that gives up being active offers to
// the one that stays.
func NewSource(shards int, with func(shard int, f func(*lockspace.Space)), log *Log, now func() lockspace.Time, offer bool) Source {
	s := &tableSource{shards: shards, with: with, log: log, now: now, offer: offer}
	s.take = s.takePortion
	return s
}

// Rows implements Source.
func (s *tableSource) Rows(most int, buf []byte) (rows []byte, at uint64, more bool) {
	most = max(most, MaxRecord)
	start := len(buf)
	if len(s.over) > 0 {
		// They are of the earlier position still.
		_, length := span(s.over, most, math.MaxUint64)
		buf = append(buf, s.over[:length]...)
		s.over = s.over[:copy(s.over, s.over[length:])]
		return buf, s.at, len(s.over) > 0 || s.shard < s.shards
	}
	if s.shard < s.shards {
		s.buf = buf
		s.with(s.shard, s.take)
		buf, s.buf = s.buf, nil
		_, length := span(buf[start:], most, math.MaxUint64)
		s.over = append(s.over, buf[start+length:]...)
		buf = buf[:start+length]
	}
	return buf, s.at, len(s.over) > 0 || s.shard < s.shards
}

// takePortion runs under the shard's lock.
func (s *tableSource) takePortion(space *lockspace.Space) {
	if s.log != nil {
		s.at = s.log.Pos()
	}
	if s.snap == nil {
		s.snap = space.Snapshot(s.offer)
	}
	var more bool
	s.changes, more = s.snap.Next(s.now(), rowsAtOnce, s.changes[:0])
	for i := range s.changes {
		c := &s.changes[i]
		if c.Kind == lockspace.TokenSeen && c.Token == 0 {
			continue // a shard that never had one
		}
		s.buf = appendChange(s.buf, c)
	}
	if !more {
		s.snap = nil
		s.shard++
	}
}
