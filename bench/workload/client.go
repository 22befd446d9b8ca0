package workload

// goClient is what the Go client costs. It has two connections to a node that is
// alone, where the raw driver has one for each of the requests under way; so there
// is a raw load on two connections, too, which is batched far better.
func goClient(env *Env) Workload {
	const apart, together = "raw, 64 connections, depth 1", "raw, 2 connections, depth 32"
	w := Workload{
		Name: "client",
		Help: "64 goroutines on one Go client, against the raw driver with as many requests under way.",
		Tasks: []Task{
			env.loadClient(named.of(goWay), env.plan(64, 1)),
			env.loadClient(cancelled.of(goWay), cancelled.plan(env.plan(64, 1))),
		},
	}
	for _, way := range ways {
		w.Tasks = append(w.Tasks,
			env.loadNode(way.of(apart), way, env.plan(64, 1)),
			env.loadNode(way.of(together), way, env.plan(2, 32)))
	}
	for _, row := range []struct{ figure, raw string }{
		{"the Go client, 64 goroutines, against the raw driver on 64 connections", apart},
		{"the Go client, 64 goroutines, against the raw driver on 2 connections, as the client has", together},
	} {
		w.Rows = append(w.Rows, inEachWay(
			Row{Figure: row.figure, Aim: 0.8},
			func(way way) func(Values) (float64, bool) {
				client := named
				if way.cancel > 0 {
					client = cancelled
				}
				return ratio(client.of(goWay), way.of(row.raw))
			})...)
	}
	return w
}
