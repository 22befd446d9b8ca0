package replica

import "math"

// Source has the rows of a table, for a snapshot.
type Source interface {
	// Rows appends encoded records to buf, at most `max` bytes of them, and
	// returns it with the position of the log at which they were true: with
	// all changes up to it that concern them, and none after it. It is never
	// lower than at the call before. There may be no rows even if there are
	// more to come.
	Rows(max int, buf []byte) (rows []byte, at uint64, more bool)
}

// Sender makes the frames of one stream to one standby. It is for one
// goroutine.
//
// Invariant: everything up to cur.pos has been sent or is in rows that have
// been; in a snapshot, rows are sent after exactly the records up to the
// position they were taken at. So the standby sees every row and every
// change of it in the order in which they were true.
type Sender struct {
	log   *Log
	head  header // of the next frame
	mode  Mode
	cur   cursor
	begun bool
	syncs bool // a snapshot is to be sent, or the rest of it

	// A snapshot under way.
	src  Source
	rows []byte // not sent yet
	at   uint64 // the position that they, and all that were sent, need
	more bool   // src has more
}

// NewSender returns the sender of a new stream to a standby whose table is at
// the place `have`. The number of the stream is not 0, and another one than
// that of any earlier stream on the link. src is asked only if a snapshot is
// needed.
//
// The zero place gets a snapshot in any case, also from a reign that began
// with an empty table: it is as well the place of a table that no stream
// leads on from.
func NewSender(log *Log, stream uint64, have Place, src Source) *Sender {
	s := &Sender{log: log, head: header{stream: stream}, mode: Snapshot, src: src}
	switch {
	case have == (Place{}):
	case have == log.base:
		if c, ok := log.seek(log.start); ok {
			s.mode, s.cur = FromBase, c
		}
	case have.Reign == log.reign:
		if c, ok := log.seek(have.Pos); ok {
			s.mode, s.cur = Tail, c
		}
	}
	s.syncs = s.mode == Snapshot
	return s
}

// Mode is how the stream begins.
func (s *Sender) Mode() Mode { return s.mode }

// Pos is the position of the last record that was sent.
func (s *Sender) Pos() uint64 { return s.cur.pos }

// Syncing reports whether a snapshot has to be sent yet, or the rest of it.
func (s *Sender) Syncing() bool { return s.syncs }

// Next appends the next frame to buf, at most `most` bytes, if there is
// anything to send now; else ok is false and buf comes back as it was. A
// limit above MaxFrame, or too low for a record, counts as that.
//
// The error is ErrOverrun; the stream is then at its end.
func (s *Sender) Next(most int, buf []byte) (frame []byte, ok bool, err error) {
	frame, ok, err = s.next(most, buf)
	if ok {
		s.head.number++
	}
	return frame, ok, err
}

func (s *Sender) next(most int, buf []byte) (frame []byte, ok bool, err error) {
	most = max(min(most, MaxFrame), minFrame)
	switch {
	case !s.begun:
		s.begun = true
		if s.syncs {
			s.cur, s.rows = s.log.end(make([]byte, 0, MaxFrame))
			s.at, s.more = s.cur.pos, true
		}
		return appendStart(buf, s.head, start{s.mode, s.log.reign, s.log.base, s.cur.pos}), true, nil
	case !s.syncs:
		if s.cur.pos == s.log.Pos() {
			return buf, false, nil
		}
		return s.records(most, buf, math.MaxUint64)
	}
	for len(s.rows) == 0 && s.more {
		s.rows, s.at, s.more = s.src.Rows(most-rowsHeader, s.rows[:0])
	}
	switch {
	case s.cur.pos < s.at:
		return s.records(most, buf, s.at)
	case len(s.rows) > 0:
		at := len(buf)
		buf = appendBatch(buf, frameRows, s.head, s.at)
		count, length := span(s.rows, most-rowsHeader, math.MaxUint64)
		buf = append(buf, s.rows[:length]...)
		setCount(buf[at:], count)
		s.rows = s.rows[:copy(s.rows, s.rows[length:])]
		return buf, true, nil
	}
	s.syncs, s.rows, s.src = false, nil, nil
	return appendEnd(buf, s.head, s.cur.pos), true, nil
}

// records sends what is there of the records up to the position `last`.
func (s *Sender) records(most int, buf []byte, last uint64) (frame []byte, ok bool, err error) {
	at := len(buf)
	frame = appendBatch(buf, frameRecords, s.head, s.cur.pos+1)
	frame, count, err := s.log.read(&s.cur, frame, most-recordsHeader, last)
	if err != nil || count == 0 {
		return buf, false, err
	}
	setCount(frame[at:], count)
	return frame, true, nil
}
