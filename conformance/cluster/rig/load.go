package rig

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stile-lock/stile/client"
	"github.com/stile-lock/stile/client/fence"
)

// OpKind is what a worker called.
type OpKind uint8

const (
	Acquire OpKind = iota
	Release
)

func (k OpKind) String() string { return [...]string{"acquire", "release"}[k] }

// Op is one call of a worker, timed on one monotonic clock.
type Op struct {
	Worker       int
	Kind         OpKind
	Key          string
	Token        uint64 // of the lock; 0 for an acquire that returned none
	Lease        time.Duration
	Call, Return time.Time
	Err          error
}

// Outcome is what became of it. For an acquire, MayHaveHappened means that
// the key may have been taken for a moment and given back.
func (o Op) Outcome() client.Outcome { return client.OutcomeOf(o.Err) }

func (o Op) String() string {
	return fmt.Sprintf("worker %d: %v %s, token %d: %v (%v)", o.Worker, o.Kind, o.Key, o.Token, o.Err, o.Outcome())
}

// Load is workers that take keys in turns, each for a moment, and write to a
// resource while they hold one.
type Load struct {
	Addrs    string
	Workers  int
	Keys     int
	Prefix   string        // of the keys
	Hold     time.Duration // at most
	Lease    time.Duration
	RetryFor time.Duration
	Options  []client.Option
	Resource *Resource // may be shared

	stop    atomic.Bool
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	clients []*client.Client

	mu  sync.Mutex
	ops []Op
}

// Start starts the workers, each with a client of its own. They work until
// Stop.
func (l *Load) Start() error {
	if l.Resource == nil {
		l.Resource = new(Resource)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	for w := range l.Workers {
		c, err := client.Dial(ctx, l.Addrs, append([]client.Option{client.RetryFor(l.RetryFor)}, l.Options...)...)
		if err != nil {
			cancel()
			return err
		}
		l.clients = append(l.clients, c)
		l.wg.Go(func() { l.work(ctx, w, c) })
	}
	return nil
}

func (l *Load) work(ctx context.Context, w int, c *client.Client) {
	for !l.stop.Load() {
		o := Op{Worker: w, Kind: Acquire, Key: fmt.Sprintf("%s%d", l.Prefix, rand.IntN(l.Keys)), Lease: l.Lease, Call: time.Now()}
		lock, err := c.Acquire(ctx, o.Key, client.Wait(2*Patience), client.Lease(l.Lease))
		o.Return, o.Err = time.Now(), err
		if err == nil {
			o.Token = lock.Token()
		}
		l.record(o)
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			time.Sleep(5 * time.Millisecond)
			continue
		}
		l.Resource.Use(o.Key, o.Token, rand.N(l.Hold+1))
		o.Kind, o.Call = Release, time.Now()
		o.Err = lock.Release(ctx)
		o.Return = time.Now()
		l.record(o)
	}
}

func (l *Load) record(o Op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ops = append(l.ops, o)
}

// Stop lets every worker finish what it is at, and returns all calls. Calls
// that go on for too long are ended, and show as such.
func (l *Load) Stop() []Op {
	l.stop.Store(true)
	late := time.AfterFunc(3*Patience, l.cancel)
	l.wg.Wait()
	late.Stop()
	l.cancel()
	for _, c := range l.clients {
		c.Close()
	}
	return l.ops
}

// Abort ends all calls at once, unless Stop has been called.
func (l *Load) Abort() {
	l.cancel()
	l.Stop()
}

// Ops returns the calls until now.
func (l *Load) Ops() []Op {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Op(nil), l.ops...)
}

// Done is how many calls there are by now.
func (l *Load) Done() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.ops)
}

// Grants returns the acquires that returned a lock.
func Grants(ops []Op) (grants []Grant) {
	for _, o := range ops {
		if o.Kind == Acquire && o.Err == nil {
			grants = append(grants, Grant{Key: o.Key, Token: o.Token, Sent: o.Call, At: o.Return})
		}
	}
	return grants
}

// Failed returns the acquires that returned an error.
func Failed(ops []Op) (failed []Op) {
	for _, o := range ops {
		if o.Kind == Acquire && o.Err != nil {
			failed = append(failed, o)
		}
	}
	return failed
}

// Resource is what locks protect. It refuses tokens that are too low, as it
// should, and counts what would happen to one that does not look.
type Resource struct {
	guard fence.Guard

	mu   sync.Mutex
	in   map[string]int    // users now
	last map[string]uint64 // token of the last write
	Counts
}

// Counts is what happened at a Resource.
type Counts struct {
	Writes     int           // that the guard let through
	Stale      int           // that it refused
	Backwards  int           // let through with a token lower than an earlier one's
	Overlaps   int           // users that came while there was another one
	Overlapped time.Duration // the time spent so, of those that came later
}

// Use writes at the begin and at the end of the time.
func (r *Resource) Use(key string, token uint64, hold time.Duration) {
	r.mu.Lock()
	if r.in == nil {
		r.in, r.last = map[string]int{}, map[string]uint64{}
	}
	r.in[key]++
	overlaps := r.in[key] > 1
	if overlaps {
		r.Overlaps++
	}
	r.mu.Unlock()

	start := time.Now()
	r.write(key, token)
	if hold > 0 {
		time.Sleep(hold)
	}
	r.write(key, token)

	r.mu.Lock()
	defer r.mu.Unlock()
	r.in[key]--
	if overlaps {
		r.Overlapped += time.Since(start)
	}
}

func (r *Resource) write(key string, token uint64) {
	err := r.guard.Do(context.Background(), fence.NewGrant(key, token), func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.Writes++
		if token < r.last[key] {
			r.Backwards++
		}
		r.last[key] = token
		return nil
	})
	if errors.Is(err, fence.ErrStale) {
		r.mu.Lock()
		r.Stale++
		r.mu.Unlock()
	}
}

// Count returns the counts until now.
func (r *Resource) Count() Counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Counts
}
