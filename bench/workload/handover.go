package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stile-lock/stile/bench/load"
	"github.com/stile-lock/stile/bench/proc"
	"github.com/stile-lock/stile/protocol"
)

// handOver is how long a key lies idle between two holders.
func handOver(env *Env) Workload {
	const trip, handed = "round trip of the echo server", "release to next grant"
	size := env.Size
	w := Workload{
		Name: "hand-over",
		Help: "One key that 64 want: the time from a release to the next grant, against a round trip to the echo server.",
		Tasks: []Task{{trip, func(ctx context.Context) (Values, error) {
			s, err := proc.StartEcho(ctx, env.StileBench)
			return env.onServer(s, err, func(addr string) (Values, error) {
				l, err := roundTrip(ctx, load.TCP(addr), size.Warmup, size.Duration)
				return latency(trip, l), err
			})
		}}},
		Rows: inEachWay(
			Row{Figure: "median time from release to next grant, against a round trip of the echo server", Unit: "×", Aim: 1.25, AtMost: true},
			func(way way) func(Values) (float64, bool) { return ratio(way.of(handed), trip) }),
	}
	for _, way := range ways {
		name := way.of(handed)
		w.Tasks = append(w.Tasks, Task{name, func(ctx context.Context) (Values, error) {
			return env.onNode(ctx, 1, nil, func(n *proc.Node) (Values, error) {
				l, err := relay{waiters: size.HandOver, warmup: size.Warmup, duration: size.Duration, way: way}.run(ctx, load.TCP(n.Addr))
				return latency(name, l), err
			})
		}})
	}
	return w
}

// latency is a distribution as values of which the median has the name.
func latency(name string, l load.Latency) Values {
	if l.Count == 0 {
		return nil
	}
	return Values{
		name: {l.P50, "µs"}, name + P99: {l.P99, "µs"}, name + P9999: {l.P9999, "µs"},
	}
}

// relay is one key that goes from hand to hand.
type relay struct {
	waiters  int // in line, each on a connection of its own
	warmup   time.Duration
	duration time.Duration
	way      way
}

const (
	relayKey   = "hand-over/0000000000000a" // 24 bytes
	relayLease = time.Minute
)

// run measures the time from the writing of a release to the reading of the
// grant that it makes possible, on another connection.
func (r relay) run(ctx context.Context, d load.Dial) (load.Latency, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	m := &relaying{relay: r, ledger: load.NewLedger(1), seen: load.NewDistribution(), start: time.Now()}
	var crowd []*talk
	defer func() { closeAll(crowd) }()
	for range r.waiters {
		t, err := dial(ctx, d)
		if err != nil {
			return load.Latency{}, err
		}
		crowd = append(crowd, t)
		if err := t.greet(r.way); err != nil {
			return load.Latency{}, err
		}
	}
	var all sync.WaitGroup
	for i, t := range crowd {
		all.Go(func() {
			if err := m.wait(t, i); err != nil {
				stop(fmt.Errorf("waiter %d: %w", i, err))
			}
		})
	}
	all.Wait()
	if err := context.Cause(ctx); err != nil {
		return load.Latency{}, err
	}
	l := m.seen.Latency()
	if l.Count == 0 {
		return l, fmt.Errorf("%w: no key was handed over within %v", errTooSlow, r.duration)
	}
	return l, nil
}

type relaying struct {
	relay
	ledger *load.Ledger
	start  time.Time
	gone   atomic.Int64 // when the last release was written; 0: unknown

	mu   sync.Mutex
	seen *load.Distribution
}

func (m *relaying) now() int64 { return int64(time.Since(m.start)) }

// wait has one waiter ask for the key again and again.
func (m *relaying) wait(t *talk, i int) error {
	rng := rand.New(rand.NewPCG(1, uint64(i)))
	for n := 0; ; n++ {
		sent := m.now()
		if sent > int64(m.warmup+m.duration) {
			return nil
		}
		nonce := m.way.nonce(fmt.Sprint(i), n)
		if rng.Float64() < m.way.cancel {
			granted, err := t.giveUp(relayKey, nonce, relayLease)
			if err != nil {
				return err
			}
			if granted {
				// The cancel gave the key back, nobody knows when.
				m.gone.Store(0)
			}
			continue
		}
		if err := m.hold(t, sent, nonce); err != nil {
			return err
		}
	}
}

// hold waits for the key and gives it back at once.
func (m *relaying) hold(t *talk, sent int64, nonce string) error {
	t.acquire(relayKey, 0, relayLease, nonce)
	if err := t.send(); err != nil {
		return err
	}
	a, err := t.answer(relayLease)
	now := m.now()
	if err != nil {
		return fmt.Errorf("no grant: %w", err)
	}
	if a.Op != protocol.OpAcquire || string(a.Key) != relayKey {
		return unexpected(a, "a grant of "+relayKey)
	}
	token, until := a.Token, sent+int64(relayLease)
	if err := m.ledger.Granted(0, token, now, until); err != nil {
		return err
	}
	m.add(now)
	m.ledger.Returned(0, until)
	t.release(relayKey, token)
	m.gone.Store(m.now())
	if err := t.send(); err != nil {
		return err
	}
	if a, err = t.expect(protocol.OpRelease, relayKey); err != nil {
		return err
	}
	if a.Token != token {
		return unexpected(a, fmt.Sprintf("the release of token %d", token))
	}
	return nil
}

func (m *relaying) add(now int64) {
	gone := m.gone.Load()
	if gone == 0 || now < int64(m.warmup) || now > int64(m.warmup+m.duration) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen.Add(time.Duration(now - gone))
}

// roundTrip measures a line to an echo server and back, with nothing else going
// on.
func roundTrip(ctx context.Context, d load.Dial, warmup, duration time.Duration) (load.Latency, error) {
	t, err := dial(ctx, d)
	if err != nil {
		return load.Latency{}, err
	}
	defer t.Close()
	seen, start := load.NewDistribution(), time.Now()
	const token = 257698037760000001
	for {
		t.release(relayKey, token)
		sent := time.Now()
		if err := t.send(); err != nil {
			return load.Latency{}, err
		}
		a, err := t.expect(protocol.OpRelease, relayKey)
		now := time.Now()
		if err != nil {
			return load.Latency{}, err
		}
		if a.Token != token {
			return load.Latency{}, unexpected(a, "the line that was sent")
		}
		switch since := now.Sub(start); {
		case since > warmup+duration:
			if l := seen.Latency(); l.Count > 0 {
				return l, nil
			}
			return load.Latency{}, fmt.Errorf("%w: no round trip within %v", errTooSlow, duration)
		case since > warmup:
			seen.Add(now.Sub(sent))
		}
	}
}
