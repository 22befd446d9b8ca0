// Package fence guards what a lock protects.
//
// A lock alone cannot stop a holder that was paused for longer than its lease
// and does not know that somebody else holds the key by now. Its token can:
// every later grant has a greater one, so whatever the lock protects remembers
// the greatest token it has seen and refuses lower ones (SPEC.md 8.3).
package fence

import (
	"errors"
	"fmt"
	"sync"
)

// ErrStale is matched by every refusal of a token that is lower than the
// greatest one seen.
var ErrStale = errors.New("stale token")

// StaleError is a refusal: the grant of Token is over, as a later grant of
// the key, with the token Seen, has been here.
type StaleError struct {
	Key         string
	Token, Seen uint64
}

// Error names both tokens.
func (e *StaleError) Error() string {
	return fmt.Sprintf("stale token %d for %q: %d was seen", e.Token, e.Key, e.Seen)
}

// Is reports whether target is [ErrStale].
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// Guard remembers the greatest token of each key, in memory. It suits
// something that lives in this process and is written by holders elsewhere,
// as the state behind a server's handler does. The zero value is ready to
// use, by many goroutines. It keeps a few words for each key it has seen, for
// as long as it lives.
type Guard struct {
	mu   sync.Mutex
	keys map[string]*seen
}

type seen struct {
	mu    sync.Mutex // held while a write of the key runs
	token uint64
}

// Check accepts the token if it is not lower than the greatest one seen for
// the key, and remembers it; an equal one is the same grant again. Else the
// error is a [*StaleError].
//
// A write that follows Check may come after the next holder's. [Guard.Do]
// makes the two one step.
func (g *Guard) Check(key string, token uint64) error {
	return g.Do(key, token, func() error { return nil })
}

// Do runs write if [Guard.Check] would accept the token, and returns its
// error. Until write returns, no other write of the key is checked or run.
func (g *Guard) Do(key string, token uint64, write func() error) error {
	s := g.of(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if token < s.token {
		return &StaleError{Key: key, Token: token, Seen: s.token}
	}
	s.token = token
	return write()
}

func (g *Guard) of(key string) *seen {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.keys[key]
	if s == nil {
		if g.keys == nil {
			g.keys = make(map[string]*seen)
		}
		s = new(seen)
		g.keys[key] = s
	}
	return s
}
