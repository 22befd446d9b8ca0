// Package fenceredis guards data in Redis: one script checks the token,
// remembers it, and runs the commands that write, with nothing in between.
//
//	rdb := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1}) // go-redis; see below
//	guard := fenceredis.New(func(ctx context.Context, script string, keys []string, args ...any) (any, error) {
//		return rdb.Eval(ctx, script, keys, args...).Result()
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
// "orders/42". A key that begins with "}" cannot be named so, and is refused.
//
// One prefix is for the locks of one cluster of Stile: tokens of two cannot be
// compared. [Guard.WithPrefix] is for the other.
//
// # What commands do
//
// A client that sends the script again when it got no answer may run its
// commands twice, for the same token is accepted again: DECRBY would count
// double, without an error. go-redis does so unless MaxRetries is -1. Or take
// only commands that do no harm twice, as SET, HSET and SADD.
//
// Numbers that a command answers go through Lua, which has 53 bits for them:
// INCRBY counts right beyond 2^53, but its answer is rounded. Read such a number
// by GET, whose answer is text.
//
// # What Redis forgets
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
	"strings"

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
// as the client takes them. It has [MaxWords] words at most.
type Cmd []any

// MaxWords is how many words a command may have, its name included: Lua does
// not hand over many more.
const MaxWords = 7000

// Guard keeps greatest tokens in Redis. It is safe for use by many goroutines
// if its [Eval] is.
type Guard struct {
	eval   Eval
	prefix string
}

// New returns a guard whose keys begin with "stile-fence:".
func New(eval Eval) *Guard { return &Guard{eval: eval, prefix: "stile-fence:"} }

// WithPrefix returns a guard whose keys begin with prefix. It knows nothing of
// what a guard with another prefix has seen. It panics if there is a "{" in the
// prefix, which Redis Cluster would take for that of the key.
func (g *Guard) WithPrefix(prefix string) *Guard {
	if strings.Contains(prefix, "{") {
		panic(fmt.Sprintf("fenceredis: the prefix %q has a {, which is for the key that follows", prefix))
	}
	return &Guard{eval: g.eval, prefix: prefix}
}

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
// [*fence.StaleError], one that wraps [fence.ErrInvalid], and one for a command
// or a key that cannot be sent; then nothing was done.
func (g *Guard) Do(ctx context.Context, grant fence.Grant, keys []string, cmds ...Cmd) ([]any, error) {
	if err := fence.Validate(grant); err != nil {
		return nil, err
	}
	if strings.HasPrefix(grant.Key(), "}") {
		return nil, fmt.Errorf("fenceredis: the key %q begins with a }, so that Redis Cluster can't tell it from braces around nothing: guard by another key", grant.Key())
	}
	args := []any{strconv.FormatUint(grant.Token(), 10)}
	for i, cmd := range cmds {
		if len(cmd) == 0 {
			return nil, fmt.Errorf("fenceredis: command %d of %d is empty", i+1, len(cmds))
		}
		if len(cmd) > MaxWords {
			return nil, fmt.Errorf("fenceredis: command %d of %d has %d words, more than %d: make several of it", i+1, len(cmds), len(cmd), MaxWords)
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
