package lockspace

import (
	"iter"
	"math/bits"
)

// table finds entries by the hash of their key. It grows and shrinks by one
// bucket at a time (linear hashing), so that no call has to move everything,
// and links entries through themselves, so that it costs a pointer for each.
type table struct {
	buckets []*entry
	n       int
}

const (
	// minBuckets are never given back.
	minBuckets = 16
	// shrinkBelow: there are at most that many buckets to an entry, as soon as
	// entries leave.
	shrinkBelow = 4
)

func newTable() table { return table{buckets: make([]*entry, minBuckets)} }

// bucket is the place of a hash: among the next power of two of buckets, or
// half of that where it was not split yet.
func (t *table) bucket(hash uint64) **entry {
	top := uint64(1)<<bits.Len(uint(len(t.buckets)-1)) - 1
	i := hash & top
	if i >= uint64(len(t.buckets)) {
		i &= top >> 1
	}
	return &t.buckets[i]
}

// first is the first of those that may have the hash; they are chained by
// next.
func (t *table) first(hash uint64) *entry { return *t.bucket(hash) }

func (t *table) add(e *entry) {
	if t.n++; t.n > len(t.buckets) {
		t.split()
	}
	at := t.bucket(e.hash)
	e.next, *at = *at, e
}

// drop takes out an entry that is in the table.
func (t *table) drop(e *entry) {
	at := t.bucket(e.hash)
	for *at != e {
		at = &(*at).next
	}
	*at, e.next = e.next, nil
	t.n--
	// As many as it takes to keep up.
	for i := 0; i < shrinkBelow && t.n < len(t.buckets)/shrinkBelow && len(t.buckets) > minBuckets; i++ {
		t.merge()
	}
}

// lower is the bucket that bucket i is split off from.
func lower(i int) int { return i &^ (1 << (bits.Len(uint(i)) - 1)) }

// split adds a bucket.
func (t *table) split() {
	last := len(t.buckets)
	t.buckets = append(t.buckets, nil)
	from := &t.buckets[lower(last)]
	to := &t.buckets[last]
	for e := *from; e != nil; e = *from {
		if t.bucket(e.hash) == to {
			*from, e.next, *to = e.next, *to, e
		} else {
			from = &e.next
		}
	}
}

// merge takes the last bucket away.
func (t *table) merge() {
	last := len(t.buckets) - 1
	left, into := t.buckets[last], &t.buckets[lower(last)]
	t.buckets[last] = nil
	t.buckets = t.buckets[:last]
	for left != nil {
		next := left.next
		left.next, *into = *into, left
		left = next
	}
	if spare := cap(t.buckets); spare > keptPool && last < spare/4 {
		t.buckets = append(make([]*entry, 0, spare/2), t.buckets...)
	}
}

// all are the entries, in no order that means something. The table must not
// change meanwhile.
func (t *table) all() iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for _, e := range t.buckets {
			for ; e != nil; e = e.next {
				if !yield(e) {
					return
				}
			}
		}
	}
}
