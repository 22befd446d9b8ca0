package lockspace

// table is a hash table of records that carry their own link: a record costs
// it a pointer or two, and it never allocates for one.
//
// It grows and shrinks by single buckets (linear hashing), which lie in
// segments, so that no call has more to do than another, however many records
// there are. The bucket low+i was split off from the bucket i.
type table[T any, R row[T]] struct {
	segments []*segment[T]
	buckets  uint32 // in use; those of the last segment after them are empty
	low      uint32 // a power of two; low <= buckets < 2*low, or nothing is there yet
	n        int
}

// perSegment is how many buckets are allocated at a time, and the fewest.
const perSegment = 256

// A segment counts the records of each bucket by the upper three bits of their
// hash, up to three of each. Most who look for what is not there see so from
// the counts, which are in the cache of the processor far sooner than the
// records of a large table.
type segment[T any] struct {
	heads  [perSegment]*T
	counts [perSegment]counts
}

// counts are eight counts of two bits. One that has reached three stays there
// until the bucket is empty.
type counts uint16

func (c counts) of(hash uint32) counts { return c >> (hash >> 29 * 2) & 3 }

func (c *counts) add(hash uint32) {
	if c.of(hash) < 3 {
		*c += 1 << (hash >> 29 * 2)
	}
}

func (c *counts) remove(hash uint32) {
	if c.of(hash) < 3 {
		*c -= 1 << (hash >> 29 * 2)
	}
}

// row is a record that a table can file.
type row[T any] interface {
	*T
	link() **T    // the next record of its bucket
	home() uint32 // its hash; clients must not know it beforehand
}

func (t *table[T, R]) len() int { return t.n }

// bucket is where the records of a hash are, among others.
func (t *table[T, R]) bucket(hash uint32) uint32 {
	i := hash & (2*t.low - 1)
	if i >= t.buckets {
		i -= t.low
	}
	return i
}

func (t *table[T, R]) at(i uint32) (head **T, counted *counts) {
	s := t.segments[i/perSegment]
	return &s.heads[i%perSegment], &s.counts[i%perSegment]
}

// first is the first record of those among which the ones with the hash are.
func (t *table[T, R]) first(hash uint32) *T {
	if t.n == 0 {
		return nil
	}
	head, counted := t.at(t.bucket(hash))
	if counted.of(hash) == 0 {
		return nil
	}
	return *head
}

// add files a record that is not in the table.
func (t *table[T, R]) add(r R) {
	if t.n >= int(t.buckets) {
		t.split()
	}
	t.n++
	t.put(r)
}

func (t *table[T, R]) put(r R) {
	hash := r.home()
	head, counted := t.at(t.bucket(hash))
	*r.link() = *head
	*head = (*T)(r)
	counted.add(hash)
}

// remove takes out a record that is in the table.
func (t *table[T, R]) remove(r R) {
	hash := r.home()
	head, counted := t.at(t.bucket(hash))
	at := head
	for *at != (*T)(r) {
		at = R(*at).link()
	}
	*at = *r.link()
	*r.link() = nil
	if counted.remove(hash); *head == nil {
		*counted = 0
	}
	t.n--
	// Far apart from where buckets are split, so that a number of records that
	// goes up and down costs nothing. Many at a time, to keep up with removals.
	for range 16 {
		if t.buckets <= perSegment || 8*t.n >= int(t.buckets) {
			break
		}
		t.merge()
	}
}

// split adds a bucket.
func (t *table[T, R]) split() {
	if t.buckets%perSegment == 0 {
		t.segments = append(t.segments, new(segment[T]))
	}
	if t.buckets == 0 {
		t.buckets, t.low = perSegment, perSegment
		return
	}
	records := t.take(t.buckets - t.low)
	if t.buckets++; t.buckets == 2*t.low {
		t.low *= 2
	}
	t.putAll(records)
}

// merge takes the last bucket away.
func (t *table[T, R]) merge() {
	if t.buckets--; t.buckets < t.low {
		t.low /= 2
	}
	t.putAll(t.take(t.buckets))
	if t.buckets%perSegment == 0 {
		last := len(t.segments) - 1
		t.segments[last] = nil
		t.segments = t.segments[:last]
	}
}

// take empties a bucket.
func (t *table[T, R]) take(i uint32) (records *T) {
	head, counted := t.at(i)
	records = *head
	*head, *counted = nil, 0
	return records
}

// putAll puts the records of a bucket where they belong.
func (t *table[T, R]) putAll(v *T) {
	for v != nil {
		next := *R(v).link()
		t.put(v)
		v = next
	}
}

// all calls f for every record, which may take it out of the table for good
// but change nothing else.
func (t *table[T, R]) all(f func(R)) {
	for i := range t.buckets {
		head, _ := t.at(i)
		for v := *head; v != nil; {
			next := *R(v).link()
			f(R(v))
			v = next
		}
	}
}
