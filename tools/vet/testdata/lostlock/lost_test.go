package lostlock

import (
	"context"
	"testing"

	"github.com/stile-lock/stile/client"
)

func TestHeld(t *testing.T) {
	c, err := client.Dial(t.Context(), "127.0.0.1:5625")
	if err != nil {
		t.Fatal(err)
	}
	lock, err := c.Acquire(t.Context(), "door")
	if err != nil {
		t.Fatal(err)
	}
	work(lock.Context())
}

func TestFatal(t *testing.T) {
	c, err := client.Dial(context.Background(), "127.0.0.1:5625")
	if err != nil {
		t.Fatal(err)
	}
	lock, err := c.Acquire(t.Context(), "door")
	if err != nil {
		t.Fatal(err)
	}
	if cond() {
		t.Fatal("no")
	}
	if cond() {
		t.Skip()
	}
	lock.Release(t.Context())
}
