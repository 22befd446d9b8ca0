package fence_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stile-lock/stile/client"
	"github.com/stile-lock/stile/client/fence"
)

func ExampleGuard() {
	var guard fence.Guard
	write := func(lock fence.Grant, text string) {
		err := guard.Do(context.Background(), lock, func() error {
			fmt.Println("written:", text)
			return nil
		})
		if err != nil {
			fmt.Println("refused:", err)
		}
	}
	// In earnest these are locks of the client.
	first, second := fence.NewGrant("doc", 7), fence.NewGrant("doc", 9)
	write(first, "by the first holder")
	write(second, "by the second holder")
	write(second, "by the second holder again")
	write(first, "by the first holder, who slept")
	// Output:
	// written: by the first holder
	// written: by the second holder
	// written: by the second holder again
	// refused: stale token 7 for "doc": 9 was seen
}

func TestGuard(t *testing.T) {
	var g fence.Guard
	for _, step := range []struct {
		key   string
		token uint64
		ok    bool
	}{
		{"a", 1, true},
		{"a", 1, true},
		{"a", 5, true},
		{"a", 4, false},
		{"b", 2, true}, // each key has its own
		{"a", 5, true},
		{"a", 1<<64 - 1, true},
		{"a", 1 << 63, false},
	} {
		err := g.Check(t.Context(), fence.NewGrant(step.key, step.token))
		if (err == nil) != step.ok || !step.ok && !errors.Is(err, fence.ErrStale) {
			t.Errorf("Check(%q, %d): %v", step.key, step.token, err)
		}
	}
	var stale *fence.StaleError
	if err := g.Check(t.Context(), fence.NewGrant("b", 1)); !errors.As(err, &stale) || *stale != (fence.StaleError{Key: "b", Token: 1, Seen: 2}) {
		t.Errorf("the refusal says %+v", stale)
	}
	var lock *client.Lock // of an acquire that failed
	for _, no := range []fence.Grant{fence.NewGrant("a", 0), fence.NewGrant("", 7), fence.NewGrant("a b", 7), nil, lock} {
		if err := g.Check(t.Context(), no); !errors.Is(err, fence.ErrInvalid) {
			t.Errorf("Check(%#v): %v", no, err)
		}
	}
}

// A write and its check are one step: whatever the order in which writers
// come, what is written last has the greatest token.
func TestGuardWritesInOneStep(t *testing.T) {
	g := fence.Guard{MaxKeys: 1}
	var written uint64
	var wg sync.WaitGroup
	for token := range uint64(1000) {
		wg.Go(func() {
			g.Do(t.Context(), fence.NewGrant("k", token+1), func() error {
				if token+1 < written {
					t.Errorf("token %d was written after %d", token+1, written)
				}
				written = token + 1
				return nil
			})
		})
		wg.Go(func() { g.Check(t.Context(), fence.NewGrant("other", 1)) })
	}
	wg.Wait()
	if written != 1000 {
		t.Errorf("the last write has token %d", written)
	}
}

// A refused write is not run, and one that fails or panics still counts as
// seen.
func TestGuardAndErrors(t *testing.T) {
	var g fence.Guard
	failed := errors.New("disk full")
	if err := g.Do(t.Context(), fence.NewGrant("k", 2), func() error { return failed }); err != failed {
		t.Errorf("Do returned %v", err)
	}
	refused := func() error { t.Error("a refused write ran"); return nil }
	if err := g.Do(t.Context(), fence.NewGrant("k", 1), refused); !errors.Is(err, fence.ErrStale) {
		t.Errorf("Do returned %v", err)
	}
	func() {
		defer func() { recover() }()
		g.Do(t.Context(), fence.NewGrant("k", 3), func() error { panic("bug") })
	}()
	if err := g.Do(t.Context(), fence.NewGrant("k", 2), refused); !errors.Is(err, fence.ErrStale) {
		t.Errorf("Do returned %v", err)
	}
}

// Who waits for a write leaves with its context, and nothing of it stays.
func TestGuardWaitEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g fence.Guard
		quit := make(chan struct{})
		go g.Do(t.Context(), fence.NewGrant("k", 1), func() error { <-quit; return nil })
		synctest.Wait()

		gone := errors.New("the lease is over")
		ctx, cancel := context.WithCancelCause(t.Context())
		result := make(chan error)
		go func() { result <- g.Check(ctx, fence.NewGrant("k", 2)) }()
		synctest.Wait()
		cancel(gone)
		if err := <-result; !errors.Is(err, context.Canceled) || !errors.Is(err, gone) {
			t.Errorf("Check returned %v", err)
		}
		if err := g.Check(ctx, fence.NewGrant("free", 2)); !errors.Is(err, context.Canceled) {
			t.Errorf("with a context that has ended Check returned %v", err)
		}
		close(quit)
		if err := g.Check(t.Context(), fence.NewGrant("k", 1)); err != nil {
			t.Errorf("a check that gave up has left its token: %v", err)
		}
	})
}

// A guard of few keys never accepts what one that remembers all would refuse,
// keeps to its bound, and refuses more only of what it says it has forgotten.
func TestGuardForgets(t *testing.T) {
	const maxKeys = 10
	small, all := fence.Guard{MaxKeys: maxKeys}, fence.Guard{}
	latest := uint64(1)
	grants := []fence.Grant{fence.NewGrant("k0", latest)}
	forgotten := 0
	for range 20_000 {
		if rand.IntN(3) == 0 { // a later grant of any key
			latest++
			grants = append(grants, fence.NewGrant("k"+strconv.Itoa(rand.IntN(5*maxKeys)), latest))
			grants = grants[max(0, len(grants)-10*maxKeys):]
		}
		g := grants[rand.IntN(len(grants))]
		got, want := small.Check(t.Context(), g), all.Check(t.Context(), g)
		var stale *fence.StaleError
		switch {
		case want != nil && got == nil:
			t.Fatalf("token %d of %s was accepted: %v", g.Token(), g.Key(), want)
		case want == nil && got != nil:
			if !errors.As(got, &stale) || !stale.Forgotten || stale.Seen <= g.Token() || !strings.Contains(got.Error(), "forgotten") {
				t.Fatalf("token %d of %s was refused: %v", g.Token(), g.Key(), got)
			}
			forgotten++
		}
		if n := small.Len(); n > maxKeys {
			t.Fatalf("%d keys are remembered", n)
		}
	}
	if forgotten == 0 {
		t.Error("nothing was forgotten")
	}

	// A new grant is never in the way of what was forgotten.
	for i := range 100 {
		latest++
		if err := small.Check(t.Context(), fence.NewGrant("new"+strconv.Itoa(i), latest)); err != nil {
			t.Error(err)
		}
	}
	// The one used of late is kept, however old its grant is.
	small = fence.Guard{MaxKeys: 2}
	for i := range uint64(100) {
		for _, g := range []fence.Grant{fence.NewGrant("old", 1), fence.NewGrant("k"+strconv.FormatUint(i, 10), i+2)} {
			if err := small.Check(t.Context(), g); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Keys that are being written are remembered, however many there are.
func TestGuardKeepsKeysInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := fence.Guard{MaxKeys: 1}
		quit := make(chan struct{})
		for i := range uint64(5) {
			go g.Do(t.Context(), fence.NewGrant("k"+strconv.FormatUint(i, 10), 10*(i+1)), func() error { <-quit; return nil })
		}
		synctest.Wait()
		if n := g.Len(); n != 5 {
			t.Errorf("%d keys are remembered", n)
		}
		close(quit)
		synctest.Wait()
		if n := g.Len(); n != 1 {
			t.Errorf("%d keys are remembered", n)
		}
	})
}

// A key that somebody is at is remembered when another of its users leaves,
// however many keys are used meanwhile: who comes then waits for the one inside.
func TestGuardOneAtATimeWhileOthersLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := fence.Guard{MaxKeys: 1}
		inside := 0
		quit := make(chan struct{})
		write := func(ctx context.Context) {
			go g.Do(ctx, fence.NewGrant("k", 7), func() error {
				if inside++; inside != 1 {
					t.Errorf("%d writers of one key are inside", inside)
				}
				<-quit
				inside--
				return nil
			})
			synctest.Wait()
		}
		write(t.Context()) // is inside
		write(t.Context()) // waits
		impatient, leave := context.WithCancel(t.Context())
		write(impatient)
		leave()
		synctest.Wait()
		for i := range uint64(3) {
			if err := g.Check(t.Context(), fence.NewGrant("other"+strconv.FormatUint(i, 10), 7)); err != nil {
				t.Error(err)
			}
		}
		write(t.Context())
		if inside != 1 {
			t.Errorf("%d writers are inside", inside)
		}
		close(quit)
	})
}

// A refused grant of a forgotten key leaves nothing behind: there is nothing to
// remember of it, and it takes nobody's place.
func TestGuardRemembersNothingOfRefused(t *testing.T) {
	g := fence.Guard{MaxKeys: 2}
	for i := range uint64(5) {
		if err := g.Check(t.Context(), fence.NewGrant("k"+strconv.FormatUint(i, 10), i+10)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5 { // those of k3 and k4 are remembered
		if err := g.Check(t.Context(), fence.NewGrant("late"+strconv.Itoa(i), 5)); !errors.Is(err, fence.ErrStale) {
			t.Errorf("Check returned %v", err)
		}
	}
	// The floor is 12: k3 would be refused if it was not remembered.
	var stale *fence.StaleError
	if err := g.Check(t.Context(), fence.NewGrant("k3", 12)); !errors.As(err, &stale) || stale.Seen != 13 || stale.Forgotten {
		t.Errorf("Check returned %v", err)
	}
}

func TestGrantAsText(t *testing.T) {
	for _, g := range []fence.Grant{
		fence.NewGrant("orders/42", 259864247628988417),
		fence.NewGrant("k", 1),
		fence.NewGrant("%+&;,=\"", math.MaxUint64),
		fence.NewGrant("caf\u00e9", 3),
		fence.NewGrant("\xff\x80", 4),
		fence.NewGrant(strings.Repeat("~", 255), 5),
	} {
		text := fence.FormatGrant(g)
		for _, b := range []byte(text) {
			if b < ' ' || b > '~' {
				t.Errorf("%q is not printable", text)
			}
		}
		got, err := fence.ParseGrant(text)
		if err != nil || got.Key() != g.Key() || got.Token() != g.Token() {
			t.Errorf("%q was read as %v, %v", text, got, err)
		}
	}
	if got, want := fence.FormatGrant(fence.NewGrant("orders/42", 7)), "7 orders%2F42"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	// A slash may stand as it is, and a plus is a plus.
	for _, key := range []string{"orders/42", "a+b"} {
		if g, err := fence.ParseGrant("7 " + key); err != nil || g.Key() != key {
			t.Errorf("got %v, %v", g, err)
		}
	}
	for _, text := range []string{
		"", "7", "7 ", " k", "0 k", "-1 k", "+1 k", "7.0 k", "0x7 k", "18446744073709551616 k", "k 7", "7  k", "7 a b", "7 a%20b", "7 %zz", "7 a\n", "7 %00", "7 ?",
	} {
		if g, err := fence.ParseGrant(text); !errors.Is(err, fence.ErrInvalid) {
			t.Errorf("%q was read as %v, %v", text, g, err)
		}
	}
}
