package lockspace

// heap is a 4-ary heap of values ordered by (at, seq). Each value knows its
// slot, so that any of them is moved or removed in O(log n). Four children
// to a node: half the levels of a binary heap, and the children share a
// cache line or two.
type heap[T slotted] struct {
	items []item[T]
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
	h.items = append(h.items, item[T]{at, seq, v})
	h.up(len(h.items) - 1)
}

// remove takes out the value in the slot.
func (h *heap[T]) remove(slot int32) {
	i, last := int(slot), len(h.items)-1
	moved := h.items[last]
	h.items[last] = item[T]{}
	h.items = h.items[:last]
	if i != last {
		h.items[i] = moved
		h.settle(i)
	}
}

// move gives the value in the slot another deadline.
func (h *heap[T]) move(slot int32, at int64) {
	h.items[slot].at = at
	h.settle(int(slot))
}

// reorder restores the order after every deadline was changed in place.
func (h *heap[T]) reorder() {
	for i := (len(h.items) - 2) / 4; i >= 0 && len(h.items) > 1; i-- {
		h.down(i)
	}
}

func (h *heap[T]) settle(i int) {
	if !h.up(i) {
		h.down(i)
	}
}

// ordered reports whether nothing comes before its parent.
func (h *heap[T]) ordered() bool {
	for i := 1; i < len(h.items); i++ {
		if h.less(&h.items[i], &h.items[(i-1)/4]) {
			return false
		}
	}
	return true
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
		if least >= len(h.items) {
			break
		}
		for c := least + 1; c < min(4*i+5, len(h.items)); c++ {
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
