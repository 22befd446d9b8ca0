package stile

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
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
	// RetryFor is how long an acquire looks for a server that serves.
	RetryFor time.Duration
}

// Name is part of load.Driver.
func (d Client) Name() string { return "stile, Go client" }

// Run is part of load.Driver.
func (d Client) Run(ctx context.Context, p load.Plan) (*load.Result, error) {
	var lost losses
	opts := []client.Option{client.Name("stile-bench"), client.Logger(slog.New(&lost)), client.RetryFor(d.RetryFor)}
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
	return load.RunLockers(ctx, p, load.Lockers{Driver: d.Name(), Target: d.Addr, Locker: locker{c}, Lost: lost.seen})
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
	err := held.(*client.Lock).Release(ctx)
	if errors.Is(err, client.ErrUndelivered) {
		return fmt.Errorf("%w: %w", load.ErrUnserved, err)
	}
	return err
}

// losses is a log handler that counts the connections that the client loses.
type losses struct {
	mu   sync.Mutex
	n    int64
	last time.Time
}

func (l *losses) seen() (n int64, last time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n, l.last
}

// Enabled is part of slog.Handler.
func (l *losses) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// Handle is part of slog.Handler.
func (l *losses) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "stile: connection lost" {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.n++
		l.last = time.Now()
	}
	return nil
}

// WithAttrs is part of slog.Handler.
func (l *losses) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup is part of slog.Handler.
func (l *losses) WithGroup(string) slog.Handler { return l }
