package client

import "time"

// acquireList is every unfinished acquire.
type acquireList struct{ head *acquire }

func (l *acquireList) push(a *acquire) {
	a.prev, a.next = nil, l.head
	if l.head != nil {
		l.head.prev = a
	}
	l.head = a
}

func (l *acquireList) remove(a *acquire) {
	if a.prev != nil {
		a.prev.next = a.next
	} else {
		l.head = a.next
	}
	if a.next != nil {
		a.next.prev = a.prev
	}
	a.prev, a.next = nil, nil
}

// acquireFIFO is acquires that wait for something, oldest first.
type acquireFIFO struct{ head, tail *acquire }

func (q *acquireFIFO) push(a *acquire) {
	a.prevWait, a.nextWait = q.tail, nil
	if q.tail == nil {
		q.head = a
	} else {
		q.tail.nextWait = a
	}
	q.tail = a
}

func (q *acquireFIFO) pushFront(a *acquire) {
	a.prevWait, a.nextWait = nil, q.head
	if q.head == nil {
		q.tail = a
	} else {
		q.head.prevWait = a
	}
	q.head = a
}

func (q *acquireFIFO) remove(a *acquire) {
	if a.prevWait == nil {
		q.head = a.nextWait
	} else {
		a.prevWait.nextWait = a.nextWait
	}
	if a.nextWait == nil {
		q.tail = a.prevWait
	} else {
		a.nextWait.prevWait = a.prevWait
	}
	a.prevWait, a.nextWait = nil, nil
}

func (q *acquireFIFO) pop() *acquire {
	a := q.head
	q.remove(a)
	return a
}

// idSet is a small set of connection ids.
type idSet []uint64

func (s idSet) has(id uint64) bool {
	for _, x := range s {
		if x == id {
			return true
		}
	}
	return false
}

func (s *idSet) add(id uint64) {
	if !s.has(id) {
		*s = append(*s, id)
	}
}

// freeList keeps what every call needs, so that a steady load allocates
// little. It belongs to one client and is guarded by its mu.
type freeList struct {
	requests *request
	acquires *acquire
	count    int
}

const freeAcquires = 256

func (f *freeList) request() *request {
	r := f.requests
	if r == nil {
		return new(request)
	}
	f.requests = r.next
	r.next = nil
	return r
}

func (f *freeList) putRequest(r *request) {
	*r = request{next: f.requests}
	f.requests = r
}

func (f *freeList) acquire(c *Client) *acquire {
	a := f.acquires
	if a == nil {
		a = &acquire{c: c, done: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
		a.timer.Stop()
		return a
	}
	f.acquires = a.next
	f.count--
	a.next = nil
	return a
}

// putAcquire takes back a finished acquire. One that used a timer of its own
// is left to the collector: its callback may still be about to run.
func (f *freeList) putAcquire(a *acquire) {
	if f.count >= freeAcquires || a.pauseTimer != nil {
		return
	}
	*a = acquire{
		c: a.c, done: a.done, timer: a.timer,
		tried: a.tried[:0], dialled: a.dialled[:0],
		next: f.acquires,
	}
	f.acquires = a
	f.count++
}

// pastGrants remembers grants that were given back of late, so that a
// duplicated line cannot hand one out again. It forgets by overwriting.
type pastGrants struct{ slots []grantID }

const pastSlots = 1024

func (p *pastGrants) add(key string, token uint64) {
	if p.slots == nil {
		p.slots = make([]grantID, pastSlots)
	}
	p.slots[token%pastSlots] = grantID{key, token}
}

func (p *pastGrants) has(key string, token uint64) bool {
	return p.slots != nil && p.slots[token%pastSlots] == grantID{key, token}
}
