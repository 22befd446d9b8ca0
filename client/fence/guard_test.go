package fence_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stile-lock/stile/client/fence"
)

func ExampleGuard() {
	var guard fence.Guard
	write := func(token uint64, text string) {
		err := guard.Do("doc", token, func() error {
			fmt.Println("written:", text)
			return nil
		})
		if err != nil {
			fmt.Println("refused:", err)
		}
	}
	write(7, "by the first holder")
	write(9, "by the second holder")
	write(9, "by the second holder again")
	write(7, "by the first holder, who slept")
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
		err := g.Check(step.key, step.token)
		if (err == nil) != step.ok || !step.ok && !errors.Is(err, fence.ErrStale) {
			t.Errorf("Check(%q, %d): %v", step.key, step.token, err)
		}
	}
	var stale *fence.StaleError
	if err := g.Check("b", 1); !errors.As(err, &stale) || *stale != (fence.StaleError{Key: "b", Token: 1, Seen: 2}) {
		t.Errorf("the refusal says %+v", stale)
	}
}

// A write and its check are one step: whatever the order in which writers
// come, what is written last has the greatest token.
func TestGuardWritesInOneStep(t *testing.T) {
	var g fence.Guard
	var written uint64
	var wg sync.WaitGroup
	for token := range uint64(1000) {
		wg.Go(func() {
			g.Do("k", token+1, func() error {
				if token+1 < written {
					t.Errorf("token %d was written after %d", token+1, written)
				}
				written = token + 1
				return nil
			})
		})
	}
	wg.Wait()
	if written != 1000 {
		t.Errorf("the last write has token %d", written)
	}
}

// A refused write is not run, and one that fails still counts as seen.
func TestGuardAndErrors(t *testing.T) {
	var g fence.Guard
	failed := errors.New("disk full")
	if err := g.Do("k", 2, func() error { return failed }); err != failed {
		t.Errorf("Do returned %v", err)
	}
	if err := g.Do("k", 1, func() error { t.Error("a refused write ran"); return nil }); !errors.Is(err, fence.ErrStale) {
		t.Errorf("Do returned %v", err)
	}
}
