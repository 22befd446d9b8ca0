package workload

import (
	"context"
	"fmt"

	"github.com/stile-lock/stile/bench/proc"
)

// growth is how the cost of a pair grows with the number of keys: those that the
// node holds, and as many others that the load takes.
func growth(env *Env) Workload {
	const few, many, cost = "few keys", "many keys", ", processor time of the node for a pair"
	size := env.Size
	w := Workload{
		Name: "growth",
		Help: "The cost of a pair with 1,000 keys, and with 1,000,000.",
	}
	for _, way := range ways {
		w.Tasks = append(w.Tasks,
			env.costOfKeys(way.of(few), cost, size.Few, way),
			env.costOfKeys(way.of(many), cost, size.Many, way))
	}
	w.Rows = inEachWay(
		Row{Figure: fmt.Sprintf("processor time of the node for a pair with %s keys, against %s", count(size.Many), count(size.Few)), Unit: "×", Aim: 1.3, AtMost: true},
		func(way way) func(Values) (float64, bool) { return ratio(way.of(many)+cost, way.of(few)+cost) })
	w.Rows = append(w.Rows, inEachWay(
		Row{Figure: "the same by throughput, the node and the load together", Unit: "×"},
		func(way way) func(Values) (float64, bool) { return ratio(way.of(few), way.of(many)) })...)
	return w
}

func (env *Env) costOfKeys(name, cost string, keys int, w way) Task {
	return Task{name, func(ctx context.Context) (Values, error) {
		return env.onNode(ctx, 1, nil, func(n *proc.Node) (Values, error) {
			if err := (filler{keys: keys}).fill(ctx, n.Addr); err != nil {
				return nil, err
			}
			p := env.plan(8, 64)
			p.Keys = keys
			before, errBefore := n.CPU()
			r, err := w.driver(n.Addr).Run(ctx, w.plan(p))
			if err != nil {
				return nil, err
			}
			v := pairs(name, r)
			// Without processor times the throughput still says something.
			if after, err := n.CPU(); err == nil && errBefore == nil && r.Pairs > 0 {
				// The warm-up costs as much as the rest, by its share of the time.
				share := p.Duration.Seconds() / (p.Warmup + p.Duration).Seconds()
				v[name+cost] = Value{float64(after-before) / 1e3 * share / float64(r.Pairs), "µs"}
			}
			return v, nil
		})
	}}
}

// count shows a whole number with its thousands apart.
func count(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", count(n/1000), n%1000)
}
