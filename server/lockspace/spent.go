package lockspace

// spentNonces are the nonces that are spent, in the order in which they were.
// Each has a place among all there ever were, which never changes.
//
// They lie in a ring, chained by the buckets of a hash from the newer to the
// older. Those that are forgotten are always the oldest, and a chain ends
// where it leaves the ring; so nothing has to be unlinked, and a nonce that is
// forgotten costs no look at a bucket. No pointers: the collector has nothing
// to do here.
type spentNonces struct {
	hash        pairHash
	ring        []spentNonce // a power of two; the place p is at p modulo its length
	heads       []uint32     // by hash, twice as many: the newest of each, 32 bits of its place
	first, next uint64       // places: of the oldest, and of the next to come
	n           int          // those between that are not unknown again
}

type spentNonce struct {
	fp   fingerprint
	at   Time
	link uint32 // the next older one of its bucket; a place like those in heads
	gone bool   // it is unknown again
}

// span is how many places the ring takes, those that are unknown again too.
func (q *spentNonces) span() int { return int(q.next - q.first) }

// at is the nonce at a place from first on, before next.
func (q *spentNonces) at(place uint64) *spentNonce { return &q.ring[place&uint64(len(q.ring)-1)] }

// find returns the nonce, nil if it is not spent.
func (q *spentNonces) find(fp fingerprint) *spentNonce {
	if q.n == 0 {
		return nil
	}
	place, span := q.heads[q.hash.of(fp)&uint32(len(q.heads)-1)], uint32(q.span())
	// A bucket or a link that is so old that its 32 bits have come round leads
	// into another chain: nothing is found there, and that ends, too.
	for age := uint32(q.next) - place; age-1 < span; age = uint32(q.next) - place {
		v := q.at(uint64(place))
		if v.fp == fp && !v.gone {
			return v
		}
		if place = v.link; uint32(q.next)-place <= age {
			break
		}
	}
	return nil
}

// push adds the newest, which is not in it.
func (q *spentNonces) push(fp fingerprint, at Time) {
	if q.span() == len(q.ring) {
		q.resize(max(64, 2*len(q.ring)))
	}
	q.put(q.next, spentNonce{fp: fp, at: at})
	q.next++
	q.n++
}

func (q *spentNonces) put(place uint64, v spentNonce) {
	head := &q.heads[q.hash.of(v.fp)&uint32(len(q.heads)-1)]
	v.link = *head
	*head = uint32(place)
	*q.at(place) = v
}

// pop forgets the oldest.
func (q *spentNonces) pop() {
	q.first++
	q.n--
	q.skip()
}

// drop makes one that find returned unknown again.
func (q *spentNonces) drop(v *spentNonce) {
	v.gone = true
	q.n--
	q.skip()
}

// skip makes the oldest one that counts.
func (q *spentNonces) skip() {
	for q.first < q.next && q.at(q.first).gone {
		q.first++
	}
}

// shrink gives memory back after a burst.
func (q *spentNonces) shrink() {
	if len(q.ring) > keptPool && 8*q.span() < len(q.ring) {
		q.resize(len(q.ring) / 4)
	}
}

func (q *spentNonces) resize(n int) {
	old := *q
	q.ring, q.heads = make([]spentNonce, n), make([]uint32, 2*n)
	for i := range q.heads {
		q.heads[i] = uint32(q.first) - 1 // of no place in the ring
	}
	for place := q.first; place < q.next; place++ {
		q.put(place, *old.at(place))
	}
}
