package lockspace

// heap is a 4-ary heap of values ordered by (at, seq). Each value knows its
// slot, so that any of them is moved or removed in O(log n). Four children
// to a node: half the levels of a binary heap, and the children share a
// cache line or two.
//
// The newest may wait at the end, in no order, until there are more than
// `most` of them: what is taken out soon after it was put in then costs no way
// through the heap, which is long and in no cache where a short lease is
// granted among a million long ones. The first item is before all of them.
type heap[T slotted] struct {
	items  []item[T]
	heaped int // items[:heaped] is the heap, the rest are the newest
	most   int
}

type item[T slotted] struct {
	at  int64
	seq uint64 // breaks ties, so that the order never depends on chance
	v   T
}

type slotted interface {
	setSlot(int32)
}

func (h *heap[T]) len() int { return len(h.items) }

func (h *heap[T]) push(at int64, seq uint64, v T) {
	i := len(h.items)
	h.items = append(h.items, item[T]{at, seq, v})
	if i-h.heaped < h.most && i > 0 {
		v.setSlot(int32(i))
		h.lead(i)
		return
	}
	for ; h.heaped <= i; h.heaped++ {
		h.up(h.heaped)
	}
}

// lead makes one of the newest the first item if it comes before that.
func (h *heap[T]) lead(i int) {
	if first := &h.items[0]; h.less(&h.items[i], first) {
		h.items[i], *first = *first, h.items[i]
		first.v.setSlot(0)
		h.items[i].v.setSlot(int32(i))
	}
}

// first is the slot of the first of the newest; there are some.
func (h *heap[T]) first() int {
	first := h.heaped
	for i := first + 1; i < len(h.items); i++ {
		if h.less(&h.items[i], &h.items[first]) {
			first = i
		}
	}
	return first
}

// remove takes out the value in the slot.
func (h *heap[T]) remove(slot int32) {
	i := int(slot)
	if i == 0 && h.heaped < len(h.items) {
		if first := h.first(); h.beforeChildren(&h.items[first]) {
			h.fill(0, first)
			i = first
		}
	}
	if i < h.heaped {
		h.heaped--
		if last := h.heaped; i != last {
			h.items[i] = h.items[last]
			h.settle(i)
			i = last
		}
	}
	last := len(h.items) - 1
	if i != last {
		h.fill(i, last)
	}
	h.items[last] = item[T]{}
	h.items = h.items[:last]
	if c := cap(h.items); c > keptPool && 4*last < c {
		h.items = append(make([]item[T], 0, c/2), h.items...) // after a burst
	}
}

// fill puts another item into a slot that is free.
func (h *heap[T]) fill(i, from int) {
	h.items[i] = h.items[from]
	h.items[i].v.setSlot(int32(i))
}

// beforeChildren reports whether an item comes before all but the first of the
// heap.
func (h *heap[T]) beforeChildren(it *item[T]) bool {
	for c := 1; c < min(5, h.heaped); c++ {
		if h.less(&h.items[c], it) {
			return false
		}
	}
	return true
}

// move gives the value in the slot another deadline.
func (h *heap[T]) move(slot int32, at int64) {
	i := int(slot)
	h.items[i].at = at
	if i >= h.heaped {
		h.lead(i)
		return
	}
	h.settle(i)
	if i == 0 && h.heaped < len(h.items) {
		h.lead(h.first())
	}
}

// reorder restores the order after every deadline was changed in place.
func (h *heap[T]) reorder() {
	h.heaped = len(h.items)
	for i := (h.heaped - 2) / 4; i >= 0 && h.heaped > 1; i-- {
		h.down(i)
	}
}

func (h *heap[T]) settle(i int) {
	if !h.up(i) {
		h.down(i)
	}
}

// ordered reports whether nothing comes before its parent, and none of the
// newest before the first.
func (h *heap[T]) ordered() bool {
	for i := 1; i < len(h.items); i++ {
		parent := (i - 1) / 4
		if i >= h.heaped {
			parent = 0
		}
		if h.less(&h.items[i], &h.items[parent]) {
			return false
		}
	}
	return h.heaped <= len(h.items) && len(h.items)-h.heaped <= h.most
}

func (h *heap[T]) less(a, b *item[T]) bool {
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

func (h *heap[T]) up(i int) (moved bool) {
	it := h.items[i]
	for i > 0 {
		parent := (i - 1) / 4
		if !h.less(&it, &h.items[parent]) {
			break
		}
		h.items[i] = h.items[parent]
		h.items[i].v.setSlot(int32(i))
		i, moved = parent, true
	}
	h.items[i] = it
	it.v.setSlot(int32(i))
	return moved
}

func (h *heap[T]) down(i int) {
	it := h.items[i]
	for {
		least := 4*i + 1
		if least >= h.heaped {
			break
		}
		for c := least + 1; c < min(4*i+5, h.heaped); c++ {
			if h.less(&h.items[c], &h.items[least]) {
				least = c
			}
		}
		if !h.less(&h.items[least], &it) {
			break
		}
		h.items[i] = h.items[least]
		h.items[i].v.setSlot(int32(i))
		i = least
	}
	h.items[i] = it
	it.v.setSlot(int32(i))
}
