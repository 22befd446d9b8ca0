// Package etcd drives etcd's Mutex. It is a module of its own, so that nobody
// else carries what the client library of etcd depends on.
package etcd

import (
	"context"
	"fmt"
	"time"

	"github.com/stile-lock/stile/bench/load"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

// patience is how long etcd may take to answer at first.
var patience = 10 * time.Second

// Driver drives the etcd at Addr: one client, and a session for each worker.
type Driver struct{ Addr string }

// Name is part of load.Driver.
func (d Driver) Name() string { return "etcd" }

// Run is part of load.Driver. The lease is that of the sessions, in whole
// seconds: a Mutex has none of its own.
func (d Driver) Run(ctx context.Context, p load.Plan) (*load.Result, error) {
	p, err := p.Complete()
	if err != nil {
		return nil, err
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{d.Addr}, Context: ctx, Logger: zap.NewNop()})
	if err != nil {
		return nil, fmt.Errorf("no client for the etcd at %s: %w", d.Addr, err)
	}
	defer c.Close()
	// The client itself would try for ever.
	try, stop := context.WithTimeout(ctx, patience)
	defer stop()
	if _, err := c.Status(try, d.Addr); err != nil {
		return nil, fmt.Errorf("no etcd answers at %s: %w", d.Addr, err)
	}
	l := locker{client: c, ttl: max(1, int(p.Lease.Seconds())), sessions: make([]*concurrency.Session, p.Slots())}
	for i := range l.sessions {
		if err := l.renew(i); err != nil {
			return nil, fmt.Errorf("no session at the etcd at %s: %w", d.Addr, err)
		}
	}
	defer l.close()
	return load.RunLockers(ctx, p, load.Lockers{Driver: d.Name(), Target: d.Addr, Locker: l})
}

type locker struct {
	client   *clientv3.Client
	ttl      int // of the sessions, in seconds
	sessions []*concurrency.Session
}

// renew gives a worker a new session.
func (l locker) renew(worker int) error {
	old := l.sessions[worker]
	if old != nil {
		if err := old.Close(); err != nil {
			return err
		}
	}
	s, err := concurrency.NewSession(l.client, concurrency.WithTTL(l.ttl))
	l.sessions[worker] = s
	return err
}

func (l locker) close() {
	for _, s := range l.sessions {
		if s != nil {
			s.Close()
		}
	}
}

// Acquire is part of load.Locker. The revision at which the key was taken serves
// as a fencing token: it rises with every change.
func (l locker) Acquire(ctx context.Context, worker int, key string, _ time.Duration) (any, uint64, error) {
	m := concurrency.NewMutex(l.sessions[worker], key)
	err := m.Lock(ctx)
	if err == nil {
		return m, uint64(m.Header().Revision), nil
	}
	if _, limited := ctx.Deadline(); limited {
		// The server may see the end of the limit a little sooner than we do.
		<-ctx.Done()
	}
	if ctx.Err() == nil {
		return nil, 0, err
	}
	// What was given up may be carried out yet, and its place in line would stay
	// to the end of the session. So the session has to end.
	if failed := l.renew(worker); failed != nil {
		return nil, 0, fmt.Errorf("a lock that was given up may be left: %w", failed)
	}
	return nil, 0, fmt.Errorf("%w: %w", ctx.Err(), err)
}

// Release is part of load.Locker.
func (l locker) Release(ctx context.Context, held any) error {
	return held.(*concurrency.Mutex).Unlock(ctx)
}
