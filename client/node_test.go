package client

import (
	"fmt"
	"sync"
	"time"
)

// node is a small, slow and honest lock server, written from the protocol
// alone: queues in order of arrival, waits, leases, nonces and C, and answers
// for equal keys held back until it is their turn. Several servers can share
// one node, as a cluster with an active that is always reachable.
type node struct {
	mu     sync.Mutex
	keys   map[string]*nodeKey
	nonces map[string]*nodeWaiter // by key and nonce, also granted ones
	spent  map[string]bool
	turns  map[nodeTurn][]*nodeSlot
	grants int
}

type nodeKey struct {
	holder *nodeWaiter
	queue  []*nodeWaiter
}

type nodeWaiter struct {
	conn  *sconn // nil while detached
	key   string
	nonce string
	lease time.Duration
	slot  *nodeSlot

	token uint64
	until time.Time
	limit *time.Timer
	end   *time.Timer
}

type nodeTurn struct {
	conn *sconn
	key  string
}

type nodeSlot struct {
	turn nodeTurn
	text string
}

func newNode() *node {
	return &node{
		keys: make(map[string]*nodeKey), nonces: make(map[string]*nodeWaiter),
		spent: make(map[string]bool), turns: make(map[nodeTurn][]*nodeSlot),
	}
}

// held and waiting count what is left at the node.
func (d *node) left() (held, waiting int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, k := range d.keys {
		if k.holder != nil {
			held++
		}
		waiting += len(k.queue)
	}
	return held, waiting
}

func (d *node) handle(c *sconn, r request4) {
	d.mu.Lock()
	defer d.mu.Unlock()
	k := d.keys[r.key]
	if k == nil {
		k = &nodeKey{}
		d.keys[r.key] = k
	}
	switch r.op {
	case opA:
		d.acquire(c, k, r)
	case opR, opK:
		h := k.holder
		switch {
		case h == nil || h.token != r.token || !time.Now().Before(h.until):
			c.send("E %v %s not-held", r.op, r.key)
		case r.op == opR:
			c.send("R %s %d", r.key, r.token)
			d.free(k)
		default:
			h.lease = r.lease
			d.run(k, h)
			c.send("K %s %d %s", r.key, r.token, leaseText(r.lease))
		}
	case opC:
		id := r.key + " " + r.nonce
		w := d.nonces[id]
		d.spent[id] = true
		delete(d.nonces, id)
		switch {
		case w == nil:
		case k.holder == w:
			d.free(k)
		default:
			d.leave(k, w)
			d.answer(w.slot, "T "+r.key)
		}
		c.send("C %s %s", r.key, r.nonce)
	}
}

func (d *node) acquire(c *sconn, k *nodeKey, r request4) {
	slot := &nodeSlot{turn: nodeTurn{c, r.key}}
	d.turns[slot.turn] = append(d.turns[slot.turn], slot)
	id := r.key + " " + r.nonce
	if r.nonce != "" {
		if d.spent[id] {
			d.answer(slot, "E A "+r.key+" spent")
			return
		}
		if w := d.nonces[id]; w != nil {
			if w == k.holder {
				left := max(time.Until(w.until), 0).Truncate(time.Millisecond)
				d.answer(slot, fmt.Sprintf("A %s %d %s", w.key, w.token, leaseOrZero(left)))
				return
			}
			if w.slot != nil {
				d.answer(w.slot, "E A "+r.key+" superseded")
			}
			w.conn, w.slot, w.lease = c, slot, r.lease
			d.limit(k, w, r.wait)
			return
		}
	}
	w := &nodeWaiter{conn: c, key: r.key, nonce: r.nonce, lease: r.lease, slot: slot}
	if r.nonce != "" {
		d.nonces[id] = w
	}
	if k.holder == nil {
		d.grant(k, w)
		return
	}
	if r.wait < 0 {
		d.spend(w)
		d.answer(slot, "T "+r.key)
		return
	}
	k.queue = append(k.queue, w)
	d.limit(k, w, r.wait)
}

func leaseOrZero(d time.Duration) string {
	if d == 0 {
		return "0"
	}
	return leaseText(d)
}

func (d *node) spend(w *nodeWaiter) {
	if w.nonce != "" {
		d.spent[w.key+" "+w.nonce] = true
		delete(d.nonces, w.key+" "+w.nonce)
	}
}

func (d *node) limit(k *nodeKey, w *nodeWaiter, wait time.Duration) {
	if w.limit != nil {
		w.limit.Stop()
	}
	if wait == 0 {
		return
	}
	w.limit = time.AfterFunc(wait, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.leave(k, w) {
			d.spend(w)
			d.answer(w.slot, "T "+w.key)
		}
	})
}

func (d *node) leave(k *nodeKey, w *nodeWaiter) bool {
	for i, x := range k.queue {
		if x == w {
			k.queue = append(k.queue[:i], k.queue[i+1:]...)
			if w.limit != nil {
				w.limit.Stop()
			}
			return true
		}
	}
	return false
}

func (d *node) grant(k *nodeKey, w *nodeWaiter) {
	w.token = nextToken()
	d.grants++
	k.holder = w
	if w.limit != nil {
		w.limit.Stop()
	}
	if w.lease == 0 {
		w.lease = 30 * time.Second
	}
	d.run(k, w)
	d.answer(w.slot, fmt.Sprintf("A %s %d %s", w.key, w.token, leaseText(w.lease)))
}

func (d *node) run(k *nodeKey, w *nodeWaiter) {
	w.until = time.Now().Add(w.lease)
	if w.end != nil {
		w.end.Stop()
	}
	w.end = time.AfterFunc(w.lease, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if k.holder == w && !time.Now().Before(w.until) {
			d.free(k)
		}
	})
}

// free ends the holder and hands the key to the first attached waiter.
func (d *node) free(k *nodeKey) {
	d.spend(k.holder)
	k.holder.end.Stop()
	k.holder = nil
	for _, w := range k.queue {
		if w.conn != nil {
			d.leave(k, w)
			d.grant(k, w)
			return
		}
	}
}

func (d *node) answer(s *nodeSlot, text string) {
	if s == nil {
		return
	}
	s.text = text
	turn := d.turns[s.turn]
	for len(turn) > 0 && turn[0].text != "" {
		s.turn.conn.send("%s", turn[0].text)
		turn = turn[1:]
	}
	if len(turn) == 0 {
		delete(d.turns, s.turn)
		return
	}
	d.turns[s.turn] = turn
}

// drop is told of a connection that ended.
func (d *node) drop(c *sconn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, k := range d.keys {
		for i := 0; i < len(k.queue); i++ {
			w := k.queue[i]
			if w.conn != c {
				continue
			}
			if w.nonce == "" {
				d.leave(k, w)
				i--
				continue
			}
			w.conn, w.slot = nil, nil
			time.AfterFunc(time.Second, func() {
				d.mu.Lock()
				defer d.mu.Unlock()
				if w.conn == nil && d.leave(k, w) {
					d.spend(w)
				}
			})
		}
	}
	for turn := range d.turns {
		if turn.conn == c {
			delete(d.turns, turn)
		}
	}
}

// nodeServer is a server of the node.
func (w *world) nodeServer(addr string, d *node, set ...func(s *server)) *server {
	return w.server(addr, d.handle, append(set, func(s *server) { s.ended = d.drop })...)
}
