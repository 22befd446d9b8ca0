package client

import (
	"context"
	"testing"
	"time"
)

// A grant that one client was given is kept and released by another, which
// knows key and token only.
func TestAdopt(t *testing.T) {
	virtual(t, func(w *world) {
		d := newNode()
		w.nodeServer("n0:5625", d)
		first, second := w.client("n0:5625"), w.client("n0:5625")
		l := w.must(first, "k", Lease(10*time.Second))
		time.Sleep(6 * time.Second)
		got, err := second.Adopt(bg, "k", l.Token(), 30*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if left := time.Until(got.Expires()); left != 30*time.Second || got.Token() != l.Token() || got.Key() != "k" {
			t.Errorf("%v left of %q %d", left, got.Key(), got.Token())
		}
		time.Sleep(20 * time.Second)
		if h, _ := d.left(); h != 1 {
			t.Error("not held after the first lease")
		}
		if err := got.Release(bg); err != nil {
			t.Error(err)
		}
		_, err = second.Adopt(bg, "k", l.Token(), 0)
		wantErr(t, err, ErrNotHeld, DidNotHappen)
	})
}

func TestReleaseByToken(t *testing.T) {
	virtual(t, func(w *world) {
		d := newNode()
		w.nodeServer("n0:5625", d)
		first, second := w.client("n0:5625"), w.client("n0:5625")
		l := w.must(first, "k")
		wantErr(t, second.Release(bg, "k", l.Token()+1), ErrNotHeld, DidNotHappen)
		wantErr(t, second.Release(bg, "k", 0), ErrInvalid, DidNotHappen)
		wantErr(t, second.Release(bg, "?", 1), ErrBadKey, DidNotHappen)
		if err := second.Release(bg, "k", l.Token()); err != nil {
			t.Error(err)
		}
		if h, _ := d.left(); h != 0 {
			t.Error("still held")
		}
		// One's own lock is released as the lock.
		own := w.must(second, "k")
		if err := second.Release(bg, "k", own.Token()); err != nil {
			t.Error(err)
		}
		if own.Context().Err() == nil {
			t.Error("the lock's context goes on")
		}
	})
}

// Where no server answers, both end after five seconds and say why.
func TestByTokenWithoutServer(t *testing.T) {
	virtual(t, func(w *world) {
		s := w.server("n0:5625", obliging)
		s.refuse()
		c := w.client("n0:5625")
		begun := w.ms()
		_, err := c.Adopt(bg, "k", 7, 0)
		wantErr(t, err, ErrUndelivered, DidNotHappen)
		if len(err.(*Error).Addrs) == 0 {
			t.Errorf("no address in %v", err)
		}
		if took := w.ms() - begun; took != 5000 {
			t.Errorf("the keep took %d ms", took)
		}
		begun = w.ms()
		err = c.Release(bg, "k", 7)
		wantErr(t, err, ErrUndelivered, MayHaveHappened)
		if len(err.(*Error).Addrs) == 0 {
			t.Errorf("no address in %v", err)
		}
		if took := w.ms() - begun; took != 5000 {
			t.Errorf("the release took %d ms", took)
		}
	})
}

// A lock that was adopted is renewed until its context ends.
func TestRenew(t *testing.T) {
	virtual(t, func(w *world) {
		d := newNode()
		w.nodeServer("n0:5625", d)
		token := w.must(w.client("n0:5625"), "k", Lease(10*time.Second)).Token()
		l, err := w.client("n0:5625").Adopt(bg, "k", token, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(bg, time.Minute)
		defer cancel()
		l.Renew(ctx)
		w.wantMs("it ended", 60000)
		if left := time.Until(l.Expires()); left < 6*time.Second {
			t.Errorf("%v left", left)
		}
		if h, _ := d.left(); h != 1 {
			t.Error("not held after a minute")
		}
		l.Release(bg)
		released := w.ms()
		l.Renew(bg)
		if took := w.ms() - released; took != 0 {
			t.Errorf("it went on for %d ms after the release", took)
		}
	})
}
