package load

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Wires says how to load a server by its wire protocol.
type Wires struct {
	Driver string
	Target string // for the result
	Traits Traits
	Dial   Dial
	// New returns the protocol's side of one connection.
	New func(connection int, space *Space, p *Plan) Wire

	// virtual is set by tests whose time is not that of the machine.
	virtual bool
}

type run struct {
	plan    Plan
	traits  Traits
	space   Space
	ledger  *Ledger
	rec     *recorder
	start   time.Time
	conns   []*conn
	pacers  []*pacer
	overdue atomic.Int64
	clock   clock

	failure error
	failed  sync.Once
	broken  chan struct{}
	stopped int64 // when the context ended; 0: it has not
}

func (r *run) now() int64 { return int64(time.Since(r.start)) }

func (r *run) pacer(c *conn) *pacer { return r.pacers[c.id%len(r.pacers)] }

func (r *run) fail(err error) {
	r.failed.Do(func() {
		r.failure = err
		close(r.broken)
	})
}

// Dial opens a connection.
type Dial func(context.Context) (net.Conn, error)

// TCP returns a Dial for an address.
func TCP(addr string) Dial {
	return func(ctx context.Context) (net.Conn, error) {
		d := net.Dialer{Timeout: 5 * time.Second}
		return d.DialContext(ctx, "tcp", addr)
	}
}

// RunWires carries out a plan. The first wrong answer ends it, and so does a
// server that is lost.
func RunWires(ctx context.Context, p Plan, w Wires) (*Result, error) {
	p, err := p.Complete()
	if err != nil {
		return nil, err
	}
	r := &run{
		plan: p, traits: w.Traits,
		space:  NewSpace(p.Keys+p.HotKeys, p.KeyLength, 'k'),
		ledger: NewLedger(p.Keys + p.HotKeys),
		rec:    newRecorder(&p),
		clock:  clockOf(w.virtual),
		broken: make(chan struct{}),
	}
	if err := r.open(ctx, w); err != nil {
		for _, c := range r.conns {
			c.nc.Close()
		}
		return nil, err
	}
	started := time.Now()
	err = r.carryOut(ctx)
	now := cmp.Or(r.stopped, r.now())
	res := &Result{Driver: w.Driver, Target: w.Target, Plan: p, Started: started, Overdue: r.overdue.Load()}
	for _, c := range r.conns {
		res.Cancelled += c.cancelled
		res.Retries += c.retries
		res.Lost += c.lost
	}
	if p.Rate > 0 {
		late := NewDistribution()
		for _, pc := range r.pacers {
			late.h.Merge(pc.late.h)
		}
		l := late.Latency()
		res.Late = &l
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", w.Driver, err)
		return r.rec.cutShort(res, now, err), err
	}
	r.rec.fill(res, r.rec.end)
	return res, nil
}

func (r *run) open(ctx context.Context, w Wires) error {
	for range min(runtime.GOMAXPROCS(0), r.plan.Connections) {
		r.pacers = append(r.pacers, &pacer{r: r, late: NewDistribution()})
	}
	for i := range r.plan.Connections {
		nc, err := w.Dial(ctx)
		if err != nil {
			return fmt.Errorf("%s: connection %d of %d cannot be opened: %w", w.Driver, i+1, r.plan.Connections, err)
		}
		wire := w.New(i, &r.space, &r.plan)
		nc.SetDeadline(time.Now().Add(10 * time.Second))
		if err := wire.Open(nc); err != nil {
			nc.Close()
			return fmt.Errorf("%s: connection %d: %w", w.Driver, i, err)
		}
		nc.SetDeadline(time.Time{})
		r.conns = append(r.conns, newConn(r, i, nc, wire))
	}
	return nil
}

// paced reports whether anything happens at a time of its own.
func (r *run) paced() bool {
	p := &r.plan
	return p.Rate > 0 || p.Hold > 0 || p.Cancel > 0 || !r.traits.Queues && (p.Shared || p.Contended > 0)
}

func (r *run) carryOut(ctx context.Context) error {
	r.start = time.Now()
	stopPacers := make(chan struct{})
	var readers, pacers sync.WaitGroup
	if r.paced() {
		for _, p := range r.pacers {
			pacers.Go(func() { p.run(stopPacers) })
		}
	}
	for _, c := range r.conns {
		readers.Go(func() {
			c.mu.Lock()
			err := c.begin(r.now())
			c.mu.Unlock()
			if err == nil {
				err = c.read()
			}
			if err != nil {
				r.fail(err)
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		readers.Wait()
		close(ended)
	}()
	r.waitEnd(ctx, ended)
	close(stopPacers)
	pacers.Wait()
	for _, c := range r.conns {
		c.close()
	}
	return r.failure
}

// waitEnd returns when all readers have ended, because of the time, of a
// failure, or of the context.
func (r *run) waitEnd(ctx context.Context, ended <-chan struct{}) {
	end := time.NewTimer(time.Duration(r.rec.end) - time.Since(r.start))
	defer end.Stop()
	select {
	case <-end.C:
		for _, c := range r.conns {
			c.mu.Lock()
			c.stop(r.plan.Drain + r.plan.Hold)
			c.mu.Unlock()
		}
	case <-ended:
		// Closed loop: each connection has seen the time for itself.
	case <-ctx.Done():
		r.giveBack(ctx, ended)
	case <-r.broken:
	}
	select {
	case <-ended:
		return
	case <-ctx.Done():
		r.giveBack(ctx, ended)
	case <-r.broken:
	}
	for _, c := range r.conns {
		c.nc.Close()
	}
	<-ended
}

// stopPatience is how long a run whose context has ended goes on to give back
// what it holds.
const stopPatience = 2 * time.Second

// giveBack ends a run whose context has ended. What it holds, and what it is yet
// granted, it gives back: keys that are left held stand in the way of the next
// run until their leases end.
func (r *run) giveBack(ctx context.Context, ended <-chan struct{}) {
	select {
	case <-r.broken:
		return // for another reason, which counts
	default:
	}
	stopped := &StoppedError{Lease: r.plan.Lease, Cause: context.Cause(ctx)}
	r.stopped = r.now()
	for _, c := range r.conns {
		c.mu.Lock()
		c.hurry(r.stopped)
		c.mu.Unlock()
	}
	// The readers end by their deadlines at the latest.
	<-ended
	for _, c := range r.conns {
		c.mu.Lock()
		stopped.Unanswered += c.busy
		c.mu.Unlock()
	}
	r.fail(stopped)
}

// StoppedError is the error of a run that its context has ended.
type StoppedError struct {
	Unanswered int           // requests that had no answer in time
	Lease      time.Duration // that they asked for
	Cause      error
}

func (e *StoppedError) Error() string {
	return fmt.Sprintf("stopped before its end: %v%s", e.Cause, e.Held())
}

func (e *StoppedError) Unwrap() error { return e.Cause }

// Held says what may be held still, "" if nothing is.
func (e *StoppedError) Held() string {
	if e.Unanswered == 0 {
		return ""
	}
	return fmt.Sprintf("; %d requests had no answer in time: their keys may be held for %v, the lease", e.Unanswered, e.Lease)
}
