package lockspace

import (
	"math/bits"

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

// pairHash is a hash of fingerprints that clients do not know beforehand: a
// fingerprint they can compute. One multiplication mixes both halves, so that
// pairs that share one of them are spread as well.
type pairHash struct{ hi, lo uint64 }

func newPairHash(seed uint64) pairHash {
	return pairHash{mixed(seed), mixed(^seed)}
}

// mixed makes all bits depend on all.
func mixed(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (h pairHash) of(fp fingerprint) uint32 {
	hi, lo := bits.Mul64(fp.Hi^h.hi, fp.Lo^h.lo)
	x := hi ^ lo
	return uint32(x ^ x>>32)
}

// name is a nonce that stands for something: that of a waiter (r) or of the
// holder of a key (e), in s.names. A request that is held has one, too, which
// the table does not know of. Nothing else has: s.spent knows those that are
// spent, and the others are unknown.
type name struct {
	fp    fingerprint
	r     *request
	e     *entry
	next  *name // another of its bucket, or in the pool
	hash  uint32
	nonce Nonce
}

func (n *name) link() **name { return &n.next }
func (n *name) home() uint32 { return n.hash }

// is reports whether a name, if there is one, is the nonce.
func (n *name) is(nonce *Nonce) bool { return n != nil && n.nonce == *nonce }

// bytes is the nonce as it stands on the wire, empty for no name.
func (n *name) bytes() []byte {
	if n == nil {
		return nil
	}
	return n.nonce.Bytes()
}

// value is the nonce, none for no name.
func (n *name) value() Nonce {
	if n == nil {
		return Nonce{}
	}
	return n.nonce
}

// nameOf is the name of the pair, nil if it stands for nothing.
func (s *Space) nameOf(fp fingerprint) *name {
	for n := s.names.first(s.spent.hash.of(fp)); n != nil; n = n.next {
		if n.fp == fp {
			return n
		}
	}
	return nil
}

// isSpent reports whether the pair is spent.
func (s *Space) isSpent(fp fingerprint) bool { return s.spent.find(fp) != nil }

// newName makes a name of an unknown pair. The caller says what it stands for.
func (s *Space) newName(fp fingerprint, nonce *Nonce) *name {
	n := s.unlistedName(nonce)
	n.fp, n.hash = fp, s.spent.hash.of(fp)
	s.names.add(n)
	return n
}

// unlistedName keeps a nonce that the table must not know of.
func (s *Space) unlistedName(nonce *Nonce) *name {
	n := s.freeNames
	if n == nil {
		n = new(name)
	} else {
		s.freeNames, s.pooledNames = n.next, s.pooledNames-1
		n.next = nil
	}
	n.nonce = *nonce
	return n
}

// forget makes the pair of a name unknown; nil is none.
func (s *Space) forget(n *name) {
	if n != nil {
		s.names.remove(n)
		s.freeName(n)
	}
}

// freeName gives back a name that the table does not know of any more.
func (s *Space) freeName(n *name) {
	if s.pooledNames < keptPool {
		*n = name{next: s.freeNames}
		s.freeNames, s.pooledNames = n, s.pooledNames+1
	}
}

// retire makes the pair of a name spent.
func (s *Space) retire(n *name) {
	fp := n.fp
	s.forget(n)
	s.spend(fp)
}

// spend makes an unknown pair spent, to be remembered for SpentFor.
func (s *Space) spend(fp fingerprint) {
	s.spendAt(fp, s.now)
}

// spendAt is spend for a pair that was spent in the past.
func (s *Space) spendAt(fp fingerprint, at Time) {
	s.forgetSpent()
	if s.spent.n > 0 && s.spent.span() >= s.cfg.MaxSpent {
		s.spent.pop()
	}
	s.spent.push(fp, at)
}

// unspend makes a spent pair unknown again: the serving node forgot it first.
func (s *Space) unspend(fp fingerprint) {
	if v := s.spent.find(fp); v != nil {
		s.spent.drop(v)
	}
}

// forgetSpent drops what has been remembered long enough.
func (s *Space) forgetSpent() {
	for s.spent.n > 0 && s.spent.at(s.spent.first).at+Time(s.cfg.SpentFor) <= s.now {
		s.spent.pop()
	}
	s.spent.shrink()
}

// nextForget is when forgetSpent is due. It lies past the moment the oldest
// may go, so that one call drops many and a busy Space is not woken for each.
func (s *Space) nextForget() Time {
	if s.spent.n == 0 {
		return Never
	}
	return s.spent.at(s.spent.first).at + Time(s.cfg.SpentFor+s.cfg.SpentFor/8)
}
