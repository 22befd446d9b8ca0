package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// Locker is a client library whose calls block.
type Locker interface {
	// Acquire waits for the key and returns what Release needs, and the grant's
	// token. A call that ctx ends returns an error that wraps that of ctx.
	Acquire(ctx context.Context, worker int, key string, lease time.Duration) (held any, token uint64, err error)
	// Release gives it back. An error that wraps ErrUnserved is counted.
	Release(ctx context.Context, held any) error
}

// Lockers says how to load a server through a client library.
type Lockers struct {
	Driver string
	Target string
	Locker Locker
	// Lost is how many connections the library has lost, and when the last one;
	// nil: it can't say. With the server at their other end grants may have been
	// lost, which servers that copy them without waiting allow: so a release that
	// finds its grant gone, or another holder of a key, is counted then, and is
	// no wrong answer.
	Lost func() (n int64, last time.Time)

	// virtual is set by tests whose time is not that of the machine.
	virtual bool
}

// RunLockers carries out a plan with a goroutine for each request that may be
// under way. The connections are the library's own. The first wrong answer, and
// the first error that is not counted, ends it.
func RunLockers(ctx context.Context, p Plan, l Lockers) (*Result, error) {
	p, err := p.Complete()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	w := workers{
		plan: p, locker: l.Locker, lost: l.Lost,
		space:  NewSpace(p.Keys+p.HotKeys, p.KeyLength, 'k'),
		ledger: NewLedger(p.Keys + p.HotKeys),
		rec:    newRecorder(&p),
		start:  time.Now(),
		clock:  clockOf(l.virtual),
	}
	if p.Rate > 0 {
		w.due = make(chan int64, int(p.Rate*p.Duration.Seconds())+p.Slots())
	}
	ended := make(chan struct{})
	defer close(ended)
	go w.watch(ended, func(waited time.Duration) {
		stop(fmt.Errorf("%s: %w: calls have not ended %v after the end", l.Driver, ErrWrong, waited))
	})
	res := &Result{Driver: l.Driver, Target: l.Target, Plan: p, Started: w.start}
	late := NewDistribution()
	var all sync.WaitGroup
	if w.due != nil {
		all.Go(func() { w.schedule(ctx, late) })
	}
	var mu sync.Mutex
	for i := range p.Slots() {
		all.Go(func() {
			mine, err := w.work(ctx, i)
			if err != nil {
				stop(fmt.Errorf("%s: worker %d: %w", l.Driver, i, err))
			}
			mu.Lock()
			defer mu.Unlock()
			res.Cancelled += mine.cancelled
			res.Lost += mine.lost
			res.Overdue += mine.overdue
			res.Failed += mine.failed
			res.Doubled += mine.doubled
		})
	}
	all.Wait()
	now := w.now()
	if l.Lost != nil {
		res.ConnectionsLost, _ = l.Lost()
	}
	if p.Rate > 0 {
		l := late.Latency()
		res.Late = &l
	}
	if err := context.Cause(ctx); err != nil {
		return w.rec.cutShort(res, now, err), err
	}
	w.rec.fill(res, w.rec.end)
	return res, nil
}

type workers struct {
	plan   Plan
	locker Locker
	lost   func() (int64, time.Time)
	space  Space
	ledger *Ledger
	rec    *recorder
	start  time.Time
	clock  clock
	due    chan int64 // open loop: instants at which a pair is due
}

func (w *workers) now() int64 { return int64(time.Since(w.start)) }

// watch calls stuck when calls keep the run from its end, and how long it has
// waited for them by then.
func (w *workers) watch(ended <-chan struct{}, stuck func(waited time.Duration)) {
	for {
		limit := w.limit()
		left := limit - time.Since(w.start)
		if left <= 0 {
			stuck(limit - w.plan.Warmup - w.plan.Duration)
			return
		}
		select {
		case <-time.After(left):
		case <-ended:
			return
		}
	}
}

// limit is when all calls must have ended. With a server a release may be lost
// that it had answered; then nobody holds the key, and it is granted to nobody,
// until the lease ends that was given back.
func (w *workers) limit() time.Duration {
	p := &w.plan
	limit := p.Warmup + p.Duration + p.Hold + p.Drain
	if w.lost != nil {
		if n, last := w.lost(); n > 0 {
			limit = max(limit, last.Sub(w.start)+p.Lease+p.Drain)
		}
	}
	return limit
}

// schedule hands out pairs as they become due.
func (w *workers) schedule(ctx context.Context, late *Distribution) {
	defer close(w.due)
	w.clock.precise()
	rng := rand.New(rand.NewPCG(w.plan.Seed, 0))
	period := 1e9 / w.plan.Rate
	for due := 0.0; int64(due) < w.rec.end; {
		// Asked by itself: a select takes any case that is ready, and w.due is so
		// nearly always.
		if ctx.Err() != nil {
			return
		}
		now := w.now()
		if int64(due) > now {
			w.clock.sleep(min(time.Duration(int64(due)-now), 10*time.Millisecond))
			continue
		}
		if int64(due) >= w.rec.begin {
			late.Add(time.Duration(now - int64(due)))
		}
		select {
		case w.due <- int64(due):
		case <-ctx.Done():
			return
		}
		if w.plan.Poisson {
			due += rng.ExpFloat64() * period
		} else {
			due += period
		}
	}
}

// lostSince reports whether the library has lost a server since an instant.
func (w *workers) lostSince(at int64) bool {
	if w.lost == nil {
		return false
	}
	_, last := w.lost()
	return last.After(w.start.Add(time.Duration(at)))
}

type tally struct{ cancelled, lost, overdue, failed, doubled int64 }

func (w *workers) work(ctx context.Context, worker int) (t tally, err error) {
	rng := rand.New(rand.NewPCG(w.plan.Seed, uint64(worker)+1))
	// Every worker counts as a connection with one request under way.
	p := w.plan
	p.Connections, p.Depth = p.Slots(), 1
	choose := newChooser(&p, worker, rng)
	b := batch{r: w.rec, lane: worker % lanes}
	defer b.flush()
	for {
		due := w.now()
		if w.due != nil {
			var more bool
			select {
			case due, more = <-w.due:
				if !more {
					return t, nil
				}
			case <-ctx.Done():
				return t, nil
			}
		}
		now := w.now()
		if now >= w.rec.end {
			if w.due == nil {
				return t, nil
			}
			b.add(Acquire, due, now-due)
			t.overdue++
			continue
		}
		if ctx.Err() != nil {
			return t, nil
		}
		if err := w.pair(ctx, &choose, worker, due, &b, &t); err != nil {
			return t, err
		}
	}
}

func (w *workers) pair(ctx context.Context, choose *chooser, worker int, due int64, b *batch, t *tally) error {
	p := &w.plan
	index, contended := choose.next(0)
	key := w.space.Key(index)
	waiting, stop := ctx, context.CancelFunc(func() {})
	if contended && p.Cancel > 0 && choose.rng.Float64() < p.Cancel {
		waiting, stop = context.WithTimeout(ctx, p.CancelAfter)
	}
	sent := w.now()
	held, token, err := w.locker.Acquire(waiting, worker, key, p.Lease)
	givenUp := waiting != ctx && waiting.Err() != nil
	stop()
	now := w.now()
	if err != nil {
		if givenUp && errors.Is(err, context.DeadlineExceeded) {
			t.cancelled++
			return nil
		}
		return fmt.Errorf("acquire of %s: %w", key, err)
	}
	at := now
	if w.due != nil {
		at = due
	} else {
		due = sent
	}
	b.add(Acquire, at, now-due)
	until := sent + int64(p.Lease)
	if now < until {
		// As in conn.enter: only a lease that has not ended says who has the key.
		err := w.ledger.Granted(index, token, now, until)
		switch {
		case err == nil || w.now() >= until:
		case errors.Is(err, ErrHeld) && w.lostSince(now-int64(p.Lease)):
			t.doubled++
		default:
			return fmt.Errorf("acquire of %s: %w", key, err)
		}
	}
	if p.Hold > 0 {
		time.Sleep(p.Hold)
	}
	begun := w.now()
	w.ledger.Returned(index, until)
	if err := w.locker.Release(ctx, held); err != nil {
		if w.now() >= until {
			t.lost++
			return nil
		}
		if errors.Is(err, ErrUnserved) || w.lostSince(sent) {
			t.failed++
			return nil
		}
		return fmt.Errorf("release of %s: %w", key, err)
	}
	now = w.now()
	b.add(Release, now, now-begun)
	return nil
}
