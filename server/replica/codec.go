package replica

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/stile-lock/stile/protocol"
	"github.com/stile-lock/stile/server/lockspace"
)

// RecordKind says what a record is about.
type RecordKind uint8

const (
	// TableChange is a change of the lock table, or a row of it.
	TableChange RecordKind = iota + 1
	// EpochTaken says that the active has taken a further epoch.
	EpochTaken
	// InSync says which standbys an answer waits for from now on.
	InSync
)

// Record is one step of the stream.
type Record struct {
	Kind    RecordKind
	Change  lockspace.Change // TableChange
	Epoch   Epoch            // EpochTaken
	Members uint16           // InSync: bit i stands for the node with id i
}

// The first byte of a record. It is part of what nodes of different releases
// say to each other: numbers are never given another meaning.
const (
	wireGrantMade    = 1
	wireGrantKept    = 2
	wireGrantEnded   = 3
	wireGrantUndone  = 4
	wireWaiterQueued = 5
	wireWaiterLeft   = 6
	wireNonceSpent   = 7
	wireSpentKnown   = 8
	wireTokenSeen    = 9
	wireGrantHeld    = 10 // a grant made a while ago
	wireWaiterWaits  = 11 // a waiter that was queued a while ago
	wireEpochTaken   = 0x40
	wireInSync       = 0x41
)

// MaxRecord is the length of the longest record, a waiter's.
const MaxRecord = 1 + (1 + protocol.MaxKey) + (1 + protocol.MaxNonce) + 4*binary.MaxVarintLen64

// maxMicros is the longest duration that fits a time.Duration.
const maxMicros = uint64(math.MaxInt64 / int64(time.Microsecond))

// maxMillis is the same in milliseconds.
const maxMillis = uint64(math.MaxInt64 / int64(time.Millisecond))

var (
	errTruncated = errors.New("the record or frame is cut off")
	errKind      = errors.New("unknown kind of record")
	errVarint    = errors.New("a number is out of range, or not in its shortest form")
	errKey       = errors.New("not a key")
	errNonce     = errors.New("not a nonce")
	errToken     = errors.New("not a token: it is from 1 to 2^63-1")
	errDuration  = errors.New("a duration is out of range")
)

// AppendRecord appends r. Leases and waits are rounded up to microseconds and
// the age of a spent nonce down: a copy ends things late, never early. The age of
// a grant or a waiter, which is for people, is rounded down to milliseconds, and
// costs what is sent as it happens nothing. It panics if r is no record: that is
// a mistake of the caller's, and what follows it in a stream could not be read.
func AppendRecord(buf []byte, r *Record) []byte {
	switch r.Kind {
	case TableChange:
		return appendChange(buf, &r.Change)
	case EpochTaken:
		return AppendEpoch(append(buf, wireEpochTaken), r.Epoch)
	case InSync:
		return binary.BigEndian.AppendUint16(append(buf, wireInSync), r.Members)
	}
	panic("replica: AppendRecord of an unknown kind")
}

func appendChange(buf []byte, c *lockspace.Change) []byte {
	switch c.Kind {
	case lockspace.GrantMade:
		age, kind := millis(c.Age), byte(wireGrantMade)
		if age > 0 {
			kind = wireGrantHeld
		}
		buf = appendKey(buf, kind, c.Key)
		buf = binary.BigEndian.AppendUint64(buf, c.Token)
		buf = appendMicros(buf, c.Lease)
		if age > 0 {
			buf = binary.AppendUvarint(buf, age)
		}
		return appendNonce(buf, &c.Nonce)
	case lockspace.GrantKept:
		buf = appendKey(buf, wireGrantKept, c.Key)
		buf = binary.BigEndian.AppendUint64(buf, c.Token)
		return appendMicros(buf, c.Lease)
	case lockspace.GrantEnded:
		buf = appendKey(buf, wireGrantEnded, c.Key)
		return binary.BigEndian.AppendUint64(buf, c.Token)
	case lockspace.GrantUndone:
		buf = appendKey(buf, wireGrantUndone, c.Key)
		return binary.BigEndian.AppendUint64(buf, c.Token)
	case lockspace.WaiterQueued:
		age, kind := millis(c.Age), byte(wireWaiterQueued)
		if age > 0 {
			kind = wireWaiterWaits
		}
		buf = appendKey(buf, kind, c.Key)
		buf = appendNonce(buf, &c.Nonce)
		buf = binary.AppendUvarint(buf, c.Arrival)
		buf = appendWait(buf, c.Wait)
		buf = appendMicros(buf, c.Asked)
		if age > 0 {
			buf = binary.AppendUvarint(buf, age)
		}
		return buf
	case lockspace.WaiterLeft:
		buf = appendKey(buf, wireWaiterLeft, c.Key)
		return appendNonce(buf, &c.Nonce)
	case lockspace.NonceSpent:
		buf = appendKey(buf, wireNonceSpent, c.Key)
		return appendNonce(buf, &c.Nonce)
	case lockspace.SpentKnown:
		buf = append(append(buf, wireSpentKnown), c.Pair[:]...)
		return binary.AppendUvarint(buf, uint64(max(c.Age, 0)/time.Microsecond))
	case lockspace.TokenSeen:
		return binary.BigEndian.AppendUint64(append(buf, wireTokenSeen), c.Token)
	}
	panic("replica: a change of an unknown kind")
}

func appendKey(buf []byte, kind byte, key []byte) []byte {
	if len(key) > protocol.MaxKey {
		panic("replica: a change with a key that is too long")
	}
	return append(append(buf, kind, byte(len(key))), key...)
}

func appendNonce(buf []byte, n *lockspace.Nonce) []byte {
	b := n.Bytes()
	return append(append(buf, byte(len(b))), b...)
}

// micros rounds up. What is over counts as 0.
func micros(d time.Duration) uint64 {
	if d <= 0 {
		return 0
	}
	return min((uint64(d)+uint64(time.Microsecond)-1)/uint64(time.Microsecond), maxMicros)
}

// millis rounds down. What has no age counts as 0.
func millis(d time.Duration) uint64 { return uint64(max(d, 0) / time.Millisecond) }

func appendMicros(buf []byte, d time.Duration) []byte {
	return binary.AppendUvarint(buf, micros(d))
}

// appendWait has 0 for a wait without limit, and all others one higher.
func appendWait(buf []byte, d time.Duration) []byte {
	if d == lockspace.Forever {
		return append(buf, 0)
	}
	return binary.AppendUvarint(buf, micros(d)+1)
}

// DecodeRecord reads the record that b begins with into r, and returns what
// follows it. The key in r is a part of b. If there is an error, r is empty.
//
// It is strict: what AppendRecord cannot have written is an error.
func DecodeRecord(b []byte, r *Record) (rest []byte, err error) {
	*r = Record{}
	if rest, err = decodeRecord(b, r); err != nil {
		*r = Record{}
		return nil, err
	}
	return rest, nil
}

func decodeRecord(b []byte, r *Record) (rest []byte, err error) {
	if len(b) == 0 {
		return nil, errTruncated
	}
	kind := b[0]
	b = b[1:]
	switch kind {
	case wireEpochTaken:
		r.Kind = EpochTaken
		if r.Epoch, b, err = DecodeEpoch(b); err == nil && r.Epoch.N == 0 {
			err = errEpoch
		}
		return b, err
	case wireInSync:
		if len(b) < 2 {
			return nil, errTruncated
		}
		r.Kind, r.Members = InSync, binary.BigEndian.Uint16(b)
		return b[2:], nil
	}
	r.Kind = TableChange
	c := &r.Change
	switch kind {
	case wireSpentKnown:
		c.Kind = lockspace.SpentKnown
		if len(b) < len(c.Pair) {
			return nil, errTruncated
		}
		b = b[copy(c.Pair[:], b):]
		c.Age, b, err = decodeMicros(b)
		return b, err
	case wireTokenSeen:
		c.Kind = lockspace.TokenSeen
		c.Token, b, err = decodeToken(b)
		return b, err
	case wireGrantMade, wireGrantHeld, wireGrantKept, wireGrantEnded, wireGrantUndone, wireWaiterQueued, wireWaiterWaits, wireWaiterLeft, wireNonceSpent:
	default:
		return nil, errKind
	}
	if c.Key, b, err = decodeKey(b); err != nil {
		return nil, err
	}
	switch kind {
	case wireGrantMade, wireGrantHeld:
		c.Kind = lockspace.GrantMade
		if c.Token, b, err = decodeToken(b); err != nil {
			return nil, err
		}
		if c.Lease, b, err = decodeMicros(b); err != nil {
			return nil, err
		}
		if kind == wireGrantHeld {
			if c.Age, b, err = decodeAge(b); err != nil {
				return nil, err
			}
		}
		if len(b) > 0 && b[0] == 0 {
			return b[1:], nil // made without a nonce
		}
		return decodeNonce(b, &c.Nonce)
	case wireGrantKept:
		c.Kind = lockspace.GrantKept
		if c.Token, b, err = decodeToken(b); err != nil {
			return nil, err
		}
		c.Lease, b, err = decodeMicros(b)
		return b, err
	case wireGrantEnded:
		c.Kind = lockspace.GrantEnded
		c.Token, b, err = decodeToken(b)
		return b, err
	case wireGrantUndone:
		c.Kind = lockspace.GrantUndone
		c.Token, b, err = decodeToken(b)
		return b, err
	case wireWaiterLeft:
		c.Kind = lockspace.WaiterLeft
		return decodeNonce(b, &c.Nonce)
	case wireNonceSpent:
		c.Kind = lockspace.NonceSpent
		return decodeNonce(b, &c.Nonce)
	}
	c.Kind = lockspace.WaiterQueued
	if b, err = decodeNonce(b, &c.Nonce); err != nil {
		return nil, err
	}
	if c.Arrival, b, err = decodeUvarint(b); err != nil {
		return nil, err
	}
	if c.Wait, b, err = decodeWait(b); err != nil {
		return nil, err
	}
	if c.Asked, b, err = decodeMicros(b); err != nil || kind == wireWaiterQueued {
		return b, err
	}
	c.Age, b, err = decodeAge(b)
	return b, err
}

// recordLen is the length of the record that b begins with, 0 if b ends
// before it does. The record is one that AppendRecord wrote.
func recordLen(b []byte) int {
	if len(b) == 0 {
		return 0
	}
	n := 1
	text := func() { // a length, and so many bytes
		if n < len(b) {
			n += int(b[n])
		}
		n++
	}
	number := func() {
		for n < len(b) && b[n] >= 0x80 {
			n++
		}
		n++
	}
	switch b[0] {
	case wireGrantMade:
		text()
		n += 8
		number()
		text()
	case wireGrantHeld:
		text()
		n += 8
		number()
		number()
		text()
	case wireGrantKept:
		text()
		n += 8
		number()
	case wireGrantEnded, wireGrantUndone:
		text()
		n += 8
	case wireWaiterQueued:
		text()
		text()
		number()
		number()
		number()
	case wireWaiterWaits:
		text()
		text()
		number()
		number()
		number()
		number()
	case wireWaiterLeft, wireNonceSpent:
		text()
		text()
	case wireSpentKnown:
		n += 16
		number()
	case wireTokenSeen:
		n += 8
	case wireEpochTaken:
		n += epochLen
	case wireInSync:
		n += 2
	}
	if n > len(b) {
		return 0
	}
	return n
}

func decodeKey(b []byte) (key, rest []byte, err error) {
	if len(b) == 0 || len(b) < 1+int(b[0]) {
		return nil, nil, errTruncated
	}
	n := 1 + int(b[0])
	if key = b[1:n:n]; !protocol.ValidKey(key) {
		return nil, nil, errKey
	}
	return key, b[n:], nil
}

func decodeNonce(b []byte, nonce *lockspace.Nonce) (rest []byte, err error) {
	if len(b) == 0 {
		return nil, errTruncated
	}
	n := 1 + int(b[0])
	if n > 1+protocol.MaxNonce {
		return nil, errNonce
	}
	if len(b) < n {
		return nil, errTruncated
	}
	if !protocol.ValidNonce(b[1:n]) {
		return nil, errNonce
	}
	*nonce = lockspace.MakeNonce(b[1:n])
	return b[n:], nil
}

func decodeToken(b []byte) (token uint64, rest []byte, err error) {
	if len(b) < 8 {
		return 0, nil, errTruncated
	}
	if token = binary.BigEndian.Uint64(b); token == 0 || token > math.MaxInt64 {
		return 0, nil, errToken
	}
	return token, b[8:], nil
}

// decodeUvarint reads the shortest form only: what is read and appended again
// is the same bytes.
func decodeUvarint(b []byte) (v uint64, rest []byte, err error) {
	v, n := binary.Uvarint(b)
	if n == 0 {
		return 0, nil, errTruncated
	}
	if n < 0 || n > 1 && b[n-1] == 0 {
		return 0, nil, errVarint
	}
	return v, b[n:], nil
}

func decodeMicros(b []byte) (d time.Duration, rest []byte, err error) {
	v, rest, err := decodeUvarint(b)
	if err != nil {
		return 0, nil, err
	}
	if v > maxMicros {
		return 0, nil, errDuration
	}
	return time.Duration(v) * time.Microsecond, rest, nil
}

// decodeAge reads the age of a grant or a waiter, which is sent if it is not 0.
func decodeAge(b []byte) (d time.Duration, rest []byte, err error) {
	v, rest, err := decodeUvarint(b)
	if err != nil {
		return 0, nil, err
	}
	if v == 0 || v > maxMillis {
		return 0, nil, errDuration
	}
	return time.Duration(v) * time.Millisecond, rest, nil
}

func decodeWait(b []byte) (d time.Duration, rest []byte, err error) {
	v, rest, err := decodeUvarint(b)
	if err != nil {
		return 0, nil, err
	}
	if v == 0 {
		return lockspace.Forever, rest, nil
	}
	if v-1 > maxMicros {
		return 0, nil, errDuration
	}
	return time.Duration(v-1) * time.Microsecond, rest, nil
}
