package workload

// standbys is what replication costs, all nodes on this machine.
func standbys(env *Env) Workload {
	const alone, one, two, sync = "alone", "one async standby", "two async standbys", "one sync standby"
	w := Workload{
		Name: "standbys",
		Help: "64 connections, depth 64: a node alone, with one and two async standbys, and with one in sync mode, all on this machine.",
	}
	for _, way := range ways {
		p := env.plan(64, 64)
		w.Tasks = append(w.Tasks,
			env.onNodes(way.of(alone), 1, nil, way, p),
			env.onNodes(way.of(one), 2, nil, way, p),
			env.onNodes(way.of(two), 3, nil, way, p),
			env.onNodes(way.of(sync), 2, []string{"--replication", "sync"}, way, p))
	}
	for _, row := range []struct {
		nodes string
		aim   float64
	}{{one, 0.6}, {two, 0}, {sync, 0}} {
		w.Rows = append(w.Rows, inEachWay(
			Row{Figure: row.nodes + ", against a node alone, depth 64", Aim: row.aim},
			func(way way) func(Values) (float64, bool) { return ratio(way.of(row.nodes), way.of(alone)) })...)
	}
	return w
}
