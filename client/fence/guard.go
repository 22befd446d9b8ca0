package fence

import (
	"context"
	"fmt"
	"sync"
)

// DefaultMaxKeys is how many keys a [Guard] remembers unless it is told
// otherwise: some 30 MB with keys of 50 bytes.
const DefaultMaxKeys = 100_000

// Guard remembers the greatest token of each key, in memory. It suits
// something that lives in this process and is written by holders elsewhere,
// as the state behind a server's handler does: what was written and what was
// seen end together: at a restart both are forgotten, and another replica of
// the process has both of its own. What outlives the process, or is shared with
// others, needs a guard that does so too. The zero value is ready to use, by
// many goroutines.
//
// It remembers MaxKeys keys. Beyond them it forgets the key that was not used
// for the longest time, and remembers the greatest token of all that it has
// forgotten. Tokens of one cluster rise over all keys, so a key that it does
// not know may come with that token or a greater one; a lower one is refused,
// as it may be stale. That meets a holder whose grant is older than the last use
// of MaxKeys other keys and which has not been here since; and, while the
// cluster is cut in two and both sides grant, holders of the side whose tokens
// are the lower ones. They get a [*StaleError] that says Forgotten, and can
// acquire their key again, from the side that goes on. So one Guard is for
// keys of one cluster.
type Guard struct {
	// MaxKeys is how many keys are remembered, 0 for [DefaultMaxKeys]. Keys
	// that are in use are remembered in any case. It must not be changed once
	// the guard is used.
	MaxKeys int

	mu    sync.Mutex
	keys  map[string]*seen
	floor uint64 // the greatest token of the keys forgotten
	// Keys that nobody is at, in a ring around idle: idle.next was used last,
	// idle.prev is forgotten next.
	idle seen
}

// seen is what is remembered of a key.
type seen struct {
	key        string
	turn       chan struct{} // has room while nobody writes
	users      int           // that write or wait for their turn; guarded by Guard.mu
	next, prev *seen         // in the ring, if there are no users; guarded by Guard.mu

	// For whoever has the turn.
	token uint64 // the greatest, or the floor if none was accepted
	known bool   // one was accepted
}

// Check accepts the grant if its token is not lower than the greatest one seen
// for the key, and remembers it. Else the error is a [*StaleError]. It waits
// while a write of the key runs, and returns the context's error if ctx ends
// before.
//
// A write that follows Check may come after the next holder's. [Guard.Do]
// makes the two one step. Check alone is right before reading, see the
// package's documentation.
func (g *Guard) Check(ctx context.Context, grant Grant) error {
	return g.Do(ctx, grant, func() error { return nil })
}

// Do runs write if [Guard.Check] would accept the grant, and returns its
// error. Until write returns, no other write of the key is checked or run: so
// write must not call the guard for the same key, for which it would wait in
// vain, and must not leave anything behind that goes on writing. A write that
// fails still counts as seen.
func (g *Guard) Do(ctx context.Context, grant Grant, write func() error) error {
	if err := Validate(grant); err != nil {
		return err
	}
	key, token := grant.Key(), grant.Token()
	if ctx.Err() != nil {
		return ended(ctx)
	}
	s := g.enter(key)
	defer g.leave(s)
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return ended(ctx)
	}
	defer func() { <-s.turn }()
	if token < s.token {
		return &StaleError{Key: key, Token: token, Seen: s.token, Forgotten: !s.known}
	}
	s.token, s.known = token, true
	return write()
}

// ended is the error of a context that has ended, with its cause.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != ctx.Err() {
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return ctx.Err()
}

// Len returns how many keys are remembered.
func (g *Guard) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.keys)
}

// enter finds the key or makes it, and keeps it from being forgotten.
func (g *Guard) enter(key string) *seen {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.keys == nil {
		g.keys = make(map[string]*seen)
		g.idle.next, g.idle.prev = &g.idle, &g.idle
	}
	s := g.keys[key]
	switch {
	case s == nil:
		// If it was forgotten, what was seen of it is not above the floor.
		s = &seen{key: key, turn: make(chan struct{}, 1), token: g.floor}
		g.keys[key] = s
	case s.users == 0:
		s.next.prev, s.prev.next = s.prev, s.next
	}
	s.users++
	return s
}

// leave lets the key be forgotten once nobody is at it.
func (g *Guard) leave(s *seen) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s.users--; s.users > 0 {
		return
	}
	if !s.known {
		delete(g.keys, s.key) // there is nothing to remember
		return
	}
	s.next, s.prev = g.idle.next, &g.idle
	s.next.prev, s.prev.next = s, s
	limit := g.MaxKeys
	if limit <= 0 {
		limit = DefaultMaxKeys
	}
	for len(g.keys) > limit && g.idle.prev != &g.idle {
		old := g.idle.prev
		old.prev.next, old.next.prev = old.next, old.prev
		delete(g.keys, old.key)
		g.floor = max(g.floor, old.token)
	}
}
