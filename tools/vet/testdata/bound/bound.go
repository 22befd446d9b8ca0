// Package bound has a function with more paths than anybody can look at.
package bound

import (
	"context"

	"github.com/stile-lock/stile/client"
)

// many takes locks of which each may be held or not wherever another one is, and
// leaks the last one in the end, as few does.
func many(ctx context.Context, c *client.Client, b []bool) error {
	var l0 *client.Lock
	b0 := b[0]
	if b0 {
		var err error
		if l0, err = c.Acquire(ctx, "k"); err != nil {
			return err
		}
	}
	var l1 *client.Lock
	b1 := b[1]
	if b1 {
		var err error
		if l1, err = c.Acquire(ctx, "k"); err != nil {
			return err
		}
	}
	var l2 *client.Lock
	b2 := b[2]
	if b2 {
		var err error
		if l2, err = c.Acquire(ctx, "k"); err != nil {
			return err
		}
	}
	var l3 *client.Lock
	b3 := b[3]
	if b3 {
		var err error
		if l3, err = c.Acquire(ctx, "k"); err != nil {
			return err
		}
	}
	var l4 *client.Lock
	b4 := b[4]
	if b4 {
		var err error
		if l4, err = c.Acquire(ctx, "k"); err != nil {
			return err
		}
	}
	var l5 *client.Lock
	b5 := b[5]
	if b5 {
		var err error
		if l5, err = c.Acquire(ctx, "k"); err != nil {
			return err
		}
	}
	var l6 *client.Lock
	b6 := b[6]
	if b6 {
		var err error
		if l6, err = c.Acquire(ctx, "k"); err != nil {
			return err
		}
	}
	var l7 *client.Lock
	b7 := b[7]
	if b7 {
		var err error
		if l7, err = c.Acquire(ctx, "k"); err != nil {
			return err
		}
	}
	var l8 *client.Lock
	b8 := b[8]
	if b8 {
		var err error
		if l8, err = c.Acquire(ctx, "k"); err != nil {
			return err
		}
	}
	var l9 *client.Lock
	b9 := b[9]
	if b9 {
		var err error
		if l9, err = c.Acquire(ctx, "k"); err != nil {
			return err
		}
	}
	var l10 *client.Lock
	b10 := b[10]
	if b10 {
		var err error
		if l10, err = c.Acquire(ctx, "k"); err != nil {
			return err
		}
	}
	var l11 *client.Lock
	b11 := b[11]
	if b11 {
		var err error
		if l11, err = c.Acquire(ctx, "k"); err != nil {
			return err
		}
	}
	var l12 *client.Lock
	b12 := b[12]
	if b12 {
		var err error
		if l12, err = c.Acquire(ctx, "k"); err != nil {
			return err
		}
	}
	var l13 *client.Lock
	b13 := b[13]
	if b13 {
		var err error
		if l13, err = c.Acquire(ctx, "k"); err != nil {
			return err
		}
	}
	var l14 *client.Lock
	b14 := b[14]
	if b14 {
		var err error
		if l14, err = c.Acquire(ctx, "k"); err != nil {
			return err
		}
	}
	var l15 *client.Lock
	b15 := b[15]
	if b15 {
		var err error
		if l15, err = c.Acquire(ctx, "k"); err != nil {
			return err
		}
	}
	var l16 *client.Lock
	b16 := b[16]
	if b16 {
		var err error
		if l16, err = c.Acquire(ctx, "k"); err != nil {
			return err
		}
	}
	var l17 *client.Lock
	b17 := b[17]
	if b17 {
		var err error
		if l17, err = c.Acquire(ctx, "k"); err != nil {
			return err
		}
	}
	var l18 *client.Lock
	b18 := b[18]
	if b18 {
		var err error
		if l18, err = c.Acquire(ctx, "k"); err != nil {
			return err
		}
	}
	var l19 *client.Lock
	b19 := b[19]
	if b19 {
		var err error
		if l19, err = c.Acquire(ctx, "k"); err != nil {
			return err
		}
	}
	if b0 {
		l0.Release(ctx)
	}
	if b1 {
		l1.Release(ctx)
	}
	if b2 {
		l2.Release(ctx)
	}
	if b3 {
		l3.Release(ctx)
	}
	if b4 {
		l4.Release(ctx)
	}
	if b5 {
		l5.Release(ctx)
	}
	if b6 {
		l6.Release(ctx)
	}
	if b7 {
		l7.Release(ctx)
	}
	if b8 {
		l8.Release(ctx)
	}
	if b9 {
		l9.Release(ctx)
	}
	if b10 {
		l10.Release(ctx)
	}
	if b11 {
		l11.Release(ctx)
	}
	if b12 {
		l12.Release(ctx)
	}
	if b13 {
		l13.Release(ctx)
	}
	if b14 {
		l14.Release(ctx)
	}
	if b15 {
		l15.Release(ctx)
	}
	if b16 {
		l16.Release(ctx)
	}
	if b17 {
		l17.Release(ctx)
	}
	if b18 {
		l18.Release(ctx)
	}
	if b19 {
		l19.Release(ctx)
	}
	lock, err := c.Acquire(ctx, "k")
	if err != nil {
		return err
	}
	return lock.Keep(ctx, 0)
}

func few(ctx context.Context, c *client.Client) error {
	lock, err := c.Acquire(ctx, "k") // want `still held at the return`
	if err != nil {
		return err
	}
	return lock.Keep(ctx, 0)
}
