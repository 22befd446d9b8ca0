package load_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stile-lock/stile/bench/load"
)

// library is a client library and its server in one. It can be wrong.
type library struct {
	mu    sync.Mutex
	keys  map[string]chan struct{} // full: the key is held
	token uint64

	tokenOf func(n uint64) uint64 // nil: the token is n
	steal   bool
	keep    bool // the key, when it is released
	release error
}

func (l *library) Acquire(ctx context.Context, worker int, key string, _ time.Duration) (any, uint64, error) {
	l.mu.Lock()
	if l.keys[key] == nil {
		l.keys[key] = make(chan struct{}, 1)
	}
	lock := l.keys[key]
	l.mu.Unlock()
	if !l.steal {
		select {
		case lock <- struct{}{}:
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
	time.Sleep(time.Millisecond + time.Duration(worker)*time.Microsecond) // never two grants at once
	l.mu.Lock()
	defer l.mu.Unlock()
	l.token++
	if l.tokenOf != nil {
		return lock, l.tokenOf(l.token), nil
	}
	return lock, l.token, nil
}

// giveUp ends the grants that it kept.
func (l *library) giveUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keep = false
	for _, held := range l.keys {
		select {
		case <-held:
		default:
		}
	}
}

func (l *library) Release(_ context.Context, held any) error {
	l.mu.Lock()
	keep := l.keep
	l.mu.Unlock()
	if !l.steal && !keep {
		<-held.(chan struct{})
	}
	return l.release
}

func runLibrary(t *testing.T, l *library, p load.Plan) (r *load.Result, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l.keys = map[string]chan struct{}{}
		r, err = load.RunLockers(t.Context(), p, load.VirtualLockers(load.Lockers{Driver: "library", Target: "here", Locker: l}))
	})
	return r, err
}

func TestLockers(t *testing.T) {
	for name, p := range map[string]load.Plan{
		"closed":           {Keys: 100},
		"held and shared":  {Keys: 2, Shared: true, Hold: 2 * time.Millisecond},
		"given up":         {Keys: 2, Shared: true, Hold: 2 * time.Millisecond, Cancel: 0.5},
		"open":             {Keys: 100, Rate: 500},
		"open, at random":  {Keys: 100, Rate: 500, Poisson: true},
		"more than it can": {Keys: 100, Rate: 20_000},
	} {
		t.Run(name, func(t *testing.T) {
			p.Connections, p.Depth, p.Warmup, p.Duration = 4, 2, 100*time.Millisecond, time.Second
			r, err := runLibrary(t, &library{}, p)
			if err != nil {
				t.Fatal(err)
			}
			if r.Driver != "library" || r.Target != "here" || r.Pairs < 100 || r.Acquire.Count < 100 {
				t.Errorf("%+v", r)
			}
			if (r.Cancelled > 0) != (p.Cancel > 0) || (r.Overdue > 0) != (p.Rate > 10_000) || (r.Late != nil) != (p.Rate > 0) {
				t.Errorf("%+v", r)
			}
			if p.Rate > 0 && !p.Poisson && math.Abs(float64(r.Acquire.Count)-p.Rate) > 5 {
				t.Errorf("%d acquires, %g were due", r.Acquire.Count, p.Rate)
			}
		})
	}
}

// TestLockersStuck is about a library that never hands over a key that was given
// back.
func TestLockersStuck(t *testing.T) {
	l := &library{keep: true}
	_, err := runLibrary(t, l, load.Plan{Connections: 2, Keys: 1, Shared: true, Duration: time.Second, Drain: time.Second})
	if !errors.Is(err, load.ErrWrong) || !strings.Contains(err.Error(), "have not ended 1s after the end") {
		t.Errorf("the error is %v", err)
	}
}

// TestLockersReleaseLost is about a server that is lost with a release that it
// had answered: the next one who wants the key waits until the lease ends that
// was given back.
func TestLockersReleaseLost(t *testing.T) {
	p := load.Plan{Connections: 2, Keys: 1, Shared: true, Hold: time.Millisecond, Duration: time.Second, Lease: 20 * time.Second, Drain: time.Second}
	for name, c := range map[string]struct {
		ends time.Duration // 0: never
		lost bool
		took time.Duration
		says string
	}{
		"the lease ends":           {ends: p.Lease, lost: true, took: 500*time.Millisecond + p.Lease},
		"it does not":              {lost: true, took: 500*time.Millisecond + p.Lease + p.Drain, says: "have not ended 20.5s after the end"},
		"no server had been there": {ends: p.Lease, took: p.Duration + p.Hold + p.Drain, says: "have not ended 1.001s after the end"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &library{keys: map[string]chan struct{}{}}
				began := time.Now()
				at := began.Add(500 * time.Millisecond)
				time.AfterFunc(time.Until(at), func() {
					l.mu.Lock()
					l.keep = true
					l.mu.Unlock()
					if c.ends > 0 {
						time.AfterFunc(c.ends, func() { l.giveUp() })
					}
				})
				lost := func() (int64, time.Time) {
					if !c.lost || time.Now().Before(at) {
						return 0, time.Time{}
					}
					return 1, at
				}
				_, err := load.RunLockers(t.Context(), p, load.VirtualLockers(load.Lockers{Driver: "library", Locker: l, Lost: lost}))
				if took := time.Since(began).Truncate(100 * time.Millisecond); took != c.took.Truncate(100*time.Millisecond) {
					t.Errorf("it took %v, want %v", took, c.took)
				}
				if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, load.ErrWrong) || !strings.Contains(err.Error(), c.says)) {
					t.Errorf("the error is %v, want %q", err, c.says)
				}
			})
		})
	}
}

func TestLockersWrong(t *testing.T) {
	for says, l := range map[string]*library{
		"token 50 is granted after token 50":  {tokenOf: func(n uint64) uint64 { return min(n, 50) }},
		"token 7 is granted after token 50":   {tokenOf: func(n uint64) uint64 { return map[bool]uint64{true: n, false: 7}[n <= 50] }},
		"who has not given it back":           {steal: true},
		"release of kkkkkkkkkkkkkkkkkkkkkkka": {release: errors.New("not held")},
	} {
		p := load.Plan{Connections: 4, Keys: 1, Shared: true, Hold: 5 * time.Millisecond, Duration: 5 * time.Second}
		_, err := runLibrary(t, l, p)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("the error is %v, want one that says %q", err, says)
		}
		if wrong := l.release == nil; errors.Is(err, load.ErrWrong) != wrong {
			t.Errorf("the error %v is one of a wrong answer: %v, want %v", err, !wrong, wrong)
		}
	}
}
