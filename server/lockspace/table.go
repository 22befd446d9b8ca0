package lockspace

// table is a hash table of records that carry their own link: a record costs
// it a pointer or two, and it never allocates for one.
//
// It grows and shrinks by single buckets (linear hashing), which lie in
// segments, so that no call has more to do than another, however many records
// there are. The bucket low+i was split off from the bucket i.
type table[T any, R row[T]] struct {
	segments []*[segment]*T
	buckets  uint32 // in use; those of the last segment after them are empty
	low      uint32 // a power of two; low <= buckets < 2*low, or nothing is there yet
	n        int
}

// segment is how many buckets are allocated at a time, and the fewest.
const segment = 256

// row is a record that a table can file.
type row[T any] interface {
	*T
	link() **T    // the next record of its bucket
	home() uint32 // its hash; clients must not know it beforehand
}

func (t *table[T, R]) len() int { return t.n }

// bucket is where the records of a hash are, among others.
func (t *table[T, R]) bucket(hash uint32) **T {
	i := hash & (2*t.low - 1)
	if i >= t.buckets {
		i -= t.low
	}
	return t.at(i)
}

func (t *table[T, R]) at(i uint32) **T { return &t.segments[i/segment][i%segment] }

// first is the first record of those among which the ones with the hash are.
func (t *table[T, R]) first(hash uint32) *T {
	if t.n == 0 {
		return nil
	}
	return *t.bucket(hash)
}

// add files a record that is not in the table.
func (t *table[T, R]) add(r R) {
	if t.n >= int(t.buckets) {
		t.split()
	}
	t.n++
	b := t.bucket(r.home())
	*r.link() = *b
	*b = (*T)(r)
}

// remove takes out a record that is in the table.
func (t *table[T, R]) remove(r R) {
	at := t.bucket(r.home())
	for *at != (*T)(r) {
		at = R(*at).link()
	}
	*at = *r.link()
	*r.link() = nil
	t.n--
	// Far apart from where buckets are split, so that a number of records that
	// goes up and down costs nothing. Many at a time, to keep up with removals.
	for range 16 {
		if t.buckets <= segment || 8*t.n >= int(t.buckets) {
			break
		}
		t.merge()
	}
}

// split adds a bucket.
func (t *table[T, R]) split() {
	if t.buckets%segment == 0 {
		t.segments = append(t.segments, new([segment]*T))
	}
	if t.buckets == 0 {
		t.buckets, t.low = segment, segment
		return
	}
	stay, move := t.at(t.buckets-t.low), t.at(t.buckets)
	for v := *stay; v != nil; v = *R(v).link() {
		if R(v).home()&t.low != 0 {
			*move, move = v, R(v).link()
		} else {
			*stay, stay = v, R(v).link()
		}
	}
	*stay, *move = nil, nil
	if t.buckets++; t.buckets == 2*t.low {
		t.low *= 2
	}
}

// merge takes the last bucket away.
func (t *table[T, R]) merge() {
	if t.buckets--; t.buckets < t.low {
		t.low /= 2
	}
	last := t.at(t.buckets)
	to := t.at(t.buckets - t.low)
	for *to != nil {
		to = R(*to).link()
	}
	*to, *last = *last, nil
	if t.buckets%segment == 0 {
		end := len(t.segments) - 1
		t.segments[end] = nil
		t.segments = t.segments[:end]
	}
}

// all calls f for every record, which may take it out of the table for good
// but change nothing else.
func (t *table[T, R]) all(f func(R)) {
	for i := range t.buckets {
		for v := *t.at(i); v != nil; {
			next := *R(v).link()
			f(R(v))
			v = next
		}
	}
}
