package node

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/stile-lock/stile/protocol"
)

// secure is the TLS of a client's connection, with writes that can be tried
// without blocking. A tls.Conn fails for good if one of its records can't be
// written as a whole; so a record always can: what the kernel does not take of
// it waits in wire.
//
// Only a whole record can be read by the other side. So answers count as with
// the kernel when all of their record is: those of a record that was cut can't
// have been read, and their grants are undone.
type secure struct {
	*tls.Conn
	wire wire

	// owed is how many bytes of answers are in the record that the kernel has
	// not taken in full. Of the writer alone (see outbound.writing).
	owed int
}

// maxPlain is how much goes into one record.
const maxPlain = 16 << 10

func newSecure(nc net.Conn, raw syscall.RawConn, cfg *tls.Config) *secure {
	s := &secure{wire: wire{Conn: nc, raw: raw}}
	s.Conn = tls.Server(&s.wire, cfg)
	return s
}

// tryWrite is like conn.tryWrite.
func (s *secure) tryWrite(b []byte) (n int, err error) {
	for n < len(b) && s.owed == 0 {
		// The reader may have left something: an alert, say.
		if taken, err := s.wire.trial(); !taken || err != nil {
			return n, err
		}
		record := b[n:min(len(b), n+maxPlain)]
		if _, err := s.Conn.Write(record); err != nil {
			return n, err
		}
		if !s.wire.empty() {
			s.owed = len(record)
			return n, nil
		}
		n += len(record)
	}
	return n, nil
}

// write writes one record and blocks until the kernel has it, as long as it
// takes something of it within every limit.
func (s *secure) write(b []byte, limit time.Duration) (n int, err error) {
	if s.owed == 0 {
		b = b[:min(len(b), maxPlain)]
		if _, err := s.Conn.Write(b); err != nil {
			return 0, err
		}
		s.owed = len(b)
	}
	if err := s.wire.drain(limit); err != nil {
		return 0, err
	}
	n, s.owed = s.owed, 0
	return n, nil
}

// closeWrite says that nothing more comes, in TLS and in TCP.
func (s *secure) closeWrite() error {
	if err := s.Conn.CloseWrite(); err != nil {
		return err
	}
	if err := s.wire.drain(lingerFor); err != nil {
		return err
	}
	return closeWrite(s.wire.Conn)
}

// wire carries the records of a secure connection. At first its writes block,
// for the handshake, and for good if a peer turns out to have dialed.
type wire struct {
	net.Conn
	raw syscall.RawConn // nil where writes can't be tried

	// eager: a write takes all and never blocks. It is set before more than
	// one goroutine knows the connection.
	eager bool

	mu   sync.Mutex // guards all below
	rest []byte     // what the kernel has not taken
	try  tryWrite
}

// maxRest is far above what a record and some alerts need.
const maxRest = 256 << 10

var errRest = errors.New("it does not read what TLS has to say")

// NetConn is the connection below.
func (w *wire) NetConn() net.Conn { return w.Conn }

// Write implements net.Conn. The reader writes as well: alerts, and answers to
// a change of keys.
func (w *wire) Write(b []byte) (int, error) {
	if !w.eager {
		return w.Conn.Write(b)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	if len(w.rest) == 0 {
		var err error
		if n, err = w.try.do(w.raw, b); err != nil {
			return n, err
		}
	}
	if len(w.rest)+len(b)-n > maxRest {
		return n, errRest
	}
	w.rest = append(w.rest, b[n:]...)
	return len(b), nil
}

func (w *wire) empty() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.rest) == 0
}

// trial offers the kernel what is left, and reports whether it took all.
func (w *wire) trial() (taken bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.rest) == 0 {
		return true, nil
	}
	n, err := w.try.do(w.raw, w.rest)
	w.rest = w.rest[n:]
	return len(w.rest) == 0, err
}

// drain blocks until the kernel has all, as long as it takes something within
// every limit. The writer alone calls it.
func (w *wire) drain(limit time.Duration) error {
	for {
		w.mu.Lock()
		out := w.rest
		if len(out) == 0 {
			w.rest = nil
			w.mu.Unlock()
			return nil
		}
		w.mu.Unlock()
		// Meanwhile others only append: to the same bytes or to a copy.
		w.Conn.SetWriteDeadline(time.Now().Add(limit))
		n, err := w.Conn.Write(out)
		w.Conn.SetWriteDeadline(time.Time{})
		w.mu.Lock()
		w.rest = w.rest[n:]
		w.mu.Unlock()
		if err != nil && (n == 0 || !errors.Is(err, os.ErrDeadlineExceeded)) {
			return err
		}
	}
}

// handshake makes the connection secure. It reports false if the other side
// did not get through it; then the connection is closed.
func (c *conn) handshake() bool {
	deadline := func(d time.Time) {
		c.nc.SetDeadline(d)
		if c.n.stopping.Load() {
			c.sayGoodbye() // this may have come after the first one, and undone it
		}
	}
	deadline(time.Now().Add(c.n.cfg.HandshakeTimeout))
	err := c.tls.Handshake()
	deadline(time.Time{})
	if err == nil {
		return true
	}
	c.n.badHandshake(c.base, err)
	c.base.Close()
	return false
}

// badHandshake tells both sides why somebody did not get through the handshake.
func (n *Node) badHandshake(base net.Conn, err error) {
	var plain tls.RecordHeaderError
	switch {
	case errors.As(err, &plain) && plain.Conn != nil:
		base.SetWriteDeadline(time.Now().Add(lingerFor))
		base.Write(protocol.AppendError(nil, 0, nil, protocol.CodeBadRequest, "this node speaks TLS"))
		n.cfg.Log.Debug("a connection without TLS was turned away", slog.String("remote", remote(base)))
	case errors.Is(err, io.EOF), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, syscall.ECONNRESET):
		n.cfg.Log.Debug("a TLS handshake was not finished", slog.String("remote", remote(base)), slog.Any("error", err))
	default:
		n.insecure.Log(n.cfg.Log, slog.LevelWarn, "a TLS handshake failed", slog.String("remote", remote(base)), slog.Any("error", err))
	}
	// What was said must not be lost to a reset.
	if closeWrite(base) == nil {
		base.SetReadDeadline(time.Now().Add(n.lingerTime()))
		io.CopyN(io.Discard, base, 64<<10)
	}
}

func closeWrite(nc net.Conn) error {
	half, ok := nc.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

// lingerTime is how long a connection is read on that the node closes.
func (n *Node) lingerTime() time.Duration {
	if n.stopping.Load() {
		return lingerStopping
	}
	return lingerFor
}
