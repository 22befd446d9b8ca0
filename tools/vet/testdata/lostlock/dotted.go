package lostlock

import (
	. "context"

	stile "github.com/stile-lock/stile/client"
)

// Another type with methods of the same names.
type other struct{}

func (other) Acquire(Context, string) (*other, error) { return nil, nil }
func (*other) Release(Context) error                  { return nil }

func renamed(ctx Context, c *stile.Client) error {
	lock, err := c.Acquire(ctx, "door", stile.Wait(1)) // want `still held at the return`
	if err != nil {
		return err
	}
	return work(lock.Context())
}

func elsewhere(ctx Context, c other) error {
	lock, err := c.Acquire(ctx, "door")
	if err != nil {
		return err
	}
	_ = lock
	return nil
}
