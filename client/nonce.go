package client

import (
	"crypto/rand"
	"encoding/base64"
	"strconv"

	"github.com/stile-lock/stile/protocol"
)

// nonce names one logical acquire. The zero value is none.
type nonce struct {
	b [protocol.MaxNonce]byte
	n uint8
}

func (x *nonce) bytes() []byte { return x.b[:x.n] }
func (x *nonce) none() bool    { return x.n == 0 }

// nonces makes them: 16 random characters that are the client's, then a
// counter. Guarded by Client.mu.
type nonces struct {
	prefix [16]byte
	count  uint64
}

func newNonces() (g nonces) {
	var seed [12]byte // 12 bytes are exactly 16 characters
	rand.Read(seed[:])
	base64.RawURLEncoding.Encode(g.prefix[:], seed[:])
	return g
}

// next returns a nonce that was never used before. The counter takes at most
// 13 characters, so it always fits.
func (g *nonces) next() (x nonce) {
	g.count++
	b := append(x.b[:0], g.prefix[:]...)
	b = strconv.AppendUint(b, g.count, 36)
	x.n = uint8(len(b))
	return x
}
