package deafdo

import (
	"context"
	"database/sql"
	"log/slog"
	"sync"
	"time"

	"github.com/stile-lock/stile/client"
)

func byName(ctx context.Context, c *client.Client) {
	fn := func(context.Context, *client.Lock) error {
		for { // want `has no end`
			work()
		}
	}
	c.Do(ctx, "a", fn)
	c.Do(ctx, "a", run)
	c.Do(ctx, "b", run)
	c.Do(ctx, "a", app{}.run)
}

func run(ctx context.Context, l *client.Lock) error {
	for { // want `has no end`
		work()
	}
}

type app struct{}

func (app) run(context.Context, *client.Lock) error {
	for { // want `has no end`
		work()
	}
}

// What is used beside the context and can't tell of its end.
func mute(ctx context.Context, c *client.Client, log *slog.Logger, db *sql.DB) error {
	return c.Do(ctx, "a", func(ctx context.Context, _ *client.Lock) error {
		n, err := 0, workWith(ctx)
		log.InfoContext(ctx, "begin", "n", n, "err", err)
		db.PingContext(ctx)
		for err == nil { // want `waits, and`
			n++
			log.Info("turn", "n", n)
			db.Ping()
			time.Sleep(time.Second)
		}
		return nil
	})
}

// A flag that a closure sets may tell.
func flagged(ctx context.Context, c *client.Client) error {
	return c.Do(ctx, "a", func(ctx context.Context, _ *client.Lock) error {
		var err error
		stopped := false
		context.AfterFunc(ctx, func() { stopped = true })
		for !stopped {
			time.Sleep(time.Second)
		}
		watch(ctx, &err)
		for err == nil {
			time.Sleep(time.Second)
		}
		return nil
	})
}

func watch(context.Context, *error) {}

func audit(context.Context, ...any) {}

func closuresInLoop(outer context.Context, c *client.Client, all []int) error {
	return c.Do(outer, "a", func(ctx context.Context, _ *client.Lock) error {
		var wg sync.WaitGroup
		for x := range all {
			wg.Go(func() { audit(outer, x) })
		}
		for range all {
			slog.InfoContext(outer, "turn")
		}
		wg.Wait()
		return nil
	})
}

// Too short to matter.
func short(ctx context.Context, c *client.Client) error {
	return c.Do(ctx, "a", func(context.Context, *client.Lock) error {
		for i := 0; i < 3; i++ {
			if work() == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		for range 10 {
			<-time.After(100 * time.Millisecond)
		}
		for range []int{1, 2} {
			time.Sleep(time.Second / 2)
		}
		for range [3]int{} {
			time.Sleep(time.Millisecond)
		}
		return nil
	})
}

func notShort(ctx context.Context, c *client.Client, all []int, d time.Duration, ticker *time.Ticker) error {
	return c.Do(ctx, "a", func(context.Context, *client.Lock) error {
		for i := 0; i < 11; i++ { // want `waits, and`
			time.Sleep(100 * time.Millisecond)
		}
		for i := 0; i < 3; i++ { // want `waits, and`
			time.Sleep(d)
		}
		for i := 0; i < 3; i++ { // want `waits, and`
			i--
			time.Sleep(time.Millisecond)
		}
		for range all { // want `waits, and`
			time.Sleep(10 * time.Millisecond)
		}
		for range 2 { // want `waits, and`
			<-ticker.C
		}
		for range 2 { // want `waits, and`
			for cond() {
				time.Sleep(time.Millisecond)
			}
		}
		return nil
	})
}

// Without this use the variable had none: there is no fix.
func onlyUse(ctx context.Context, c *client.Client) {
	bg := context.Background()
	c.Do(ctx, "a", func(ctx context.Context, _ *client.Lock) error {
		for cond() {
			workWith(bg) // want `uses the context bg from outside`
		}
		return nil
	})
}

func otherUse(ctx context.Context, c *client.Client) {
	bg := context.Background()
	workWith(bg)
	c.Do(ctx, "a", func(ctx context.Context, _ *client.Lock) error {
		for cond() {
			workWith(bg) // want `uses the context bg from outside`
		}
		return nil
	})
}

func silenced(ctx context.Context, c *client.Client) error {
	return c.Do(ctx, "a", func(_ context.Context, _ *client.Lock) error {
		for range 10 { //stile:meant ten seconds do not matter
			time.Sleep(time.Second)
		}
		for cond() {
			workWith(ctx) //stile:meant ends with the program
		}
		return nil
	})
}
