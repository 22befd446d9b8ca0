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

// name is a nonce that is in the table, with what it is found by. Most requests
// have none, so it is apart from them. It belongs to one request, and goes over
// to the entry with the grant; nil is no nonce.
type name struct {
	fp    fingerprint
	nonce Nonce
	next  *name // in the pool: the next free one
}

// value is the nonce, the zero value for none.
func (n *name) value() (v Nonce) {
	if n != nil {
		v = n.nonce
	}
	return v
}

// newName is nil if the nonce is none.
func (s *Space) newName(nonce *Nonce, fp fingerprint) *name {
	if nonce.none() {
		return nil
	}
	n := s.names
	if n == nil {
		n = new(name)
	} else {
		s.names, s.pooledNames = n.next, s.pooledNames-1
	}
	n.fp, n.nonce, n.next = fp, *nonce, nil
	return n
}

func (s *Space) freeName(n *name) {
	if n != nil && s.pooledNames < keptPool {
		n.next = s.names
		s.names, s.pooledNames = n, s.pooledNames+1
	}
}

// claim is what is known of a nonce: queued (r), granted (e), or spent
// (neither). A nonce without a claim is unknown.
type claim struct {
	r *request
	e *entry
}

// claimOf is what is known of a pair.
func (s *Space) claimOf(fp fingerprint) (c claim, known bool) {
	if c, known = s.claims[fp]; known {
		return c, true
	}
	return claim{}, s.spent.has(fp)
}

// spend marks the pair as spent, to be remembered for SpentFor.
func (s *Space) spend(fp fingerprint) {
	s.spendAt(fp, s.now)
}

// spendAt is spend for a pair that was spent in the past.
func (s *Space) spendAt(fp fingerprint, at Time) {
	s.forgetSpent()
	if s.spent.n >= s.cfg.MaxSpent {
		s.spent.pop()
	}
	delete(s.claims, fp)
	s.spent.push(spentNonce{fp, at})
}

// forgetSpent drops what has been remembered long enough.
func (s *Space) forgetSpent() {
	for s.spent.n > 0 && s.spent.front().at+Time(s.cfg.SpentFor) <= s.now {
		s.spent.pop()
	}
	s.spent.giveBack()
	if s.most = max(s.most, len(s.claims)); s.most > keptPool && len(s.claims) == 0 {
		// A burst has passed: give its memory back. Maps never shrink.
		s.claims, s.most = make(map[fingerprint]claim), 0
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
