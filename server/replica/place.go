package replica

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/stile-lock/stile/server/fencing"
)

// Epoch is the number and the node that an active's tokens carry. Such pairs
// are ordered, by number first. The zero value is none.
type Epoch struct {
	N    uint32
	Node uint8
}

// Compare is negative if e is below f, 0 if they are the same, else positive.
func (e Epoch) Compare(f Epoch) int {
	if c := cmp.Compare(e.N, f.N); c != 0 {
		return c
	}
	return cmp.Compare(e.Node, f.Node)
}

// Less reports whether e is below f.
func (e Epoch) Less(f Epoch) bool { return e.Compare(f) < 0 }

// String is the number, a dot, and the node, for logs.
func (e Epoch) String() string { return fmt.Sprintf("%d.%d", e.N, e.Node) }

// Place says what a table has seen: everything up to a position of a reign.
// A reign is the time of one active, named by the epoch it began with. The
// zero value is the place of a table that is empty, or that belongs to no
// stream.
type Place struct {
	Reign Epoch
	Pos   uint64 // of the last record, or where the reign began
}

// Compare orders places by reign first, then by position.
func (p Place) Compare(q Place) int {
	if c := p.Reign.Compare(q.Reign); c != 0 {
		return c
	}
	return cmp.Compare(p.Pos, q.Pos)
}

// String is the reign and the position, for logs.
func (p Place) String() string { return fmt.Sprintf("%v/%d", p.Reign, p.Pos) }

const (
	maxEpoch = 1<<31 - 1

	epochLen = 5
	placeLen = epochLen + 8
)

var (
	errEpoch = errors.New("not an epoch: the number or the node is out of range")
	errPlace = errors.New("not a place: a position without a reign")
)

// AppendEpoch appends the epoch in 5 bytes.
func AppendEpoch(buf []byte, e Epoch) []byte {
	return append(binary.BigEndian.AppendUint32(buf, e.N), e.Node)
}

// DecodeEpoch reads what AppendEpoch appended, and returns what follows it.
func DecodeEpoch(b []byte) (e Epoch, rest []byte, err error) {
	if len(b) < epochLen {
		return Epoch{}, nil, errTruncated
	}
	e = Epoch{N: binary.BigEndian.Uint32(b), Node: b[4]}
	if e.N > maxEpoch || e.Node >= fencing.MaxNodes || e.N == 0 && e.Node != 0 {
		return Epoch{}, nil, errEpoch
	}
	return e, b[epochLen:], nil
}

// AppendPlace appends the place in 13 bytes.
func AppendPlace(buf []byte, p Place) []byte {
	return binary.BigEndian.AppendUint64(AppendEpoch(buf, p.Reign), p.Pos)
}

// DecodePlace reads what AppendPlace appended, and returns what follows it.
func DecodePlace(b []byte) (p Place, rest []byte, err error) {
	if p.Reign, b, err = DecodeEpoch(b); err != nil {
		return Place{}, nil, err
	}
	if len(b) < 8 {
		return Place{}, nil, errTruncated
	}
	p.Pos = binary.BigEndian.Uint64(b)
	if p.Reign == (Epoch{}) && p.Pos != 0 {
		return Place{}, nil, errPlace
	}
	return p, b[8:], nil
}
