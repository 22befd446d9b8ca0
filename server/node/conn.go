package node

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stile-lock/stile/protocol"
	"github.com/stile-lock/stile/server/lockspace"
)

// conn is a client's connection. One goroutine reads it and does what the
// lines say; answers leave through out.
type conn struct {
	n       *Node
	nc      net.Conn
	base    net.Conn        // nc, or what carries its TLS
	tls     *secure         // nil: there is none
	raw     syscall.RawConn // nil where writes can't be tried without blocking; with TLS, secure has it
	session lockspace.Session
	addr    netip.Addr // as addressOf has it
	opened  lockspace.Time

	// Of the reader alone.
	lines   protocol.Lines
	req     protocol.Request
	touched touched
	wrong   int // secrets

	// What handOver found: bytes that are not handled yet, and the error that
	// came with them.
	early    bool
	earlyErr error

	// authorized: no secret is asked, or it was given. Set by the reader.
	authorized atomic.Bool

	out      outbound
	try      tryWrite               // of whoever writes, see outbound.writing
	lastRead atomic.Int64           // lockspace.Time
	name     atomic.Pointer[string] // that the client gave in its hello

	// unanswered counts the requests that a shard owes an answer. The reader
	// adds, whoever delivers takes away.
	unanswered atomic.Int32

	// owedAt is when the sweep for idle connections last found something
	// unanswered. Of that sweep alone.
	owedAt lockspace.Time
}

const (
	// lingerFor is how long a connection that the node closes is still read,
	// so that a last line is not lost to a reset.
	lingerFor = time.Second
	// lingerStopping is the same while the whole node stops.
	lingerStopping = 100 * time.Millisecond
)

// serve reads the connection until it ends.
func (c *conn) serve() {
	if c.tls != nil && !c.handshake() {
		return
	}
	if c.n.cfg.Cluster != nil && c.handOver() {
		return
	}
	if c.tls != nil {
		c.tls.wire.eager = true
	}
	graceful := c.read()
	// Out of the lock table before anything can block.
	c.out.stop(&c.touched)
	if c.unanswered.Load() > 0 {
		for _, sh := range c.n.shards {
			sh.drop(c.session, &c.touched)
		}
	}
	c.touched.flush()
	if graceful {
		c.out.drain()
		c.linger()
	}
	c.base.Close()
}

// handOver looks at the first two bytes, and gives the connection away if
// another node has dialed it.
func (c *conn) handOver() bool {
	for {
		got, err := c.nc.Read(c.lines.Free())
		c.lines.Fed(got)
		first := c.lines.Rest()
		switch {
		case err != nil || len(first) >= 1 && first[0] != peerMark[0] || len(first) >= 2 && first[1] != peerMark[1]:
			c.early, c.earlyErr = true, err
			return false
		case len(first) >= 2:
			c.n.cfg.Cluster.Peer(c.link(), append([]byte(nil), first...))
			return true
		}
	}
}

// link is the connection as another node's.
func (c *conn) link() net.Conn {
	if c.tls != nil {
		return c.tls.Conn
	}
	return c.nc
}

// tryWrite writes what the kernel takes at once. n < len(b) with a nil error:
// it is full, or that can't be told.
func (c *conn) tryWrite(b []byte) (n int, err error) {
	if c.tls != nil {
		return c.tls.tryWrite(b)
	}
	return c.try.do(c.raw, b)
}

// write blocks until something is written, for WriteTimeout at most.
func (c *conn) write(b []byte) (n int, err error) {
	if c.tls != nil {
		return c.tls.write(b, c.n.cfg.WriteTimeout)
	}
	c.nc.SetWriteDeadline(time.Now().Add(c.n.cfg.WriteTimeout))
	defer c.nc.SetWriteDeadline(time.Time{}) // it would end a later tryWrite
	return c.nc.Write(b)
}

// tlsHandshake begins what a client says that speaks TLS.
const tlsHandshake = 0x16

// peerMark begins the first line of another node.
const peerMark = "N "

// read handles lines until the connection ends. It reports whether answers
// can still reach the client.
func (c *conn) read() (graceful bool) {
	for {
		got, err := 0, c.earlyErr
		if !c.early {
			got, err = c.nc.Read(c.lines.Free())
			c.lines.Fed(got)
		}
		if got > 0 || c.early {
			c.early = false
			c.n.awaitPass()
			now := c.n.now()
			c.lastRead.Store(int64(now))
			goOn := c.handleLines(now)
			// Before the next read: what is granted is with the kernel when
			// an end of input is seen.
			c.touched.flush()
			if !goOn {
				return true
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF), errors.Is(err, os.ErrDeadlineExceeded):
			return true // half-closed, or see sayGoodbye
		default:
			return false
		}
	}
}

// handleLines handles every whole line there is. It reports false if the
// connection must be closed.
func (c *conn) handleLines(now lockspace.Time) bool {
	for {
		line, ok, err := c.lines.Next()
		if err != nil {
			c.refuse(0, nil, protocol.CodeBadRequest, "a line has at most 1024 bytes")
			return false
		}
		if rest := c.lines.Rest(); !ok && len(rest) > 0 && rest[0] == tlsHandshake {
			// There may never be an end of the line. Another node that dials this
			// one must learn that it is there, and nothing can come of the line.
			c.refuse(0, nil, protocol.CodeBadRequest, "this node does not speak TLS")
			return false
		}
		if !ok {
			return true
		}
		if !c.handle(now, line) {
			return false
		}
	}
}

// answerAcquire passes on what the lock table said at a moment. It reports
// false if the connection takes no answers any more.
//
// A client counts its lease from the sending of a request that was answered
// before the grant (SPEC.md 13.11). The grant may have been made, by another
// connection's reader or a timer that was held up since, before that request
// was even read: then the lease is counted anew, from the read (SPEC.md 3.3).
func (c *conn) answerAcquire(sh *shard, e *lockspace.Effect, at lockspace.Time) bool {
	c.unanswered.Add(-1)
	if late := time.Duration(c.lastRead.Load()) - time.Duration(at); late > 0 && e.Kind == lockspace.Granted {
		e.Lease = max(0, e.Lease-late).Truncate(time.Millisecond)
	}
	return c.out.effect(sh, e)
}

// refuse answers the line that is being handled.
func (c *conn) refuse(op protocol.Op, key []byte, code protocol.Code, text string) {
	c.n.refused[code].Add(1)
	c.out.close(protocol.AppendError(c.out.open(), op, key, code, text), &c.touched)
}

// sayGoodbye makes the reader end the connection in good order.
func (c *conn) sayGoodbye() { c.nc.SetReadDeadline(time.Unix(1, 0)) }

// linger shuts the sending side down and reads on for a moment. Closing with
// unread input would reset the connection, and the client could lose answers
// that it has not read yet.
func (c *conn) linger() {
	var err error
	if c.tls != nil {
		err = c.tls.closeWrite()
	} else {
		err = closeWrite(c.nc)
	}
	if err != nil {
		return
	}
	c.base.SetReadDeadline(time.Now().Add(c.n.lingerTime()))
	io.CopyN(io.Discard, c.base, 1<<20)
}

// cut ends the connection at once, with a reset where there is one.
func (c *conn) cut() {
	if tcp, ok := c.base.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	c.base.Close()
}

// debug logs something of the connection, if somebody wants to see such lines.
func (c *conn) debug(text string) {
	if !c.n.cfg.Log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	name := ""
	if p := c.name.Load(); p != nil {
		name = *p
	}
	c.n.cfg.Log.Debug(text, slog.String("remote", remote(c.nc)), slog.String("client", name))
}

func (c *conn) cutOff(reason string) {
	c.n.cutOffs.Add(1)
	c.n.cfg.Log.Debug("connection cut off", slog.String("reason", reason), slog.String("remote", remote(c.nc)))
	c.cut()
}

func remote(nc net.Conn) string {
	if a := nc.RemoteAddr(); a != nil {
		return a.String()
	}
	return "unknown"
}
