package replica

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/stile-lock/stile/server/lockspace"
)

// DefaultKeep is how many bytes of the stream a Log keeps by default: at a
// hundred thousand grants and releases a second, several seconds.
const DefaultKeep = 16 << 20

// blockLen leaves room for the header, so that a whole block fits a frame.
const blockLen = MaxFrame - recordsHeader

// ErrOverrun says that the log no longer has what a standby needs next: it
// was too slow. It starts anew, with a new Sender.
var ErrOverrun = errors.New("replica: the standby is too slow: the log no longer has its next record")

// Log is the stream of a reign, as far back as its memory goes. It is safe
// for concurrent use.
//
// The shards append under their locks, so an append is a few stores under one
// more lock. Records lie in blocks, and the oldest block is used again: the
// log never waits for a standby and never grows for one.
type Log struct {
	reign Epoch
	base  Place
	start uint64        // the position before its first record
	pos   atomic.Uint64 // of the last record; written under mu

	blockLen int // the constant; less in tests

	mu     sync.Mutex // guards all below
	blocks []block    // number i is at i % len
	oldest uint64     // number of the oldest block
	newest uint64     // and of the one that is appended to

	// The last ones of their kind, which a snapshot has to tell.
	epoch   Epoch
	members uint16
	told    bool // members counts
}

// block has whole records only.
type block struct {
	first uint64 // position of its first record
	count uint64
	data  []byte
}

// NewLog returns the empty log of a reign that began at the base: the place
// of the table when its node became active. The reign is above that of the
// base, else NewLog panics: no standby would follow. keepBytes is how much is
// kept, [DefaultKeep] if it is 0 or less, at least two blocks of 64 KiB.
func NewLog(reign Epoch, base Place, keepBytes int) *Log {
	return NewLogAt(Place{Reign: reign}, base, keepBytes)
}

// NewLogAt returns a log whose first record has the position after the place:
// of a reign that begins there, with the base that it begins from; or that a
// standby keeps of a reign from there on, for handing on what it has. The base
// is then the zero place, since nobody can be given all of the reign.
func NewLogAt(place, base Place, keepBytes int) *Log {
	if keepBytes <= 0 {
		keepBytes = DefaultKeep
	}
	size := min(blockLen, max(2*MaxRecord, keepBytes/2))
	return newLog(place, base, max(2, keepBytes/size), size)
}

func newLog(place, base Place, blocks, blockLen int) *Log {
	if !base.Reign.Less(place.Reign) {
		panic("replica: a log of a reign that is not above its base")
	}
	l := &Log{
		reign:    place.Reign,
		base:     base,
		blocks:   make([]block, blocks),
		blockLen: blockLen,
	}
	l.blocks[0] = block{first: place.Pos + 1, data: make([]byte, 0, blockLen)}
	l.start = place.Pos
	l.pos.Store(place.Pos)
	return l
}

// Reign is the epoch that the reign began with.
func (l *Log) Reign() Epoch { return l.reign }

// Base is the place that the reign started from.
func (l *Log) Base() Place { return l.base }

// Pos is the position of the last record, 0 before the first.
func (l *Log) Pos() uint64 { return l.pos.Load() }

// Place is the place of the active's own table.
func (l *Log) Place() Place { return Place{l.reign, l.pos.Load()} }

// First is the position of the oldest record that is kept. If there is none
// it is the one that the first record will have.
func (l *Log) First() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at(l.oldest).first
}

func (l *Log) at(number uint64) *block { return &l.blocks[number%uint64(len(l.blocks))] }

// Append adds a record and returns its position.
func (l *Log) Append(r *Record) (pos uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.room()
	b.data = AppendRecord(b.data, r)
	b.count++
	switch r.Kind {
	case EpochTaken:
		l.epoch = r.Epoch
	case InSync:
		l.members, l.told = r.Members, true
	}
	return l.pos.Add(1)
}

// AppendChanges adds a record for each change, without others between them,
// and returns the position of the last. Without changes that is Pos.
func (l *Log) AppendChanges(changes []lockspace.Change) (pos uint64) {
	if len(changes) == 0 {
		return l.pos.Load()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range changes {
		b := l.room()
		b.data = appendChange(b.data, &changes[i])
		b.count++
	}
	return l.pos.Add(uint64(len(changes)))
}

// room returns the block that the next record goes into.
func (l *Log) room() *block {
	b := l.at(l.newest)
	if len(b.data)+MaxRecord <= l.blockLen {
		return b
	}
	first := b.first + b.count
	l.newest++
	if l.newest-l.oldest == uint64(len(l.blocks)) {
		l.oldest++
	}
	b = l.at(l.newest)
	b.first, b.count = first, 0
	if b.data == nil {
		b.data = make([]byte, 0, l.blockLen)
	}
	b.data = b.data[:0]
	return b
}

// cursor is a place between two records of the log.
type cursor struct {
	pos    uint64 // of the record before it
	number uint64 // of the block that the record after it is in, or will be
	off    int    // where in the block
}

// seek returns the cursor after the record at pos, or false if the log no
// longer, or not yet, has it and what follows.
func (l *Log) seek(pos uint64) (c cursor, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if pos > l.pos.Load() || pos+1 < l.at(l.oldest).first {
		return cursor{}, false
	}
	number := l.newest
	for l.at(number).first > pos+1 {
		number--
	}
	b := l.at(number)
	c = cursor{pos: pos, number: number}
	if pos == l.pos.Load() {
		c.off = len(b.data)
		return c, true
	}
	_, c.off = span(b.data, len(b.data), pos+1-b.first)
	return c, true
}

// end returns the cursor at the end of the log, and the records that tell
// what a table does not: the last ones of their kind.
func (l *Log) end(buf []byte) (c cursor, state []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.epoch != (Epoch{}) {
		buf = AppendRecord(buf, &Record{Kind: EpochTaken, Epoch: l.epoch})
	}
	if l.told {
		buf = AppendRecord(buf, &Record{Kind: InSync, Members: l.members})
	}
	return cursor{pos: l.pos.Load(), number: l.newest, off: len(l.at(l.newest).data)}, buf
}

// read appends at most `most` bytes of what follows the cursor to buf, and
// moves the cursor past them: the records up to the position `last`, as far
// as they are in one block. It returns their count.
func (l *Log) read(c *cursor, buf []byte, most int, last uint64) (out []byte, count uint64, err error) {
	start := len(buf)
	buf, left, err := l.copy(c, buf, most)
	if err != nil || left == 0 {
		return buf, 0, err
	}
	// Without the lock, since records have no length in front: count those
	// that are whole and wanted.
	used := len(buf) - start
	if want := last - c.pos; used == most || left > want {
		left, used = span(buf[start:], most, min(left, want))
	}
	c.pos += left
	c.off += used
	return buf[:start+used], left, nil
}

// copy appends the bytes after the cursor, at most `most`, and returns the
// number of records that are left in that block.
func (l *Log) copy(c *cursor, buf []byte, most int) (out []byte, left uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.number < l.oldest {
		// Unless it stood at the very end of what was dropped.
		if l.at(l.oldest).first != c.pos+1 {
			return buf, 0, ErrOverrun
		}
		c.number, c.off = l.oldest, 0
	}
	b := l.at(c.number)
	if c.off == len(b.data) && c.number < l.newest {
		c.number, c.off = c.number+1, 0
		b = l.at(c.number)
	}
	out = append(buf, b.data[c.off:min(len(b.data), c.off+most)]...)
	return out, b.first + b.count - 1 - c.pos, nil
}

// span returns how many records b begins with, and their length in bytes: at
// most `count`, and only such as end within `most` bytes.
func span(b []byte, most int, count uint64) (n uint64, length int) {
	b = b[:min(len(b), most)]
	for n < count && length < len(b) {
		next := recordLen(b[length:])
		if next == 0 {
			break
		}
		n, length = n+1, length+next
	}
	return n, length
}
