package replica

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/stile-lock/stile/server/lockspace"
)

// numbered is a record that tells its position.
func numbered(pos uint64) Record {
	return change(lockspace.Change{Kind: lockspace.GrantEnded, Key: []byte("door"), Token: pos})
}

// long is about the longest record there is.
func long(pos uint64) Record {
	return change(lockspace.Change{Kind: lockspace.WaiterQueued, Key: []byte(strings.Repeat("k", 255)),
		Nonce: nonce(strings.Repeat("n", 32)), Arrival: pos, Wait: lockspace.Forever})
}

func TestLogRing(t *testing.T) {
	log := NewLog(Epoch{3, 1}, Place{Epoch{2, 0}, 9}, 4*blockLen)
	if log.Reign() != (Epoch{3, 1}) || log.Base() != (Place{Epoch{2, 0}, 9}) {
		t.Errorf("reign %v, base %v", log.Reign(), log.Base())
	}
	if log.Pos() != 0 || log.First() != 1 || log.Place() != (Place{Reign: Epoch{3, 1}}) {
		t.Errorf("a new log: Pos %d, First %d", log.Pos(), log.First())
	}
	slow, ok := log.seek(0)
	if !ok {
		t.Fatal("the beginning is not there")
	}
	const all = 200_000
	most, least := uint64(0), uint64(all) // how many records were kept
	for pos := uint64(1); pos <= all; pos++ {
		rec := numbered(pos)
		if got := log.Append(&rec); got != pos {
			t.Fatalf("Append returns %d, want %d", got, pos)
		}
		most = max(most, pos+1-log.First())
		if log.First() > 1 {
			least = min(least, pos+1-log.First())
		}
		if pos%4999 != 0 {
			continue
		}
		first := log.First()
		for _, from := range []uint64{0, first - 2, first - 1, first, (first + pos) / 2, pos - 1, pos, pos + 1} {
			c, ok := log.seek(from)
			if want := from+1 >= first && from <= pos && from != math.MaxUint64; ok != want {
				t.Fatalf("after %d, of %d to %d: %t", from, first, pos, ok)
			}
			if ok {
				readAll(t, log, c, pos)
			}
		}
	}
	perBlock := uint64((blockLen-MaxRecord)/14 + 1)
	if most != 4*perBlock || least != 3*perBlock+1 {
		t.Errorf("%d to %d records were kept, want %d to %d", least, most, 3*perBlock+1, 4*perBlock)
	}
	for _, b := range log.blocks {
		if cap(b.data) > MaxFrame {
			t.Errorf("a block has grown to %d bytes", cap(b.data))
		}
	}
	if _, _, err := log.read(&slow, nil, MaxFrame, all); !errors.Is(err, ErrOverrun) {
		t.Errorf("what is gone can be read: %v", err)
	}
	// Who has read exactly as far as what is dropped has lost nothing.
	edge, ok := log.seek(log.First() - 1)
	if !ok {
		t.Fatal("the oldest record is not there")
	}
	edge.number, edge.off = edge.number-1, 777
	readAll(t, log, edge, all)
}

func TestLogPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a reign is its own base")
		}
	}()
	NewLog(Epoch{3, 1}, Place{Epoch{3, 1}, 0}, 0)
}

// readAll reads to the end, in frames of several sizes.
func readAll(t *testing.T, log *Log, c cursor, end uint64) {
	t.Helper()
	for i := 0; c.pos < end; i++ {
		most := []int{MaxRecord, 1000, MaxFrame}[i%3]
		last := min(end, c.pos+[]uint64{1, 100, math.MaxUint64 - c.pos}[i/3%3])
		was := c.pos
		b, count, err := log.read(&c, nil, most, last)
		if err != nil || count == 0 || c.pos != was+count || c.pos > last || len(b) > most {
			t.Fatalf("after %d: %d records, %d bytes, at %d, %v; most %d, last %d", was, count, len(b), c.pos, err, most, last)
		}
		for pos := was + 1; pos <= c.pos; pos++ {
			var rec Record
			if b, err = DecodeRecord(b, &rec); err != nil || rec.Change.Token != pos {
				t.Fatalf("at %d: %+v, %v", pos, rec, err)
			}
		}
		if len(b) > 0 {
			t.Fatalf("%d bytes too many", len(b))
		}
	}
	if b, count, err := log.read(&c, nil, MaxFrame, math.MaxUint64); len(b) > 0 || count > 0 || err != nil {
		t.Fatalf("after the end: %x, %d, %v", b, count, err)
	}
}

// TestFullFrame: a block of any records fits a frame.
func TestFullFrame(t *testing.T) {
	for size := 1; size <= 255; size++ {
		log := NewLog(Epoch{N: 1}, Place{}, 0)
		key := bytes.Repeat([]byte("k"), size)
		for log.newest == 0 {
			rec := change(lockspace.Change{Kind: lockspace.GrantEnded, Key: key, Token: 1})
			log.Append(&rec)
		}
		s := NewSender(log, 1, Place{Reign: Epoch{N: 1}}, nil)
		if s.Mode() != Tail {
			t.Fatal(s.Mode())
		}
		_, _, _ = s.Next(MaxFrame, nil)
		frame, ok, err := s.Next(MaxFrame, nil)
		if !ok || err != nil || len(frame) > MaxFrame || s.Pos() != log.Pos()-1 {
			t.Fatalf("keys of %d: a frame of %d bytes, %d of %d records, %v", size, len(frame), s.Pos(), log.Pos(), err)
		}
	}
}

// TestLogConcurrent: positions are given once each, and batches are not torn.
func TestLogConcurrent(t *testing.T) {
	const shards, batches = 4, 2000
	log := NewLog(Epoch{N: 1}, Place{Epoch{N: 0, Node: 0}, 0}, 0)
	s := NewSender(log, 1, Place{Reign: Epoch{N: 1}}, nil)
	recv := NewReceiver(Place{Reign: Epoch{N: 1}})
	recv.Expect(1)
	var wg sync.WaitGroup
	for shard := range shards {
		wg.Go(func() {
			last := uint64(0)
			for i := range batches {
				a, b := numbered(uint64(i+1)), numbered(uint64(i+1))
				a.Change.Key, b.Change.Key = fmt.Appendf(nil, "a%d", shard), fmt.Appendf(nil, "b%d", shard)
				pos := log.AppendChanges([]lockspace.Change{a.Change, b.Change})
				if pos <= last || log.Pos() < pos {
					t.Errorf("position %d after %d, Pos %d", pos, last, log.Pos())
				}
				last = pos
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	sink := &pairs{t: t, seen: map[string]uint64{}}
	for running := true; running || s.Pos() < log.Pos(); {
		select {
		case <-done:
			running = false
		default:
		}
		frame, ok, err := s.Next(1000, nil)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			if err := recv.Frame(frame, sink); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(sink.seen) != 2*shards || recv.Place().Pos != 2*shards*batches {
		t.Errorf("%v, at %v", sink.seen, recv.Place())
	}
}

// pairs is a sink that wants the records of TestLogConcurrent.
type pairs struct {
	t    *testing.T
	seen map[string]uint64
	a    string // wanted next: its other half
}

func (p *pairs) Apply(r *Record) {
	key := string(r.Change.Key)
	if p.seen[key]++; r.Change.Token != p.seen[key] {
		p.t.Errorf("%s: %d, want %d", key, r.Change.Token, p.seen[key])
	}
	if (key[0] == 'b') != (p.a != "") || key[0] == 'b' && key[1:] != p.a[1:] {
		p.t.Errorf("%s comes after %s", key, p.a)
	}
	if p.a = ""; key[0] == 'a' {
		p.a = key
	}
}

func (p *pairs) Stage()             { p.t.Error("Stage") }
func (p *pairs) StageApply(*Record) { p.t.Error("StageApply") }
func (p *pairs) Install()           { p.t.Error("Install") }

// TestOverrun: who is too slow gets a new stream with a snapshot.
func TestOverrun(t *testing.T) {
	log := NewLog(Epoch{N: 5}, Place{Epoch{N: 4}, 7}, 2*blockLen)
	s := NewSender(log, 1, Place{Epoch{N: 4}, 7}, nil)
	if s.Mode() != FromBase {
		t.Fatal(s.Mode())
	}
	next := func(s *Sender) []byte {
		t.Helper()
		frame, ok, err := s.Next(MaxFrame, nil)
		if !ok || err != nil {
			t.Fatalf("Next: %t, %v", ok, err)
		}
		return frame
	}
	next(s) // the start
	append1 := func() { rec := long(log.Pos() + 1); log.Append(&rec) }
	for range 300 {
		append1()
	}
	next(s)
	for log.First() <= s.Pos()+1 {
		append1()
	}
	for range 2 {
		if frame, ok, err := s.Next(MaxFrame, nil); ok || !errors.Is(err, ErrOverrun) || frame != nil {
			t.Fatalf("Next of what is gone: %t, %v", ok, err)
		}
	}
	for _, have := range []Place{{Epoch{N: 4}, 7}, {Epoch{N: 5}, s.Pos()}, {Epoch{N: 5}, log.Pos() + 1}, {Epoch{N: 6}, 0}, {}} {
		src := &fixed{}
		again := NewSender(log, 2, have, src)
		if again.Mode() != Snapshot || !again.Syncing() {
			t.Fatalf("from %v: %v", have, again.Mode())
		}
		// A snapshot that takes too long is overrun as well.
		next(again)
		src.at = log.Pos() + 1
		for until := log.Pos() + 1; log.First() <= until; {
			append1()
		}
		if _, ok, err := again.Next(MaxFrame, nil); ok || !errors.Is(err, ErrOverrun) {
			t.Fatalf("a slow snapshot: %t, %v", ok, err)
		}
	}
	n := len(log.blocks)
	for _, b := range log.blocks {
		if n != 2 || cap(b.data) > MaxFrame {
			t.Errorf("%d blocks, one of %d bytes", n, cap(b.data))
		}
	}
}

// fixed is a source of nothing.
type fixed struct{ at uint64 }

func (f *fixed) Rows(_ int, buf []byte) ([]byte, uint64, bool) { return buf, f.at, false }

// TestLogAt: a reign may begin anywhere, and a standby hands on what it has.
func TestLogAt(t *testing.T) {
	for _, tt := range []struct {
		base Place
		want map[Place]Mode
	}{
		{Place{Epoch{3, 0}, 5}, map[Place]Mode{
			{Epoch{3, 0}, 5}:   FromBase,
			{Epoch{3, 0}, 6}:   Snapshot,
			{Epoch{4, 1}, 0}:   Snapshot,
			{Epoch{4, 1}, 99}:  Snapshot,
			{Epoch{4, 1}, 100}: Tail,
			{Epoch{4, 1}, 103}: Tail,
			{Epoch{4, 1}, 104}: Snapshot,
			{}:                 Snapshot,
		}},
		{Place{}, map[Place]Mode{
			{Epoch{3, 0}, 5}:   Snapshot,
			{Epoch{4, 1}, 99}:  Snapshot,
			{Epoch{4, 1}, 100}: Tail,
			{}:                 Snapshot,
		}},
	} {
		log := NewLogAt(Place{Epoch{4, 1}, 100}, tt.base, 0)
		if log.Pos() != 100 || log.First() != 101 || log.Reign() != (Epoch{4, 1}) || log.Base() != tt.base {
			t.Errorf("a new log: Pos %d, First %d, Reign %v, Base %v", log.Pos(), log.First(), log.Reign(), log.Base())
		}
		for range 3 {
			rec := numbered(log.Pos() + 1)
			log.Append(&rec)
		}
		for have, want := range tt.want {
			s := NewSender(log, 1, have, &fixed{at: 103})
			if s.Mode() != want {
				t.Errorf("base %v, from %v: %v, want %v", tt.base, have, s.Mode(), want)
			}
			recv, sink := NewReceiver(have), &nowhere{}
			recv.Expect(1)
			for {
				frame, ok, err := s.Next(MaxFrame, nil)
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					break
				}
				if err := recv.Frame(frame, sink); err != nil {
					t.Errorf("base %v, from %v: %v", tt.base, have, err)
				}
			}
			if recv.Place() != log.Place() || want == FromBase && sink.applied != 3 {
				t.Errorf("base %v, from %v: the copy is at %v, %d applied", tt.base, have, recv.Place(), sink.applied)
			}
		}
		c, _ := log.seek(100)
		readAll(t, log, c, 103)
	}
}

// greedy is a source that fills whatever it is given.
type greedy struct{ left int }

func (g *greedy) Rows(most int, buf []byte) ([]byte, uint64, bool) {
	for n := 0; n+14 <= most; n += 14 {
		rec := numbered(1)
		buf = AppendRecord(buf, &rec)
	}
	g.left--
	return buf, 0, g.left > 0
}

// TestFrameLimits: frames of rows keep to the limit, whatever it was before.
func TestFrameLimits(t *testing.T) {
	s := NewSender(NewLog(Epoch{N: 1}, Place{}, 0), 1, Place{}, &greedy{left: 3})
	recv, sink := NewReceiver(Place{}), &nowhere{}
	recv.Expect(1)
	for i := 0; ; i++ {
		most := []int{1 << 20, 1000, 0}[i%3]
		frame, ok, err := s.Next(most, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		if limit := max(min(most, MaxFrame), minFrame); len(frame) > limit {
			t.Errorf("a frame of %d bytes, at most %d", len(frame), limit)
		}
		if err := recv.Frame(frame, sink); err != nil {
			t.Fatal(err)
		}
	}
	if sink.staged < 3*20 || s.Syncing() || recv.Syncing() {
		t.Errorf("%d rows, syncing: %t, %t", sink.staged, s.Syncing(), recv.Syncing())
	}
}
