package replica

import (
	"testing"
	"time"

	"github.com/stile-lock/stile/server/lockspace"
)

// pair is a grant and its end, as one acquire and release make them.
func pair() []lockspace.Change {
	return []lockspace.Change{
		{Kind: lockspace.GrantMade, Key: []byte("orders/eu/000001"), Token: 1 << 60, Lease: 30 * time.Second, Nonce: nonce("0123456789abcdef")},
		{Kind: lockspace.GrantEnded, Key: []byte("orders/eu/000001"), Token: 1 << 60},
	}
}

// nowhere is a sink that counts.
type nowhere struct{ applied, staged int }

func (n *nowhere) Apply(*Record)      { n.applied++ }
func (n *nowhere) Stage()             {}
func (n *nowhere) StageApply(*Record) { n.staged++ }
func (n *nowhere) Install()           {}

// TestAllocStream: nothing on the way of a record allocates, once the log has
// all its blocks.
func TestAllocStream(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	log := NewLog(Epoch{N: 1}, Place{}, 4*blockLen)
	changes := pair()
	rec, epoch := change(changes[0]), Record{Kind: EpochTaken, Epoch: Epoch{N: 2}}
	for log.First() == 1 {
		log.AppendChanges(changes)
	}
	s := NewSender(log, 1, log.Place(), nil)
	recv, sink := NewReceiver(log.Place()), &nowhere{}
	recv.Expect(1)
	buf := make([]byte, 0, MaxFrame)
	round := func() {
		for range 200 {
			log.AppendChanges(changes)
			log.Append(&rec)
			log.Append(&epoch)
		}
		for {
			frame, ok, err := s.Next(MaxFrame, buf)
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			if err := recv.Frame(frame, sink); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := testing.AllocsPerRun(1000, round); n != 0 {
		t.Errorf("%v allocations in 800 records", n)
	}
	if want := log.Place(); recv.Place() != want || sink.applied == 0 {
		t.Errorf("the copy is at %v, want %v", recv.Place(), want)
	}
}

func BenchmarkAppend(b *testing.B) {
	log := NewLog(Epoch{N: 1}, Place{}, 0)
	rec := change(pair()[0])
	b.ReportAllocs()
	for b.Loop() {
		log.Append(&rec)
	}
}

// BenchmarkAppendChanges counts a grant and its end as one.
func BenchmarkAppendChanges(b *testing.B) {
	log := NewLog(Epoch{N: 1}, Place{}, 0)
	changes := pair()
	b.ReportAllocs()
	for b.Loop() {
		log.AppendChanges(changes)
	}
}

func BenchmarkAppendChangesParallel(b *testing.B) {
	log := NewLog(Epoch{N: 1}, Place{}, 0)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for changes := pair(); pb.Next(); {
			log.AppendChanges(changes)
		}
	})
}

// fullLog has one full block and one record.
func fullLog() *Log {
	log := NewLog(Epoch{N: 1}, Place{}, 2*blockLen)
	for log.newest == 0 {
		log.AppendChanges(pair()[:1])
	}
	return log
}

// BenchmarkNext: a frame of a whole block.
func BenchmarkNext(b *testing.B) {
	log := fullLog()
	s := NewSender(log, 1, Place{Reign: Epoch{N: 1}}, nil)
	buf := make([]byte, 0, MaxFrame)
	_, _, _ = s.Next(MaxFrame, buf)
	from := s.cur
	b.ReportAllocs()
	for b.Loop() {
		s.cur = from
		frame, _, _ := s.Next(MaxFrame, buf)
		b.SetBytes(int64(len(frame)))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(s.cur.pos), "ns/record")
}

// BenchmarkNextSplit: one that ends within a block, so that its records have
// to be counted.
func BenchmarkNextSplit(b *testing.B) {
	log := fullLog()
	s := NewSender(log, 1, Place{Reign: Epoch{N: 1}}, nil)
	buf := make([]byte, 0, MaxFrame)
	_, _, _ = s.Next(MaxFrame, buf)
	from := s.cur
	b.ReportAllocs()
	for b.Loop() {
		s.cur = from
		frame, _, _ := s.Next(MaxFrame-10_000, buf)
		b.SetBytes(int64(len(frame)))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(s.cur.pos), "ns/record")
}

// BenchmarkFrame: the receiver's work on a frame of a whole block.
func BenchmarkFrame(b *testing.B) {
	log := fullLog()
	s := NewSender(log, 1, Place{Reign: Epoch{N: 1}}, nil)
	first, _, _ := s.Next(MaxFrame, nil)
	frame, _, _ := s.Next(MaxFrame, nil)
	recv, sink := NewReceiver(Place{Reign: Epoch{N: 1}}), &nowhere{}
	recv.Expect(1)
	if err := recv.Frame(first, sink); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(frame)))
	b.ReportAllocs()
	for b.Loop() {
		recv.pos, recv.number = 0, 1
		if err := recv.Frame(frame, sink); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(recv.pos), "ns/record")
}

// BenchmarkSeek: where a standby goes on that has half of a block.
func BenchmarkSeek(b *testing.B) {
	log := fullLog()
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := log.seek(log.Pos() - 2); !ok {
			b.Fatal("not there")
		}
	}
}
