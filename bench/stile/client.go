package stile

import (
	"context"
	"crypto/tls"
	"time"

	"github.com/stile-lock/stile/bench/load"
	"github.com/stile-lock/stile/client"
)

// Client drives Stile through the Go client: one client for all goroutines,
// with the connections that it makes itself.
type Client struct {
	Addr   string
	Secret string
	TLS    *tls.Config // nil: none
}

// Name is part of load.Driver.
func (d Client) Name() string { return "stile, Go client" }

// Run is part of load.Driver.
func (d Client) Run(ctx context.Context, p load.Plan) (*load.Result, error) {
	opts := []client.Option{client.Name("stile-bench")}
	if d.Secret != "" {
		opts = append(opts, client.Secret(d.Secret))
	}
	if d.TLS != nil {
		opts = append(opts, client.TLS(d.TLS))
	}
	c, err := client.Dial(ctx, d.Addr, opts...)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return load.RunLockers(ctx, p, load.Lockers{Driver: d.Name(), Target: d.Addr, Locker: locker{c}})
}

type locker struct{ c *client.Client }

func (l locker) Acquire(ctx context.Context, _ int, key string, lease time.Duration) (any, uint64, error) {
	lock, err := l.c.Acquire(ctx, key, client.Lease(lease))
	if err != nil {
		return nil, 0, err
	}
	return lock, lock.Token(), nil
}

func (l locker) Release(ctx context.Context, held any) error {
	return held.(*client.Lock).Release(ctx)
}
