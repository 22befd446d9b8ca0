package fencing

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// bootAttempts is how often TakeEpoch tries to store the first epoch.
const bootAttempts = 3

const (
	// retryAhead is the pause between attempts to store an epoch ahead of need.
	retryAhead = time.Second
	// tryEvery is how often the latest epoch is stored once more, to see whether
	// the next one could be.
	tryEvery = time.Minute
)

// Keeper takes epochs, stores each before a token is given under it, and
// gives the tokens.
type Keeper struct {
	*Allocator
	store *Store
	node  uint8
	clock func() time.Time
	log   *slog.Logger
	known uint32 // the highest epoch taken

	failing atomic.Pointer[error] // nil: the last epoch could be stored
}

// Failing is why the next epoch can't be stored at the moment; nil: it can, or
// none is wanted.
func (k *Keeper) Failing() error {
	if err := k.failing.Load(); err != nil {
		return *err
	}
	return nil
}

// TakeEpoch takes the first epoch of a node: above all that the store knows,
// and stored when it returns.
func TakeEpoch(ctx context.Context, store *Store, node uint8, clock func() time.Time, log *slog.Logger) (*Keeper, error) {
	k := &Keeper{store: store, node: node, clock: clock, log: log, known: store.Known().N}
	var c Choice
	var err error
	for range bootAttempts {
		if c, err = k.take(ctx); err == nil {
			k.Allocator = NewAllocator(c.Epoch, node, c.Start)
			return k, nil
		}
	}
	return nil, err
}

// take chooses and stores an epoch. A number that was chosen once is never
// chosen again, even if storing it failed.
func (k *Keeper) take(ctx context.Context) (Choice, error) {
	c, err := Choose(k.known, k.clock())
	if err != nil {
		return c, err
	}
	if c.Warning != "" {
		k.log.Warn("clock and epochs disagree", slog.String("detail", c.Warning))
	}
	k.known = c.Epoch
	return c, k.store.Put(ctx, Pair{c.Epoch, k.node})
}

// Run takes the next epoch whenever the allocator wants one, until ctx ends:
// no grant ever waits for the disk. Once a minute it sees whether the disk still
// works: months may pass until the next epoch is wanted.
func (k *Keeper) Run(ctx context.Context) {
	try := time.NewTimer(tryEvery)
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.Want():
			k.takeAhead(ctx)
		case <-try.C:
			k.tryStore(ctx)
		}
		if k.Failing() != nil {
			try.Reset(retryAhead)
		} else {
			try.Reset(tryEvery)
		}
	}
}

func (k *Keeper) takeAhead(ctx context.Context) {
	for {
		c, err := k.take(ctx)
		if err == nil {
			k.failing.Store(nil)
			k.Reserve(c.Epoch, k.node, c.Start)
			k.log.Info("took an epoch ahead of need", slog.Uint64("epoch", uint64(c.Epoch)))
			return
		}
		k.failing.Store(&err)
		k.log.Error("can't take an epoch ahead of need: grants end when this one's tokens are used up",
			slog.Any("error", err), slog.String("left", fmt.Sprint(k.Left())))
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryAhead):
		}
	}
}

// tryStore stores the latest epoch once more.
func (k *Keeper) tryStore(ctx context.Context) {
	err := k.store.Remember(ctx, Pair{k.known, k.node})
	before := k.Failing()
	switch {
	case ctx.Err() != nil:
	case err != nil && before == nil:
		k.failing.Store(&err)
		k.log.Error("epochs can't be stored: grants end when this one's tokens are used up", slog.Any("error", err))
	case err == nil && before != nil:
		k.failing.Store(nil)
		k.log.Info("epochs can be stored again")
	}
}
