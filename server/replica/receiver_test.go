package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// scribe writes down what a sink is told.
type scribe struct{ lines []string }

func (s *scribe) Apply(r *Record)      { s.add("apply", r) }
func (s *scribe) StageApply(r *Record) { s.add("stage", r) }
func (s *scribe) Stage()               { s.lines = append(s.lines, "begin") }
func (s *scribe) Install()             { s.lines = append(s.lines, "install") }

func (s *scribe) add(what string, r *Record) {
	switch r.Kind {
	case TableChange:
		what += fmt.Sprintf(" %d", r.Change.Token)
	case EpochTaken:
		what += " epoch " + r.Epoch.String()
	case InSync:
		what += fmt.Sprintf(" in sync %b", r.Members)
	}
	s.lines = append(s.lines, what)
}

var (
	thisReign = Epoch{5, 1}
	thisBase  = Place{Epoch{4, 0}, 70}
)

// The frames of the tests have number 0, until numberFrame sets another.
func startFrame(stream uint64, mode Mode, pos uint64) []byte {
	return appendStart(nil, header{stream: stream}, start{mode, thisReign, thisBase, pos})
}

func endFrame(stream, pos uint64) []byte { return appendEnd(nil, header{stream: stream}, pos) }

func numberFrame(frame []byte, number uint32) []byte {
	if len(frame) >= frameHeader {
		binary.BigEndian.PutUint32(frame[9:], number)
	}
	return frame
}

func batch(kind byte, stream, pos uint64, records ...Record) []byte {
	frame := appendBatch(nil, kind, header{stream: stream}, pos)
	for i := range records {
		frame = AppendRecord(frame, &records[i])
	}
	setCount(frame, uint64(len(records)))
	return frame
}

func records(stream, first, last uint64) []byte {
	var recs []Record
	for pos := first; pos <= last; pos++ {
		recs = append(recs, numbered(pos))
	}
	return batch(frameRecords, stream, first, recs...)
}

// TestReceiver follows streams step by step. The stream to come is 7.
func TestReceiver(t *testing.T) {
	grown := func(frame []byte) []byte { return append(frame, 0) }
	cut := func(frame []byte) []byte { return frame[:len(frame)-1] }
	patch := func(frame []byte, at int, b byte) []byte {
		frame[at] = b
		return frame
	}
	type step struct {
		frame []byte
		want  string // what the sink is told, then the place
	}
	at := func(pos uint64) Place { return Place{thisReign, pos} }
	for _, tt := range []struct {
		name  string
		place Place
		steps []step
		fault string // of the last step
	}{
		{"from the base", thisBase, []step{
			{startFrame(7, FromBase, 0), "5.1/0"},
			{records(7, 1, 2), "apply 1, apply 2, 5.1/2"},
			{batch(frameRecords, 7, 3, Record{Kind: EpochTaken, Epoch: Epoch{9, 1}}, Record{Kind: InSync, Members: 5}), "apply epoch 9.1, apply in sync 101, 5.1/4"},
			{records(7, 5, 5), "apply 5, 5.1/5"},
		}, ""},
		{"from the base, to a reign that begins at 500", thisBase, []step{
			{startFrame(7, FromBase, 500), "5.1/500"},
			{records(7, 501, 501), "apply 501, 5.1/501"},
		}, ""},
		{"tail", at(30), []step{
			{startFrame(7, Tail, 30), "5.1/30"},
			{records(7, 31, 31), "apply 31, 5.1/31"},
		}, ""},
		{"snapshot", at(30), []step{
			{startFrame(7, Snapshot, 40), "begin, 5.1/30, syncing"},
			{batch(frameRows, 7, 40, Record{Kind: InSync, Members: 1}, numbered(9)), "stage in sync 1, stage 9, 5.1/30, syncing"},
			{records(7, 41, 42), "stage 41, stage 42, 5.1/30, syncing"},
			{batch(frameRows, 7, 42, numbered(8)), "stage 8, 5.1/30, syncing"},
			{endFrame(7, 42), "install, 5.1/42"},
			{records(7, 43, 43), "apply 43, 5.1/43"},
		}, ""},
		{"empty snapshot of an empty table", Place{}, []step{
			{startFrame(7, Snapshot, 0), "begin, 0.0/0, syncing"},
			{endFrame(7, 0), "install, 5.1/0"},
		}, ""},
		{"other streams", at(30), []step{
			{records(6, 99, 99), "5.1/30"},
			{startFrame(6, Snapshot, 99), "5.1/30"},
			{startFrame(7, Tail, 30), "5.1/30"},
			{records(6, 31, 31), "5.1/30"},
			{endFrame(8, 31), "5.1/30"},
			{records(7, 31, 31), "apply 31, 5.1/31"},
		}, ""},
		{"empty frames of records", at(30), []step{
			{startFrame(7, Tail, 30), "5.1/30"},
			{batch(frameRecords, 7, 31), "5.1/30"},
		}, ""},

		{"no start", at(30), []step{{records(7, 31, 31), "5.1/30"}}, "no beginning"},
		{"no start of a snapshot", at(30), []step{{batch(frameRows, 7, 30), "5.1/30"}}, "no beginning"},
		{"only the end of a snapshot", at(30), []step{{endFrame(7, 30), "5.1/30"}}, "no beginning"},
		{"from another base", Place{Epoch{4, 0}, 71}, []step{{startFrame(7, FromBase, 0), "4.0/71"}}, "from the base"},
		{"tail of what it does not have", at(30), []step{{startFrame(7, Tail, 31), "5.1/30"}}, "from 5.1/31 on"},
		{"tail of what it has", at(30), []step{{startFrame(7, Tail, 29), "5.1/30"}}, "from 5.1/29 on"},
		{"tail of another reign", Place{Epoch{5, 0}, 30}, []step{{startFrame(7, Tail, 30), "5.0/30"}}, "from 5.1/30 on"},
		{"two starts", at(30), []step{{startFrame(7, Tail, 30), "5.1/30"}, {startFrame(7, Tail, 30), "5.1/30"}}, "begins twice"},
		{"unknown mode", at(30), []step{{startFrame(7, 4, 30), "5.1/30"}}, "unknown way: mode 4"},
		{"mode 0", at(30), []step{{startFrame(7, 0, 30), "5.1/30"}}, "unknown way: mode 0"},
		{"start without a reign", Place{}, []step{{appendStart(nil, header{stream: 7}, start{mode: Snapshot}), "0.0/0"}}, "can't have the base"},
		{"a reign that is its own base", thisBase, []step{{appendStart(nil, header{stream: 7}, start{FromBase, thisBase.Reign, thisBase, 0}), "4.0/70"}}, "can't have the base"},
		{"short start", at(30), []step{{cut(startFrame(7, Tail, 30)), "5.1/30"}}, "cut off"},
		{"long start", at(30), []step{{grown(startFrame(7, Tail, 30)), "5.1/30"}}, "cut off"},
		{"gap", at(30), []step{{startFrame(7, Tail, 30), "5.1/30"}, {records(7, 32, 32), "5.1/30"}}, "from 32 on follow 30"},
		{"double", at(30), []step{
			{startFrame(7, Tail, 30), "5.1/30"},
			{records(7, 31, 32), "apply 31, apply 32, 5.1/32"},
			{records(7, 32, 33), "5.1/32"}}, "from 32 on follow 32"},
		{"rows outside a snapshot", at(30), []step{{startFrame(7, Tail, 30), "5.1/30"}, {batch(frameRows, 7, 30, numbered(1)), "5.1/30"}}, "in a snapshot: false"},
		{"end outside a snapshot", at(30), []step{{startFrame(7, Tail, 30), "5.1/30"}, {endFrame(7, 30), "5.1/30"}}, "in a snapshot: false"},
		{"rows too early", at(30), []step{{startFrame(7, Snapshot, 40), "begin, 5.1/30, syncing"}, {batch(frameRows, 7, 41, numbered(1)), "5.1/30"}}, "rows of 41 come at 40"},
		{"rows too late", at(30), []step{{startFrame(7, Snapshot, 40), "begin, 5.1/30, syncing"}, {batch(frameRows, 7, 39, numbered(1)), "5.1/30"}}, "rows of 39 come at 40"},
		{"end too early", at(30), []step{{startFrame(7, Snapshot, 40), "begin, 5.1/30, syncing"}, {endFrame(7, 41), "5.1/30"}}, "at 41 comes at 40"},
		{"gap in a snapshot", at(30), []step{{startFrame(7, Snapshot, 40), "begin, 5.1/30, syncing"}, {records(7, 42, 42), "5.1/30"}}, "from 42 on follow 40"},
		{"long end", at(30), []step{{startFrame(7, Snapshot, 40), "begin, 5.1/30, syncing"}, {grown(endFrame(7, 40)), "5.1/30"}}, "at 40 comes at 40"},
		{"short end", at(30), []step{{startFrame(7, Snapshot, 40), "begin, 5.1/30, syncing"}, {cut(endFrame(7, 40)), "5.1/30"}}, "cut off"},
		{"more records than are counted", at(30), []step{{startFrame(7, Tail, 30), "5.1/30"}, {patch(records(7, 31, 32), recordsHeader-1, 1), "apply 31, 5.1/31"}}, "14 bytes follow"},
		{"fewer records than are counted", at(30), []step{{startFrame(7, Tail, 30), "5.1/30"}, {patch(records(7, 31, 32), recordsHeader-1, 3), "apply 31, apply 32, 5.1/32"}}, "cut off"},
		{"no count", at(30), []step{{startFrame(7, Tail, 30), "5.1/30"}, {cut(batch(frameRecords, 7, 31)), "5.1/30"}}, "cut off"},
		{"a bad record", at(30), []step{{startFrame(7, Tail, 30), "5.1/30"}, {patch(records(7, 31, 31), recordsHeader, 99), "5.1/30"}}, "unknown kind of record"},
		{"unknown frame", at(30), []step{{startFrame(7, Tail, 30), "5.1/30"}, {patch(endFrame(7, 30), 0, 0x84), "5.1/30"}}, "unknown frame"},
		{"no frame", at(30), []step{{patch(startFrame(7, Tail, 30), 0, 0x7F), "5.1/30"}}, "unknown frame"},
		{"nothing", at(30), []step{{nil, "5.1/30"}}, "cut off"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			recv := NewReceiver(tt.place)
			sink := &scribe{}
			now := func() string {
				lines := append(sink.lines, recv.Place().String())
				if sink.lines = nil; recv.Syncing() {
					lines = append(lines, "syncing")
				}
				return strings.Join(lines, ", ")
			}
			// Nothing counts before it was asked for.
			if err := recv.Frame(startFrame(7, Snapshot, 1), sink); err != nil || now() != tt.place.String() {
				t.Fatalf("not expected: %v, %s", err, now())
			}
			recv.Expect(7)
			number := uint32(0)
			for i, step := range tt.steps {
				if len(step.frame) > 8 && step.frame[8] == 7 {
					numberFrame(step.frame, number)
					number++
				}
				err := recv.Frame(step.frame, sink)
				if i == len(tt.steps)-1 && tt.fault != "" {
					if !errors.Is(err, ErrGap) || !strings.Contains(err.Error(), tt.fault) {
						t.Errorf("%v, want %q", err, tt.fault)
					}
				} else if err != nil {
					t.Errorf("frame %d: %v", i, err)
				}
				if diff := cmp.Diff(step.want, now()); diff != "" {
					t.Errorf("frame %d (-want +got):\n%s", i, diff)
				}
			}
			if tt.fault == "" {
				return
			}
			// The rest of the stream is ignored, and the next one followed.
			place := recv.Place()
			for _, frame := range [][]byte{startFrame(7, Snapshot, 1), records(7, 31, 31), {0x8F}} {
				if err := recv.Frame(frame, sink); err != nil || now() != place.String() {
					t.Errorf("after the fault, %x: %v, %s", frame, err, now())
				}
			}
			recv.Expect(8)
			for _, frame := range [][]byte{startFrame(8, Snapshot, 50), numberFrame(endFrame(8, 50), 1)} {
				if err := recv.Frame(frame, sink); err != nil {
					t.Errorf("the next stream, %x: %v", frame, err)
				}
			}
			if got := now(); got != "begin, install, 5.1/50" {
				t.Errorf("the next stream: %s", got)
			}
		})
	}
}

// TestExpectEndsSnapshot: what was staged for another stream never counts.
func TestExpectEndsSnapshot(t *testing.T) {
	recv, sink := NewReceiver(Place{thisReign, 30}), &scribe{}
	recv.Expect(7)
	for _, frame := range [][]byte{startFrame(7, Snapshot, 40), numberFrame(batch(frameRows, 7, 40, numbered(1)), 1)} {
		if err := recv.Frame(frame, sink); err != nil {
			t.Fatal(err)
		}
	}
	recv.Expect(8)
	if recv.Syncing() {
		t.Error("it is syncing still")
	}
	for _, frame := range [][]byte{numberFrame(endFrame(7, 40), 2), startFrame(8, Tail, 30), numberFrame(records(8, 31, 31), 1)} {
		if err := recv.Frame(frame, sink); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"begin", "stage 1", "apply 31"}
	if diff := cmp.Diff(want, sink.lines); diff != "" || recv.Place() != (Place{thisReign, 31}) {
		t.Errorf("at %v (-want +got):\n%s", recv.Place(), diff)
	}
}

// TestFrameNumbers: a frame that is lost, doubled or out of its turn is seen
// even where the positions say nothing.
func TestFrameNumbers(t *testing.T) {
	frames := func() [][]byte {
		out := [][]byte{startFrame(7, Snapshot, 40), batch(frameRows, 7, 40, numbered(1)), batch(frameRows, 7, 40, numbered(2)), batch(frameRows, 7, 40, numbered(3)), endFrame(7, 40)}
		for i := range out {
			numberFrame(out[i], uint32(i))
		}
		return out
	}
	for _, tt := range []struct {
		order []int
		fault string
	}{
		{[]int{0, 1, 2, 3, 4}, ""},
		{[]int{0, 1, 3, 4}, "frame 3 comes, not 2"},
		{[]int{0, 1, 2, 4}, "frame 4 comes, not 3"},
		{[]int{0, 1, 1, 2, 3, 4}, "frame 1 comes, not 2"},
		{[]int{0, 2, 1, 3, 4}, "frame 2 comes, not 1"},
		{[]int{1, 0, 2, 3, 4}, "frame 1 comes, not 0"},
	} {
		recv, sink := NewReceiver(Place{}), &scribe{}
		recv.Expect(7)
		all, fault := frames(), ""
		for _, i := range tt.order {
			if err := recv.Frame(all[i], sink); err != nil {
				fault += err.Error()
			}
		}
		if want := tt.fault; want != "" && fault != ErrGap.Error()+": "+want || want == "" && fault != "" {
			t.Errorf("frames %v: %q, want %q", tt.order, fault, want)
		}
		if installed := recv.Place() == (Place{thisReign, 40}); installed != (tt.fault == "") {
			t.Errorf("frames %v: the copy is at %v", tt.order, recv.Place())
		}
	}
}

func TestIsFrame(t *testing.T) {
	for b := range 256 {
		if got, want := IsFrame([]byte{byte(b), 1}), b >= 0x80 && b <= 0x8F; got != want {
			t.Errorf("%#x: %t", b, got)
		}
	}
	if IsFrame(nil) {
		t.Error("nothing is a frame")
	}
}

// FuzzFrame: whatever comes over a link, a receiver does not panic, tells the
// sink no more than it may, and keeps its place in step.
func FuzzFrame(f *testing.F) {
	for _, frames := range [][3][]byte{
		{startFrame(7, FromBase, 0), records(7, 1, 2), {0x81}},
		{startFrame(7, Tail, 30), records(7, 31, 32), records(7, 33, 33)},
		{startFrame(7, Snapshot, 40), batch(frameRows, 7, 40, numbered(1), long(2)), endFrame(7, 40)},
		{startFrame(7, Snapshot, 40), records(7, 41, 42), endFrame(7, 42)},
		{startFrame(7, Tail, 30), batch(frameRecords, 7, 31, Record{Kind: InSync}, Record{Kind: EpochTaken, Epoch: Epoch{6, 1}}), {}},
	} {
		for i := range frames {
			numberFrame(frames[i], uint32(i))
		}
		f.Add(frames[0], frames[1], frames[2])
	}
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		for _, place := range []Place{thisBase, {thisReign, 30}} {
			recv, sink := NewReceiver(place), &scribe{}
			recv.Expect(7)
			for _, frame := range [][]byte{a, b, c} {
				was, syncing := recv.Place(), recv.Syncing()
				sink.lines = nil
				err := recv.Frame(frame, sink)
				if err != nil && (!errors.Is(err, ErrGap) || recv.Syncing()) {
					t.Fatalf("%x: %v, syncing: %t", frame, err, recv.Syncing())
				}
				applied := uint64(0)
				for _, line := range sink.lines {
					switch {
					case strings.HasPrefix(line, "apply"):
						if applied++; syncing {
							t.Fatalf("%x: applied in a snapshot", frame)
						}
					case strings.HasPrefix(line, "stage"):
						if !syncing {
							t.Fatalf("%x: staged outside a snapshot", frame)
						}
					case line == "install":
						if !syncing || recv.Syncing() || len(sink.lines) > 1 {
							t.Fatalf("%x: %q", frame, sink.lines)
						}
						return
					}
				}
				if now := recv.Place(); now.Reign == was.Reign && now.Pos != was.Pos+applied || now.Reign != was.Reign && was != thisBase {
					t.Fatalf("%x: from %v to %v, applied %d", frame, was, now, applied)
				}
			}
		}
	})
}
