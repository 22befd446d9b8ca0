package fencetest

import (
	"context"
	"errors"
	"math"
	"reflect"
	"strings"
	"sync"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/stile-lock/stile/client/fence"
	"github.com/stile-lock/stile/client/fence/fenceredis"
	"github.com/stile-lock/stile/client/fence/fencetest/servers"
)

// openRedis returns a client of an empty Redis, and a guard by it.
func openRedis(t *testing.T) (*goredis.Client, *fenceredis.Guard) {
	t.Helper()
	s, err := redis()
	servers.Need(t, err)
	rdb := goredis.NewClient(&goredis.Options{Addr: s.Addr})
	t.Cleanup(func() { rdb.Close() })
	ok(t, rdb.FlushAll(t.Context()).Err())
	return rdb, fenceredis.New(func(ctx context.Context, script string, keys []string, args ...any) (any, error) {
		return rdb.Eval(ctx, script, keys, args...).Result()
	})
}

func TestRedis(t *testing.T) {
	rdb, g := openRedis(t)
	for _, step := range []struct {
		key         string
		token, seen uint64 // seen: by whom it is refused
	}{
		{"a", 1, 0},
		{"a", 1, 0},
		{"a", 9, 0},
		{"a", 10, 0}, // as text it is less
		{"a", 9, 10},
		{"b", 2, 0},
		{"b", 1, 2},
		{"a", 1<<58 + 1, 0},
		{"a", 1 << 58, 1<<58 + 1}, // one that Lua's numbers do not tell apart
		{"a", math.MaxUint64, 0},
		{"a", math.MaxUint64 - 1, math.MaxUint64},
		{"\xff\x80{}", 9, 0},
		{"\xff\x80{}", 8, 9},
	} {
		answers, err := g.Do(t.Context(), fence.NewGrant(step.key, step.token), []string{"last"}, fenceredis.Cmd{"SET", "last", step.token})
		var stale *fence.StaleError
		switch {
		case step.seen == 0:
			if err != nil || len(answers) != 1 {
				t.Errorf("token %d of %q: %v, %v", step.token, step.key, answers, err)
			}
			if last, err := rdb.Get(t.Context(), "last").Uint64(); err != nil || last != step.token {
				t.Errorf("token %d of %q wrote %d, %v", step.token, step.key, last, err)
			}
		case !errors.As(err, &stale) || *stale != (fence.StaleError{Key: step.key, Token: step.token, Seen: step.seen}):
			t.Errorf("token %d of %q: %v", step.token, step.key, err)
		default:
			if last, err := rdb.Get(t.Context(), "last").Uint64(); err != nil || last == step.token {
				t.Errorf("token %d of %q was refused, and wrote", step.token, step.key)
			}
		}
	}
	if err := g.Check(t.Context(), fence.NewGrant("b", 1)); !errors.Is(err, fence.ErrStale) {
		t.Errorf("Check returned %v", err)
	}
	ok(t, g.Check(t.Context(), fence.NewGrant("b", 3)))
	ok(t, g.WithPrefix("other:").Check(t.Context(), fence.NewGrant("b", 1)))
	if err := g.Check(t.Context(), fence.NewGrant("b", 0)); !errors.Is(err, fence.ErrInvalid) {
		t.Errorf("the token 0: %v", err)
	}
}

// Commands answer in order, whatever they answer.
func TestRedisCommands(t *testing.T) {
	rdb, g := openRedis(t)
	lock := fence.NewGrant("k", 7)
	answers, err := g.Do(t.Context(), lock, []string{"n", "none", "h"},
		fenceredis.Cmd{"GET", "none"},
		fenceredis.Cmd{"INCRBY", "n", 5},
		fenceredis.Cmd{"HSET", "h", "a b", []byte("\x00\xff")},
		fenceredis.Cmd{"HGETALL", "h"},
		fenceredis.Cmd{"SET", "s", ""},
	)
	want := []any{nil, int64(5), int64(1), []any{"a b", "\x00\xff"}, "OK"}
	if err != nil || !reflect.DeepEqual(answers, want) {
		t.Errorf("got %#v, %v", answers, err)
	}
	// A command that fails is its own error, and not that of the token.
	_, err = g.Do(t.Context(), lock, nil, fenceredis.Cmd{"INCR", "h"})
	if err == nil || errors.Is(err, fence.ErrStale) || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("got %v", err)
	}
	if _, err := g.Do(t.Context(), lock, nil, fenceredis.Cmd{}); err == nil {
		t.Error("an empty command was accepted")
	}
	// Something else is where the token should be.
	ok(t, rdb.Set(t.Context(), g.KeyOf("odd"), "zzzzzzzzzzzzzzzzzzzzzz", 0).Err())
	if err := g.Check(t.Context(), fence.NewGrant("odd", 7)); err == nil || errors.Is(err, fence.ErrStale) || !strings.Contains(err.Error(), g.KeyOf("odd")) {
		t.Errorf("got %v", err)
	}
	// A client that sends EVALSHA first.
	script := goredis.NewScript(fenceredis.Script)
	bySum := fenceredis.New(func(ctx context.Context, _ string, keys []string, args ...any) (any, error) {
		return script.Run(ctx, rdb, keys, args...).Result()
	})
	if err := bySum.Check(t.Context(), fence.NewGrant("k", 6)); !errors.Is(err, fence.ErrStale) {
		t.Errorf("got %v", err)
	}
}

// Whatever the order in which writers come, what is written last has the
// greatest token.
func TestRedisManyWriters(t *testing.T) {
	rdb, g := openRedis(t)
	const writers = 300
	var wg sync.WaitGroup
	for token := range uint64(writers) {
		wg.Go(func() {
			_, err := g.Do(t.Context(), fence.NewGrant("k", token+1), []string{"doc", "all"},
				fenceredis.Cmd{"SET", "doc", token + 1}, fenceredis.Cmd{"RPUSH", "all", token + 1})
			if err != nil && !errors.Is(err, fence.ErrStale) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if last, err := rdb.Get(t.Context(), "doc").Uint64(); err != nil || last != writers {
		t.Errorf("the last write has token %d, %v", last, err)
	}
	var all []uint64
	ok(t, rdb.LRange(t.Context(), "all", 0, -1).ScanSlice(&all))
	for i := 1; i < len(all); i++ {
		if all[i] < all[i-1] {
			t.Fatalf("token %d was written after %d", all[i], all[i-1])
		}
	}
}
