package cluster

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/stile-lock/stile/server/replica"
)

// samples has one message of each type, with every field set, and its bytes.
// Nodes of two versions talk while a cluster is being upgraded: the bytes stay.
var samples = []struct {
	msg  Message
	want string // hex
}{
	{&Status{
		Boot: 0x1234, Role: Active, Place: replica.Place{Reign: replica.Epoch{N: 1000, Node: 2}, Pos: 300},
		Base: replica.Place{Reign: replica.Epoch{N: 7, Node: 1}, Pos: 5}, Epoch: replica.Epoch{N: 1001, Node: 2},
		Known: replica.Epoch{N: 1002, Node: 3}, Stopping: true, Fresh: true, Meeting: 16, Reach: 0x8001,
		Sees: []Sighted{{15, replica.Epoch{N: 8, Node: 15}}, {0, replica.Epoch{N: 9}}},
		Beat: 128, Echo: 127, Ask: 1, Answer: 2, Feeds: 3, FailureTimeout: 1e9, Advertise: "a:1", Peers: "a:1,b:2",
	}, "01 b424 03 e80702ac02 070105 e90702 ea0703 05 10 818002 02 0f080f 000900 8001 7f 01 02 03 8094ebdc03 03613a31 07613a312c623a32"},
	{&Join{Stream: 3, Place: replica.Place{Reign: replica.Epoch{N: 1000, Node: 2}, Pos: 300}}, "02 03 e80702 ac02"},
	{&Ack{Stream: 3, Place: replica.Place{Reign: replica.Epoch{N: 1000, Node: 2}, Pos: 300}, Frames: 5}, "03 03 e80702 ac02 05"},
	{&Prepare{ID: 4, Above: replica.Epoch{N: 1000, Node: 2}}, "04 04 e80702"},
	{&Prepared{ID: 4, Epoch: replica.Epoch{N: 1001, Node: 1}}, "05 04 e90701"},
	{&Go{ID: 4, Place: replica.Place{Reign: replica.Epoch{N: 1000, Node: 2}, Pos: 300}}, "06 04 e80702 ac02"},
	{&Offer{From: 1, To: 2, Epoch: replica.Epoch{N: 1001, Node: 1}, Seq: 200, Last: true, Rows: []byte("rows")}, "07 01 02 e90701 c801 01 04726f7773"},
}

func TestEncoding(t *testing.T) {
	for _, s := range samples {
		want, err := hex.DecodeString(strings.ReplaceAll(s.want, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		if got := Append([]byte("before"), s.msg); !bytes.Equal(got, append([]byte("before"), want...)) {
			t.Errorf("%T is encoded as\n%x, want\n%x", s.msg, got[len("before"):], want)
		}
		got, err := Decode(want)
		if err != nil {
			t.Fatalf("%T: %v", s.msg, err)
		}
		if diff := cmp.Diff(s.msg, got); diff != "" {
			t.Errorf("%T (-want +got):\n%s", s.msg, diff)
		}
		if replica.IsFrame(want) {
			t.Errorf("%T looks like a frame of the stream", s.msg)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	status := func(change func(*Status)) []byte {
		s := *samples[0].msg.(*Status)
		s.Sees = slices.Clone(s.Sees)
		change(&s)
		return Append(nil, &s)
	}
	offer := Append(nil, &Offer{From: 1, To: 2, Epoch: replica.Epoch{N: 1}})
	tests := []struct {
		name string
		b    []byte
	}{
		{"nothing", nil},
		{"type 0", []byte{0}},
		{"an unknown type", []byte{9, 1}},
		{"a frame of the stream", []byte{0x80, 1, 2, 3}},
		{"a byte too many", append(Append(nil, &Join{Stream: 1}), 0)},
		{"a role that is none", status(func(s *Status) { s.Role = Active + 1 })},
		{"a meeting with node 16", status(func(s *Status) { s.Meeting = 17 })},
		{"no failure timeout", status(func(s *Status) { s.FailureTimeout = 0 })},
		{"a failure timeout of nothing", status(func(s *Status) { s.FailureTimeout = uint64(time.Millisecond) - 1 })},
		{"a failure timeout without end", status(func(s *Status) { s.FailureTimeout = 1 << 63 })},
		{"17 sighted", status(func(s *Status) { s.Sees = make([]Sighted, 17) })},
		{"node 16 sighted", status(func(s *Status) { s.Sees[0].ID = 16 })},
		{"an epoch of 32 bits", status(func(s *Status) { s.Epoch.N = 1 << 31 })},
		{"an epoch of node 16", status(func(s *Status) { s.Epoch.Node = 16 })},
		{"a long list", status(func(s *Status) { s.Peers = strings.Repeat("x", maxText+1) })},
		{"a flag that is none", []byte{typeOffer, 1, 2, 1, 0, 0, 2, 0}},
		{"an offer from node 16", append([]byte{typeOffer, 16}, offer[2:]...)},
		{"an offer of part 2^32", []byte{typeOffer, 1, 2, 1, 0, 0x80, 0x80, 0x80, 0x80, 0x10, 0, 0}},
		{"rows that are not there", []byte{typeOffer, 1, 2, 1, 0, 0, 0, 5, 'a', 'b'}},
		{"rows of a length that overflows", []byte{typeOffer, 1, 2, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}},
		{"a number of more than 64 bits", []byte{typeJoin, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 1, 1, 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if msg, err := Decode(tt.b); !errors.Is(err, ErrMessage) || msg != nil {
				t.Errorf("Decode(%x) = %+v, %v", tt.b, msg, err)
			}
		})
	}
	if _, err := Decode(status(func(s *Status) { s.Peers = strings.Repeat("x", maxText) })); err != nil {
		t.Errorf("a list of %d bytes: %v", maxText, err)
	}
}

func TestEpochs(t *testing.T) {
	for _, n := range []uint32{0, 1, 127, 128, 1<<31 - 1} {
		want := &Prepare{ID: 1, Above: replica.Epoch{N: n, Node: 15}}
		got, err := Decode(Append(nil, want))
		if diff := cmp.Diff(Message(want), got); err != nil || diff != "" {
			t.Errorf("%d: %v\n%s", n, err, diff)
		}
	}
}

func genEpoch(t *rapid.T, label string) replica.Epoch {
	return replica.Epoch{
		N:    rapid.OneOf(rapid.Uint32Range(0, 300), rapid.Uint32Range(0, 1<<31-1)).Draw(t, label),
		Node: rapid.Uint8Range(0, 15).Draw(t, label+" node"),
	}
}

func genPlace(t *rapid.T, label string) replica.Place {
	return replica.Place{Reign: genEpoch(t, label), Pos: rapid.Uint64().Draw(t, label+" position")}
}

// genMessage returns any message that a node could send.
func genMessage(t *rapid.T) Message {
	id := func(label string) uint8 { return rapid.Uint8Range(0, 15).Draw(t, label) }
	switch rapid.IntRange(typeStatus, typeOffer).Draw(t, "type") {
	case typeStatus:
		s := &Status{
			Boot: rapid.Uint64().Draw(t, "boot"), Role: Role(rapid.IntRange(0, int(Active)).Draw(t, "role")),
			Place: genPlace(t, "place"), Base: genPlace(t, "base"), Epoch: genEpoch(t, "epoch"), Known: genEpoch(t, "known"),
			Stopping: rapid.Bool().Draw(t, "stopping"), Unfit: rapid.Bool().Draw(t, "unfit"),
			Fresh: rapid.Bool().Draw(t, "fresh"), Forked: rapid.Bool().Draw(t, "forked"), Paused: rapid.Bool().Draw(t, "paused"), Sync: rapid.Bool().Draw(t, "sync"),
			Meeting: rapid.Uint8Range(0, 16).Draw(t, "meeting"), Reach: rapid.Uint16().Draw(t, "reach"),
			Beat: rapid.Uint64().Draw(t, "beat"), Echo: rapid.Uint64().Draw(t, "echo"),
			Ask: rapid.Uint64().Draw(t, "ask"), Answer: rapid.Uint64().Draw(t, "answer"),
			Feeds:          rapid.Uint64().Draw(t, "feeds"),
			FailureTimeout: rapid.Uint64Range(uint64(time.Millisecond), uint64(time.Hour)).Draw(t, "failure timeout"),
			Advertise:      rapid.StringN(-1, -1, 40).Draw(t, "advertise"), Peers: rapid.StringN(-1, -1, 40).Draw(t, "peers"),
		}
		for range rapid.IntRange(0, maxSighted).Draw(t, "sees") {
			s.Sees = append(s.Sees, Sighted{id("sighted"), genEpoch(t, "its reign")})
		}
		return s
	case typeJoin:
		return &Join{rapid.Uint64().Draw(t, "stream"), genPlace(t, "place")}
	case typeAck:
		return &Ack{rapid.Uint64().Draw(t, "stream"), genPlace(t, "place"), rapid.Uint64().Draw(t, "frames")}
	case typePrepare:
		return &Prepare{rapid.Uint64().Draw(t, "id"), genEpoch(t, "above")}
	case typePrepared:
		return &Prepared{rapid.Uint64().Draw(t, "id"), genEpoch(t, "epoch")}
	case typeGo:
		return &Go{rapid.Uint64().Draw(t, "id"), genPlace(t, "place")}
	}
	return &Offer{
		From: id("from"), To: id("to"), Epoch: genEpoch(t, "epoch"), Seq: rapid.Uint32().Draw(t, "seq"),
		Last: rapid.Bool().Draw(t, "last"), Rows: rapid.SliceOfN(rapid.Byte(), 0, 60).Draw(t, "rows"),
	}
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := genMessage(t)
		got, err := Decode(Append(nil, want))
		if err != nil {
			t.Fatalf("%+v: %v", want, err)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("(-sent +received):\n%s", diff)
		}
	})
}

// decodes checks what Decode makes of any bytes: nothing, or a message that
// is the same when it is sent on.
func decodes(t interface {
	Helper()
	Fatalf(string, ...any)
}, b []byte,
) (ok bool) {
	t.Helper()
	before := slices.Clone(b)
	msg, err := Decode(b)
	if !bytes.Equal(before, b) {
		t.Fatalf("Decode has changed %x to %x", before, b)
	}
	if err != nil {
		if msg != nil || !errors.Is(err, ErrMessage) {
			t.Fatalf("Decode(%x) = %+v, %v", b, msg, err)
		}
		return false
	}
	again, err := Decode(Append(nil, msg))
	if err != nil {
		t.Fatalf("%x is %+v, which can't be sent on: %v", b, msg, err)
	}
	if !reflect.DeepEqual(msg, again) {
		t.Fatalf("%x, sent on (-first +then):\n%s", b, cmp.Diff(msg, again))
	}
	return true
}

func TestDamage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Append(nil, genMessage(t))
		for n := range b {
			if decodes(t, b[:n]) {
				t.Fatalf("the first %d bytes of %x are a message, too", n, b)
			}
		}
		for i := range len(b) * 8 {
			b[i/8] ^= 1 << (i % 8)
			decodes(t, b)
			b[i/8] ^= 1 << (i % 8)
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, s := range samples {
		f.Add(Append(nil, s.msg))
	}
	f.Fuzz(func(t *testing.T, b []byte) { decodes(t, b) })
}
