package workload

import (
	"context"
	"fmt"

	"github.com/stile-lock/stile/bench/proc"
)

const busy = 100 // connections among the idle ones

// connections is what many connections, held keys and waiters cost, in time and
// in memory. Memory is what the node's resident set grows by.
func connections(env *Env) Workload {
	const alone, among, memory, key, waiter = "100 busy alone", "100 busy among the idle", "memory per idle connection", "memory per held key", "memory per waiter"
	size := env.Size
	w := Workload{
		Name: "connections",
		Help: "10,000 idle connections and 100 busy ones; the node's memory per idle connection, per held key of 24 bytes, and per waiter.",
	}
	for _, way := range ways {
		w.Tasks = append(w.Tasks,
			env.loadNode(way.of(alone), way, env.plan(busy, 1)),
			Task{way.of(among), func(ctx context.Context) (Values, error) {
				return env.onNode(ctx, 1, nil, func(n *proc.Node) (Values, error) {
					var open []*talk
					per, err := grown(n, size.Idle, func() (err error) {
						open, err = idle(ctx, n.Addr, size.Idle, way)
						return err
					})
					if err != nil {
						return nil, err
					}
					defer closeAll(open)
					v, err := run(ctx, way.of(among), way.driver(n.Addr), way.plan(env.plan(busy, 1)))
					if err != nil {
						return nil, err
					}
					return per.with(v, way.of(memory)), nil
				})
			}},
			Task{way.of(key), func(ctx context.Context) (Values, error) {
				return env.onNode(ctx, 1, nil, func(n *proc.Node) (Values, error) {
					per, err := grown(n, size.Held, func() error { return filler{keys: size.Held, way: way}.fill(ctx, n.Addr) })
					return per.with(Values{}, way.of(key)), err
				})
			}},
			Task{way.of(waiter), func(ctx context.Context) (Values, error) {
				return env.onNode(ctx, 1, nil, func(n *proc.Node) (Values, error) {
					per, err := waiterMemory(ctx, n, size.Waiters, way)
					return per.with(Values{}, way.of(waiter)), err
				})
			}})
	}
	for _, row := range []struct {
		figure, name string
		aim          float64
	}{
		{fmt.Sprintf("memory per idle connection, of %s", count(size.Idle)), memory, 12 << 10},
		{fmt.Sprintf("memory per held key with a 24-byte key, of %s", count(size.Held)), key, 200},
		{fmt.Sprintf("memory per waiter, of %s", count(size.Waiters)), waiter, 250},
	} {
		w.Rows = append(w.Rows, inEachWay(
			Row{Figure: row.figure, Unit: "B", Aim: row.aim, AtMost: true},
			func(way way) func(Values) (float64, bool) { return value(way.of(row.name)) })...)
	}
	w.Rows = append(w.Rows, inEachWay(
		Row{Figure: fmt.Sprintf("100 busy connections among %s idle ones, against 100 alone", count(size.Idle))},
		func(way way) func(Values) (float64, bool) { return ratio(way.of(among), way.of(alone)) })...)
	return w
}

// bytes is an amount of memory, or that it is not known.
type bytes struct {
	each  float64
	known bool
}

func (b bytes) with(v Values, name string) Values {
	if b.known {
		v[name] = Value{b.each, "B"}
	}
	return v
}

// grown is what the node's memory grows by while something is done, for each of
// so many.
func grown(n *proc.Node, count int, do func() error) (bytes, error) {
	before, errBefore := n.RSS()
	if err := do(); err != nil {
		return bytes{}, err
	}
	after, errAfter := n.RSS()
	return bytes{float64(after-before) / float64(max(count, 1)), errBefore == nil && errAfter == nil}, nil
}

func waiterMemory(ctx context.Context, n *proc.Node, waiters int, w way) (bytes, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	held := filler{keys: 500}
	if err := held.fill(ctx, n.Addr); err != nil {
		return bytes{}, err
	}
	keys, space := make([]string, held.keys), held.space()
	for i := range keys {
		keys[i] = space.Key(i)
	}
	// The connections are none of the waiters' memory.
	conns, err := idle(ctx, n.Addr, (waiters+perConnection-1)/perConnection, w)
	if err != nil {
		return bytes{}, err
	}
	waiting := 0
	all, err := grown(n, 1, func() (err error) {
		waiting, err = queueUp(ctx, n, conns, keys, waiters, w, make(chan woken, waiters))
		return err
	})
	all.each /= float64(max(waiting, 1))
	return all, err
}
