package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Sink is the copy that a Receiver keeps up to date. A record, its key
// included, is valid only during the call.
type Sink interface {
	// Apply makes a step in the copy.
	Apply(r *Record)
	// Stage begins a new copy beside the one in use. One that was begun
	// before and not installed is dropped.
	Stage()
	// StageApply makes a step in the new copy. Records that are not about
	// the table (EpochTaken, InSync) come this way, too, and an epoch is known
	// from then on whatever becomes of the snapshot.
	StageApply(r *Record)
	// Install puts the new copy in the place of the one in use.
	Install()
}

// ErrGap says that a frame is not the one that had to come, or none at all.
// The standby asks for a new stream, from its Place.
var ErrGap = errors.New("replica: the stream can't be followed")

// Receiver is the standby's side of a stream. It is for one goroutine.
type Receiver struct {
	place  Place
	expect uint64 // the number of the stream to come; 0: none
	begun  bool
	number uint32 // of the frame to come
	reign  Epoch  // of the stream, once begun
	pos    uint64 // of its last record
	syncs  bool   // a snapshot is under way
	rec    Record
}

// NewReceiver returns a receiver for a copy that is at the place.
func NewReceiver(place Place) *Receiver { return &Receiver{place: place} }

// Place is how far the copy in use has come. While a snapshot is under way it
// is where the old copy was left.
func (r *Receiver) Place() Place { return r.place }

// Syncing reports whether a snapshot is under way.
func (r *Receiver) Syncing() bool { return r.syncs }

// Expect names the stream that was asked for, or 0 for none. Frames of all
// others are ignored from now on, and a snapshot under way is given up.
func (r *Receiver) Expect(stream uint64) {
	r.expect, r.number, r.begun, r.syncs = stream, 0, false, false
}

// Frame takes in a frame. After an error, ErrGap, frames are ignored until
// Expect is called again; what was applied before the fault stays, and is in
// Place.
func (r *Receiver) Frame(frame []byte, sink Sink) error {
	if r.expect == 0 {
		return nil
	}
	err := r.frame(frame, sink)
	if err != nil {
		r.Expect(0)
		return fmt.Errorf("%w: %w", ErrGap, err)
	}
	return nil
}

var errUnknownFrame = errors.New("an unknown frame")

func (r *Receiver) frame(frame []byte, sink Sink) error {
	if len(frame) < frameHeader {
		return errTruncated
	}
	kind, stream, number := frame[0], binary.BigEndian.Uint64(frame[1:]), binary.BigEndian.Uint32(frame[9:])
	if kind < frameStart || kind > frameEnd {
		return errUnknownFrame
	}
	if stream != r.expect {
		return nil
	}
	if number != r.number {
		return fmt.Errorf("frame %d comes, not %d", number, r.number)
	}
	r.number++
	body := frame[frameHeader:]
	switch {
	case kind == frameStart:
		return r.start(body, sink)
	case !r.begun:
		return errors.New("the stream has no beginning")
	case len(body) < 8:
		return errTruncated
	}
	pos, body := binary.BigEndian.Uint64(body), body[8:]
	switch kind {
	case frameRecords:
		if pos != r.pos+1 {
			return fmt.Errorf("records from %d on follow %d", pos, r.pos)
		}
		return r.batch(body, func() {
			r.pos++
			if r.syncs {
				sink.StageApply(&r.rec)
				return
			}
			sink.Apply(&r.rec)
			r.place.Pos = r.pos
		})
	case frameRows:
		if !r.syncs || pos != r.pos {
			return fmt.Errorf("rows of %d come at %d, in a snapshot: %t", pos, r.pos, r.syncs)
		}
		return r.batch(body, func() { sink.StageApply(&r.rec) })
	}
	if !r.syncs || pos != r.pos || len(body) != 0 {
		return fmt.Errorf("the end of a snapshot at %d comes at %d, in a snapshot: %t", pos, r.pos, r.syncs)
	}
	sink.Install()
	r.syncs, r.place = false, Place{r.reign, r.pos}
	return nil
}

func (r *Receiver) start(body []byte, sink Sink) error {
	if r.begun {
		return errors.New("the stream begins twice")
	}
	s, err := decodeStart(body)
	if err != nil {
		return err
	}
	switch s.mode {
	case FromBase:
		if r.place != s.base {
			return fmt.Errorf("a stream from the base %v, %d on, comes to a copy at %v", s.base, s.pos, r.place)
		}
		r.place = Place{s.reign, s.pos}
	case Tail:
		if r.place != (Place{s.reign, s.pos}) {
			return fmt.Errorf("a stream from %v on comes to a copy at %v", Place{s.reign, s.pos}, r.place)
		}
	case Snapshot:
		sink.Stage()
		r.syncs = true
	}
	r.begun, r.reign, r.pos = true, s.reign, s.pos
	return nil
}

// batch calls take for each of the records, which it finds in r.rec.
func (r *Receiver) batch(body []byte, take func()) error {
	if len(body) < 4 {
		return errTruncated
	}
	count, body := binary.BigEndian.Uint32(body), body[4:]
	for ; count > 0; count-- {
		rest, err := DecodeRecord(body, &r.rec)
		if err != nil {
			return err
		}
		body = rest
		take()
	}
	if len(body) > 0 {
		return fmt.Errorf("%d bytes follow the last record of a frame", len(body))
	}
	return nil
}
