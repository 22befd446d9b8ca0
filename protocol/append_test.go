package protocol

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// TestAppendSecondsIsShortest compares with what fmt makes of every
// millisecond of a second, and of random durations.
func TestAppendSecondsIsShortest(t *testing.T) {
	plain := func(ms int64) string {
		s := fmt.Sprintf("%d.%03d", ms/1000, ms%1000)
		return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
	}
	check := func(ms int64) {
		t.Helper()
		want := plain(ms)
		if ms == 0 {
			want = "0"
		}
		d := time.Duration(ms) * time.Millisecond
		got := string(AppendSeconds(nil, d))
		if got != want {
			t.Fatalf("%d ms: %s, want %s", ms, got, want)
		}
		if back, ok := parseSeconds([]byte(got)); !ok || back != d {
			t.Fatalf("%s parses to %v, %v", got, back, ok)
		}
	}
	for ms := range int64(1000) {
		check(ms)
		check(10_000 + ms)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		check(rnd.Int64N(1_000_000_000_000))
	}
}

func TestAppendSecondsHoldsToTheWire(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-1:                               "0",
		-time.Hour:                       "0",
		math.MinInt64:                    "0",
		time.Millisecond - 1:             "0",
		2*time.Millisecond - 1:           "0.001",
		MaxSeconds:                       "999999999.999",
		MaxSeconds + 1:                   "999999999.999",
		math.MaxInt64:                    "999999999.999",
		time.Second + 999_999:            "1",
		90*time.Minute + time.Nanosecond: "5400",
	} {
		if got := string(AppendSeconds(nil, d)); got != want {
			t.Errorf("%d ns: %s, want %s", d, got, want)
		}
	}
	for d, want := range map[time.Duration]string{NoQueue: "-1", -time.Hour: "-1", 0: "0", time.Second: "1"} {
		if got := string(AppendWait(nil, d)); got != want {
			t.Errorf("wait of %d ns: %s, want %s", d, got, want)
		}
	}
}

func TestErrorTextIsCutToTheLine(t *testing.T) {
	for _, key := range []string{"", "k", strings.Repeat("k", MaxKey)} {
		for _, code := range Codes() {
			for _, unit := range []string{"t", "é", "€", "🔒", "\x80"} {
				for n := range 4 {
					text := strings.Repeat("t", n) + strings.Repeat(unit, MaxLine)
					var k []byte
					if key != "" {
						k = []byte(key)
					}
					line := AppendError([]byte("before"), OpAcquire, k, code, text)[len("before"):]
					if len(line) > MaxLine {
						t.Fatalf("%d bytes: %q", len(line), line)
					}
					if bytes.IndexByte(line, '\n') != len(line)-1 {
						t.Fatalf("the LF is not the end of %q", line)
					}
					if utf8.RuneLen([]rune(unit)[0]) == len(unit) {
						if len(line) < MaxLine-len(unit)+1 {
							t.Errorf("only %d bytes of text %q…", len(line), unit)
						}
						if !utf8.Valid(line) {
							t.Errorf("a code point is cut: %q", line)
						}
					}
					var a Answer
					if err := ParseAnswer(line[:len(line)-1], &a); err != nil || a.Code != code || !bytes.HasPrefix([]byte(text), a.Text) {
						t.Errorf("%q parses to %+v, %v", line, a, err)
					}
				}
			}
		}
	}
	// The text that just fits is whole; one byte more is cut.
	for n := 1000; n < 1010; n++ {
		line := AppendError(nil, OpRelease, []byte("door"), CodeNotHeld, strings.Repeat("t", n))
		if want := min(len("E R door not-held ")+n+1, MaxLine); len(line) != want {
			t.Errorf("text of %d: line of %d, want %d", n, len(line), want)
		}
	}
}

func TestErrorTextHasNoControlBytes(t *testing.T) {
	line := AppendError(nil, OpRelease, []byte("door"), CodeNotHeld, "a\nb\rc\x00d\x1b[31me\x7ff\té")
	if want := "E R door not-held a b c d [31me f é\n"; string(line) != want {
		t.Errorf("%q, want %q", line, want)
	}
}

func TestValidAddrAgreesWithNetip(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	parts := []string{":", "::", "0", "1", "ffff", "FFFF", "g", "00000", "12345", ".", "10", "256", "01", "10.0.0.1", "1:2:3:4:5:6", "%eth0", ""}
	yes := 0
	for range 100_000 {
		var b strings.Builder
		for range rnd.IntN(9) {
			b.WriteString(parts[rnd.IntN(len(parts))])
		}
		ip, err := netip.ParseAddr(b.String())
		want := err == nil && ip.Is6() && ip.Zone() == ""
		if want {
			yes++
		}
		if got := ValidAddr([]byte("[" + b.String() + "]:1")); got != want {
			t.Fatalf("[%s]:1 is %v, netip says %v", b.String(), got, want)
		}
	}
	if yes < 300 {
		t.Errorf("only %d addresses were good: the test tries too little", yes)
	}
}

// TestRoundTrip makes random valid messages of every op: what is appended is
// one line within the limit, and parses to the same.
func TestRoundTrip(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	field := func(most int) []byte {
		b := make([]byte, 1+rnd.IntN(most))
		for i := range b {
			for b[i] <= 0x20 || b[i] == 0x7F {
				b[i] = byte(rnd.IntN(256))
			}
		}
		return b
	}
	key := func() []byte {
		for {
			if k := field(MaxKey); ValidKey(k) {
				return k
			}
		}
	}
	nonce := func() []byte {
		const set = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-"
		b := make([]byte, 1+rnd.IntN(MaxNonce))
		for i := range b {
			b[i] = set[rnd.IntN(len(set))]
		}
		return b
	}
	seconds := func() time.Duration {
		return time.Duration(rnd.Int64N(int64(MaxSeconds/time.Millisecond)+1)) * time.Millisecond >> rnd.IntN(40) / time.Millisecond * time.Millisecond
	}
	token := func() uint64 { return rnd.Uint64()>>rnd.IntN(64) | 1 }
	maybe := func(b []byte) []byte {
		if rnd.IntN(2) == 0 {
			return nil
		}
		return b
	}
	line := func(b []byte) []byte {
		if len(b) > MaxLine || bytes.IndexByte(b, '\n') != len(b)-1 {
			t.Fatalf("not one line within the limit: %q", b)
		}
		return b[:len(b)-1]
	}
	for range 5_000 {
		wait := seconds()
		if rnd.IntN(4) == 0 {
			wait = NoQueue
		}
		for _, want := range []Request{
			{Op: OpAcquire, Key: key(), Wait: wait, Lease: seconds(), Nonce: maybe(nonce())},
			{Op: OpRelease, Key: key(), Token: token()},
			{Op: OpKeep, Key: key(), Token: token(), Lease: seconds()},
			{Op: OpCancel, Key: key(), Nonce: nonce()},
			{Op: OpPing, Key: key()},
			{Op: OpHello, Key: []byte(Version), Name: field(MaxName), Secret: maybe(field(MaxSecret))},
		} {
			var got Request
			b := line(AppendRequest(nil, &want))
			if code := ParseRequest(b, &got); code != 0 || !reflect.DeepEqual(got, want) {
				t.Fatalf("%q\n got %+v, %v\nwant %+v", b, got, code, want)
			}
		}
		addr := append(field(100), ":5625"...)
		if !ValidAddr(addr) {
			addr = []byte("[::1]:5625")
		}
		op := Op('A' + rnd.IntN(26))
		code := Codes()[rnd.IntN(len(Codes()))]
		for _, want := range []Answer{
			{Op: OpAcquire, For: OpAcquire, Key: key(), Token: token(), Lease: seconds()},
			{Op: OpTimeout, For: OpAcquire, Key: key()},
			{Op: OpRelease, For: OpRelease, Key: key(), Token: token()},
			{Op: OpKeep, For: OpKeep, Key: key(), Token: token(), Lease: seconds()},
			{Op: OpCancel, For: OpCancel, Key: key(), Nonce: nonce()},
			{Op: OpPing, For: OpPing, Key: key()},
			{Op: OpHello, For: OpHello, Key: []byte(Version), Addr: addr, Profiles: field(100)},
			{Op: OpMoved, For: op, Key: key(), Addr: addr},
			{Op: OpError, For: op, Key: key(), Code: code, CodeName: []byte(code.String()), Text: maybe(field(400))},
			{Op: OpError, For: op, Code: code, CodeName: []byte(code.String()), Text: maybe(field(400))},
			{Op: OpError, Code: code, CodeName: []byte(code.String()), Text: maybe(field(400))},
			{Op: OpError, For: op, Key: key(), Code: CodeUnknown, CodeName: append([]byte("un"), field(60)...), Text: maybe(field(400))},
		} {
			var got Answer
			b := line(AppendAnswer(nil, &want))
			if err := ParseAnswer(b, &got); err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("%q\n got %+v, %v\nwant %+v", b, got, err, want)
			}
		}
	}
}

func TestWelcomeWithoutProfiles(t *testing.T) {
	if got := string(AppendWelcome(nil, []byte("a:1"), nil)); got != "H 1 a:1 -\n" {
		t.Errorf("%q", got)
	}
}

func TestAppendPanicsOnOtherOps(t *testing.T) {
	for name, f := range map[string]func(){
		"request": func() { AppendRequest(nil, &Request{Op: OpTimeout, Key: []byte("k")}) },
		"answer":  func() { AppendAnswer(nil, &Answer{Op: 'B', Key: []byte("k")}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

func TestOpString(t *testing.T) {
	if OpAcquire.String() != "A" || Op(0).String() != "?" {
		t.Error(OpAcquire.String(), Op(0).String())
	}
}
