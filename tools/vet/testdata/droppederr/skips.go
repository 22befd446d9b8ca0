package droppederr

import (
	"context"
	"time"

	stile "github.com/stile-lock/stile/client"
)

// A return here would skip what is below: there is no fix.

func releasedBelow(ctx context.Context, c *stile.Client) error {
	l, err := c.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	l.Keep(ctx, time.Minute) // want `the error of Lock.Keep is dropped`
	use(ctx)
	return l.Release(ctx)
}

func notReleased(ctx context.Context, c *stile.Client) error {
	l, err := c.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	l.Keep(ctx, time.Minute) // want `the error of Lock.Keep is dropped`
	use(l)
	return nil
}

func inLoop(ctx context.Context, c *stile.Client, keys []string) error {
	for _, key := range keys {
		c.Do(ctx, key, nil) // want `the error of Client.Do is dropped`
	}
	return nil
}

func otherBelow(ctx context.Context, c *stile.Client, unlock func()) error {
	lock, _ := c.Acquire(ctx, "a") // want `the error of Client.Acquire is dropped`
	defer lock.Release(ctx)
	unlock()
	return nil
}

func byClosure(ctx context.Context, c *stile.Client, lock *stile.Lock) error {
	end := func() { lock.Release(ctx) }
	c.Do(ctx, "a", nil) // want `the error of Client.Do is dropped`
	end()
	return nil
}

func jumps(ctx context.Context, c *stile.Client) error {
again:
	c.Do(ctx, "a", nil) // want `the error of Client.Do is dropped`
	if ctx.Err() == nil {
		goto again
	}
	return nil
}

type app struct{ *stile.Client }

func composite(ctx context.Context, c *stile.Client) error {
	app{c}.Do(ctx, "a", nil) // want `the error of Client.Do is dropped`
	return nil
}

// The error of Acquire tells that there is nothing to release.
func ownBelow(ctx context.Context, c *stile.Client) error {
	lock, _ := c.Acquire(ctx, "a") //nolint:foo // want `the error of Client.Acquire is dropped`
	return lock.Release(ctx)
}

func deferredAll(ctx context.Context, c *stile.Client) error {
	l, err := c.Acquire(ctx, "a")
	if err != nil {
		return err
	}
	defer l.Release(ctx)
	l.Keep(ctx, time.Minute) //nolint:foo // want `the error of Lock.Keep is dropped`
	return nil
}

func fromElsewhere(ctx context.Context, c *stile.Client) error {
//line foo.y:10
	c.Do(ctx, "a", nil) // want `the error of Client.Do is dropped`
	return nil
}

func silenced(ctx context.Context, c *stile.Client) error {
	c.Do(ctx, "a", nil) //stile:meant whoever comes next does it
	//stile:meant whoever comes next does it
	c.Do(ctx, "a", nil)
	c.Do(ctx, "a", func(context.Context, *stile.Lock) error {
		return nil
	}) //stile:meant whoever comes next does it
	// stile:meant whoever comes next does it
	c.Do(ctx, "a", nil) // want `or at all; the comment on line \d+ is no directive: the space before stile:meant must go`
	return nil
}
