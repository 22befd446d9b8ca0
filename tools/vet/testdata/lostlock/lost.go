// Package lostlock has locks that are lost on some path, and others that are not.
package lostlock

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/stile-lock/stile/client"
	"github.com/stile-lock/stile/client/fence"
)

var errBusy = errors.New("busy")

func work(context.Context) error { return nil }
func cond() bool                 { return false }

func never(ctx context.Context, c *client.Client) error {
	lock, err := c.Acquire(ctx, "door") // want `the lock in lock is not released on every path: it is still held at the return on line \d+`
	if err != nil {
		return err
	}
	return work(lock.Context())
}

func early(ctx context.Context, c *client.Client) error {
	lock, err := c.Acquire(ctx, "door") // want `still held at the return on line 35`
	if err != nil {
		return err
	}
	if err := work(ctx); err != nil {
		return err
	}
	return lock.Release(ctx)
}

func tokenShown(ctx context.Context, c *client.Client, store func(uint64) error) error {
	lock, err := c.TryAcquire(ctx, "door") // want `still held at the return`
	if err != nil {
		return err
	}
	slog.Info("held", "token", lock.Token())
	if err := store(lock.Token()); err != nil {
		return err
	}
	return lock.Release(ctx)
}

func tokenNamed(ctx context.Context, c *client.Client, store func(uint64) error) error {
	lock, err := c.Acquire(ctx, "door") // want `still held at the return`
	if err != nil {
		return err
	}
	token := lock.Token()
	if err := store(token); err != nil {
		return err
	}
	return lock.Release(ctx)
}

func guarded(ctx context.Context, c *client.Client, g *fence.Guard) error {
	lock, err := c.Acquire(ctx, "door") // want `still held at the return`
	if err != nil {
		return err
	}
	return g.Do(ctx, lock, func() error { return work(ctx) })
}

func adopted(ctx context.Context, c *client.Client, token uint64) {
	var lock, err = c.Adopt(ctx, "door", token, time.Minute) // want `still held at the return`
	if err != nil {
		return
	}
	go lock.Renew(ctx)
	lock.Keep(ctx, time.Minute)
	log.Print(lock.Key(), lock.Token(), lock.Expires())
}

func main() {
	c, _ := client.Dial(context.Background(), "127.0.0.1:5625")
	lock, err := c.Acquire(context.Background(), "door") // want `still held at the return`
	if err != nil {
		log.Fatal(err)
	}
	if lock.Token() > 7 {
		lock.Release(context.Background())
	}
}

func dropped(ctx context.Context, c *client.Client) error {
	_, err := c.Acquire(ctx, "door") // want `the lock that Client.Acquire returns is dropped`
	return err
}

func inIf(ctx context.Context, c *client.Client) error {
	if lock, err := c.Acquire(ctx, "door"); err != nil { // want `still held at the return`
		return err
	} else if cond() {
		return lock.Release(ctx)
	}
	return nil
}

func held(ctx context.Context, c *client.Client) error {
	lock, err := c.Acquire(ctx, "door") // want `still held at the return`
	if err == nil {
		work(lock.Context())
		return nil
	}
	return err
}

func switched(ctx context.Context, c *client.Client) error {
	lock, err := c.Acquire(ctx, "door") // want `still held at the return on line 126`
	switch {
	case errors.Is(err, client.ErrTimeout):
		return errBusy
	case err != nil:
		return err
	case cond():
		return lock.Release(ctx)
	case lock.Token() > 5:
		return nil
	}
	return lock.Release(ctx)
}

func tagged(ctx context.Context, c *client.Client) error {
	lock, err := c.Acquire(ctx, "door") // want `still held at the return on line 140`
	switch err {
	case client.ErrClosed:
		return errBusy
	case nil:
		if cond() {
			break
		}
		return nil
	default:
		return err
	}
	return lock.Release(ctx)
}

func typed(ctx context.Context, c *client.Client) error {
	lock, err := c.Acquire(ctx, "door") // want `still held at the return on line 153`
	switch err := err.(type) {
	case *client.Error:
		return err
	case nil:
		return nil
	}
	return lock.Release(ctx)
}

func loop(ctx context.Context, c *client.Client, keys []string) error {
	for _, key := range keys {
		lock, err := c.Acquire(ctx, key) // want `still held when the loop comes here again`
		if err != nil {
			return err
		}
		if cond() {
			continue
		}
		lock.Release(ctx)
	}
	return nil
}

func endless(ctx context.Context, c *client.Client) {
outer:
	for {
		lock, err := c.Acquire(ctx, "door") // want `still held when the loop comes here again`
		if err != nil {
			continue
		}
		for {
			if cond() {
				continue outer
			}
			if !cond() {
				break
			}
		}
		lock.Release(ctx)
	}
}

func twice(ctx context.Context, c *client.Client) {
	lock, err := c.Acquire(ctx, "door") // want `line 196 overwrites it`
	if err != nil {
		return
	}
	lock, err = c.Acquire(ctx, "window")
	if err != nil {
		return
	}
	lock.Release(ctx)
}

func selected(ctx context.Context, c *client.Client, ch chan int) {
	lock, err := c.Acquire(ctx, "door") // want `still held at the return on line 210`
	if err != nil {
		return
	}
	select {
	case <-ch:
		return
	case <-ctx.Done():
		lock.Release(ctx)
	}
}

func jumps(ctx context.Context, c *client.Client) {
	lock, err := c.Acquire(ctx, "door") // want `still held at the return`
	if err != nil {
		goto end
	}
	if cond() {
		goto end
	}
	lock.Release(ctx)
end:
}

func shadowed(ctx context.Context, c *client.Client) {
	lock, err := c.Acquire(ctx, "door") // want `still held at the return`
	if err != nil {
		return
	}
	work(lock.Context())
	if lock, err := c.Acquire(ctx, "window"); err == nil {
		lock.Release(ctx)
	}
}

func named(ctx context.Context, c *client.Client) (lock *client.Lock, err error) {
	lock, err = c.Acquire(ctx, "door") // want `still held at the return`
	if err != nil {
		return
	}
	if cond() {
		return nil, errBusy
	}
	return
}

func noError(ctx context.Context, c *client.Client) {
	lock, _ := c.Acquire(ctx, "door") // want `still held at the return`
	if lock == nil {
		return
	}
	work(lock.Context())
}

func closure(ctx context.Context, c *client.Client) {
	go func() {
		lock, err := c.Acquire(ctx, "door") // want `still held at the return`
		if err != nil {
			return
		}
		work(lock.Context())
	}()
}

type shop[T any] struct {
	*client.Client
	stock T
}

func (s *shop[T]) generic(ctx context.Context, ok func(T) bool) error {
	lock, err := s.Acquire(ctx, "door") // want `still held at the return`
	if err != nil {
		return err
	}
	if !ok(s.stock) {
		return errBusy
	}
	return lock.Release(ctx)
}

func exits(ctx context.Context, c *client.Client) {
	lock, err := c.Acquire(ctx, "door") // want `still held at the return`
	if err != nil {
		os.Exit(1)
	}
	if cond() {
		panic("no")
	}
	work(lock.Context())
}

func attempts(ctx context.Context, c *client.Client) error {
	lock, err := c.Acquire(ctx, "door") // want `still held at the return`
	if err != nil {
		return err
	}
	for i := 0; i < 3; i++ {
		if work(ctx) == nil {
			return lock.Release(ctx)
		}
	}
	return errBusy
}

func keepFails(ctx context.Context, c *client.Client) error {
	lock, err := c.Acquire(ctx, "door") // want `still held at the return`
	if err != nil {
		return err
	}
	if err := lock.Keep(ctx, 0); err != nil && !errors.Is(err, client.ErrNotHeld) {
		return err
	}
	return lock.Release(ctx)
}

func otherCase(ctx context.Context, c *client.Client) {
	lock, err := c.Acquire(ctx, "door") // want `still held at the return`
	if err != nil {
		return
	}
	select {
	case <-lock.Context().Done():
	case <-ctx.Done():
	}
}

func busyElsewhere(err error) bool { return errors.Is(err, client.ErrTimeout) }

// The second check leaves no doubt.
func askedTwice(ctx context.Context, c *client.Client) error {
	lock, err := c.Acquire(ctx, "door") // want `still held at the return`
	if busyElsewhere(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if cond() {
		return errBusy
	}
	return lock.Release(ctx)
}
