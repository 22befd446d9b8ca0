package stile_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stile-lock/stile/bench/internal/fake"
	"github.com/stile-lock/stile/bench/load"
	"github.com/stile-lock/stile/bench/stile"
)

func TestDrivers(t *testing.T) {
	for _, p := range []load.Plan{
		{Connections: 2, Depth: 4, Keys: 1000},
		{Connections: 2, Depth: 4, Keys: 10, Skew: 1.2, Hold: time.Millisecond, Cancel: 0.3},
		{Connections: 2, Depth: 4, Keys: 1000, Rate: 300},
	} {
		p.Warmup = 10 * time.Millisecond
		addr := fake.Listen(t, &fake.Server{})
		for _, d := range []load.Driver{stile.Raw{Addr: addr}, stile.Raw{Addr: addr, Nonces: true}, stile.Client{Addr: addr}} {
			fake.Longer(t, func(duration time.Duration) bool {
				p.Duration = duration
				r, err := d.Run(t.Context(), p)
				if err != nil {
					t.Fatalf("%s: %v", d.Name(), err)
				}
				if r.Driver != d.Name() || r.Target != addr {
					t.Errorf("%s: %+v", d.Name(), r)
				}
				return r.Pairs > 0
			})
		}
	}
}

// TestClientSeesWrongTokens is about the check behind the Go client, which does
// not compare tokens itself.
func TestClientSeesWrongTokens(t *testing.T) {
	addr := fake.Listen(t, &fake.Server{Spoil: func(n int, _, answer string) string {
		if f := strings.Fields(answer); n > 50 && f[0] == "A" {
			return "A " + f[1] + " 7 30"
		}
		return answer
	}})
	_, err := stile.Client{Addr: addr}.Run(t.Context(), load.Plan{Connections: 4, Keys: 1, Shared: true, Duration: 5 * time.Second})
	if !errors.Is(err, load.ErrWrong) {
		t.Errorf("the error is %v", err)
	}
}

func TestOpenErrors(t *testing.T) {
	addr := fake.Listen(t, &fake.Server{Spoil: func(_ int, request, answer string) string {
		if request[0] == 'H' {
			return "H 1 fake:1 core,hello"
		}
		return answer
	}})
	if _, err := (stile.Raw{Addr: addr, Nonces: true}).Run(t.Context(), load.Plan{}); err == nil || !strings.Contains(err.Error(), "takes no nonces") {
		t.Errorf("the error is %v", err)
	}
	addr = fake.Listen(t, &fake.Server{Spoil: func(_ int, request, answer string) string {
		if f := strings.Fields(request); f[0] == "A" {
			return "M A " + f[1] + " 10.0.0.7:5625"
		}
		return answer
	}})
	if _, err := (stile.Raw{Addr: addr}).Run(t.Context(), load.Plan{}); !errors.Is(err, load.ErrRefused) || !strings.Contains(err.Error(), "10.0.0.7:5625") {
		t.Errorf("the error is %v", err)
	}
}

func TestAllocNothing(t *testing.T) {
	for _, nonces := range []bool{false, true} {
		p, err := load.Plan{}.Complete()
		if err != nil {
			t.Fatal(err)
		}
		space := load.NewSpace(p.Keys, p.KeyLength, 'k')
		w := stile.Raw{Nonces: nonces}.Wires().New(3, &space, &p)
		s := load.Slot{Key: 77, Serial: 3<<40 | 12345, Token: 257698037760000001}
		out := make([]byte, 0, 1024)
		var a load.Answer
		lines := []byte("A " + space.Key(77) + " 257698037760000001 30\nT " + space.Key(78) + "\n")
		if n := testing.AllocsPerRun(100, func() {
			out = w.Acquire(out[:0], &s)
			out = w.Release(out, &s)
			out = w.Cancel(out, &s)
			n, err := w.Next(lines, &a)
			if err != nil || a.What != load.Granted || a.Key != 77 || a.Token != s.Token {
				t.Fatalf("%+v, %v", a, err)
			}
			if _, err := w.Next(lines[n:], &a); err != nil || a.What != load.TimedOut || a.Key != 78 {
				t.Fatalf("%+v, %v", a, err)
			}
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
		if nonces {
			cancel := out[strings.LastIndex(string(out), "C "):]
			if _, err := w.Next(cancel, &a); err != nil || a.What != load.Cancelled || a.Serial != s.Serial {
				t.Errorf("the answer to the cancel of %d is read as %+v, %v", s.Serial, a, err)
			}
		}
	}
}
