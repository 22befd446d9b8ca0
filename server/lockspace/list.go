package lockspace

// Holding is a key that is held, as an operator sees it.
type Holding struct {
	Key    []byte // valid until the next call of a method of the Space
	Token  uint64
	Holder Session // who was told of the grant last; 0: nobody on this node
	// Since is when the grant was made, on whatever node: late by the way of the
	// messages from there, never early.
	Since   Time
	Until   Time
	Waiting int // who wait for it, detached ones too
}

// Queued is somebody who waits for a key.
type Queued struct {
	Session Session // 0: its connection is gone, or it came from another node
	// Since is when it was asked first. What another node knew of it counts, of
	// those with a nonce: late by the way of the messages, never early.
	Since Time
	Until Time // Never: no limit
}

func (s *Space) holding(e *entry) Holding {
	h := Holding{Key: e.key, Token: e.token, Holder: e.holder, Since: e.since, Until: e.deadline}
	if e.line != nil {
		h.Waiting = e.line.attached.len() + e.line.detached
	}
	return h
}

// Listing goes over the keys that are held, in no order, in portions between
// which the table goes on. Every key that is held all the while comes once.
type Listing struct {
	s    *Space
	left []*entry
}

// List begins a listing. It copies a pointer for each key that is held; all
// else is done by Next.
func (s *Space) List() *Listing {
	l := &Listing{s: s, left: make([]*entry, len(s.leases.items))}
	for i := range s.leases.items {
		l.left[i] = s.leases.items[i].v
	}
	return l
}

// Next calls f for the next keys, at most `most`, and reports whether there
// are more.
func (l *Listing) Next(most int, f func(*Holding)) (more bool) {
	n := min(most, len(l.left))
	for _, e := range l.left[:n] {
		if e.token != 0 { // else it has ended meanwhile; the entry may be another key's by now
			h := l.s.holding(e)
			f(&h)
		}
	}
	l.left = l.left[n:]
	return len(l.left) > 0
}

// Look returns the key and the first who wait for it, at most `most`, in the
// order of the line. It reports false if nobody holds it. Nothing is ended by
// looking, not even what is overdue.
//
// A waiter that has lost its connection to this node is counted, but has no
// place among the first.
func (s *Space) Look(key []byte, most int) (h Holding, first []Queued, ok bool) {
	e := s.findAsIs(key)
	if e == nil || e.token == 0 {
		return Holding{}, nil, false
	}
	h = s.holding(e)
	if e.line == nil {
		return h, nil, true
	}
	// The least of a heap, without taking it apart: each one that is taken
	// makes room for its children.
	var next heap[place]
	reach := func(of *heap[inLine], i int) {
		if i < of.len() {
			next.push(of.items[i].at, 0, place{of, i})
		}
	}
	reach(&e.line.attached, 0)
	reach(&e.line.replicas, 0)
	for next.len() > 0 && len(first) < most {
		p := next.items[0].v
		next.remove(0)
		r := p.of.items[p.i].v.request
		first = append(first, Queued{Session: r.session, Since: r.place.since, Until: r.place.until})
		for child := 4*p.i + 1; child <= 4*p.i+4; child++ {
			reach(p.of, child)
		}
	}
	return h, first, true
}

// place is a slot of the heap of a line.
type place struct {
	of *heap[inLine]
	i  int
}

func (place) setSlot(int32) {}
