package lockspace

import (
	"github.com/zeebo/xxh3"

	"github.com/stile-lock/stile/protocol"
)

// Nonce is a client's name for one logical acquire of a key; the zero value
// is none. A fixed array: storing one never allocates.
type Nonce struct {
	n uint8
	b [protocol.MaxNonce]byte
}

// MakeNonce copies b, at most 32 bytes.
func MakeNonce(b []byte) (n Nonce) {
	n.n = uint8(copy(n.b[:], b))
	return n
}

// Bytes returns the nonce as it stands on the wire, empty for none.
func (n *Nonce) Bytes() []byte { return n.b[:n.n] }

func (n *Nonce) none() bool { return n.n == 0 }

// fingerprint stands for a (key, nonce) pair, the same on every node. The
// first 32 of its bits are of the key alone, so that a node finds the shard
// of a pair it is told of. The other 96 are of both: with the most nonces
// that are ever remembered the odds that two clients' pairs meet are below 1
// in 10^17, and a client that makes two of its own meet fools only itself,
// since a match is compared with the whole pair before it yields a grant.
type fingerprint = xxh3.Uint128

func fingerprintOf(key []byte, nonce *Nonce) fingerprint {
	var pair [protocol.MaxKey + 1 + protocol.MaxNonce]byte
	n := copy(pair[:], key)
	pair[n] = ' ' // stands in no key and no nonce
	n++
	n += copy(pair[n:], nonce.Bytes())
	fp := xxh3.Hash128(pair[:n])
	fp.Hi = uint64(keyBits(key))<<32 | fp.Hi>>32
	return fp
}

func keyBits(key []byte) uint32 { return uint32(xxh3.Hash(key) >> 32) }

// HashKey is a hash of the key that is the same on every node, to choose the
// shard by. It is one that [Change.KeyHash] can give of a spent nonce, too.
func HashKey(key []byte) uint64 { return spread(keyBits(key)) }

// spread makes all bits of a hash depend on the few that it is made of.
func spread(bits uint32) uint64 {
	h := uint64(bits) * 0x9e3779b97f4a7c15
	return h ^ h>>32
}

// claim is what is known of a nonce: queued (r), granted (e), or spent
// (neither). A nonce without a claim is unknown.
type claim struct {
	r *request
	e *entry
}

// spend marks the pair as spent, to be remembered for SpentFor.
func (s *Space) spend(fp fingerprint) {
	s.spendAt(fp, s.now)
}

// spendAt is spend for a pair that was spent in the past.
func (s *Space) spendAt(fp fingerprint, at Time) {
	s.forgetSpent()
	if s.spent.n >= s.cfg.MaxSpent {
		delete(s.claims, s.spent.pop().fp)
	}
	s.claims[fp] = claim{}
	s.spent.push(spentNonce{fp, at})
}

// unspend makes a spent pair unknown again: the serving node forgot it first.
// It forgets in the order in which they were spent, so the search from the
// oldest on is a short one.
func (s *Space) unspend(fp fingerprint) {
	for i := range s.spent.n {
		if s.spent.at(i).fp == fp {
			for ; i > 0; i-- {
				*s.spent.at(i) = *s.spent.at(i - 1)
			}
			s.spent.pop()
			s.spent.shifts++
			break
		}
	}
	delete(s.claims, fp)
}

// forgetSpent drops what has been remembered long enough.
func (s *Space) forgetSpent() {
	for s.spent.n > 0 && s.spent.front().at+Time(s.cfg.SpentFor) <= s.now {
		delete(s.claims, s.spent.pop().fp)
	}
	if s.spent.n == 0 && len(s.claims) == 0 && len(s.spent.ring) > keptPool {
		// A burst has passed: give its memory back. Maps never shrink.
		s.spent.ring, s.spent.head = nil, 0
		s.claims = make(map[fingerprint]claim)
	}
}

// nextForget is when forgetSpent is due. It lies past the moment the oldest
// may go, so that one call drops many and a busy Space is not woken for each.
func (s *Space) nextForget() Time {
	if s.spent.n == 0 {
		return Never
	}
	return s.spent.front().at + Time(s.cfg.SpentFor+s.cfg.SpentFor/8)
}

type spentNonce struct {
	fp fingerprint
	at Time
}

// fifo is a queue in a ring that doubles when full.
type fifo struct {
	ring    []spentNonce
	head, n int
	popped  uint64 // how many went: the place of the front among all there ever were
	shifts  uint64 // how often older ones were moved to a later place
}

func (q *fifo) front() *spentNonce { return &q.ring[q.head] }

func (q *fifo) at(i int) *spentNonce { return &q.ring[(q.head+i)&(len(q.ring)-1)] }

func (q *fifo) push(v spentNonce) {
	if q.n == len(q.ring) {
		grown := make([]spentNonce, max(64, 2*q.n))
		k := copy(grown, q.ring[q.head:])
		copy(grown[k:], q.ring[:q.head])
		q.ring, q.head = grown, 0
	}
	q.ring[(q.head+q.n)&(len(q.ring)-1)] = v
	q.n++
}

func (q *fifo) pop() spentNonce {
	v := q.ring[q.head]
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
	q.popped++
	return v
}
