package replica

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stile-lock/stile/server/lockspace"
)

func nonce(s string) lockspace.Nonce { return lockspace.MakeNonce([]byte(s)) }

// equalRecords compares nonces by what they say.
var equalRecords = cmp.Comparer(func(a, b lockspace.Nonce) bool { return a == b })

func change(c lockspace.Change) Record { return Record{Kind: TableChange, Change: c} }

// wire has a record of each kind and the bytes that it is on every release.
var wire = []struct {
	name string
	rec  Record
	hex  string
}{
	{"grant", change(lockspace.Change{Kind: lockspace.GrantMade, Key: []byte("door"), Token: 0x102030405060708, Lease: 30 * time.Second, Nonce: nonce("n-1")}),
		"01 04 646f6f72 0102030405060708 8087a70e 03 6e2d31"},
	{"grant without a nonce", change(lockspace.Change{Kind: lockspace.GrantMade, Key: []byte("k"), Token: 1, Lease: 0}),
		"01 01 6b 0000000000000001 00 00"},
	{"grant that is held", change(lockspace.Change{Kind: lockspace.GrantMade, Key: []byte("k"), Token: 1, Lease: time.Millisecond, Age: 10 * time.Hour, Nonce: nonce("n")}),
		"0a 01 6b 0000000000000001 e807 80a29511 01 6e"},
	{"grant that is held, without a nonce", change(lockspace.Change{Kind: lockspace.GrantMade, Key: []byte("k"), Token: 1, Lease: 0, Age: time.Millisecond}),
		"0a 01 6b 0000000000000001 00 01 00"},
	{"keep", change(lockspace.Change{Kind: lockspace.GrantKept, Key: []byte("k"), Token: math.MaxInt64, Lease: time.Millisecond}),
		"02 01 6b 7fffffffffffffff e807"},
	{"end", change(lockspace.Change{Kind: lockspace.GrantEnded, Key: []byte("k"), Token: 2}),
		"03 01 6b 0000000000000002"},
	{"undo", change(lockspace.Change{Kind: lockspace.GrantUndone, Key: []byte("k"), Token: 2}),
		"04 01 6b 0000000000000002"},
	{"waiter", change(lockspace.Change{Kind: lockspace.WaiterQueued, Key: []byte("k"), Nonce: nonce("n"), Arrival: 300, Wait: 127 * time.Microsecond, Asked: time.Microsecond}),
		"05 01 6b 01 6e ac02 8001 01"},
	{"waiter without limit", change(lockspace.Change{Kind: lockspace.WaiterQueued, Key: []byte("k"), Nonce: nonce("n"), Arrival: 0, Wait: lockspace.Forever}),
		"05 01 6b 01 6e 00 00 00"},
	{"waiter that has waited", change(lockspace.Change{Kind: lockspace.WaiterQueued, Key: []byte("k"), Nonce: nonce("n"), Arrival: 300, Wait: 127 * time.Microsecond, Asked: time.Microsecond, Age: 10 * time.Hour}),
		"0b 01 6b 01 6e ac02 8001 01 80a29511"},
	{"waiter that has waited, without limit", change(lockspace.Change{Kind: lockspace.WaiterQueued, Key: []byte("k"), Nonce: nonce("n"), Wait: lockspace.Forever, Age: time.Millisecond}),
		"0b 01 6b 01 6e 00 00 00 01"},
	{"waiter left", change(lockspace.Change{Kind: lockspace.WaiterLeft, Key: []byte("k"), Nonce: nonce("n")}),
		"06 01 6b 01 6e"},
	{"nonce spent", change(lockspace.Change{Kind: lockspace.NonceSpent, Key: []byte{0xFF}, Nonce: nonce("n")}),
		"07 01 ff 01 6e"},
	{"spent known", change(lockspace.Change{Kind: lockspace.SpentKnown, Pair: [16]byte{1, 15: 2}, Age: time.Second}),
		"08 01000000000000000000000000000002 c0843d"},
	{"token seen", change(lockspace.Change{Kind: lockspace.TokenSeen, Token: 3}),
		"09 0000000000000003"},
	{"epoch", Record{Kind: EpochTaken, Epoch: Epoch{N: 0x01020304, Node: 15}},
		"40 01020304 0f"},
	{"in sync", Record{Kind: InSync, Members: 0x8001},
		"41 8001"},
	{"in sync, none", Record{Kind: InSync},
		"41 0000"},
	{"longest", change(lockspace.Change{Kind: lockspace.WaiterQueued, Key: bytes.Repeat([]byte("k"), 255), Nonce: nonce(strings.Repeat("n", 32)), Arrival: math.MaxUint64, Wait: lockspace.Forever - 807, Asked: lockspace.Forever - 807, Age: time.Duration(maxMillis) * time.Millisecond}),
		"0b ff " + strings.Repeat("6b", 255) + " 20 " + strings.Repeat("6e", 32) + " ffffffffffffffffff01 f8a78dafba93b110 f7a78dafba93b110 f6b5c1deb78c02"},
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestCodec(t *testing.T) {
	for _, tt := range wire {
		t.Run(tt.name, func(t *testing.T) {
			want := unhex(t, tt.hex)
			got := AppendRecord([]byte("before"), &tt.rec)
			if diff := cmp.Diff("before"+string(want), string(got)); diff != "" {
				t.Errorf("bytes (-want +got):\n%s\n%x", diff, got[len("before"):])
			}
			if len(want) > MaxRecord {
				t.Errorf("%d bytes: longer than MaxRecord", len(want))
			}
			var rec Record
			rest, err := DecodeRecord(append(want, "after"...), &rec)
			if err != nil || string(rest) != "after" {
				t.Fatalf("DecodeRecord leaves %q, %v", rest, err)
			}
			if diff := cmp.Diff(tt.rec, rec, equalRecords); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
			if got := recordLen(append(want, "after"...)); got != len(want) {
				t.Errorf("recordLen is %d, want %d", got, len(want))
			}
			for n := range want {
				rec.Members = 1
				if rest, err := DecodeRecord(want[:n:n], &rec); !errors.Is(err, errTruncated) || rest != nil {
					t.Errorf("the first %d bytes: %q, %v", n, rest, err)
				}
				if diff := cmp.Diff(Record{}, rec, equalRecords); diff != "" {
					t.Errorf("the first %d bytes leave something (-want +got):\n%s", n, diff)
				}
				if got := recordLen(want[:n:n]); got != 0 {
					t.Errorf("recordLen of the first %d bytes is %d", n, got)
				}
			}
		})
	}
}

func TestDecodeRecordRefuses(t *testing.T) {
	long := strings.Repeat("6e", 33)
	for _, tt := range []struct {
		name, hex string
		want      error
	}{
		{"nothing", "", errTruncated},
		{"kind 0", "00", errKind},
		{"kind 12", "0c 01 6b 0000000000000001", errKind},
		{"kind 0x42", "42 0000", errKind},
		{"an empty key", "03 00 0000000000000001", errKey},
		{"a key with a space", "03 02 6b20 0000000000000001", errKey},
		{"a key longer than the rest", "03 ff 6b 0000000000000001", errTruncated},
		{"token 0", "03 01 6b 0000000000000000", errToken},
		{"token 2^63", "03 01 6b 8000000000000000", errToken},
		{"token 0 of a grant", "01 01 6b 0000000000000000 00 00", errToken},
		{"token 0 seen", "09 0000000000000000", errToken},
		{"a nonce of 33", "06 01 6b 21 " + long, errNonce},
		{"a nonce of 33 of a grant", "01 01 6b 0000000000000001 00 21" + long, errNonce},
		{"a nonce with a space", "06 01 6b 02 6e20", errNonce},
		{"a nonce with a NUL", "01 01 6b 0000000000000001 00 01 00", errNonce},
		{"a waiter without a nonce", "05 01 6b 00 00 00 00", errNonce},
		{"nobody left", "06 01 6b 00", errNonce},
		{"a lease too long", "02 01 6b 0000000000000001 f8a78dafba93b110", errDuration},
		{"a lease of 2^64-1", "02 01 6b 0000000000000001 ffffffffffffffffff01", errDuration},
		{"a lease above 2^64", "02 01 6b 0000000000000001 ffffffffffffffffff02", errVarint},
		{"a lease not in its shortest form", "02 01 6b 0000000000000001 8000", errVarint},
		{"a wait too long", "05 01 6b 01 6e 00 f9a78dafba93b110 00", errDuration},
		{"a lease asked for, too long", "05 01 6b 01 6e 00 00 f8a78dafba93b110", errDuration},
		{"an age too long", "08 00000000000000000000000000000000 f8a78dafba93b110", errDuration},
		{"an age of a grant that has none", "0a 01 6b 0000000000000001 00 00 00", errDuration},
		{"an age of a grant not in its shortest form", "0a 01 6b 0000000000000001 00 8100 00", errVarint},
		{"an age of a grant, too long", "0a 01 6b 0000000000000001 00 f7b5c1deb78c02 00", errDuration},
		{"an age of a waiter that has none", "0b 01 6b 01 6e 00 00 00 00", errDuration},
		{"an age of a waiter not in its shortest form", "0b 01 6b 01 6e 00 00 00 8100", errVarint},
		{"an age of a waiter, too long", "0b 01 6b 01 6e 00 00 00 f7b5c1deb78c02", errDuration},
		{"a waiter with an age and no nonce", "0b 01 6b 00 00 00 00 01", errNonce},
		{"a wait too long, with an age", "0b 01 6b 01 6e 00 f9a78dafba93b110 00 01", errDuration},
		{"a lease asked for, too long, with an age", "0b 01 6b 01 6e 00 00 f8a78dafba93b110 01", errDuration},
		{"no epoch", "40 00000000 00", errEpoch},
		{"an epoch of 2^31", "40 80000000 00", errEpoch},
		{"node 16", "40 00000001 10", errEpoch},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rec := Record{Members: 1}
			if rest, err := DecodeRecord(unhex(t, tt.hex), &rec); !errors.Is(err, tt.want) || rest != nil {
				t.Errorf("DecodeRecord: %x, %v, want %v", rest, err, tt.want)
			}
			if diff := cmp.Diff(Record{}, rec, equalRecords); diff != "" {
				t.Errorf("it leaves something (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRounding: late, never early.
func TestRounding(t *testing.T) {
	const us = time.Microsecond
	longest := time.Duration(maxMicros) * us
	for _, tt := range []struct{ in, up, down time.Duration }{
		{-1, 0, 0},
		{math.MinInt64, 0, 0},
		{0, 0, 0},
		{1, us, 0},
		{us, us, us},
		{us + 1, 2 * us, us},
		{longest, longest, longest},
		{longest + 1, longest, longest},
	} {
		var got Record
		decode := func(c lockspace.Change) *lockspace.Change {
			c.Key, c.Token, c.Nonce = []byte("k"), 1, nonce("n")
			rec := change(c)
			if rest, err := DecodeRecord(AppendRecord(nil, &rec), &got); err != nil || len(rest) > 0 {
				t.Fatalf("%v: %q, %v", tt.in, rest, err)
			}
			return &got.Change
		}
		if got := decode(lockspace.Change{Kind: lockspace.GrantMade, Lease: tt.in}).Lease; got != tt.up {
			t.Errorf("a lease of %d is sent as %d, want %d", tt.in, got, tt.up)
		}
		if got := decode(lockspace.Change{Kind: lockspace.GrantKept, Lease: tt.in}).Lease; got != tt.up {
			t.Errorf("a lease of %d is kept as %d, want %d", tt.in, got, tt.up)
		}
		if got := decode(lockspace.Change{Kind: lockspace.WaiterQueued, Wait: tt.in}).Wait; got != tt.up {
			t.Errorf("a wait of %d is sent as %d, want %d", tt.in, got, tt.up)
		}
		if got := decode(lockspace.Change{Kind: lockspace.WaiterQueued, Asked: tt.in}).Asked; got != tt.up {
			t.Errorf("a lease of %d, asked for, is sent as %d, want %d", tt.in, got, tt.up)
		}
		if got, want := decode(lockspace.Change{Kind: lockspace.GrantMade, Age: tt.in}).Age, max(0, tt.in).Truncate(time.Millisecond); got != want {
			t.Errorf("an age of %d of a grant is sent as %d, want %d", tt.in, got, want)
		}
		if got, want := decode(lockspace.Change{Kind: lockspace.WaiterQueued, Age: tt.in}).Age, max(0, tt.in).Truncate(time.Millisecond); got != want {
			t.Errorf("an age of %d of a waiter is sent as %d, want %d", tt.in, got, want)
		}
		if got := decode(lockspace.Change{Kind: lockspace.SpentKnown, Age: tt.in}).Age; got != tt.down {
			t.Errorf("an age of %d is sent as %d, want %d", tt.in, got, tt.down)
		}
	}
}

func TestAppendRecordPanics(t *testing.T) {
	for name, rec := range map[string]Record{
		"no kind":                {},
		"an unknown kind":        {Kind: InSync + 1},
		"no kind of change":      {Kind: TableChange},
		"an unknown change":      change(lockspace.Change{Kind: lockspace.TokenSeen + 1}),
		"a key that is too long": change(lockspace.Change{Kind: lockspace.GrantEnded, Key: make([]byte, 256), Token: 1}),
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			AppendRecord(nil, &rec)
		}()
	}
}

func TestPlaces(t *testing.T) {
	// In their order.
	places := []Place{
		{},
		{Epoch{1, 0}, 0},
		{Epoch{1, 0}, math.MaxUint64},
		{Epoch{1, 15}, 3},
		{Epoch{2, 0}, 0},
		{Epoch{maxEpoch, 15}, 1},
	}
	for i, p := range places {
		for j, q := range places {
			if got := p.Compare(q); (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%v compared to %v: %d", p, q, got)
			}
			if p.Reign != q.Reign && p.Reign.Less(q.Reign) != (i < j) {
				t.Errorf("%v is less than %v: %t", p.Reign, q.Reign, i >= j)
			}
		}
		b := AppendPlace(nil, p)
		got, rest, err := DecodePlace(append(b, "after"...))
		if got != p || string(rest) != "after" || err != nil {
			t.Errorf("%v comes back as %v, %q, %v", p, got, rest, err)
		}
		for n := range b {
			if got, rest, err := DecodePlace(b[:n]); got != (Place{}) || rest != nil || !errors.Is(err, errTruncated) {
				t.Errorf("%d bytes of %v: %v, %q, %v", n, p, got, rest, err)
			}
		}
	}
	for s, want := range map[string]error{
		"00000000 00 0000000000000001": errPlace,
		"00000000 01 0000000000000000": errEpoch,
		"00000001 10 0000000000000000": errEpoch,
		"80000000 00 0000000000000000": errEpoch,
	} {
		if got, rest, err := DecodePlace(unhex(t, s)); got != (Place{}) || rest != nil || err != want {
			t.Errorf("%s: %v, %q, %v, want %v", s, got, rest, err, want)
		}
	}
	if got := (Place{Epoch{7, 2}, 9}).String(); got != "7.2/9" {
		t.Errorf("a place in a log: %s", got)
	}
}

// FuzzDecodeRecord: what is accepted is, byte for byte, what is appended.
func FuzzDecodeRecord(f *testing.F) {
	for _, tt := range wire {
		f.Add(unhex(f, tt.hex))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		var rec Record
		rest, err := DecodeRecord(b, &rec)
		if !bytes.Equal(b, before) {
			t.Fatal("decoding changed the bytes")
		}
		if err != nil {
			if rest != nil || !cmp.Equal(rec, Record{}, equalRecords) {
				t.Fatalf("%v, and yet %+v and %q", err, rec, rest)
			}
			return
		}
		used := b[:len(b)-len(rest)]
		if again := AppendRecord(nil, &rec); !bytes.Equal(again, used) {
			t.Fatalf("%x is appended as %x", used, again)
		}
		if n := recordLen(b); n != len(used) || n > MaxRecord {
			t.Fatalf("recordLen is %d, want %d", n, len(used))
		}
		for n := range used {
			if recordLen(used[:n]) != 0 {
				t.Fatalf("recordLen takes the first %d bytes of %x for a record", n, used)
			}
		}
	})
}
