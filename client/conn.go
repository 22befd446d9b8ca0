package client

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"time"

	"github.com/stile-lock/stile/protocol"
)

// conn is one connection. It lives from the end of the dial to fail; all but
// the two goroutines' reading and writing happens under Client.mu.
type conn struct {
	c    *Client
	slot *slot
	id   uint64 // never 0, never used twice
	nc   net.Conn
	peer address // the other end, if peerOK
	peerOK,
	secure bool

	live         bool // its hello was answered: it may serve
	dead         bool // given up
	closing      bool // the client is closing: half-close once all is written
	keep, resume bool // profiles of the peer

	pend pending
	out  []byte        // lines that the flusher has not taken yet
	wake chan struct{} // tells the flusher; room for one
	gone chan struct{} // closed by fail

	// answeredSent is the send of the latest request that was answered: what
	// the server does after reading it happens later than that.
	answeredSent time.Time

	silence silence
}

// start makes a connection of nc and says hello. The caller runs read; the
// flusher has a goroutine of its own.
func (s *slot) start(nc net.Conn, now time.Time) *conn {
	c := s.c
	c.nextID++
	n := &conn{
		c: c, slot: s, id: c.nextID, nc: nc,
		wake: make(chan struct{}, 1),
		gone: make(chan struct{}),
	}
	_, n.secure = nc.(*tls.Conn)
	n.peer, n.peerOK = peerAddress(nc)
	n.silence.start(n, now)
	s.conn = n
	c.wg.Add(1)
	go n.flush()

	var secret []byte
	if s.listed || n.secure {
		secret = []byte(c.cfg.secret)
	}
	n.out = protocol.AppendHello(n.out, []byte(c.cfg.name), secret)
	r := c.free.request()
	r.op, r.key, r.owner = opH, protocol.Version, (*hello)(n)
	n.sent(r, now)
	return n
}

// sent enters a request whose line was just appended to out.
func (n *conn) sent(r *request, now time.Time) {
	r.conn, r.sent = n, now
	n.pend.push(r)
	n.silence.busy(n, now)
	n.kick()
}

func (n *conn) kick() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// flush writes what is in out, all of it in one call, whenever it is woken.
// Many callers at once share calls: it lets those that can run go first.
// A write that blocks is ended by fail.
func (n *conn) flush() {
	defer n.c.wg.Done()
	var buf []byte
	for {
		select {
		case <-n.wake:
		case <-n.gone:
			return
		}
		runtime.Gosched()
		n.c.mu.Lock()
		buf, n.out = n.out, buf[:0]
		closing := n.closing
		n.c.mu.Unlock()
		if len(buf) > 0 {
			if _, err := n.nc.Write(buf); err != nil {
				n.c.mu.Lock()
				n.fail(err)
				n.c.mu.Unlock()
				return
			}
			if cap(buf) > 64<<10 {
				buf = nil
			}
		}
		if closing {
			n.halfClose()
			return
		}
	}
}

// halfClose ends the output; what the server still has to say is read until
// it closes too, within closeFlush.
func (n *conn) halfClose() {
	if h, ok := n.nc.(interface{ CloseWrite() error }); ok && h.CloseWrite() == nil {
		return
	}
	n.c.mu.Lock()
	n.fail(ErrClosed)
	n.c.mu.Unlock()
}

func (n *conn) closeSoon(now time.Time) {
	if !n.live {
		n.fail(ErrClosed)
		return
	}
	n.closing = true
	n.nc.SetReadDeadline(now.Add(closeFlush))
	n.kick()
}

// read reads until the connection ends.
func (n *conn) read() {
	var lines protocol.Lines
	var a protocol.Answer
	for {
		m, err := n.nc.Read(lines.Free())
		lines.Fed(m)
		if !n.handle(&lines, &a, m, err) {
			return
		}
	}
}

// handle deals with all whole lines of one read. It returns false when the
// connection is over.
func (n *conn) handle(lines *protocol.Lines, a *protocol.Answer, m int, err error) bool {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	if n.dead {
		return false
	}
	now := time.Now()
	if m > 0 {
		n.silence.heard(now)
	}
	for {
		line, ok, lineErr := lines.Next()
		if lineErr != nil {
			n.misfit("a line longer than 1024 bytes")
			return false
		}
		if !ok {
			break
		}
		if protocol.ParseAnswer(line, a) != nil {
			n.misfit("a line that is no answer")
			return false
		}
		if n.answer(a, now); n.dead {
			return false
		}
	}
	n.c.uncrowd(now)
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("closed by the server")
		}
		n.fail(err)
		return false
	}
	return true
}

// answer gives an answer to the oldest request that it can belong to. One
// that fits nothing ends the connection: every later answer would be in
// doubt.
func (n *conn) answer(a *protocol.Answer, now time.Time) {
	if a.Op == protocol.OpError && a.Key == nil {
		// Said before anything was asked, as to a client that speaks no TLS to
		// a server that does: the text may tell why.
		err := serverError(a)
		n.reset(fmt.Errorf("reset: an error that belongs to no request: %w", err))
		return
	}
	r := n.pend.oldest(a.For, a.Key)
	if r == nil {
		n.misfit("an answer to a request that is not pending")
		return
	}
	switch a.Op {
	case opR, opK:
		if a.Token != r.token {
			n.misfit("an answer with another token")
			return
		}
	case opC:
		if string(a.Nonce) != string(r.nonce.bytes()) {
			n.misfit("an answer with another nonce")
			return
		}
	case opA:
		if n.c.known(r.key, a.Token) {
			n.misfit("a grant that was already given to another call")
			return
		}
	}
	n.pend.pop(r)
	if r.sent.After(n.answeredSent) {
		n.answeredSent = r.sent
	}
	if r.owner != nil {
		r.owner.answered(r, a, now)
	}
	n.c.free.putRequest(r)
}

// misfit resets the connection after something that a sound server never
// sends.
func (n *conn) misfit(what string) {
	n.reset(fmt.Errorf("reset: the server sent %s", what))
}

func (n *conn) reset(reason error) {
	n.c.cfg.log.Warn("stile: connection "+reason.Error(), "addr", n.slot.addr.text)
	n.fail(reason)
}

// fail gives the connection up: it is reset, so that no unsent byte is
// delivered later, and everything it owes is told so in the order it was
// sent.
func (n *conn) fail(reason error) {
	if n.dead {
		return
	}
	now := time.Now()
	wasLive := n.live
	n.dead, n.live = true, false
	n.silence.stop()
	close(n.gone)
	reset(n.nc)
	n.slot.lost(n, reason, wasLive, now)
	for r := n.pend.takeAll(); r != nil; {
		next := r.next
		if r.owner != nil {
			r.owner.dropped(r, reason, now)
		}
		n.c.free.putRequest(r)
		r = next
	}
	n.c.unpark(now)
	n.c.uncrowd(now)
}

// reset closes nc without delivering what it still buffers. Under TLS it is
// the carrying connection that is reset: a farewell could block.
func reset(nc net.Conn) {
	if t, ok := nc.(*tls.Conn); ok {
		nc = t.NetConn()
	}
	if l, ok := nc.(interface{ SetLinger(sec int) error }); ok {
		l.SetLinger(0)
	}
	nc.Close()
}

// hello is the owner of a connection's first request.
type hello conn

func (h *hello) answered(r *request, a *protocol.Answer, now time.Time) {
	n := (*conn)(h)
	switch {
	case a.Op == opH:
		n.keep, n.resume = a.HasProfile("keep"), a.HasProfile("resume")
	case a.Op == protocol.OpError && a.Code == protocol.CodeUnknownOp:
		// a peer that speaks core only
	case a.Op == protocol.OpError:
		err := fmt.Errorf("hello refused: %w", serverError(a))
		n.c.cfg.log.Warn("stile: "+err.Error(), "addr", n.slot.addr.text)
		n.fail(err)
		return
	default:
		n.misfit("a redirect in answer to a hello")
		return
	}
	n.live = true
	n.slot.serves(now)
}

func (h *hello) dropped(*request, error, time.Time) {}
