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

// fingerprint stands for a (key, nonce) pair. 128 bits: with the most
// nonces that are ever remembered the odds that two clients' pairs meet are
// below 1 in 10^25, and a client that makes two of its own meet fools only
// itself, since a match is compared with the whole pair before it yields a
// grant.
type fingerprint = xxh3.Uint128

func fingerprintOf(key []byte, nonce *Nonce) fingerprint {
	var pair [protocol.MaxKey + 1 + protocol.MaxNonce]byte
	n := copy(pair[:], key)
	pair[n] = ' ' // stands in no key and no nonce
	n++
	n += copy(pair[n:], nonce.Bytes())
	return xxh3.Hash128(pair[:n])
}

// claim is what is known of a nonce: queued (r), granted (e), or spent
// (neither). A nonce without a claim is unknown.
type claim struct {
	r *request
	e *entry
}

// spend marks the pair as spent, to be remembered for SpentFor.
func (s *Space) spend(fp fingerprint) {
	s.forgetSpent()
	if s.spent.n >= s.cfg.MaxSpent {
		delete(s.claims, s.spent.pop().fp)
	}
	s.claims[fp] = claim{}
	s.spent.push(spentNonce{fp, s.now})
}

// forgetSpent drops what has been remembered long enough.
func (s *Space) forgetSpent() {
	for s.spent.n > 0 && s.spent.front().at+Time(s.cfg.SpentFor) <= s.now {
		delete(s.claims, s.spent.pop().fp)
	}
	if s.spent.n == 0 && len(s.claims) == 0 && len(s.spent.ring) > keptPool {
		// A burst has passed: give its memory back. Maps never shrink.
		s.spent.ring = nil
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
}

func (q *fifo) front() *spentNonce { return &q.ring[q.head] }

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
	return v
}
