package load_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stile-lock/stile/bench/internal/fake"
	"github.com/stile-lock/stile/bench/load"
	"github.com/stile-lock/stile/bench/stile"
)

// A run that is interrupted has what was measured until then: with and without
// a library, in both loops. One that is interrupted in the warm-up has nothing.
func TestInterrupted(t *testing.T) {
	for name, at := range map[string]time.Duration{"measuring": 850 * time.Millisecond, "warming up": 200 * time.Millisecond} {
		for _, rate := range []float64{0, 5, 500} {
			p := load.Plan{Connections: 2, Keys: 100, Warmup: 300 * time.Millisecond, Duration: 2 * time.Second, Rate: rate}
			check := func(t *testing.T, r *load.Result, err error) {
				t.Helper()
				if !errors.Is(err, context.Canceled) {
					t.Errorf("the error is %v", err)
				}
				if at < p.Warmup {
					if r != nil {
						t.Errorf("%+v", r)
					}
					return
				}
				// The grants are slower than a millisecond: some hundreds of pairs,
				// but where none is due for most of the time.
				pairs := int64(100)
				if rate == 5 {
					pairs = 2
				}
				if r == nil || r.Ended != "interrupted" || r.Seconds < 0.55 || r.Seconds > 0.56 || r.Pairs < pairs || len(r.Series) != 6 ||
					math.Abs(r.PairsPerSec-float64(r.Pairs)/r.Seconds) > 1 || (r.Late != nil) != (rate > 0) {
					t.Errorf("%+v", r)
				}
			}
			t.Run(fmt.Sprintf("%s, library, rate %g", name, rate), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithTimeoutCause(t.Context(), at, context.Canceled)
					defer cancel()
					l := &library{keys: map[string]chan struct{}{}}
					r, err := load.RunLockers(ctx, p, load.VirtualLockers(load.Lockers{Driver: "library", Target: "here", Locker: l}))
					check(t, r, err)
				})
			})
			t.Run(fmt.Sprintf("%s, wire, rate %g", name, rate), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithTimeoutCause(t.Context(), at, context.Canceled)
					defer cancel()
					s := &fake.Server{Service: time.Millisecond}
					w := load.Virtual(stile.Raw{}.Wires())
					w.Dial = func(context.Context) (net.Conn, error) { return s.Dial(), nil }
					defer s.Wait()
					r, err := load.RunWires(ctx, p, w)
					check(t, r, err)
				})
			})
		}
	}
}

// A run that is interrupted gives back what it holds, what it has asked for, and
// what it is granted while it does so. It does not wait for the hold time.
func TestInterruptedGivesBack(t *testing.T) {
	for name, p := range map[string]load.Plan{
		"closed loop":     {},
		"open loop":       {Rate: 500},
		"held":            {Hold: 20 * time.Second},
		"held for longer": {Hold: 20 * time.Second, Rate: 500},
		"lines":           {Keys: 4, Shared: true, Hold: 100 * time.Millisecond},
		"hot keys":        {Contended: 0.5, HotKeys: 2, Hold: 100 * time.Millisecond},
		"given up":        {Contended: 0.5, HotKeys: 2, Hold: 100 * time.Millisecond, Cancel: 0.5, CancelAfter: 20 * time.Millisecond},
	} {
		for _, nonces := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, nonces: %v", name, nonces), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithTimeoutCause(t.Context(), 850*time.Millisecond, context.Canceled)
					defer cancel()
					s := &fake.Server{Service: 2 * time.Millisecond}
					w := load.Virtual(stile.Raw{Nonces: nonces}.Wires())
					w.Dial = func(context.Context) (net.Conn, error) { return s.Dial(), nil }
					p.Connections, p.Depth, p.Duration, p.Lease = 4, 4, time.Minute, 30*time.Second
					began := time.Now()
					_, err := load.RunWires(ctx, p, w)
					took := time.Since(began)
					s.Wait()
					var stopped *load.StoppedError
					if !errors.As(err, &stopped) || stopped.Unanswered != 0 || !errors.Is(err, context.Canceled) {
						t.Errorf("the error is %v", err)
					}
					if held := s.Held(); held != 0 {
						t.Errorf("%d keys are held", held)
					}
					if took < 850*time.Millisecond || took > 1500*time.Millisecond {
						t.Errorf("it took %v", took)
					}
				})
			})
		}
	}
}

// A server that has fallen silent does not keep a run from its end, which says
// what is left.
func TestInterruptedInSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, context.Canceled)
		defer cancel()
		s := &fake.Server{Service: time.Millisecond, Spoil: func(n int, _, answer string) string {
			if n > 300 {
				return ""
			}
			return answer
		}}
		w := load.Virtual(stile.Raw{}.Wires())
		w.Dial = func(context.Context) (net.Conn, error) { return s.Dial(), nil }
		began := time.Now()
		r, err := load.RunWires(ctx, load.Plan{Connections: 3, Depth: 2, Duration: time.Minute, Lease: 30 * time.Second}, w)
		took := time.Since(began)
		s.Wait()
		var stopped *load.StoppedError
		if !errors.As(err, &stopped) || stopped.Unanswered != 6 || !strings.Contains(err.Error(), "6 requests had no answer in time: their keys may be held for 30s") {
			t.Errorf("the error is %v", err)
		}
		if took != 3*time.Second || r == nil || r.Seconds != 1 {
			t.Errorf("it took %v: %+v", took, r)
		}
	})
}

// A wrong answer leaves no figures, an error of the library does.
func TestFiguresOfErrors(t *testing.T) {
	p := load.Plan{Connections: 4, Keys: 1, Shared: true, Duration: 5 * time.Second}
	failing := &library{}
	failing.tokenOf = func(n uint64) uint64 {
		if n == 50 {
			failing.release = errors.New("it is gone")
		}
		return n
	}
	r, err := runLibrary(t, failing, p)
	if err == nil || r == nil || r.Ended == "" || r.Pairs < 20 {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := runLibrary(t, &library{tokenOf: func(n uint64) uint64 { return min(n, 50) }}, p); r != nil || !errors.Is(err, load.ErrWrong) {
		t.Errorf("%+v, %v", r, err)
	}
}

// What a failover may do is counted after a loss of the server, and only then.
// What it may not do is wrong at any time.
func TestServerLost(t *testing.T) {
	p := load.Plan{Connections: 4, Keys: 1, Shared: true, Hold: 5 * time.Millisecond, Duration: time.Second, Lease: 2 * time.Second}
	notHeld := errors.New("not held")
	for name, c := range map[string]struct {
		library         *library
		lost            bool
		failed, doubled bool
		err             string
	}{
		"release refused after a loss":      {library: &library{release: notHeld}, lost: true, failed: true},
		"release refused without one":       {library: &library{release: notHeld}, err: "not held"},
		"release confirmed by nobody":       {library: &library{release: fmt.Errorf("%w: in 5 s", load.ErrUnserved)}, failed: true},
		"granted twice after a loss":        {library: &library{steal: true}, lost: true, doubled: true},
		"granted twice without one":         {library: &library{steal: true}, err: load.ErrHeld.Error()},
		"a token again, also after a loss":  {library: &library{tokenOf: func(n uint64) uint64 { return min(n, 50) }}, lost: true, err: "token 50 is granted after token 50"},
		"a lower token, also after a loss":  {library: &library{tokenOf: func(n uint64) uint64 { return 1000 - n }}, lost: true, err: "and is not greater"},
		"nothing of the kind, after a loss": {library: &library{}, lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.library.keys = map[string]chan struct{}{}
				lost := func() (int64, time.Time) {
					if c.lost {
						return 3, time.Now().Add(time.Nanosecond)
					}
					return 0, time.Time{}
				}
				r, err := load.RunLockers(t.Context(), p, load.VirtualLockers(load.Lockers{Driver: "library", Locker: c.library, Lost: lost}))
				if c.err != "" {
					if err == nil || !strings.Contains(err.Error(), c.err) {
						t.Errorf("the error is %v, want %q", err, c.err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if (r.Failed > 0) != c.failed || (r.Doubled > 0) != c.doubled || (r.ConnectionsLost == 3) != c.lost {
					t.Errorf("%+v", r)
				}
			})
		})
	}
}
