package workload

import (
	"context"
	"errors"
	"time"

	"github.com/stile-lock/stile/bench/echo"
	"github.com/stile-lock/stile/bench/load"
	"github.com/stile-lock/stile/bench/proc"
	"github.com/stile-lock/stile/bench/stile"
)

// way is how a node is spoken to.
type way struct {
	name   string
	nonces bool
	cancel float64 // share of the waits that are cancelled
}

var (
	core      = way{name: "core"}
	named     = way{name: "nonces", nonces: true}
	cancelled = way{name: "nonces, 10 % of the waits cancelled", nonces: true, cancel: 0.1}
	ways      = []way{core, named, cancelled}
)

// goWay is the way of the rows that are about the Go client itself.
const goWay = "the Go client"

// of names what is measured of something in this way.
func (w way) of(what string) string { return what + ", " + w.name }

// inEachWay returns a figure's rows.
func inEachWay(r Row, of func(way) func(Values) (float64, bool)) []Row {
	var rows []Row
	for _, w := range ways {
		r.Way, r.Of = w.name, of(w)
		rows = append(rows, r)
	}
	return rows
}

// withoutAim takes the aim from the rows of the way in which waits are cancelled,
// where the aim is for a load without waits.
func withoutAim(rows []Row) []Row {
	for i := range rows {
		if rows[i].Way == cancelled.name {
			rows[i].Aim = 0
		}
	}
	return rows
}

func (env *Env) plan(connections, depth int) load.Plan {
	return load.Plan{
		Connections: connections, Depth: depth, Warmup: env.Size.Warmup, Duration: env.Size.Duration,
	}
}

// plan is what becomes of a load in this way. Waits can only be cancelled where
// there are some: a fifth of the pairs then take keys that others want. There are
// enough such keys that the lines stay short. What is measured is what waits and
// cancels cost, not how fast one key goes round.
func (w way) plan(p load.Plan) load.Plan {
	if w.cancel > 0 {
		p.Contended, p.HotKeys = 0.2, max(16, p.Slots()/2)
		p.Cancel, p.CancelAfter = w.cancel, time.Millisecond
	}
	return p
}

func (w way) driver(addr string) load.Driver { return stile.Raw{Addr: addr, Nonces: w.nonces} }

// Suffixes of the names of what belongs to a load.
const (
	P50   = ", p50"
	P99   = ", p99"
	P9999 = ", p99.99"
)

func pairs(name string, r *load.Result) Values {
	return Values{
		name:         {r.PairsPerSec, "pairs/s"},
		name + P50:   {r.Acquire.P50, "µs"},
		name + P99:   {r.Acquire.P99, "µs"},
		name + P9999: {r.Acquire.P9999, "µs"},
	}
}

func run(ctx context.Context, name string, d load.Driver, p load.Plan) (Values, error) {
	r, err := d.Run(ctx, p)
	if err != nil {
		return nil, err
	}
	return pairs(name, r), nil
}

// onNode runs something on the active one of some nodes that are started for it.
func (env *Env) onNode(ctx context.Context, nodes int, flags []string, do func(*proc.Node) (Values, error)) (Values, error) {
	n, err := proc.StartNodes(ctx, env.Stiled, nodes, flags...)
	if err != nil {
		return nil, err
	}
	// A stop would answer everybody who waits; nobody is there to read it.
	defer n.Kill()
	return do(n.Active())
}

func (env *Env) onServer(s *proc.Server, err error, do func(addr string) (Values, error)) (_ Values, failed error) {
	if err != nil {
		return nil, err
	}
	defer func() { failed = errors.Join(failed, s.Stop()) }()
	return do(s.Addr)
}

// onNodes is the task to load the active one of some nodes.
func (env *Env) onNodes(name string, nodes int, flags []string, w way, p load.Plan) Task {
	return Task{name, func(ctx context.Context) (Values, error) {
		return env.onNode(ctx, nodes, flags, func(n *proc.Node) (Values, error) {
			return run(ctx, name, w.driver(n.Addr), w.plan(p))
		})
	}}
}

// loadNode is the task to load a node that is alone.
func (env *Env) loadNode(name string, w way, p load.Plan) Task {
	return env.onNodes(name, 1, nil, w, p)
}

// loadEcho is the task to load an echo server.
func (env *Env) loadEcho(name string, p load.Plan) Task {
	return Task{name, func(ctx context.Context) (Values, error) {
		s, err := proc.StartEcho(ctx, env.StileBench)
		return env.onServer(s, err, func(addr string) (Values, error) {
			return run(ctx, name, echo.Driver{Addr: addr}, p)
		})
	}}
}

// loadClient is the task to load a node through the Go client.
func (env *Env) loadClient(name string, p load.Plan) Task {
	return Task{name, func(ctx context.Context) (Values, error) {
		return env.onNode(ctx, 1, nil, func(n *proc.Node) (Values, error) {
			return run(ctx, name, stile.Client{Addr: n.Addr}, p)
		})
	}}
}
