package replica

import (
	"encoding/binary"
	"fmt"
)

// Frames begin with a byte of their own, so that they can share a link with
// other messages, then the number of the stream they belong to, and their own
// number in it, from 0: without it nobody would miss a lost frame of rows.
// 0x80 to 0x8F are kept for frames.
const (
	frameStart   = 0x80 // how the stream begins
	frameRecords = 0x81 // records, one after the other
	frameRows    = 0x82 // rows of a snapshot
	frameEnd     = 0x83 // the snapshot is complete
)

// MaxFrame is the length of the longest frame.
const MaxFrame = 64 << 10

// minFrame is the shortest limit that Next goes by: any record fits.
const minFrame = recordsHeader + MaxRecord

const (
	frameHeader   = 1 + 8 + 4                    // type, stream, number
	recordsHeader = frameHeader + 8 + 4          // first position, count
	rowsHeader    = frameHeader + 8 + 4          // position, count
	endLen        = frameHeader + 8              // position
	startLen      = frameHeader + 1 + 5 + 13 + 8 // mode, reign, base, position
)

// IsFrame reports whether b, a message of a link, is a frame of this package.
func IsFrame(b []byte) bool { return len(b) > 0 && b[0]&0xF0 == 0x80 }

// StreamOf is the number of the stream that a frame belongs to, 0 if it is
// none.
func StreamOf(b []byte) uint64 {
	if !IsFrame(b) || len(b) < frameHeader {
		return 0
	}
	return binary.BigEndian.Uint64(b[1:])
}

// Mode is how a stream begins.
type Mode uint8

const (
	// FromBase: the standby is where the reign began, and gets all of it.
	FromBase Mode = iota + 1
	// Tail: the standby has a part of the reign, and gets the rest.
	Tail
	// Snapshot: the standby gets the whole table.
	Snapshot
)

// String names the mode, for logs.
func (m Mode) String() string {
	switch m {
	case FromBase:
		return "from the base"
	case Tail:
		return "tail"
	case Snapshot:
		return "snapshot"
	}
	return fmt.Sprintf("mode %d", uint8(m))
}

// start is the first frame of a stream.
type start struct {
	mode  Mode
	reign Epoch
	base  Place
	pos   uint64 // the first record of the stream is the one after it
}

// header is what all frames begin with.
type header struct {
	stream uint64
	number uint32 // goes round
}

func appendHeader(buf []byte, kind byte, h header) []byte {
	buf = binary.BigEndian.AppendUint64(append(buf, kind), h.stream)
	return binary.BigEndian.AppendUint32(buf, h.number)
}

func appendStart(buf []byte, h header, s start) []byte {
	buf = append(appendHeader(buf, frameStart, h), byte(s.mode))
	buf = AppendPlace(AppendEpoch(buf, s.reign), s.base)
	return binary.BigEndian.AppendUint64(buf, s.pos)
}

// decodeStart reads what follows the header.
func decodeStart(b []byte) (s start, err error) {
	if len(b) != startLen-frameHeader {
		return start{}, errTruncated
	}
	if s.mode = Mode(b[0]); s.mode < FromBase || s.mode > Snapshot {
		return start{}, fmt.Errorf("a stream begins in an unknown way: %v", s.mode)
	}
	if s.reign, b, err = DecodeEpoch(b[1:]); err != nil {
		return start{}, err
	}
	if s.base, b, err = DecodePlace(b); err != nil {
		return start{}, err
	}
	if !s.base.Reign.Less(s.reign) {
		return start{}, fmt.Errorf("a reign %v can't have the base %v", s.reign, s.base)
	}
	s.pos = binary.BigEndian.Uint64(b)
	return s, nil
}

func appendEnd(buf []byte, h header, pos uint64) []byte {
	return binary.BigEndian.AppendUint64(appendHeader(buf, frameEnd, h), pos)
}

// appendBatch begins a frame of records or rows; setCount completes it.
func appendBatch(buf []byte, kind byte, h header, pos uint64) []byte {
	buf = binary.BigEndian.AppendUint64(appendHeader(buf, kind, h), pos)
	return append(buf, 0, 0, 0, 0)
}

func setCount(frame []byte, count uint64) {
	binary.BigEndian.PutUint32(frame[frameHeader+8:], uint32(count))
}
