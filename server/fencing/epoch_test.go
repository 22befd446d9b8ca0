package fencing

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// second is the clock at a second since Origin, and some milliseconds.
func second(s int64, ms int) time.Time {
	return Origin.Add(time.Duration(s)*time.Second + time.Duration(ms)*time.Millisecond)
}

func TestChoose(t *testing.T) {
	const now = 60_500_000
	for _, tt := range []struct {
		name    string
		known   uint32
		clock   time.Time
		want    Choice // Warning: a part of it, empty for none
		wantErr bool
	}{
		{name: "nothing known", clock: second(now, 0), want: Choice{Epoch: now}},
		{name: "nothing known, within the second", clock: second(now, 1), want: Choice{Epoch: now, Start: 1 << 18}},
		{name: "nothing known, end of the second", clock: second(now, 999), want: Choice{Epoch: now, Start: 999 << 18}},
		{name: "just under a millisecond", clock: second(now, 0).Add(999_999), want: Choice{Epoch: now}},
		{name: "known, clock ahead", known: now - 1, clock: second(now, 500), want: Choice{Epoch: now, Start: 500 << 18}},
		{name: "restart within the second", known: now, clock: second(now, 500), want: Choice{Epoch: now + 1}},
		{name: "clock a little behind", known: now, clock: second(now-60, 500), want: Choice{Epoch: now + 1}},
		{name: "clock behind", known: now, clock: second(now-61, 500), want: Choice{Epoch: now + 1, Warning: "the clock is behind, was ahead once, or more than one"}},
		{name: "clock before the origin", known: now, clock: second(-5, 0), want: Choice{Epoch: now + 1, Warning: "the clock is behind"}},
		{name: "a year off", known: now - year, clock: second(now, 0), want: Choice{Epoch: now}},
		{name: "more than a year off", known: now - year - 1, clock: second(now, 0), want: Choice{Epoch: now - year, Warning: "the clock is not believed"}},
		{name: "nothing known, a clock that could be", clock: second(clockLimit-1, 0), want: Choice{Epoch: clockLimit - 1}},
		{name: "nothing known, a clock that can't be", clock: second(clockLimit, 0), want: Choice{Epoch: 1, Warning: "the clock is not believed"}},
		{name: "a clock that can't be", known: clockLimit - 1, clock: second(clockLimit, 0), want: Choice{Epoch: clockLimit, Warning: "the clock is not believed"}},
		{name: "a clock that overflows 32 bits", known: now, clock: second(1<<32+now+1, 0), want: Choice{Epoch: now + 1, Warning: "the clock is not believed"}},
		{name: "last but one", known: maxEpoch - 1, clock: second(now, 0), want: Choice{Epoch: maxEpoch, Warning: "the clock is behind"}},
		{name: "used up", known: maxEpoch, clock: second(now, 0), wantErr: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Choose(tt.known, tt.clock)
			if (err != nil) != tt.wantErr {
				t.Fatal(err)
			}
			if got.Epoch != tt.want.Epoch || got.Start != tt.want.Start {
				t.Errorf("got %d/%d, want %d/%d", got.Epoch, got.Start, tt.want.Epoch, tt.want.Start)
			}
			if tt.want.Warning == "" && got.Warning != "" || !strings.Contains(got.Warning, tt.want.Warning) {
				t.Errorf("warning %q, want %q", got.Warning, tt.want.Warning)
			}
		})
	}
}

// Whatever is known and whatever the clock says, the epoch is above what is
// known, and the layout holds it.
func TestChooseIsAboveWhatIsKnown(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		known := uint32(rnd.Uint64N(maxEpoch))
		clock := second(rnd.Int64N(1<<33)-1<<32, rnd.IntN(1000))
		if rnd.IntN(2) == 0 { // near each other
			clock = second(int64(known)+rnd.Int64N(3*year)-year, rnd.IntN(1000))
		}
		c, err := Choose(known, clock)
		if err != nil || c.Epoch <= known || c.Epoch > maxEpoch || c.Start >= maxSeq {
			t.Fatalf("Choose(%d, %v) = %+v, %v", known, clock, c, err)
		}
		if c.Epoch > known+1 && int64(c.Epoch) != clock.Unix()-Origin.Unix() {
			t.Fatalf("Choose(%d, %v) = %+v, neither the next one nor the clock's", known, clock, c)
		}
	}
}

// A node that lost its disk and starts again is above its own tokens, unless
// it gave more than 2^18 in a millisecond.
func TestChooseAfterALostDisk(t *testing.T) {
	clock := second(60_500_000, 0)
	last := uint64(0)
	for range 3000 {
		c, err := Choose(0, clock)
		if err != nil {
			t.Fatal(err)
		}
		if first := Token(c.Epoch, 0, c.Start) + 1; first <= last {
			t.Fatalf("at %v: first token %d, after %d", clock, first, last)
		}
		last = Token(c.Epoch, 0, c.Start) + 1<<18
		clock = clock.Add(time.Millisecond)
	}
}

func TestCheckClock(t *testing.T) {
	built := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name  string
		known uint32
		clock time.Time
		want  string // a part of the error, empty for none
	}{
		{"right", 0, built.AddDate(1, 0, 0), ""},
		{"ten years", 0, built.AddDate(10, 0, 0), ""},
		{"over ten years", 0, built.AddDate(10, 0, 0).Add(time.Second), "more than ten years after this program was built (2026-12-01)"},
		{"over ten years, epoch known", 60_000_000, built.AddDate(10, 0, 0).Add(time.Second), "more than ten years"},
		{"a day before the build", 0, built.AddDate(0, 0, -1), ""},
		{"over a day before the build", 0, built.AddDate(0, 0, -1).Add(-time.Second), "before this program was built (2026-12-01), and the state directory knows no epoch"},
		{"before the build, epoch known", 60_000_000, built.AddDate(-3, 0, 0), ""},
		{"1970", 0, time.Unix(0, 0), "before this program was built"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := CheckClock(tt.known, tt.clock, built)
			switch {
			case err == nil && tt.want == "":
			case err == nil || tt.want == "" || !strings.Contains(err.Error(), tt.want):
				t.Errorf("error %v, want %q", err, tt.want)
			case !strings.Contains(err.Error(), "set the clock"):
				t.Errorf("%v: does not say what to do", err)
			}
		})
	}
}
