package fencetest

import (
	"context"
	"errors"
	"math"
	"reflect"
	"strconv"
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
	return openRedisAt(t, s.Addr)
}

func openRedisAt(t *testing.T, addr string) (*goredis.Client, *fenceredis.Guard) {
	t.Helper()
	rdb := goredis.NewClient(&goredis.Options{Addr: addr, MaxRetries: -1})
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
	// What cannot be sent is told before anything is done, also what stands
	// before it.
	ok(t, rdb.Del(t.Context(), g.KeyOf("fresh"), "n").Err())
	for name, cmd := range map[string]fenceredis.Cmd{"empty": {}, "too long": words("RPUSH", "l", fenceredis.MaxWords+1)} {
		_, err := g.Do(t.Context(), fence.NewGrant("fresh", 7), nil, fenceredis.Cmd{"INCR", "n"}, cmd)
		if n, _ := rdb.Exists(t.Context(), "n", "l", g.KeyOf("fresh")).Result(); err == nil || n != 0 || !strings.Contains(err.Error(), "command 2 of 2") {
			t.Errorf("a command that is %s: %v, %d names were written", name, err, n)
		}
	}
	// As many words as there may be, behind others.
	longest := words("RPUSH", "l", fenceredis.MaxWords)
	if answers, err := g.Do(t.Context(), lock, nil, fenceredis.Cmd{"INCR", "n"}, longest, longest); err != nil || len(answers) != 3 || answers[2] != int64(2*(fenceredis.MaxWords-2)) {
		t.Errorf("got %v, %v", answers, err)
	}
	// A number beyond Lua's is right where it is kept, and where it is read as
	// text.
	answers, err = g.Do(t.Context(), lock, nil, fenceredis.Cmd{"SET", "big", 1 << 58}, fenceredis.Cmd{"INCRBY", "big", 1}, fenceredis.Cmd{"GET", "big"})
	if err != nil || answers[2] != strconv.Itoa(1<<58+1) {
		t.Errorf("got %v, %v", answers, err)
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

// words is a command of so many words.
func words(name, key string, count int) fenceredis.Cmd {
	cmd := fenceredis.Cmd{name, key}
	for len(cmd) < count {
		cmd = append(cmd, "x")
	}
	return cmd
}

// What is kept has the name that the documents tell, does not end by itself,
// and is that of the guard's prefix.
func TestRedisNames(t *testing.T) {
	rdb, g := openRedis(t)
	other := g.WithPrefix("other:")
	ok(t, g.Check(t.Context(), fence.NewGrant("orders/42", 7)))
	ok(t, other.Check(t.Context(), fence.NewGrant("orders/42", 5)))
	for name, token := range map[string]string{"stile-fence:{orders/42}": "7", "other:{orders/42}": "5"} {
		if got, err := rdb.Get(t.Context(), name).Result(); err != nil || got != token {
			t.Errorf("%s is %q, %v", name, got, err)
		}
		if ttl, err := rdb.TTL(t.Context(), name).Result(); err != nil || ttl != -1 {
			t.Errorf("%s ends after %v, %v", name, ttl, err)
		}
	}
	if got := other.KeyOf("orders/42"); got != "other:{orders/42}" {
		t.Errorf("KeyOf returned %q", got)
	}
	if n, err := rdb.DBSize(t.Context()).Result(); err != nil || n != 2 {
		t.Errorf("there are %d names, %v", n, err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a prefix with a brace was taken")
		}
	}()
	g.WithPrefix("a{b}:")
}

// In a cluster, what a script touches must be in one slot, and be named.
func TestRedisCluster(t *testing.T) {
	s, err := redisCluster()
	servers.Need(t, err)
	rdb, g := openRedisAt(t, s.Addr)
	var asked []string
	watching := fenceredis.New(func(ctx context.Context, script string, keys []string, args ...any) (any, error) {
		asked = keys
		return rdb.Eval(ctx, script, keys, args...).Result()
	})
	for _, key := range []string{"orders/42", "a}b", "{", "a{b}c", "\xff"} {
		name := "doc:{" + key + "}"
		_, err := watching.Do(t.Context(), fence.NewGrant(key, 7), []string{name}, fenceredis.Cmd{"SET", name, "text"})
		if got, _ := rdb.Get(t.Context(), name).Result(); err != nil || got != "text" {
			t.Errorf("the key %q: %q is written, %v", key, got, err)
		}
		if len(asked) != 2 || asked[0] != g.KeyOf(key) || asked[1] != name {
			t.Errorf("the key %q: the names handed over are %q", key, asked)
		}
		if err := g.Check(t.Context(), fence.NewGrant(key, 6)); !errors.Is(err, fence.ErrStale) {
			t.Errorf("the key %q: %v", key, err)
		}
	}
	if _, err := g.Do(t.Context(), fence.NewGrant("}a", 7), []string{"doc:{}a}"}); err == nil || !strings.Contains(err.Error(), `begins with a }`) {
		t.Errorf("a key that has no slot of its own: %v", err)
	}
	// Redis itself tells of what is elsewhere.
	if _, err := g.Do(t.Context(), fence.NewGrant("k", 7), []string{"doc"}, fenceredis.Cmd{"SET", "doc", "text"}); err == nil || !strings.Contains(err.Error(), "CROSSSLOT") {
		t.Errorf("a name in another slot: %v", err)
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
