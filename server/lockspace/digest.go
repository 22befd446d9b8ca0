package lockspace

import (
	"bytes"
	"slices"
	"strconv"
)

// Digest appends what a table and its copies have in common: a line for every
// key that is held or that somebody with a nonce waits for, sorted by key. It
// has the key, the token and the nonce of the grant, and the waiters with a
// nonce in their order, with the leases they asked for. No times and no
// sessions are in it, so that a table and a copy that has had all the changes
// are equal. Keys are in other shards elsewhere: a node's lines are compared
// once they are sorted. Nonces are secrets; it is for tests.
func (s *Space) Digest(buf []byte) []byte {
	var entries []*entry
	waiters := make(map[*entry][]*request)
	for _, it := range s.leases.items {
		entries = append(entries, it.v)
	}
	for _, it := range s.waits.items {
		r := it.v
		if r.name == nil {
			continue
		}
		if waiters[r.e] == nil && r.e.token == 0 {
			entries = append(entries, r.e)
		}
		waiters[r.e] = append(waiters[r.e], r)
	}
	slices.SortFunc(entries, func(a, b *entry) int { return bytes.Compare(a.key, b.key) })
	for _, e := range entries {
		buf = append(buf, e.key...)
		if e.token == 0 {
			buf = append(buf, " free"...)
		} else {
			buf = append(strconv.AppendUint(append(buf, ' '), e.token, 10), ' ')
			if e.name == nil {
				buf = append(buf, '-')
			}
			buf = append(buf, e.name.bytes()...)
		}
		line := waiters[e]
		slices.SortFunc(line, func(a, b *request) int {
			return int(int64(a.place.arrival) - int64(b.place.arrival))
		})
		for _, r := range line {
			buf = append(append(buf, " < "...), r.name.bytes()...)
			buf = append(strconv.AppendInt(append(buf, ' '), int64(r.place.asked), 10), "ns"...)
		}
		buf = append(buf, '\n')
	}
	return buf
}
