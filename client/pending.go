package client

import (
	"time"

	"github.com/stile-lock/stile/protocol"
)

const (
	opA = protocol.OpAcquire
	opR = protocol.OpRelease
	opK = protocol.OpKeep
	opC = protocol.OpCancel
	opP = protocol.OpPing
	opH = protocol.OpHello
)

// request is one line that was sent and not yet answered.
type request struct {
	conn  *conn
	op    protocol.Op
	key   string
	token uint64 // R, K
	nonce nonce  // A, C
	sent  time.Time
	order uint64 // its place in the order of its connection, from 1

	// owner is told what became of it; nil if nobody wants to know.
	owner owner

	// deadline (A) is when its own limit ends; zero for no limit.
	deadline time.Time

	// from and fromOrder (A) are the connection that the acquire was moved
	// from together with its nonce, and its place there; 0 for none.
	from, fromOrder uint64

	behind     *request // the next with the same op and key
	prev, next *request // all of the connection, in order
}

// owner is told, with Client.mu held, what became of a request. Either method
// is called, once; r is invalid when it returns.
type owner interface {
	answered(r *request, a *protocol.Answer, now time.Time)
	dropped(r *request, reason error, now time.Time)
}

// pending is what a connection owes: for each op and key a queue, because
// answers for equal op and key come in the order of the requests, and the
// order of them all, in which they are moved on when the connection drops.
type pending struct {
	queues map[pendingKey]*pendingQueue
	first  *request
	last   *request
	count  int
	orders uint64
	spare  *pendingQueue // one emptied queue, to be used again
}

type pendingKey struct {
	op  protocol.Op
	key string
}

type pendingQueue struct {
	head, tail *request

	// unlimited and latest bound the limits of all acquires that stood in the
	// queue since it was last empty.
	unlimited bool
	latest    time.Time

	// onlyFrom is the one old connection that every acquire in the queue
	// was moved from with its nonce, and fromOrder the last one's place
	// there. 0 if there is no such connection.
	onlyFrom, fromOrder uint64
}

// queue returns what is owed for op and key, nil if nothing.
func (p *pending) queue(op protocol.Op, key string) *pendingQueue {
	return p.queues[pendingKey{op, key}]
}

// oldest returns the request that an answer for op and key belongs to.
func (p *pending) oldest(op protocol.Op, key []byte) *request {
	if q := p.queues[pendingKey{op, string(key)}]; q != nil {
		return q.head
	}
	return nil
}

func (p *pending) push(r *request) {
	p.orders++
	r.order = p.orders
	p.count++
	r.prev, r.next = p.last, nil
	if p.last == nil {
		p.first = r
	} else {
		p.last.next = r
	}
	p.last = r

	k := pendingKey{r.op, r.key}
	q := p.queues[k]
	if q == nil {
		if q = p.spare; q != nil {
			p.spare = nil
		} else {
			q = new(pendingQueue)
		}
		*q = pendingQueue{onlyFrom: r.from}
		if p.queues == nil {
			p.queues = make(map[pendingKey]*pendingQueue)
		}
		p.queues[k] = q
	}
	if q.head == nil {
		q.head = r
	} else {
		q.tail.behind = r
	}
	q.tail = r
	if q.onlyFrom != r.from {
		q.onlyFrom = 0
	}
	q.fromOrder = r.fromOrder
	if r.deadline.IsZero() {
		q.unlimited = true
	} else if r.deadline.After(q.latest) {
		q.latest = r.deadline
	}
}

// pop removes r, which must be the oldest of its op and key.
func (p *pending) pop(r *request) {
	k := pendingKey{r.op, r.key}
	q := p.queues[k]
	if q == nil || q.head != r {
		panic("client: answered request is not the oldest of its op and key")
	}
	if q.head = r.behind; q.head == nil {
		delete(p.queues, k)
		p.spare = q
	}
	r.behind = nil
	p.count--
	if r.prev == nil {
		p.first = r.next
	} else {
		r.prev.next = r.next
	}
	if r.next == nil {
		p.last = r.prev
	} else {
		r.next.prev = r.prev
	}
	r.prev, r.next = nil, nil
}

// takeAll empties the table and returns the oldest request; the others hang
// on it in order, by next.
func (p *pending) takeAll() *request {
	first := p.first
	*p = pending{orders: p.orders}
	return first
}
