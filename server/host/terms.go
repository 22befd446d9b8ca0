package host

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"log/slog"
	"slices"
	"time"
)

// terms are what a node asks of its clients. Where two nodes differ, clients find
// out at a failover, when it is too late; so the nodes tell each other before.
type terms struct {
	mutual bool    // a certificate
	proofs []proof // of the secrets, any of which it accepts; none: it asks for none
}

// proof tells whether two nodes have the same secret. It is keyed by the secret,
// and for two processes only: elsewhere it says nothing, and it opens nothing.
type proof [8]byte

// termsFrame is the first byte of terms. Messages of package cluster are below it,
// frames of the stream above.
const termsFrame = 0x40

// maxProofs is more than a node has secrets.
const maxProofs = 8

const proofLabel = "stile client secret\n"

// termsOf makes the terms that one process tells another.
func termsOf(secrets [][]byte, mutual bool, from, to uint64) terms {
	t := terms{mutual: mutual}
	for _, secret := range secrets {
		h := hmac.New(sha256.New, secret)
		io.WriteString(h, proofLabel)
		h.Write(binary.LittleEndian.AppendUint64(nil, from))
		h.Write(binary.LittleEndian.AppendUint64(nil, to))
		t.proofs = append(t.proofs, proof(h.Sum(nil)))
	}
	return t
}

func (t terms) append(b []byte) []byte {
	b = append(b, termsFrame, 0)
	if t.mutual {
		b[len(b)-1] = 1
	}
	for _, p := range t.proofs {
		b = append(b, p[:]...)
	}
	return b
}

// readTerms reads a frame that begins with termsFrame.
func readTerms(b []byte) (t terms, ok bool) {
	if len(b) < 2 || b[1] > 1 || (len(b)-2)%len(proof{}) != 0 || len(b)-2 > maxProofs*len(proof{}) {
		return t, false
	}
	t.mutual = b[1] == 1
	for p := range slices.Chunk(b[2:], len(proof{})) {
		t.proofs = append(t.proofs, proof(p))
	}
	return t, true
}

// differ says what another node asks of clients that this one does not; ours are
// made as theirs are, from them to us.
func differ(ours, theirs terms) string {
	shared := slices.ContainsFunc(ours.proofs, func(p proof) bool { return slices.Contains(theirs.proofs, p) })
	switch {
	case len(ours.proofs) == 0 && len(theirs.proofs) > 0:
		return "it asks clients for a secret, and this node does not: give all nodes the same --secret-file"
	case len(ours.proofs) > 0 && len(theirs.proofs) == 0:
		return "it asks clients for no secret, and this node does: give all nodes the same --secret-file"
	case len(ours.proofs) > 0 && !shared:
		return "it asks clients for another secret than this node: give all nodes the same --secret-file, or clients are refused at a failover"
	case theirs.mutual && !ours.mutual:
		return "it asks clients for a certificate, and this node does not: give all nodes the same --tls-client-ca"
	case ours.mutual && !theirs.mutual:
		return "it asks clients for no certificate, and this node does: give all nodes the same --tls-client-ca"
	}
	return ""
}

// asked is what is known of a peer's terms. Of the loop.
type asked struct {
	out, in    uint64 // the processes at the other ends of the links; 0: there is none
	theirs     *terms // what came over the link from it
	difference string // as last logged
}

// SetClientSecrets is node.SetSecrets, and lets the peers know.
func (h *Host) SetClientSecrets(set [][]byte) {
	h.node.SetSecrets(set)
	h.post(func(time.Duration) {
		h.secrets = set
		for id := range h.asked {
			h.tellTerms(uint8(id))
			h.compareTerms(uint8(id))
		}
	})
}

// tellTerms tells a peer what this node asks of clients, if there is a link to it.
func (h *Host) tellTerms(id uint8) {
	if to := h.asked[id].out; to != 0 {
		h.mesh.Send(id, termsOf(h.secrets, h.cfg.Mutual, h.boot, to).append(nil))
	}
}

// takeTerms notes what a peer says that it asks.
func (h *Host) takeTerms(id uint8, b []byte) {
	t, ok := readTerms(b)
	if !ok {
		h.log.Error("what a peer asks of clients can't be read", slog.Int("peer", int(id)))
		return
	}
	h.asked[id].theirs = &t
	h.compareTerms(id)
}

// compareTerms logs a difference once, and its end.
func (h *Host) compareTerms(id uint8) {
	a := &h.asked[id]
	if a.theirs == nil {
		return
	}
	was := a.difference
	a.difference = differ(termsOf(h.secrets, h.cfg.Mutual, a.in, h.boot), *a.theirs)
	switch {
	case a.difference == was:
	case a.difference == "":
		h.log.Info("a peer asks the same of clients again", slog.Int("peer", int(id)))
	default:
		h.log.Warn("a peer asks something else of clients than this node", slog.Int("peer", int(id)), slog.String("difference", a.difference))
	}
}
