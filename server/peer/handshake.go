package peer

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/stile-lock/stile/server/fencing"
)

const (
	version   = 1
	maxLine   = 256
	nonceSize = 16
	proofSize = sha256.Size

	dialerLabel   = "stile peer dialer\n"
	acceptorLabel = "stile peer acceptor\n"

	// alertRecord begins what TLS says to who does not speak it.
	alertRecord = 21
)

// Verdict is why a node that proved itself is turned away.
type Verdict uint8

const (
	accepted  Verdict = iota
	WrongNode         // another node is at the address
	SameNode          // the dialer has the acceptor's id
	Unlisted          // the acceptor does not know the dialer
	Twice             // an older process with the dialer's id lives; see Mesh.Ban
	Unvouched         // the dialer's certificate is not that of the node it says it is
)

func turnedAwayFor(v Verdict) string {
	if v == Unvouched {
		return "turned away a connection that says it is a node; its certificate does not"
	}
	return "turned a node away; the lists of peers differ, or a name leads to the wrong node"
}

// errUnproved says that a node answered, but the two did not agree on the
// cluster's secret.
var errUnproved = errors.New("the handshake failed")

// misfit is why a dial has failed that somebody answered.
type misfit struct{ error }

func (e misfit) Unwrap() error { return e.error }

// asMisfit makes it one, unless it tells of the network rather than of who is
// there: an end without an answer, or silence, which is also how one ends that
// was there a moment ago.
func asMisfit(err error) error {
	var errno syscall.Errno
	if err == nil || errors.As(err, &errno) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return misfit{err}
}

// RejectedError is a peer's reason to turn this node away. The peer is there,
// and has the same secret.
type RejectedError struct {
	Verdict Verdict
	Reason  string
}

func (e *RejectedError) Error() string { return fmt.Sprintf("turned away: %q", e.Reason) }

// greeting is what a dialer says.
type greeting struct {
	from, to uint8
	boot     uint64
	dial     uint64
	hello    []byte
}

// welcome is what an acceptor says.
type welcome struct {
	boot  uint64
	hello []byte
}

func newNonce() (nonce [nonceSize]byte) {
	rand.Read(nonce[:]) // never fails
	return nonce
}

// proof authenticates all that was said so far.
func (m *Mesh) proof(label string, said []byte) []byte {
	h := hmac.New(sha256.New, *m.secret.Load())
	io.WriteString(h, label)
	h.Write(said)
	return h.Sum(nil)
}

// appendText appends a hello or a reason.
func appendText(b, text []byte) []byte {
	b = binary.LittleEndian.AppendUint16(b, uint16(len(text)))
	return append(b, text...)
}

// readText appends what it reads to said, and returns the text itself, too.
func readText(r io.Reader, said []byte) (_, text []byte, err error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return said, nil, err
	}
	n := binary.LittleEndian.Uint16(head[:])
	if n > MaxHello {
		return said, nil, fmt.Errorf("a hello of %d bytes, %d is the most", n, MaxHello)
	}
	text = make([]byte, n)
	_, err = io.ReadFull(r, text)
	return append(append(said, head[:]...), text...), text, err
}

// greet is the dialer's handshake.
func (m *Mesh) greet(nc net.Conn, o *out) (w welcome, refused bool, err error) {
	nonce := newNonce()
	said := fmt.Appendf(nil, "N %d %d %d %x %x %x\n", version, m.cfg.Self, o.peer, m.cfg.Boot, o.gen, nonce)
	var challenge [1 + nonceSize]byte
	_, err = nc.Write(said)
	if err == nil {
		_, err = io.ReadFull(nc, challenge[:1])
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return w, false, m.silent(o.peer)
	case wasClosed(err) && m.cfg.TLS != nil:
		// A process has just been there.
		return w, false, misfit{fmt.Errorf("connected over TLS, but then %w: %w", errNoWord, err)}
	case wasClosed(err):
		return w, true, fmt.Errorf("connected, but then %w: %w", errNoWord, err)
	case refusedByAlert(err):
		return w, false, misfit{fmt.Errorf("%w: it refuses this node's certificate: %w; %s", errUnproved, err, refusedFor(err))}
	case err != nil:
		return w, false, asMisfit(fmt.Errorf("connected, but then: %w", err))
	}
	w, err = m.prove(nc, said, challenge)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = m.silent(o.peer)
	}
	return w, false, err
}

// silent is the error of a dial that a kernel has answered, and nobody since. So
// does a process that is stopped; and one that waits for a line of text while
// it is greeted in TLS.
func (m *Mesh) silent(peer uint8) error {
	const hangs = "its process hangs or is stopped, or its machine is overloaded"
	switch before := m.linked[peer].Load(); {
	case m.cfg.TLS == nil:
		return errors.New("connected, but it does not answer: " + hangs)
	case before:
		return errors.New("connected, but it does not answer: " + hangs + "; or it was started anew, without --tls-cert")
	}
	return errors.New("connected, but it does not answer as TLS: does it have --tls-cert? If it has, " + hangs)
}

// prove is the rest of it, when the other side has said a word.
func (m *Mesh) prove(nc net.Conn, said []byte, challenge [1 + nonceSize]byte) (w welcome, err error) {
	switch {
	case challenge[0] >= ' ':
		return w, misfit{errors.New("something there does not speak as a node to its peers; check the address, that the node runs as a cluster, and that all nodes have --tls-cert or none has")}
	case challenge[0] == alertRecord:
		return w, misfit{errors.New("it speaks TLS; give all nodes --tls-cert, or none")}
	case challenge[0] != version:
		return w, misfit{fmt.Errorf("it speaks version %d of the protocol between nodes, this node speaks %d; run the same release on both", challenge[0], version)}
	}
	if _, err := io.ReadFull(nc, challenge[1:]); err != nil {
		return w, err
	}

	hello, err := m.hello()
	if err != nil {
		return w, misfit{err}
	}
	said = append(said, challenge[:]...)
	start := len(said)
	said = appendText(said, hello)
	said = append(said, m.proof(dialerLabel, said)...)
	var head [1 + 8]byte
	if _, err = nc.Write(said[start:]); err == nil {
		_, err = io.ReadFull(nc, head[:])
	}
	if wasClosed(err) {
		return w, misfit{fmt.Errorf("%w: it closed: either it has another cluster secret, see its log, or it is stopping", errUnproved)}
	} else if err != nil {
		return w, asMisfit(err)
	}
	said = append(said, head[:]...)
	said, text, err := readText(nc, said)
	if err != nil {
		return w, asMisfit(err)
	}
	var proof [proofSize]byte
	if _, err := io.ReadFull(nc, proof[:]); err != nil {
		return w, asMisfit(err)
	}
	if !hmac.Equal(proof[:], m.proof(acceptorLabel, said)) {
		return w, misfit{fmt.Errorf("%w: it does not know the cluster's secret; set the same on all nodes", errUnproved)}
	}
	if v := Verdict(head[0]); v != accepted {
		return w, misfit{&RejectedError{Verdict: v, Reason: string(text)}}
	}
	return welcome{boot: binary.LittleEndian.Uint64(head[1:]), hello: text}, nil
}

// secure is the dialer's TLS.
func (m *Mesh) secure(ctx context.Context, nc net.Conn, peer uint8, addr string) (over net.Conn, refused bool, err error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, false, err
	}
	t := tls.Client(nc, m.cfg.TLS(host))
	err = t.HandshakeContext(ctx)
	var wrong *tls.CertificateVerificationError
	var plain tls.RecordHeaderError
	switch {
	case err == nil:
		return t, false, nil
	case errors.As(err, &wrong):
		return nil, false, misfit{fmt.Errorf("%w: its certificate is refused: %w; %s", errUnproved, err, refuseFor(wrong, host))}
	case refusedByAlert(err):
		return nil, false, misfit{fmt.Errorf("%w: it refuses this node's TLS: %w", errUnproved, err)}
	case errors.As(err, &plain):
		return nil, false, misfit{errors.New("it does not speak TLS; give all nodes --tls-cert, or none")}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return nil, false, m.silent(peer)
	case wasClosed(err):
		return nil, true, fmt.Errorf("connected, but then %w: %w", errNoWord, err)
	}
	return nil, false, asMisfit(fmt.Errorf("TLS: %w", err))
}

// refuseFor says what is to be done about a certificate of the peer at a host.
func refuseFor(err error, host string) string {
	var invalid x509.CertificateInvalidError
	var name x509.HostnameError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "it has ended, or is not valid yet, or a clock is wrong: give that node a new one and send it SIGHUP"
	case errors.As(err, &name):
		return "it has to be for " + host + ", by which this node dials it"
	}
	return "its authority has to be in --tls-ca, or in --tls-client-ca if there is no other, and it has to be for " + host
}

// refusedFor is the same for this node's certificate, of which only an alert of
// the peer's tells.
func refusedFor(err error) string {
	if strings.Contains(err.Error(), "expired certificate") {
		return "--tls-cert has ended, or is not valid yet, or a clock is wrong: put a new one there and send SIGHUP"
	}
	return "the authority of --tls-cert has to be in its --tls-client-ca"
}

// refusedByAlert tells an error that the other side reported by TLS.
func refusedByAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// wasClosed tells a connection that the other side ended.
func wasClosed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// welcome is the acceptor's handshake. Whoever it is, it sees a version and a
// nonce until it has proved that it knows the secret.
func (m *Mesh) welcome(c *in) error {
	said, err := readLine(c.r)
	if err != nil {
		return err
	}
	g, theirs, err := parseLine(said)
	if err != nil {
		return err
	}
	nonce := newNonce()
	said = append(said, version)
	said = append(said, nonce[:]...)
	if _, err := c.nc.Write(said[len(said)-1-nonceSize:]); err != nil {
		return err
	}
	if theirs != version {
		return fmt.Errorf("it speaks version %d of the protocol between nodes, this node speaks %d", theirs, version)
	}

	said, g.hello, err = readText(c.r, said)
	if err != nil {
		return err
	}
	var proof [proofSize]byte
	if _, err := io.ReadFull(c.r, proof[:]); err != nil {
		return err
	}
	if !hmac.Equal(proof[:], m.proof(dialerLabel, said)) {
		m.wrongSecret.Log(m.cfg.Log, slog.LevelWarn, "a connection that claims to be a node does not know the cluster's secret; set the same on all nodes",
			slog.String("remote", remote(c.nc)), slog.Int("claims", int(g.from)))
		return errors.New("it does not know the secret")
	}
	said = append(said, proof[:]...)

	verdict, text := m.judge(g, c.nc)
	if verdict == accepted {
		if text, err = m.hello(); err != nil {
			m.turnedAway.Log(m.cfg.Log, slog.LevelWarn, "can't let a node in", slog.Int("node", int(g.from)), slog.Any("error", err))
			return err
		}
	}
	start := len(said)
	said = append(said, byte(verdict))
	said = binary.LittleEndian.AppendUint64(said, m.cfg.Boot)
	said = appendText(said, text)
	said = append(said, m.proof(acceptorLabel, said)...)
	if _, err := c.nc.Write(said[start:]); err != nil {
		return err
	}
	if verdict != accepted {
		m.turnedAway.Log(m.cfg.Log, slog.LevelWarn, turnedAwayFor(verdict),
			slog.String("remote", remote(c.nc)), slog.Int("node", int(g.from)), slog.String("told", string(text)))
		return errors.New(string(text))
	}
	c.who = g
	return nil
}

// judge decides about a node that has proved itself, and says why not.
func (m *Mesh) judge(g greeting, nc net.Conn) (Verdict, []byte) {
	switch {
	case g.to != m.cfg.Self:
		return WrongNode, fmt.Appendf(nil, "I am node %d, not %d; my list of peers is %s", m.cfg.Self, g.to, m.cfg.List)
	case g.from == m.cfg.Self:
		return SameNode, fmt.Appendf(nil, "I am node %d, too; my list of peers is %s", m.cfg.Self, m.cfg.List)
	}
	if _, banned := m.banned.Load(g.boot); banned {
		return Twice, fmt.Appendf(nil, "another node %d is running", g.from)
	}
	if _, ok := m.cfg.Peers(g.from); !ok {
		return Unlisted, fmt.Appendf(nil, "node %d is not in my list of peers", g.from)
	}
	if err := m.vouched(g, nc); err != nil {
		return Unvouched, fmt.Appendf(nil, "%v", err)
	}
	return accepted, nil
}

// vouched tells nodes from clients, who have certificates of the same
// authority: a node's is for the host that it is listed with.
func (m *Mesh) vouched(g greeting, nc net.Conn) error {
	if m.cfg.Host == nil {
		return nil
	}
	host, ok := m.cfg.Host(g.from)
	if !ok {
		if len(*m.secret.Load()) > 0 {
			return nil // that vouches for it
		}
		return fmt.Errorf("node %d is not in my list of peers, and there is no cluster secret to know it by; add it to the lists of the others first", g.from)
	}
	over, ok := nc.(*tls.Conn)
	if !ok || len(over.ConnectionState().PeerCertificates) == 0 {
		return errors.New("it shows no certificate")
	}
	if err := over.ConnectionState().PeerCertificates[0].VerifyHostname(host); err != nil {
		return fmt.Errorf("a certificate of node %d has to be for %s, its host in my list of peers: %w", g.from, host, err)
	}
	return nil
}

// readLine reads the first line, with its end.
func readLine(r io.ByteReader) ([]byte, error) {
	line := make([]byte, 0, maxLine)
	for len(line) < maxLine {
		b, err := r.ReadByte()
		if err != nil {
			return nil, err
		}
		if line = append(line, b); b == '\n' {
			return line, nil
		}
	}
	return nil, errors.New("its first line is too long")
}

// parseLine reads the first line. Of one of another version it reads no more
// than that.
func parseLine(line []byte) (g greeting, theirs uint64, err error) {
	bad := errors.New("its first line is not that of a node")
	f := strings.Split(string(bytes.TrimSuffix(line, []byte("\n"))), " ")
	if len(f) < 2 || f[0] != "N" {
		return g, 0, bad
	}
	if theirs, err = strconv.ParseUint(f[1], 10, 8); err != nil || theirs == 0 {
		return g, 0, bad
	}
	if theirs != version {
		return g, theirs, nil
	}
	if len(f) != 7 {
		return g, 0, bad
	}
	from, err1 := strconv.ParseUint(f[2], 10, 8)
	to, err2 := strconv.ParseUint(f[3], 10, 8)
	boot, err3 := strconv.ParseUint(f[4], 16, 64)
	dial, err4 := strconv.ParseUint(f[5], 16, 64)
	nonce, err5 := hex.DecodeString(f[6])
	if errors.Join(err1, err2, err3, err4, err5) != nil || len(nonce) != nonceSize || max(from, to) >= fencing.MaxNodes {
		return g, 0, bad
	}
	return greeting{from: uint8(from), to: uint8(to), boot: boot, dial: dial}, theirs, nil
}
