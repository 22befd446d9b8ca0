package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/stile-lock/stile/bench/load"
	"github.com/stile-lock/stile/bench/proc"
	"github.com/stile-lock/stile/bench/redis"
)

// uncontended is pairs that nobody else is in the way of. Against Redis and etcd
// there is also the load with waits, which they can carry, too; the echo server
// cannot.
func uncontended(env *Env) Workload {
	w := Workload{
		Name: "uncontended",
		Help: "Pairs of many keys on 64 connections, 1 and 64 under way on each: Stile, a bare echo server, Redis; and etcd's Mutex with 64 workers.",
	}
	for _, d := range []struct {
		depth           int
		ofEcho, ofRedis float64
	}{{1, 0.93, 1.3}, {64, 0.50, 5}} {
		p := env.plan(64, d.depth)
		at := fmt.Sprintf("depth %d", d.depth)
		w.Tasks = append(w.Tasks, env.loadEcho(at+", echo", p))
		for _, way := range ways {
			w.Tasks = append(w.Tasks, env.loadNode(way.of(at), way, p))
		}
		if env.Redis != "" {
			w.Tasks = append(w.Tasks,
				env.loadRedis(at+", Redis", p),
				env.loadRedis(at+", Redis, 10 % of the waits cancelled", cancelled.plan(p)))
		}
		w.Rows = append(w.Rows, withoutAim(inEachWay(
			Row{Figure: at + ", against the echo server", Aim: d.ofEcho},
			func(way way) func(Values) (float64, bool) { return ratio(way.of(at), at+", echo") }))...)
		w.Rows = append(w.Rows, withoutAim(inEachWay(
			Row{Figure: at + ", against Redis with a script", Unit: "×", Aim: d.ofRedis},
			func(way way) func(Values) (float64, bool) { return ratio(way.of(at), like(way, at+", Redis")) }))...)
	}
	const at, ofEtcd = "depth 1", 15
	p := env.plan(64, 1)
	w.Tasks = append(w.Tasks, env.loadClient(at+", "+goWay, p))
	if env.Etcd != "" && env.EtcdLoad != "" {
		w.Tasks = append(w.Tasks,
			env.loadEtcd("etcd", p),
			env.loadEtcd("etcd, 10 % of the waits cancelled", cancelled.plan(p)))
	}
	figure := Row{Figure: "64 workers, against etcd's Mutex", Unit: "×", Aim: ofEtcd}
	w.Rows = append(w.Rows, withoutAim(inEachWay(figure,
		func(way way) func(Values) (float64, bool) { return ratio(way.of(at), like(way, "etcd")) }))...)
	figure.Way, figure.Of = goWay, ratio(at+", "+goWay, "etcd")
	w.Rows = append(w.Rows, figure)
	return w
}

// like names the load of another server that is like that of a node in a way.
func like(w way, name string) string {
	if w.cancel > 0 {
		return name + ", 10 % of the waits cancelled"
	}
	return name
}

func (env *Env) loadRedis(name string, p load.Plan) Task {
	return Task{name, func(ctx context.Context) (Values, error) {
		s, err := proc.StartRedis(ctx, env.Redis)
		v, err := env.onServer(s, err, func(addr string) (Values, error) {
			return run(ctx, name, redis.Driver{Addr: addr}, p)
		})
		return v, notOurs(err)
	}}
}

// loadEtcd has a program of its own load etcd: its client library stays out of
// this one. That program ends with status 1 at a wrong answer, and with another
// one at any other error.
func (env *Env) loadEtcd(name string, p load.Plan) Task {
	return Task{name, func(ctx context.Context) (Values, error) {
		plan, err := json.Marshal(p)
		if err != nil {
			return nil, err
		}
		s, err := proc.StartEtcd(ctx, env.Etcd)
		v, err := env.onServer(s, err, func(addr string) (Values, error) {
			cmd := exec.CommandContext(ctx, env.EtcdLoad, "--addr", addr, "--plan", string(plan))
			cmd.WaitDelay = 5 * time.Second
			out, err := cmd.Output()
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				err = fmt.Errorf("%w: %s", err, exit.Stderr)
				if exit.ExitCode() == 1 {
					err = fmt.Errorf("%w: %w", load.ErrWrong, err)
				}
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", env.EtcdLoad, err)
			}
			var r []*load.Result
			if err := json.Unmarshal(out, &r); err != nil || len(r) != 1 {
				return nil, fmt.Errorf("%s wrote %.200q, which is not one result (%v)", env.EtcdLoad, out, err)
			}
			return pairs(name, r[0]), nil
		})
		return v, notOurs(err)
	}}
}
