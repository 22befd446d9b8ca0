package deafdo

import (
	. "context"
	"log"
	"sync"
	"sync/atomic"
	"time"

	stile "github.com/stile-lock/stile/client"
)

func hears(ctx Context, c *stile.Client, jobs chan int) error {
	return c.Do(ctx, "leader", func(ctx Context, lock *stile.Lock) error {
		for ctx.Err() == nil {
			time.Sleep(time.Second)
		}
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-jobs:
			}
			if cond() {
				break
			}
		}
		for {
			if err := workWith(ctx); err != nil {
				return err
			}
			time.Sleep(time.Second)
		}
	})
}

func derived(ctx Context, c *stile.Client, jobs chan int) error {
	return c.Do(ctx, "leader", func(ctx Context, lock *stile.Lock) error {
		inner, cancel := WithTimeout(ctx, time.Minute)
		defer cancel()
		done := inner.Done()
		for {
			select {
			case <-done:
				return nil
			case <-time.After(time.Second):
			}
		}
	})
}

func byFlag(ctx Context, c *stile.Client) error {
	return c.Do(ctx, "leader", func(ctx Context, lock *stile.Lock) error {
		var stopped atomic.Bool
		AfterFunc(ctx, func() { stopped.Store(true) })
		for !stopped.Load() {
			time.Sleep(time.Second)
		}
		return nil
	})
}

func byChannel(ctx Context, c *stile.Client) error {
	return c.Do(ctx, "leader", func(ctx Context, lock *stile.Lock) error {
		ch := make(chan int)
		go func() {
			defer close(ch)
			produce(ctx, ch)
		}()
		for range ch {
			time.Sleep(time.Second)
		}
		return nil
	})
}

func produce(Context, chan int) {}

func byLock(ctx Context, c *stile.Client) error {
	return c.Do(ctx, "leader", func(_ Context, lock *stile.Lock) error {
		for {
			if err := lock.Keep(Background(), 0); err != nil {
				return err
			}
			time.Sleep(time.Second)
		}
	})
}

func bounded(ctx Context, c *stile.Client, all []int, m map[string]int) error {
	return c.Do(ctx, "leader", func(_ Context, lock *stile.Lock) error {
		for range all {
			work()
		}
		for range m {
			work()
		}
		for i := range 10 {
			log.Print(i)
		}
		for cond() {
			work()
		}
		for {
			if err := work(); err != nil {
				return err
			}
		}
	})
}

func leaves(ctx Context, c *stile.Client) error {
	return c.Do(ctx, "leader", func(_ Context, lock *stile.Lock) error {
	loop:
		for {
			switch {
			case cond():
				break loop
			}
		}
		for {
			if cond() {
				panic("no")
			}
		}
	})
}

func ownChannel(ctx Context, c *stile.Client) error {
	return c.Do(ctx, "leader", func(_ Context, lock *stile.Lock) error {
		results := make(chan error, 3)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { results <- work() })
		}
		wg.Wait()
		close(results)
		for err := range results {
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func closures(ctx Context, c *stile.Client) error {
	return c.Do(ctx, "leader", func(_ Context, lock *stile.Lock) error {
		for range 3 {
			time.AfterFunc(0, func() { time.Sleep(time.Second) })
		}
		return nil
	})
}

func cleanup(ctx Context, c *stile.Client) error {
	return c.Do(ctx, "leader", func(_ Context, lock *stile.Lock) error {
		for range 3 {
			workWith(WithoutCancel(ctx))
			workWith(Background())
		}
		return nil
	})
}

func named(ctx Context, c *stile.Client, fn func(Context, *stile.Lock) error) error {
	return c.Do(ctx, "leader", fn)
}

// Another type with a method of the same name.
type other struct{}

func (other) Do(Context, string, func(Context, *stile.Lock) error) {}

func elsewhere(ctx Context, o other) {
	o.Do(ctx, "leader", func(Context, *stile.Lock) error {
		for {
			time.Sleep(time.Second)
		}
	})
}
