package lostlock

import (
	"context"

	"github.com/stile-lock/stile/client"
)

//line lock.y:10
func generatedFrom(ctx context.Context, c *client.Client) error {
	l, err := c.Acquire(ctx, "a") // want `still held at the return on line 15`
	if err != nil {
		return err
	} //nolint:foo // about this line
	return work(l.Context())
}

func directivesGoByTheFile(ctx context.Context, c *client.Client) error {
//line lock.y:30
	l, err := c.Acquire(ctx, "a") //stile:kept until its end
//line lock.y:40
	if err != nil {
		return err
	}
	return work(l.Context())
}
