package node

import (
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stile-lock/stile/server/cluster"
	"github.com/stile-lock/stile/server/lockspace"
)

// Key is a key that is held, as an operator sees it.
type Key struct {
	Key   []byte
	Token uint64
	// Since is when it was granted; see lockspace.Holding.
	Since, Until time.Time
	Holder       Client
	Waiting      int
	Waiters      []Waiter // the first of them, in the order of the line
}

// Waiter is somebody who waits for a key.
type Waiter struct {
	Client
	Since time.Time
	Until time.Time // zero: without limit
}

// Client is a client of this node. All is zero where it was never connected
// here, or so long ago that it is forgotten.
type Client struct {
	Name string // from its hello
	Addr string
	Gone bool // its connection has ended; what it holds it still holds
}

// lookAtOnce is how many keys are looked at under one hold of a shard's lock.
const lookAtOnce = 256

// Query says which keys Keys returns.
type Query struct {
	Prefix  []byte
	After   []byte // only keys that come after it
	Limit   int    // how many, at least 1
	Waiters int    // how many of each line

	// MaxWaiters is how many waiters may be listed in all: then the page ends,
	// however few keys it has.
	MaxWaiters int
}

// Keys returns a page of the keys that are held, in bytewise order; next is what
// the following page comes after, nil if there is none. It looks at every key
// there is, in portions; a key that is held all the while is in it, if it belongs
// there.
func (n *Node) Keys(ctx context.Context, q Query) (page []Key, next []byte, err error) {
	found := leastKeys{limit: q.Limit + 1}
	err = n.eachHolding(ctx, func(h *lockspace.Holding) {
		if bytes.HasPrefix(h.Key, q.Prefix) && (q.After == nil || bytes.Compare(h.Key, q.After) > 0) {
			found.offer(h.Key)
		}
	})
	if err != nil {
		return nil, nil, err
	}
	// The heap as it is may name a key twice that changed hands meanwhile.
	keys := found.keys
	slices.SortFunc(keys, bytes.Compare)
	keys = slices.CompactFunc(keys, bytes.Equal)
	wall, listed := n.wall(), 0
	for i, key := range keys {
		if i == q.Limit || listed >= q.MaxWaiters && i > 0 {
			return page, keys[i-1], nil
		}
		k, ok := n.look(key, q.Waiters, wall)
		if ok {
			page = append(page, k)
			listed += len(k.Waiters)
		}
	}
	if len(found.keys) > q.Limit {
		next = keys[len(keys)-1]
	}
	return page, next, nil
}

// Key returns one key, with the first waiters of its line. It reports false if
// nobody holds it.
func (n *Node) Key(key []byte, waiters int) (Key, bool) { return n.look(key, waiters, n.wall()) }

// TopQuery says which keys Top returns.
type TopQuery struct {
	Prefix  []byte
	Most    int // how many of each kind
	Waiters int // how many of each line
}

// Top returns the keys that most wait for, and those that have been held for
// longest. It looks at every key there is.
func (n *Node) Top(ctx context.Context, q TopQuery) (busiest, longest []Key, err error) {
	// Who is in the lead so far, and what it takes to be.
	type lead struct {
		key []byte
		by  int64
	}
	offer := func(leads []lead, key []byte, by int64) []lead {
		if len(leads) == q.Most && leads[q.Most-1].by >= by {
			return leads
		}
		i, _ := slices.BinarySearchFunc(leads, by, func(l lead, by int64) int {
			if l.by >= by {
				return -1
			}
			return 1
		})
		return slices.Insert(leads, i, lead{bytes.Clone(key), by})[:min(q.Most, len(leads)+1)]
	}
	var lines, ages []lead
	err = n.eachHolding(ctx, func(h *lockspace.Holding) {
		if !bytes.HasPrefix(h.Key, q.Prefix) {
			return
		}
		if h.Waiting > 0 {
			lines = offer(lines, h.Key, int64(h.Waiting))
		}
		ages = offer(ages, h.Key, -int64(h.Since))
	})
	if err != nil {
		return nil, nil, err
	}
	wall := n.wall()
	look := func(leads []lead) (keys []Key) {
		for _, l := range leads {
			if k, ok := n.look(l.key, q.Waiters, wall); ok {
				keys = append(keys, k)
			}
		}
		return keys
	}
	busiest, longest = look(lines), look(ages)
	slices.SortStableFunc(busiest, func(a, b Key) int {
		return cmp.Or(b.Waiting-a.Waiting, bytes.Compare(a.Key, b.Key))
	})
	slices.SortStableFunc(longest, func(a, b Key) int {
		return cmp.Or(a.Since.Compare(b.Since), bytes.Compare(a.Key, b.Key))
	})
	return busiest, longest, nil
}

// eachHolding calls f for every key that is held, under its shard's lock.
func (n *Node) eachHolding(ctx context.Context, f func(*lockspace.Holding)) error {
	for _, sh := range n.shards {
		sh.mu.Lock()
		list := sh.space.List()
		sh.mu.Unlock()
		for more := true; more; {
			if err := ctx.Err(); err != nil {
				return err
			}
			sh.mu.Lock()
			more = list.Next(lookAtOnce, f)
			sh.mu.Unlock()
		}
	}
	return nil
}

// look returns a key as it is now. It reports false if nobody holds it.
func (n *Node) look(key []byte, waiters int, wall wall) (Key, bool) {
	sh := n.shardOfKey(key)
	sh.mu.Lock()
	h, first, ok := sh.space.Look(key, waiters)
	sh.mu.Unlock()
	if !ok {
		return Key{}, false
	}
	k := Key{
		Key: key, Token: h.Token, Since: wall.at(h.Since), Until: wall.at(h.Until),
		Holder: n.client(h.Holder), Waiting: h.Waiting,
	}
	for _, q := range first {
		w := Waiter{Client: n.client(q.Session), Since: wall.at(q.Since)}
		if q.Until != lockspace.Never {
			w.Until = wall.at(q.Until)
		}
		k.Waiters = append(k.Waiters, w)
	}
	return k, true
}

// wall turns instants into those of the clock on the wall. One is made for all
// instants of an answer, so that equal ones stay equal.
type wall struct{ origin time.Time }

func (n *Node) wall() wall { return wall{time.Now().Round(0).Add(-time.Duration(n.now()))} }

func (w wall) at(t lockspace.Time) time.Time { return w.origin.Add(time.Duration(t)) }

func (n *Node) client(s lockspace.Session) Client {
	if s == 0 {
		return Client{}
	}
	if c := n.connOf(s); c != nil {
		return c.client()
	}
	return n.departed.of(s)
}

func (c *conn) client() Client {
	who := Client{Addr: remote(c.nc)}
	if name := c.name.Load(); name != nil {
		who.Name = *name
	}
	return who
}

// leastKeys keeps the least of the keys that it is offered, as a heap with the
// greatest on top.
type leastKeys struct {
	keys  [][]byte
	limit int
}

func (l *leastKeys) offer(key []byte) {
	if len(l.keys) < l.limit {
		heap.Push(l, bytes.Clone(key))
		return
	}
	if bytes.Compare(key, l.keys[0]) < 0 {
		l.keys[0] = append(l.keys[0][:0], key...)
		heap.Fix(l, 0)
	}
}

// Len, Less, Swap, Push and Pop make it a heap.Interface.
func (l *leastKeys) Len() int           { return len(l.keys) }
func (l *leastKeys) Less(i, j int) bool { return bytes.Compare(l.keys[i], l.keys[j]) > 0 }
func (l *leastKeys) Swap(i, j int)      { l.keys[i], l.keys[j] = l.keys[j], l.keys[i] }
func (l *leastKeys) Push(x any)         { l.keys = append(l.keys, x.([]byte)) }
func (l *leastKeys) Pop() any {
	last := l.keys[len(l.keys)-1]
	l.keys = l.keys[:len(l.keys)-1]
	return last
}

// Serving reports whether the node grants, and, where it does not, the address
// of the one that does, if it is known.
func (n *Node) Serving() (serves bool, active string) {
	sh := n.shards[0]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.serving()
}

// serving is Serving, for one who has the lock.
func (sh *shard) serving() (serves bool, active string) {
	switch sh.gate.Mode() {
	case cluster.Serve:
		return true, ""
	case cluster.Redirect:
		return false, string(sh.active)
	}
	return false, ""
}

var (
	// ErrNotHeld: nobody holds the key.
	ErrNotHeld = errors.New("node: nobody holds the key")
	// ErrOtherToken: the key is held under another token.
	ErrOtherToken = errors.New("node: the key is held under another token")
	// ErrNotActive: another node is active.
	ErrNotActive = errors.New("node: another node is active")
	// ErrNoActive: the node can't change its table at the moment.
	ErrNoActive = errors.New("node: the table can't be changed at the moment")
	// ErrUncertain: the lock was broken here, but the standbys that must know do
	// not: it may be lost if this node dies.
	ErrUncertain = errors.New("node: the lock was broken here, and it is not known whether the standbys know")
)

// Broken tells of a lock that Break was asked to break.
type Broken struct {
	Holder Client
	Token  uint64 // of the holder
	Next   uint64 // of who has the key now; 0: nobody
	Active string // with ErrNotActive: its address, if it is known
}

// Break takes the key from the holder with the token, as at the end of its
// lease. In sync mode it returns when the standbys know, or with ErrUncertain
// when ctx ends first or the node loses its role.
func (n *Node) Break(ctx context.Context, key []byte, token uint64) (b Broken, err error) {
	n.awaitPass()
	now, sh := n.now(), n.shardOfKey(key)
	var t touched
	sh.lock(&t)
	h, _, _ := sh.space.Look(key, 0)
	holder, next, ok := sh.gate.Break(now, key, token)
	if !ok {
		_, b.Active = sh.serving()
	}
	redirects := sh.gate.Mode() == cluster.Redirect
	sh.settle()
	log, pos := sh.log, sh.pos
	sh.finish()
	t.flush()
	b.Token, b.Next = holder, next
	switch {
	case redirects:
		return b, ErrNotActive
	case !ok:
		return b, ErrNoActive
	case holder == 0:
		return b, ErrNotHeld
	case holder != token:
		return b, ErrOtherToken
	}
	b.Holder = n.client(h.Holder)
	if !n.sync() {
		return b, nil
	}
	for n.committed.Load() < pos {
		select {
		case <-ctx.Done():
			return b, ErrUncertain
		case <-time.After(passPoll):
		}
	}
	// Everything counts as committed at a node that is not active any more.
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.log != log {
		return b, ErrUncertain
	}
	return b, nil
}
