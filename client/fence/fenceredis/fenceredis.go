// Package fenceredis guards data in Redis: one script checks the token,
// remembers it, and runs the commands that write, with nothing in between.
//
//	guard := fenceredis.New(func(ctx context.Context, script string, keys []string, args ...any) (any, error) {
//		return rdb.Eval(ctx, script, keys, args...).Result() // go-redis
//	})
//	_, err := guard.Do(ctx, lock, []string{"doc:7"},
//		fenceredis.Cmd{"HSET", "doc:7", "body", body})
//	if errors.Is(err, fence.ErrStale) {
//		// somebody else holds the key by now; nothing was written
//	}
//
// The greatest token of a lock's key is kept under "stile-fence:{KEY}". The
// braces are for Redis Cluster, which wants all keys of a script in one slot:
// there, name what is guarded so, too, as "doc:{orders/42}" for the lock
// "orders/42".
//
// Redis itself must not lose what was seen: no eviction (maxmemory-policy
// noeviction), and a replica that takes over without the last writes has lost
// the tokens of these writes as well. Guard what must not be wrong in a
// database that keeps what it has confirmed.
package fenceredis

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"

	"github.com/stile-lock/stile/client/fence"
)

// Script is the Lua script, for those who load it by themselves. Its head says
// what it takes and answers.
//
//go:embed fence.lua
var Script string

// Eval is the command EVAL of a client of Redis: it runs the script with the
// keys and args, and returns the answer as a []any of int64, string or []byte,
// nil, and []any. One that sends EVALSHA first saves sending the script.
type Eval func(ctx context.Context, script string, keys []string, args ...any) (any, error)

// Cmd is a command of Redis with its arguments: strings, []byte, and numbers
// as the client takes them.
type Cmd []any

// Guard keeps greatest tokens in Redis. It is safe for use by many goroutines
// if its [Eval] is.
type Guard struct {
	eval   Eval
	prefix string
}

// New returns a guard whose keys begin with "stile-fence:".
func New(eval Eval) *Guard { return &Guard{eval: eval, prefix: "stile-fence:"} }

// WithPrefix returns a guard whose keys begin with prefix. It knows nothing of
// what a guard with another prefix has seen.
func (g *Guard) WithPrefix(prefix string) *Guard { return &Guard{eval: g.eval, prefix: prefix} }

// KeyOf returns the name under which the greatest token of a lock's key is
// kept.
func (g *Guard) KeyOf(key string) string { return g.prefix + "{" + key + "}" }

// Check accepts the grant if its token is not lower than the greatest one seen
// for the key, and remembers it. A write that follows may come after the next
// holder's; [Guard.Do] makes the two one step. Check alone is right before
// reading.
func (g *Guard) Check(ctx context.Context, grant fence.Grant) error {
	_, err := g.Do(ctx, grant, nil)
	return err
}

// Do checks as [Guard.Check] does and runs the commands, all in one step, and
// returns their answers. keys are the names that the commands touch; only
// Redis Cluster looks at them.
//
// Redis does not undo: if a command fails, those before it stay done, and the
// error is that of the command, from [Eval] as it is. An error of the
// connection leaves open whether anything was done. The other errors are a
// [*fence.StaleError], and one that wraps [fence.ErrInvalid]; then nothing was
// done.
func (g *Guard) Do(ctx context.Context, grant fence.Grant, keys []string, cmds ...Cmd) ([]any, error) {
	if err := fence.Validate(grant); err != nil {
		return nil, err
	}
	args := []any{strconv.FormatUint(grant.Token(), 10)}
	for i, cmd := range cmds {
		if len(cmd) == 0 {
			return nil, fmt.Errorf("fenceredis: command %d of %d is empty", i+1, len(cmds))
		}
		args = append(append(args, len(cmd)), cmd...)
	}
	answer, err := g.eval(ctx, Script, append([]string{g.KeyOf(grant.Key())}, keys...), args...)
	if err != nil {
		return nil, err
	}
	parts, _ := answer.([]any)
	if len(parts) > 0 {
		switch code, _ := parts[0].(int64); {
		case code == 1:
			return parts[1:], nil
		case len(parts) == 2:
			seen, err := strconv.ParseUint(text(parts[1]), 10, 64)
			if err == nil {
				return nil, &fence.StaleError{Key: grant.Key(), Token: grant.Token(), Seen: seen}
			}
		}
	}
	return nil, fmt.Errorf("fenceredis: the script answered %v: is %q the guard's own?", answer, g.KeyOf(grant.Key()))
}

func text(v any) string {
	if b, ok := v.([]byte); ok {
		return string(b)
	}
	s, _ := v.(string)
	return s
}
