package workload

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stile-lock/stile/bench/load"
	"github.com/stile-lock/stile/bench/proc"
	"github.com/stile-lock/stile/protocol"
)

// perConnection is how many acquires wait on one connection: fewer than any node
// has to allow.
const perConnection = 1000

// herd is a great many waiters for one key.
func herd(env *Env) Workload {
	const wake, cost, woken = "release to grant", "processor time of the node for a release", "waiters woken by a release"
	size := env.Size
	of := fmt.Sprintf("%s waiters for one key: ", count(size.Herd))
	w := Workload{
		Name: "herd",
		Help: "100,000 waiters for one key. A release must wake one of them, and nobody else.",
	}
	for _, way := range ways {
		w.Tasks = append(w.Tasks, Task{way.of(wake), func(ctx context.Context) (Values, error) {
			return env.onNode(ctx, 1, nil, func(n *proc.Node) (Values, error) {
				r, err := crowd{waiters: size.Herd, releases: size.Releases, way: way}.run(ctx, n)
				if err != nil {
					return nil, err
				}
				v := latency(way.of(wake), r.latency)
				v[way.of(woken)] = Value{r.woken, ""}
				if r.cpu > 0 {
					v[way.of(cost)] = Value{float64(r.cpu) / 1e3, "µs"}
				}
				return v, nil
			})
		}})
	}
	for _, row := range []struct {
		name, figure, unit string
		aim                float64
	}{
		{woken, woken, "", 1},
		{wake, "median time from release to grant", "µs", 0},
		{cost, cost, "µs", 0},
	} {
		w.Rows = append(w.Rows, inEachWay(
			Row{Figure: of + row.figure, Unit: row.unit, Aim: row.aim, AtMost: true},
			func(way way) func(Values) (float64, bool) { return value(way.of(row.name)) })...)
	}
	return w
}

// crowd is a crowd that waits for one key.
type crowd struct {
	waiters  int
	releases int
	way      way
}

// stampede is what a release costs in front of a crowd.
type stampede struct {
	latency load.Latency  // from the release to the one grant
	woken   float64       // waiters, by one release
	cpu     time.Duration // of the node, for one release; 0: not known
}

type woken struct {
	at    time.Time
	token uint64
	err   error
}

// run lines the crowd up and releases the key again and again. Each release must
// wake one waiter, and nobody else.
func (c crowd) run(ctx context.Context, node *proc.Node) (stampede, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	const key = "herd/0000000000000000000a" // 24 bytes
	holder, err := dial(ctx, load.TCP(node.Addr))
	if err != nil {
		return stampede{}, err
	}
	holder.acquire(key, protocol.NoQueue, longLease, "")
	if err := holder.send(); err != nil {
		return stampede{}, err
	}
	a, err := holder.expect(protocol.OpAcquire, key)
	if err != nil {
		return stampede{}, err
	}
	token := a.Token
	conns, err := idle(ctx, node.Addr, (c.waiters+perConnection-1)/perConnection, c.way)
	if err != nil {
		return stampede{}, err
	}
	wake := make(chan woken, c.waiters)
	waiting, err := queueUp(ctx, node, conns, []string{key}, c.waiters, c.way, wake)
	if err != nil {
		return stampede{}, err
	}
	before, errBefore := node.CPU()
	seen := load.NewDistribution()
	releases := min(c.releases, waiting)
	for i := range releases {
		holder.release(key, token)
		sent := time.Now()
		if err := holder.send(); err != nil {
			return stampede{}, err
		}
		if a, err := holder.expect(protocol.OpRelease, key); err != nil {
			return stampede{}, err
		} else if a.Token != token {
			return stampede{}, unexpected(a, fmt.Sprintf("the release of token %d", token))
		}
		w, err := nextWoken(ctx, wake, patience)
		if errors.Is(err, errQuiet) {
			return stampede{}, fmt.Errorf("%w: release %d has woken nobody within %v", load.ErrWrong, i+1, patience)
		}
		if err != nil {
			return stampede{}, err
		}
		if w.token <= token {
			return stampede{}, fmt.Errorf("%w: token %d is granted after token %d", load.ErrWrong, w.token, token)
		}
		token = w.token
		seen.Add(w.at.Sub(sent))
	}
	after, errAfter := node.CPU()
	// Whoever was woken for nothing has an answer on the way by now.
	if w, err := nextWoken(ctx, wake, 100*time.Millisecond); !errors.Is(err, errQuiet) {
		return stampede{}, fmt.Errorf("%w: more waiters were answered than there were releases (token %d, %v)", load.ErrWrong, w.token, err)
	}
	s, err := node.Status()
	if err != nil {
		return stampede{}, err
	}
	if s.Waiting != waiting-releases {
		return stampede{}, fmt.Errorf("%w: after %d releases %d of %d wait", load.ErrWrong, releases, s.Waiting, waiting)
	}
	r := stampede{latency: seen.Latency(), woken: float64(waiting-s.Waiting) / float64(releases)}
	if errors.Join(errBefore, errAfter) == nil {
		r.cpu = (after - before) / time.Duration(releases)
	}
	return r, nil
}

var errQuiet = errors.New("nothing came")

func nextWoken(ctx context.Context, wake <-chan woken, limit time.Duration) (woken, error) {
	select {
	case w := <-wake:
		return w, w.err
	case <-ctx.Done():
		return woken{}, context.Cause(ctx)
	case <-time.After(limit):
		return woken{}, errQuiet
	}
}

// queueUp has acquires wait for keys that are held, the same number for each, and
// cancels some of them if that is the way. It returns how many wait then, which
// the node has confirmed. The grants that follow go to wake.
func queueUp(ctx context.Context, node *proc.Node, conns []*talk, keys []string, waiters int, w way, wake chan<- woken) (waiting int, err error) {
	cancelled := 0
	for i := range waiters {
		conns[i%len(conns)].acquire(keys[i%len(keys)], 0, longLease, w.nonce("queue", i))
		if w.cancels(i) {
			cancelled++
		}
	}
	var timedOut, cancels atomic.Int64
	for _, t := range conns {
		if err := t.send(); err != nil {
			return 0, err
		}
		go func() {
			for {
				a, err := t.answer(longLease)
				w := woken{at: time.Now(), err: err}
				switch {
				case err != nil:
				case a.Op == protocol.OpAcquire:
					w.token = a.Token
				case a.Op == protocol.OpTimeout && timedOut.Add(1) <= int64(cancelled),
					a.Op == protocol.OpCancel && cancels.Add(1) <= int64(cancelled):
					continue
				default:
					w.err = unexpected(a, "a grant")
				}
				select {
				case wake <- w:
				case <-ctx.Done():
				}
				if w.err != nil || ctx.Err() != nil {
					return
				}
			}
		}()
	}
	if err := waitQueued(ctx, node, waiters, func() bool { return true }); err != nil || cancelled == 0 {
		return waiters, err
	}
	for i := range waiters {
		if w.cancels(i) {
			conns[i%len(conns)].cancel(keys[i%len(keys)], w.nonce("queue", i))
		}
	}
	for _, t := range conns {
		if err := t.send(); err != nil {
			return 0, err
		}
	}
	waiting = waiters - cancelled
	// The end of a cancelled wait may be told later, behind the answers to older
	// acquires of its key (SPEC.md 3.3).
	return waiting, waitQueued(ctx, node, waiting, func() bool { return cancels.Load() == int64(cancelled) })
}

// waitQueued waits until the node counts so many waiters and something else is so,
// too.
func waitQueued(ctx context.Context, node *proc.Node, waiters int, and func() bool) error {
	return node.Wait(ctx, fmt.Sprintf("has %d waiters", waiters), func() bool {
		s, err := node.Status()
		return err == nil && s.Waiting == waiters && and()
	})
}
