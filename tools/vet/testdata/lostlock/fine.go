package lostlock

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/stile-lock/stile/client"
)

func deferred(ctx context.Context, c *client.Client) error {
	lock, err := c.Acquire(ctx, "door")
	if err != nil {
		return err
	}
	defer lock.Release(ctx)
	return work(ctx)
}

func deferredClosure(ctx context.Context, c *client.Client) (err error) {
	lock, err := c.Acquire(ctx, "door")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release(ctx)) }()
	return work(ctx)
}

func deferredBefore(ctx context.Context, c *client.Client) (err error) {
	var lock *client.Lock
	defer func() {
		if lock != nil {
			lock.Release(ctx)
		}
	}()
	lock, err = c.Acquire(ctx, "door")
	if err != nil {
		return err
	}
	return work(ctx)
}

func eachPath(ctx context.Context, c *client.Client) error {
	lock, err := c.Acquire(ctx, "door")
	if errors.Is(err, client.ErrTimeout) {
		return nil
	} else if err != nil {
		return err
	}
	if err := work(ctx); err != nil {
		lock.Release(ctx)
		return err
	}
	return lock.Release(ctx)
}

func asError(ctx context.Context, c *client.Client) error {
	lock, err := c.Acquire(ctx, "door")
	var e *client.Error
	if errors.As(err, &e) && e.Unserved {
		return errBusy
	}
	if e != nil {
		return e
	}
	return lock.Release(ctx)
}

func busy(err error) bool { return err != nil }

func askedElsewhere(ctx context.Context, c *client.Client) error {
	lock, err := c.Acquire(ctx, "door")
	if busy(err) {
		return nil
	}
	return lock.Release(ctx)
}

func derived(ctx context.Context, c *client.Client) {
	lock, err := c.TryAcquire(ctx, "door")
	got := err == nil
	if !got {
		return
	}
	lock.Release(ctx)
}

func flagged(ctx context.Context, c *client.Client, exclusive bool) error {
	var lock *client.Lock
	var err error
	if exclusive {
		if lock, err = c.Acquire(ctx, "door"); err != nil {
			return err
		}
	}
	err = work(ctx)
	if exclusive {
		lock.Release(ctx)
	}
	return err
}

func flaggedLater(ctx context.Context, c *client.Client) error {
	var lock *client.Lock
	locked := false
	if cond() {
		var err error
		if lock, err = c.Acquire(ctx, "door"); err != nil {
			return err
		}
		locked = true
	}
	if locked {
		return lock.Release(ctx)
	}
	return nil
}

func flaggedByCall(ctx context.Context, c *client.Client) (err error) {
	var lock *client.Lock
	if cond() {
		if lock, err = c.Acquire(ctx, "door"); err != nil {
			return err
		}
	}
	if cond() {
		return lock.Release(ctx)
	}
	return nil
}

func sooner(ctx context.Context, c *client.Client, soon bool) error {
	lock, err := c.Acquire(ctx, "door")
	if err != nil {
		return err
	}
	if soon {
		lock.Release(ctx)
	}
	err = work(ctx)
	if !soon {
		lock.Release(ctx)
	}
	return err
}

func countsAsHeld(ctx context.Context, c *client.Client) {
	lock, err := c.TryAcquire(ctx, "door")
	got := false
	if err == nil {
		got = true
	}
	if got {
		lock.Release(ctx)
	}
}

func retries(ctx context.Context, c *client.Client) error {
	var lock *client.Lock
	var err error
	for range 3 {
		lock, err = c.TryAcquire(ctx, "door")
		if err == nil {
			break
		}
		time.Sleep(time.Second)
	}
	if err != nil {
		return err
	}
	return lock.Release(ctx)
}

func retriesForever(ctx context.Context, c *client.Client) error {
	lock, err := c.TryAcquire(ctx, "door")
	for err != nil {
		lock, err = c.TryAcquire(ctx, "door")
	}
	return lock.Release(ctx)
}

func turns(ctx context.Context, c *client.Client, keys []string) error {
	for _, key := range keys {
		lock, err := c.Acquire(ctx, key)
		if errors.Is(err, client.ErrTimeout) {
			continue
		}
		if err != nil {
			return err
		}
		lock.Release(ctx)
	}
	return nil
}

func ended(ctx context.Context, c *client.Client) {
	lock, err := c.Acquire(ctx, "door")
	if err != nil {
		log.Fatal(err)
	}
	switch {
	case cond():
		panic("no")
	case cond():
		os.Exit(1)
	case cond():
		runtime.Goexit()
	case cond():
		fatal("no")
	}
	lock.Release(ctx)
}

func fatal(why string) { log.Fatal(why) }

func returned(ctx context.Context, c *client.Client) (*client.Lock, error) {
	lock, err := c.Acquire(ctx, "door")
	if err != nil {
		return nil, fmt.Errorf("the door: %w", err)
	}
	return lock, nil
}

func returnedAtOnce(ctx context.Context, c *client.Client) (*client.Lock, error) {
	return c.Acquire(ctx, "door")
}

func returnedByName(ctx context.Context, c *client.Client) (lock *client.Lock, err error) {
	lock, err = c.Acquire(ctx, "door")
	return
}

type holder struct {
	lock  *client.Lock
	token uint64
}

var global *client.Lock

func stored(ctx context.Context, c *client.Client, h *holder, m map[string]*client.Lock, ch chan *client.Lock) (all []*client.Lock) {
	h.lock, _ = c.Acquire(ctx, "1")
	m["2"], _ = c.Acquire(ctx, "2")
	global, _ = c.Acquire(ctx, "3")
	l4, err := c.Acquire(ctx, "4")
	if err == nil {
		h.lock = l4
	}
	l5, err := c.Acquire(ctx, "5")
	if err == nil {
		ch <- l5
	}
	l6, err := c.Acquire(ctx, "6")
	if err == nil {
		all = append(all, l6)
	}
	l7, err := c.Acquire(ctx, "7")
	if err == nil {
		_ = holder{lock: l7}
	}
	l8, err := c.Acquire(ctx, "8")
	if err == nil {
		p := &l8
		_ = p
	}
	l9, err := c.Acquire(ctx, "9")
	if err == nil {
		select {
		case ch <- l9:
		default:
		}
	}
	return all
}

func take(lock *client.Lock, err error) {}

func passed(ctx context.Context, c *client.Client) {
	take(c.Acquire(ctx, "1"))
	lock, err := c.Acquire(ctx, "2")
	take(lock, err)
}

func methodValue(ctx context.Context, c *client.Client) error {
	lock, err := c.Acquire(ctx, "door")
	if err != nil {
		return err
	}
	release := lock.Release
	defer release(ctx)
	return work(ctx)
}

func methodExpression(ctx context.Context, c *client.Client) error {
	lock, err := c.Acquire(ctx, "door")
	if err != nil {
		return err
	}
	return (*client.Lock).Release(lock, ctx)
}

func goroutine(ctx context.Context, c *client.Client, wg *sync.WaitGroup) error {
	lock, err := c.Acquire(ctx, "door")
	if err != nil {
		return err
	}
	go lock.Release(ctx)
	other, err := c.Acquire(ctx, "window")
	if err != nil {
		return err
	}
	wg.Go(func() {
		work(other.Context())
		other.Release(ctx)
	})
	return nil
}

func byToken(ctx context.Context, c *client.Client) error {
	lock, err := c.Acquire(ctx, "door")
	if err != nil {
		return err
	}
	return c.Release(ctx, lock.Key(), lock.Token())
}

func byTokenLater(ctx context.Context, c *client.Client) error {
	lock, err := c.Acquire(ctx, "door")
	if err != nil {
		return err
	}
	token := lock.Token()
	if err := work(ctx); err != nil {
		lock.Release(ctx)
		return err
	}
	return c.Release(ctx, "door", token)
}

func handedOn(ctx context.Context, c *client.Client, queue func(token uint64)) error {
	lock, err := c.Acquire(ctx, "door")
	if err != nil {
		return err
	}
	queue(lock.Token())
	return nil
}

func printed(ctx context.Context, c *client.Client) error {
	lock, err := c.Acquire(ctx, "door")
	if err != nil {
		return err
	}
	if _, err := fmt.Println(lock.Token()); err != nil {
		lock.Release(ctx)
		return err
	}
	return nil
}

func tokenReturned(ctx context.Context, c *client.Client) (uint64, error) {
	lock, err := c.Acquire(ctx, "door")
	if err != nil {
		return 0, err
	}
	if err := work(ctx); err != nil {
		lock.Release(ctx)
		return 0, err
	}
	return lock.Token(), nil
}

func tokenStored(ctx context.Context, c *client.Client, h *holder) error {
	lock, err := c.Acquire(ctx, "door")
	if err != nil {
		return err
	}
	h.token = lock.Token()
	return nil
}

func kept(ctx context.Context, c *client.Client) error {
	lock, err := c.Acquire(ctx, "door")
	if err != nil {
		return err
	}
	if err := work(ctx); err != nil {
		lock.Release(ctx)
		return err
	}
	//stile:kept until the lease ends, so that nobody does it again
	if err := lock.Keep(ctx, time.Hour); err != nil {
		return err
	}
	return nil
}

func keptInAnyCase(ctx context.Context, c *client.Client) error {
	_, err := c.Acquire(ctx, "door") //stile:kept until the lease ends: once an hour is enough
	return err
}

func infinite(ctx context.Context, c *client.Client) {
	lock, err := c.Acquire(ctx, "door")
	if err != nil {
		return
	}
	for {
		lock.Keep(ctx, time.Minute)
		time.Sleep(time.Second)
	}
}

func inEachTurn(ctx context.Context, c *client.Client, all []func(*client.Lock)) {
	lock, err := c.Acquire(ctx, "door")
	if err != nil {
		return
	}
	for _, f := range all {
		f(lock)
	}
}

// What was lost needs no release.

func lostInSelect(ctx context.Context, c *client.Client, jobs chan int) error {
	lock, err := c.Acquire(ctx, "door")
	if err != nil {
		return err
	}
	for {
		select {
		case <-lock.Context().Done():
			return context.Cause(lock.Context())
		case _, ok := <-jobs:
			if !ok {
				return lock.Release(ctx)
			}
		}
	}
}

func lostInOne(ctx context.Context, c *client.Client) error {
	lock, err := c.Acquire(ctx, "door")
	if err != nil {
		return err
	}
	held := lock.Context()
	go work(held)
	select {
	case <-held.Done():
	}
	return context.Cause(held)
}

func lostAwaited(ctx context.Context, c *client.Client) {
	lock, err := c.Acquire(ctx, "door")
	if err != nil {
		return
	}
	<-lock.Context().Done()
}

func lostAsked(ctx context.Context, c *client.Client) error {
	lock, err := c.Acquire(ctx, "door")
	if err != nil {
		return err
	}
	for lock.Context().Err() == nil {
		work(ctx)
	}
	return errBusy
}

func lostMade(ctx context.Context, c *client.Client) error {
	lock, err := c.Acquire(ctx, "door")
	if err != nil {
		return err
	}
	inner, cancel := context.WithTimeout(lock.Context(), time.Minute)
	defer cancel()
	if work(ctx) != nil && inner.Err() != nil {
		return errBusy
	}
	return lock.Release(ctx)
}

func lostByError(ctx context.Context, c *client.Client) error {
	lock, err := c.Acquire(ctx, "door")
	if err != nil {
		return err
	}
	if err := lock.Keep(ctx, 0); errors.Is(err, client.ErrLeaseLost) || errors.Is(err, client.ErrClosed) {
		return err
	}
	switch context.Cause(lock.Context()) {
	case client.ErrLeaseLost:
		return errBusy
	}
	return lock.Release(ctx)
}

func lostByClock(ctx context.Context, c *client.Client) error {
	lock, err := c.Acquire(ctx, "door")
	if err != nil {
		return err
	}
	if time.Until(lock.Expires()) < time.Second {
		return errBusy
	}
	return lock.Release(ctx)
}
