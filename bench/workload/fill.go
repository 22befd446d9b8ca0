package workload

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stile-lock/stile/bench/load"
	"github.com/stile-lock/stile/protocol"
)

const (
	fillers   = 4   // connections
	fillBatch = 500 // acquires under way on each
)

// filler takes keys of 24 bytes and holds them. Loads have other keys.
type filler struct {
	keys int
	way  way
	// lease is asked when each key is asked for; nil: longLease.
	lease func() time.Duration
}

func (f filler) space() load.Space { return load.NewSpace(f.keys, 24, 'h') }

func (f filler) fill(ctx context.Context, addr string) error {
	if f.lease == nil {
		f.lease = func() time.Duration { return longLease }
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var all sync.WaitGroup
	for i := range fillers {
		all.Go(func() {
			if err := f.part(ctx, addr, i*f.keys/fillers, (i+1)*f.keys/fillers); err != nil {
				stop(fmt.Errorf("holding %d keys: %w", f.keys, err))
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// answered is which answers there were for a key.
type answered uint8

const (
	wasGranted answered = 1 << iota
	// In the way in which waits are cancelled, a second acquire of some keys is.
	wasTimedOut
	wasCancelled
)

func (f filler) part(ctx context.Context, addr string, from, to int) error {
	t, err := dial(ctx, load.TCP(addr))
	if err != nil {
		return err
	}
	defer t.Close()
	if err := t.greet(f.way); err != nil {
		return err
	}
	space := f.space()
	batch := make([]answered, fillBatch)
	var key []byte
	for ; from < to; from += len(batch) {
		batch = batch[:min(fillBatch, to-from)]
		clear(batch)
		due := len(batch)
		for i := range batch {
			key = space.Append(key[:0], from+i)
			t.out = protocol.AppendAcquire(t.out, key, protocol.NoQueue, f.lease(), []byte(f.way.nonce("held", from+i)))
			if f.way.cancels(from + i) {
				nonce := []byte(f.way.nonce("wait", from+i))
				t.out = protocol.AppendAcquire(t.out, key, 0, longLease, nonce)
				t.out = protocol.AppendCancel(t.out, key, nonce)
				due += 2
			}
		}
		if err := t.send(); err != nil {
			return err
		}
		for range due {
			a, err := t.answer(patience)
			if err != nil {
				return err
			}
			i := space.Index(a.Key) - from
			if i < 0 || i >= len(batch) || !batch[i].take(a.Op, f.way.cancels(from+i)) {
				return unexpected(a, "the grant of a free key")
			}
		}
	}
	return nil
}

// take enters an answer, and is false if it was not due.
func (is *answered) take(op protocol.Op, cancelled bool) bool {
	var what answered
	switch {
	case op == protocol.OpAcquire:
		what = wasGranted
	case op == protocol.OpTimeout && cancelled:
		what = wasTimedOut
	case op == protocol.OpCancel && cancelled:
		what = wasCancelled
	}
	fresh := what != 0 && *is&what == 0
	*is |= what
	return fresh
}
