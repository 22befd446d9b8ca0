package lockspace

import "math/bits"

// spentNonce is a pair that was spent, and when.
type spentNonce struct {
	fp fingerprint
	at Time
}

// spentSet are the spent pairs in the order in which they were spent: a ring
// that doubles when full, and an index of it by open addressing. Nothing in it
// is a pointer, so that a million spent nonces cost the collector nothing.
type spentSet struct {
	ring    []spentNonce
	head, n int
	popped  uint64 // how many went: the place of the front among all there ever were
	shifts  uint64 // how often older ones were moved to a later place

	// index has 1 + the place in the ring, at the first free slot from the one
	// that the pair hashes to. It is twice as long as the ring.
	index []uint32
	seed  uint64
}

func (q *spentSet) front() *spentNonce { return q.at(0) }

// at is the one that i others came before.
func (q *spentSet) at(i int) *spentNonce { return &q.ring[(q.head+i)&(len(q.ring)-1)] }

// home is the slot that the pair hashes to. Clients choose the fingerprints,
// and must not choose the slots: the product depends on all of the secret seed
// and of both halves.
func (q *spentSet) home(fp fingerprint) int {
	hi, lo := bits.Mul64(fp.Lo^q.seed, fp.Hi^(q.seed<<32|q.seed>>32))
	return int(hi^lo) & (len(q.index) - 1)
}

// slot is where the pair is in the index, or the free slot where it would be.
func (q *spentSet) slot(fp fingerprint) (i int, there bool) {
	for i = q.home(fp); q.index[i] != 0; i = (i + 1) & (len(q.index) - 1) {
		if q.ring[q.index[i]-1].fp == fp {
			return i, true
		}
	}
	return i, false
}

func (q *spentSet) has(fp fingerprint) bool {
	if q.n == 0 {
		return false
	}
	_, there := q.slot(fp)
	return there
}

// push adds a pair that is not in the set.
func (q *spentSet) push(v spentNonce) {
	if q.n == len(q.ring) {
		q.resize(max(64, 2*q.n))
	}
	q.n++
	*q.at(q.n - 1) = v
	q.enter(q.n - 1)
}

// enter puts the one at i into the index.
func (q *spentSet) enter(i int) {
	at, _ := q.slot(q.at(i).fp)
	q.index[at] = uint32((q.head+i)&(len(q.ring)-1)) + 1
}

func (q *spentSet) resize(to int) {
	ring := make([]spentNonce, to)
	for i := range q.n {
		ring[i] = *q.at(i)
	}
	q.ring, q.head, q.index = ring, 0, make([]uint32, 2*to)
	for i := range q.n {
		q.enter(i)
	}
}

// pop takes out the oldest.
func (q *spentSet) pop() {
	q.forget(q.front().fp)
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
	q.popped++
}

// forget takes a pair out of the index, and moves those up that it stood in
// the way of.
func (q *spentSet) forget(fp fingerprint) {
	hole, _ := q.slot(fp)
	mask := len(q.index) - 1
	for i := (hole + 1) & mask; q.index[i] != 0; i = (i + 1) & mask {
		home := q.home(q.ring[q.index[i]-1].fp)
		if (i-home)&mask >= (i-hole)&mask {
			q.index[hole], hole = q.index[i], i
		}
	}
	q.index[hole] = 0
}

// remove takes out a pair, wherever it is. It reports whether it was there.
// The older ones move to a later place each.
func (q *spentSet) remove(fp fingerprint) bool {
	if q.n == 0 {
		return false
	}
	slot, there := q.slot(fp)
	if !there {
		return false
	}
	i := (int(q.index[slot]-1) - q.head) & (len(q.ring) - 1)
	for ; i > 0; i-- {
		older := q.at(i - 1).fp
		from, _ := q.slot(older)
		to, _ := q.slot(q.at(i).fp)
		*q.at(i), *q.at(i - 1) = *q.at(i - 1), *q.at(i)
		q.index[from], q.index[to] = q.index[to], q.index[from]
	}
	q.pop()
	q.shifts++
	return true
}

// giveBack frees the memory of a burst that has passed.
func (q *spentSet) giveBack() {
	if q.n == 0 && len(q.ring) > keptPool {
		q.ring, q.index, q.head = nil, nil, 0
	}
}
