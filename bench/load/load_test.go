package load_test

import (
	"context"
	"errors"
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

// against runs a plan against a fake server, in the bubble's time.
func against(t *testing.T, s *fake.Server, p load.Plan, nonces bool) (*load.Result, error) {
	t.Helper()
	w := load.Virtual(stile.Raw{Nonces: nonces}.Wires())
	w.Dial = func(context.Context) (net.Conn, error) { return s.Dial(), nil }
	defer s.Wait()
	return load.RunWires(t.Context(), p, w)
}

// TestWrongAnswers has servers that are wrong in the middle of the run, each in
// a way of its own.
func TestWrongAnswers(t *testing.T) {
	for _, c := range fake.Wrongs {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := load.Plan{Keys: 1000, Duration: 5 * time.Second}
				if c.OneKey {
					p = load.Plan{Connections: 4, Depth: 2, Keys: 1, Shared: true, Hold: 10 * time.Millisecond, Duration: 5 * time.Second}
				}
				if c.Nonces {
					p.Cancel = 0.5
				}
				s := c.Server()
				s.Service = time.Millisecond
				_, err := against(t, s, p, c.Nonces)
				if !errors.Is(err, load.ErrWrong) || !strings.Contains(err.Error(), c.Says) {
					t.Errorf("the error is %v, want one that wraps ErrWrong and says %q", err, c.Says)
				}
			})
		})
	}
}

// TestRefused is about answers that end the run although the server is not
// wrong.
func TestRefused(t *testing.T) {
	for answer, says := range map[string]string{
		"M A %s 10.0.0.7:5625": "10.0.0.7:5625",
		"E A %s queue-full":    "queue-full",
		"E A %s no-active":     "no-active",
		"E ? ? limit":          "limit",
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &fake.Server{Service: time.Millisecond, Spoil: func(n int, _, right string) string {
				if f := strings.Fields(right); n > 50 && f[0] == "A" {
					return strings.ReplaceAll(answer, "%s", f[1])
				}
				return right
			}}
			_, err := against(t, s, load.Plan{Duration: 5 * time.Second}, false)
			if !errors.Is(err, load.ErrRefused) || errors.Is(err, load.ErrWrong) || !strings.Contains(err.Error(), says) {
				t.Errorf("the error is %v, want one that wraps ErrRefused only and says %q", err, says)
			}
		})
	}
}

// TestShorterLease has a server whose longest lease is shorter than the one asked
// for. It may give the key to another when that has ended.
func TestShorterLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fake.Server{Service: time.Millisecond, Steal: true, Spoil: func(_ int, _, answer string) string {
			if rest, ok := strings.CutSuffix(answer, " 30"); ok {
				return rest + " 0"
			}
			return answer
		}}
		p := load.Plan{Connections: 4, Keys: 1, Shared: true, Duration: time.Second, Hold: 5 * time.Millisecond}
		if r, err := against(t, s, p, false); err != nil || r.Lost == 0 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

func TestRightAnswers(t *testing.T) {
	for _, c := range []struct {
		name   string
		plan   load.Plan
		nonces bool
	}{
		{name: "pipelined", plan: load.Plan{Connections: 3, Depth: 16, Keys: 1000}},
		{name: "with nonces", plan: load.Plan{Connections: 3, Depth: 16, Keys: 1000}, nonces: true},
		{name: "one key", plan: load.Plan{Connections: 3, Depth: 8, Keys: 1, Shared: true}},
		{name: "Zipf, held", plan: load.Plan{Connections: 3, Depth: 8, Keys: 100, Skew: 0.99, Hold: 3 * time.Millisecond}},
		{name: "waits given up", plan: load.Plan{Connections: 3, Depth: 8, Keys: 1000, Contended: 0.5, HotKeys: 2, Cancel: 0.5, Hold: 5 * time.Millisecond}},
		{name: "waits cancelled", plan: load.Plan{Connections: 3, Depth: 8, Keys: 1000, Contended: 0.5, HotKeys: 2, Cancel: 0.5, Hold: 5 * time.Millisecond}, nonces: true},
		{name: "open loop", plan: load.Plan{Connections: 3, Depth: 8, Keys: 1000, Rate: 200}},
		{name: "open loop, at random, shared, cancelled", plan: load.Plan{Connections: 3, Depth: 8, Keys: 3, Shared: true, Rate: 200, Poisson: true, Cancel: 0.5, Hold: 5 * time.Millisecond}, nonces: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.plan.Duration, c.plan.Warmup = time.Second, 300*time.Millisecond
				r, err := against(t, &fake.Server{Service: time.Millisecond}, c.plan, c.nonces)
				if err != nil {
					t.Fatal(err)
				}
				if r.Pairs < 100 || r.Acquire.Count < 100 || len(r.Series) != 10 {
					t.Errorf("%d pairs, %d acquires, %d points", r.Pairs, r.Acquire.Count, len(r.Series))
				}
				if (r.Cancelled > 0) != (c.plan.Cancel > 0) {
					t.Errorf("%d waits were given up", r.Cancelled)
				}
				if c.plan.Rate > 0 && c.plan.Cancel == 0 && math.Abs(float64(r.Acquire.Count)-c.plan.Rate) > 5 {
					t.Errorf("%d acquires, %g were due", r.Acquire.Count, c.plan.Rate)
				}
				if (r.Corrected == nil) != (c.plan.Rate > 0) {
					t.Errorf("corrected: %+v", r.Corrected)
				}
			})
		})
	}
}

// TestStall is about a server that does nothing for one of four seconds. In the
// open loop a quarter of the requests were due then, and have waited for half
// a second on average, whether there was room to send them or not. The closed
// loop sees one slow request, until that is corrected.
func TestStall(t *testing.T) {
	run := func(p load.Plan) (r *load.Result, err error) {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			s := &fake.Server{Service: 100 * time.Microsecond, Stall: func() {
				if since := time.Since(begin); since > time.Second && since < 2*time.Second {
					time.Sleep(2*time.Second - since)
				}
			}}
			p.Duration, p.Keys = 4*time.Second, 10_000
			r, err = against(t, s, p, false)
		})
		if err != nil {
			t.Fatal(err)
		}
		return r, err
	}
	near := func(what string, got, want float64) {
		if math.Abs(got-want) > 0.06*want {
			t.Errorf("%s is %.0f, want about %.0f", what, got, want)
		}
	}
	for _, depth := range []int{1, 500} {
		r, _ := run(load.Plan{Rate: 200, Depth: depth})
		near("requests", float64(r.Acquire.Count), 800)
		near("mean", r.Acquire.Mean, 125_000)
		near("p90", r.Acquire.P90, 600_000)
		near("p99", r.Acquire.P99, 960_000)
		near("max", r.Acquire.Max, 1_000_000)
		if r.Acquire.P50 > 1000 {
			t.Errorf("p50 is %v µs", r.Acquire.P50)
		}
		// The plot shows the stall where it was: those due at its begin waited
		// longest.
		if early, late := r.Series[10].AcquireMax, r.Series[19].AcquireMax; early < 850_000 || late > 150_000 {
			t.Errorf("of those due in the first tenth the longest wait was %v µs, of those in the last %v", early, late)
		}
	}
	r, _ := run(load.Plan{Depth: 1})
	if r.Acquire.P99 > 1000 || r.Release.P99 > 1000 || max(r.Acquire.Max, r.Release.Max) < 900_000 {
		t.Errorf("closed loop: %+v, %+v", r.Acquire, r.Release)
	}
	// About a fifth of the corrected ones were not sent in the stall.
	if c := r.Corrected; c.Count < r.Acquire.Count*6/5 || c.P50 > 1000 || c.P90 < 300_000 || c.P99 < 900_000 {
		t.Errorf("closed loop, corrected: %+v", c)
	}
}

// TestOverdue is about a server that never comes back.
func TestOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		s := &fake.Server{Stall: func() {
			if since := time.Since(begin); since > time.Second {
				time.Sleep(4500*time.Millisecond - since)
			}
		}}
		r, err := against(t, s, load.Plan{Rate: 100, Depth: 1, Duration: 4 * time.Second, Keys: 1000}, false)
		if err != nil {
			t.Fatal(err)
		}
		if r.Overdue < 290 || r.Overdue > 300 || r.Acquire.Count < 398 || r.Acquire.P90 < 2_000_000 {
			t.Errorf("%d overdue, %+v", r.Overdue, r.Acquire)
		}
	})
}

func TestPercentiles(t *testing.T) {
	d := load.NewDistribution()
	for i := range 100_000 {
		d.Add(time.Duration(i+1) * time.Microsecond)
	}
	l := d.Latency()
	for _, p := range []struct {
		name      string
		got, want float64
	}{
		{"min", l.Min, 1}, {"mean", l.Mean, 50_000}, {"p50", l.P50, 50_000}, {"p75", l.P75, 75_000}, {"p90", l.P90, 90_000},
		{"p99", l.P99, 99_000}, {"p99.9", l.P999, 99_900}, {"p99.99", l.P9999, 99_990}, {"max", l.Max, 100_000},
	} {
		if math.Abs(p.got-p.want) > 0.001*p.want+0.001 {
			t.Errorf("%s is %v, want %v", p.name, p.got, p.want)
		}
	}
	if l.Count != 100_000 {
		t.Errorf("count %d", l.Count)
	}
}

func TestSpace(t *testing.T) {
	s := load.NewSpace(40, 8, 'k')
	seen := map[string]bool{}
	for i := range 40 {
		key := s.Key(i)
		if len(key) != 8 || seen[key] || s.Index([]byte(key)) != i {
			t.Errorf("key %d is %q, read as %d", i, key, s.Index([]byte(key)))
		}
		seen[key] = true
	}
	for _, key := range []string{"", "kkkkkka", "kkkkkkaaa", "kkkkkkbj", "kkkkkkaA", "jkkkkkaa", "kkkkkka1"} {
		if i := s.Index([]byte(key)); i != -1 {
			t.Errorf("%q is read as key %d", key, i)
		}
	}
}

func TestZipf(t *testing.T) {
	const n, draws = 50, 400_000
	for _, s := range []float64{0.5, 0.99, 1, 1.5, 3} {
		sum := 0.0
		for k := range n {
			sum += math.Pow(float64(k+1), -s)
		}
		for k, got := range load.Draw(n, s, draws) {
			want := draws * math.Pow(float64(k+1), -s) / sum
			if math.Abs(float64(got)-want) > 5*math.Sqrt(want)+1 {
				t.Errorf("exponent %g, rank %d: %d times, want about %.0f", s, k, got, want)
			}
		}
	}
}

func TestPlanErrors(t *testing.T) {
	for says, p := range map[string]load.Plan{
		"-1 connections":            {Connections: -1},
		"a depth of 5000":           {Depth: 5000},
		"are too few for 100":       {Connections: 100, Keys: 99},
		"a key length of 2":         {Keys: 5000, KeyLength: 2},
		"a hold time of 30s":        {Hold: 30 * time.Second},
		"a contended share of 2":    {Contended: 2},
		"a cancelled share of -0.1": {Cancel: -0.1},
		"a rate of -1":              {Rate: -1},
		"need a rate":               {Poisson: true},
		"a lease of 1.5ms":          {Lease: 1500 * time.Microsecond},
	} {
		if _, err := p.Complete(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("the error is %v, want one that says %q", err, says)
		}
	}
}
