package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/stile-lock/stile/server/replica"
)

// Types of messages, the first byte. The bytes from 0x80 on are frames of the
// stream.
const (
	typeStatus = iota + 1
	typeJoin
	typeAck
	typePrepare
	typePrepared
	typeGo
	typeOffer
)

// Limits of a Status, which a stranger's bytes never reach: it is read only
// after the handshake.
const (
	maxSighted = 16
	maxText    = 8192
)

// Append appends the encoded message.
func Append(buf []byte, m Message) []byte {
	w := writer{buf}
	switch m := m.(type) {
	case *Status:
		w.byte(typeStatus)
		w.uint(m.Boot)
		w.byte(byte(m.Role))
		w.place(m.Place)
		w.place(m.Base)
		w.epoch(m.Epoch)
		w.epoch(m.Known)
		w.bools(m.Stopping, m.Unfit, m.Fresh, m.Forked, m.Paused, m.Sync)
		w.byte(m.Meeting)
		w.uint(uint64(m.Reach))
		w.byte(byte(len(m.Sees)))
		for _, s := range m.Sees {
			w.byte(s.ID)
			w.epoch(s.Reign)
		}
		for _, v := range []uint64{m.Beat, m.Echo, m.Ask, m.Answer, m.Feeds, m.FailureTimeout} {
			w.uint(v)
		}
		w.bytes([]byte(m.Advertise))
		w.bytes([]byte(m.Peers))
	case *Join:
		w.byte(typeJoin)
		w.uint(m.Stream)
		w.place(m.Place)
	case *Ack:
		w.byte(typeAck)
		w.uint(m.Stream)
		w.place(m.Place)
		w.uint(m.Frames)
	case *Prepare:
		w.byte(typePrepare)
		w.uint(m.ID)
		w.epoch(m.Above)
	case *Prepared:
		w.byte(typePrepared)
		w.uint(m.ID)
		w.epoch(m.Epoch)
	case *Go:
		w.byte(typeGo)
		w.uint(m.ID)
		w.place(m.Place)
	case *Offer:
		w.byte(typeOffer)
		w.byte(m.From)
		w.byte(m.To)
		w.epoch(m.Epoch)
		w.uint(uint64(m.Seq))
		w.bools(m.Last)
		w.bytes(m.Rows)
	default:
		panic(fmt.Sprintf("cluster: no encoding for %T", m))
	}
	return w.buf
}

// ErrMessage is returned by Decode for bytes that are no message.
var ErrMessage = errors.New("not a message of a cluster node")

// Decode reads one message. The rows of an Offer are a view of b.
func Decode(b []byte) (Message, error) {
	r := reader{b: b}
	var m Message
	switch r.byte() {
	case typeStatus:
		s := &Status{Boot: r.uint(), Role: Role(r.byte()), Place: r.place(), Base: r.place(), Epoch: r.epoch(), Known: r.epoch()}
		r.bools(&s.Stopping, &s.Unfit, &s.Fresh, &s.Forked, &s.Paused, &s.Sync)
		s.Meeting = r.byte()
		reach := r.uint()
		s.Reach = uint16(reach)
		n := int(r.byte())
		r.fail(s.Role > Active || s.Meeting > 16 || reach > 0xFFFF || n > maxSighted)
		for range n {
			if r.bad {
				break
			}
			s.Sees = append(s.Sees, Sighted{r.id(), r.epoch()})
		}
		for _, v := range []*uint64{&s.Beat, &s.Echo, &s.Ask, &s.Answer, &s.Feeds, &s.FailureTimeout} {
			*v = r.uint()
		}
		r.fail(s.FailureTimeout < uint64(time.Millisecond) || s.FailureTimeout > uint64(time.Hour))
		s.Advertise, s.Peers = string(r.bytes(maxText)), string(r.bytes(maxText))
		m = s
	case typeJoin:
		m = &Join{r.uint(), r.place()}
	case typeAck:
		m = &Ack{r.uint(), r.place(), r.uint()}
	case typePrepare:
		m = &Prepare{r.uint(), r.epoch()}
	case typePrepared:
		m = &Prepared{r.uint(), r.epoch()}
	case typeGo:
		m = &Go{r.uint(), r.place()}
	case typeOffer:
		o := &Offer{From: r.id(), To: r.id(), Epoch: r.epoch()}
		seq := r.uint()
		r.fail(seq > 1<<32-1)
		o.Seq = uint32(seq)
		r.bools(&o.Last)
		o.Rows = r.bytes(len(b))
		m = o
	default:
		return nil, ErrMessage
	}
	if r.bad || len(r.b) > 0 {
		return nil, ErrMessage
	}
	return m, nil
}

type writer struct{ buf []byte }

func (w *writer) byte(b byte)   { w.buf = append(w.buf, b) }
func (w *writer) uint(v uint64) { w.buf = binary.AppendUvarint(w.buf, v) }
func (w *writer) bytes(b []byte) {
	w.uint(uint64(len(b)))
	w.buf = append(w.buf, b...)
}
func (w *writer) epoch(e replica.Epoch) {
	w.uint(uint64(e.N))
	w.byte(e.Node)
}
func (w *writer) place(p replica.Place) {
	w.epoch(p.Reign)
	w.uint(p.Pos)
}
func (w *writer) bools(flags ...bool) {
	var b byte
	for i, f := range flags {
		if f {
			b |= 1 << i
		}
	}
	w.byte(b)
}

// reader reads fields; after the first wrong one it is bad and gives zeros.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) fail(when bool) {
	if when {
		r.bad, r.b = true, nil
	}
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail(true)
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *reader) id() uint8 {
	v := r.byte()
	r.fail(v > 15)
	return v & 15
}

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail(true)
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) bytes(most int) []byte {
	n := r.uint()
	if n > uint64(len(r.b)) || n > uint64(most) {
		r.fail(true)
		return nil
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) epoch() replica.Epoch {
	n := r.uint()
	r.fail(n > 1<<31-1)
	return replica.Epoch{N: uint32(n), Node: r.id()}
}

func (r *reader) place() replica.Place {
	return replica.Place{Reign: r.epoch(), Pos: r.uint()}
}

func (r *reader) bools(flags ...*bool) {
	b := r.byte()
	r.fail(b>>len(flags) != 0)
	for i, f := range flags {
		*f = b>>i&1 == 1
	}
}
