package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stile-lock/stile/bench/load"
	"github.com/stile-lock/stile/bench/proc"
)

// leases is what a million of them cost the others: while they are held, and when
// they end. The others are an open loop, so that none of them is omitted where
// the node is busy.
func leases(env *Env) Workload {
	const empty, full, ending = "empty table", "full table", "leases ending"
	size := env.Size
	w := Workload{
		Name: "leases",
		Help: "1,000,000 held leases: the latency of others while they end within a second, and while they are held against an empty table.",
	}
	for _, way := range ways {
		w.Tasks = append(w.Tasks,
			env.loadFull(way.of(empty), 0, way),
			env.loadFull(way.of(full), size.Held, way))
	}
	for _, way := range ways {
		name := way.of(ending)
		w.Tasks = append(w.Tasks, Task{name, func(ctx context.Context) (Values, error) {
			return env.onNode(ctx, 1, nil, func(n *proc.Node) (Values, error) {
				r, err := expiry{leases: size.Held, within: size.Within, rate: size.Rate, warmup: size.Warmup, way: way}.run(ctx, n)
				if err != nil {
					return nil, err
				}
				v := slower(name, r.others)
				v[name+", leases left"] = Value{float64(r.left), ""}
				return v, nil
			})
		}})
	}
	w.Rows = append(w.Rows, inEachWay(
		Row{Figure: fmt.Sprintf("p99 of others while %s leases end within %v", count(size.Held), size.Within), Unit: "ms", Aim: 10, AtMost: true},
		func(way way) func(Values) (float64, bool) { return value(way.of(ending) + P99) })...)
	w.Rows = append(w.Rows, inEachWay(
		Row{Figure: fmt.Sprintf("p99 with %s held leases, against an empty table, depth 1", count(size.Held)), Unit: "×", Aim: 1.1, AtMost: true},
		func(way way) func(Values) (float64, bool) { return ratio(way.of(full)+P99, way.of(empty)+P99) })...)
	return w
}

// loadFull is the task to load a node that holds keys already, depth 1.
func (env *Env) loadFull(name string, held int, w way) Task {
	return Task{name, func(ctx context.Context) (Values, error) {
		return env.onNode(ctx, 1, nil, func(n *proc.Node) (Values, error) {
			if err := (filler{keys: held, way: w}).fill(ctx, n.Addr); err != nil {
				return nil, err
			}
			p := env.plan(64, 1)
			p.Rate = env.Size.Rate
			r, err := w.driver(n.Addr).Run(ctx, w.plan(p))
			if err != nil {
				return nil, err
			}
			return slower(name, r), nil
		})
	}}
}

// slower is a load with the latency of its acquires or its releases, whichever is
// greater.
func slower(name string, r *load.Result) Values {
	a, b := r.Acquire, r.Release
	return Values{
		name:                            {r.PairsPerSec, "pairs/s"},
		name + P50:                      {max(a.P50, b.P50) / 1e3, "ms"},
		name + P99:                      {max(a.P99, b.P99) / 1e3, "ms"},
		name + P9999:                    {max(a.P9999, b.P9999) / 1e3, "ms"},
		name + ", slowest":              {max(a.Max, b.Max) / 1e3, "ms"},
		name + ", sent late by us, p99": {r.Late.P99 / 1e3, "ms"},
	}
}

// expiry is a great number of leases that end together, while others work.
type expiry struct {
	leases int
	within time.Duration
	rate   float64 // pairs a second of the others
	warmup time.Duration
	way    way
}

type expired struct {
	others *load.Result // from the first to the last end of a lease, and a little more
	left   int          // keys held at the end
}

// run measures. The leases are aimed at one moment, so how long it takes to ask
// for them has to be guessed before; where that fails the guess is doubled.
func (e expiry) run(ctx context.Context, node *proc.Node) (expired, error) {
	lead := 2*e.warmup + time.Duration(e.leases)*10*time.Microsecond
	for try := uint64(1); ; try++ {
		first := time.Now().Add(lead)
		var mu sync.Mutex
		rng := rand.New(rand.NewPCG(2, try))
		err := filler{keys: e.leases, lease: func() time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return (max(time.Until(first), time.Millisecond) + time.Duration(rng.Int64N(int64(e.within)))).Truncate(time.Millisecond)
		}}.fill(ctx, node.Addr)
		if err != nil {
			return expired{}, err
		}
		if time.Until(first) >= e.warmup {
			return e.measure(ctx, node, first)
		}
		if try == 4 {
			return expired{}, fmt.Errorf("%w: %d leases cannot be taken within %v", errTooSlow, e.leases, lead)
		}
		if err := waitFree(ctx, node, lead+e.within+patience); err != nil {
			return expired{}, err
		}
		lead *= 2
	}
}

func (e expiry) measure(ctx context.Context, node *proc.Node, first time.Time) (r expired, err error) {
	r.others, err = e.way.driver(node.Addr).Run(ctx, e.way.plan(load.Plan{
		Connections: 64, Depth: 4, Rate: e.rate,
		Warmup: time.Until(first), Duration: e.within + 200*time.Millisecond, Interval: 100 * time.Millisecond,
	}))
	if err != nil {
		return r, err
	}
	s, err := node.Status()
	r.left = s.Held
	return r, err
}

// waitFree waits until all leases have ended.
func waitFree(ctx context.Context, node *proc.Node, limit time.Duration) error {
	deadline := time.Now().Add(limit)
	for {
		s, err := node.Status()
		if err != nil {
			return err
		}
		if s.Held == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%w: %d keys are held %v after their leases", load.ErrWrong, s.Held, limit)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
