package sim

import "time"

// Time is virtual time since the beginning of a run.
type Time = time.Duration

type event struct {
	at  Time
	seq uint64
	f   func()
}

// queue has what is to happen, in order of time; what is due at the same
// time happens in the order in which it was put in.
type queue struct {
	heap []event
	seq  uint64
}

func (q *queue) push(at Time, f func()) {
	q.seq++
	h := append(q.heap, event{at, q.seq, f})
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !h[i].before(&h[up]) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
	q.heap = h
}

func (q *queue) pop() event {
	h := q.heap
	top := h[0]
	last := len(h) - 1
	h[0] = h[last]
	h[last] = event{}
	h = h[:last]
	for i := 0; ; {
		least := 2*i + 1
		if least >= last {
			break
		}
		if right := least + 1; right < last && h[right].before(&h[least]) {
			least = right
		}
		if !h[least].before(&h[i]) {
			break
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
	q.heap = h
	return top
}

func (e *event) before(f *event) bool {
	return e.at < f.at || e.at == f.at && e.seq < f.seq
}
