// Package memnet is a network in memory for tests. All its waiting is on
// channels and timers, so that it runs on the virtual time of
// testing/synctest and every moment is exact.
//
// Besides what a network does when all is well, a connection can be reset,
// half-closed, delayed, or turned into a black hole in either direction; an
// address can refuse, or swallow the attempt to connect.
package memnet

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// Net is one network: listeners by address.
type Net struct {
	mu        sync.Mutex
	listeners map[string]*Listener
	holes     map[string]bool
	dials     map[string][]time.Time
	remote    map[string]string // what RemoteAddr says, where it differs
}

// New returns a network where every address refuses.
func New() *Net {
	return &Net{
		listeners: make(map[string]*Listener),
		holes:     make(map[string]bool),
		dials:     make(map[string][]time.Time),
		remote:    make(map[string]string),
	}
}

// Listener hands out the server's ends of new connections.
type Listener struct {
	net    *Net
	addr   string
	accept chan *Conn
	closed chan struct{}
	once   sync.Once
}

// Listen makes addr accept connections.
func (n *Net) Listen(addr string) *Listener {
	l := &Listener{net: n, addr: addr, accept: make(chan *Conn, 1024), closed: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listeners[addr] = l
	return l
}

// Close makes the address refuse again. Accepted connections live on.
func (l *Listener) Close() {
	l.once.Do(func() {
		l.net.mu.Lock()
		if l.net.listeners[l.addr] == l {
			delete(l.net.listeners, l.addr)
		}
		l.net.mu.Unlock()
		close(l.closed)
	})
}

// Accept returns the server's end of the next connection.
func (l *Listener) Accept() (*Conn, error) {
	select {
	case c := <-l.accept:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Swallow makes connecting to addr hang, as when packets are dropped.
func (n *Net) Swallow(addr string, on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.holes[addr] = on
}

// Resolve makes connections to addr report another remote address, as a name
// does that was looked up.
func (n *Net) Resolve(addr, remote string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.remote[addr] = remote
}

// Dials returns when addr was dialled, whatever came of it.
func (n *Net) Dials(addr string) []time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]time.Time(nil), n.dials[addr]...)
}

// DialContext connects to a listener of the network.
func (n *Net) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	n.mu.Lock()
	n.dials[addr] = append(n.dials[addr], time.Now())
	l, hole := n.listeners[addr], n.holes[addr]
	remote := n.remote[addr]
	n.mu.Unlock()
	if remote == "" {
		remote = addr
	}
	fail := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: netAddr(remote), Err: err}
	}
	if hole {
		<-ctx.Done()
		return fail(ctx.Err())
	}
	if ctx.Err() != nil {
		return fail(ctx.Err())
	}
	if l == nil {
		return fail(os.NewSyscallError("connect", syscall.ECONNREFUSED))
	}
	client, server := pair("client:1", remote)
	l.accept <- server
	return client, nil
}

type netAddr string

func (a netAddr) Network() string { return "tcp" }
func (a netAddr) String() string  { return string(a) }

// Conn is one end of a connection.
type Conn struct {
	local, remote netAddr
	in, out       *pipe
	peer          *Conn

	mu         sync.Mutex
	linger0    bool
	readUntil  time.Time
	writeUntil time.Time
}

func pair(client, server string) (*Conn, *Conn) {
	up, down := newPipe(), newPipe()
	a := &Conn{local: netAddr(client), remote: netAddr(server), in: down, out: up}
	b := &Conn{local: netAddr(server), remote: netAddr(client), in: up, out: down}
	a.peer, b.peer = b, a
	return a, b
}

// pipe is one direction: chunks with the time of their arrival.
type pipe struct {
	mu      sync.Mutex
	chunks  []chunk
	delay   time.Duration
	hole    bool // what is written vanishes
	stopped bool // writing blocks, as with a full window
	eof     bool // after the chunks
	eofAt   time.Time
	err     error // reset: at once
	closed  bool  // by the reader
	changed chan struct{}
}

type chunk struct {
	at   time.Time
	data []byte
}

func newPipe() *pipe { return &pipe{changed: make(chan struct{})} }

// change wakes everybody. The caller holds mu.
func (p *pipe) change() {
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *pipe) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	p.change()
}

// Delay makes every byte written from now on arrive d later.
func (c *Conn) Delay(d time.Duration) { c.out.set(func() { c.out.delay = d }) }

// BlackHole makes what this end writes vanish, silently.
func (c *Conn) BlackHole(on bool) { c.out.set(func() { c.out.hole = on }) }

// Stall makes this end's writes block, as when the peer stops reading.
func (c *Conn) Stall(on bool) { c.out.set(func() { c.out.stopped = on }) }

// Reset ends both directions at once; what is on its way is lost.
func (c *Conn) Reset() {
	reset := os.NewSyscallError("read", syscall.ECONNRESET)
	for _, p := range []*pipe{c.in, c.out} {
		p.set(func() {
			if p.err == nil {
				p.err = reset
			}
			p.chunks = nil
		})
	}
}

// SetLinger with 0 makes Close a reset.
func (c *Conn) SetLinger(sec int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.linger0 = sec == 0
	return nil
}

// Close ends this end.
func (c *Conn) Close() error {
	c.mu.Lock()
	hard := c.linger0
	c.mu.Unlock()
	if hard {
		c.Reset()
		c.in.set(func() { c.in.closed = true })
		return nil
	}
	c.CloseWrite()
	c.in.set(func() { c.in.closed = true })
	return nil
}

// CloseWrite ends the output, after what was written.
func (c *Conn) CloseWrite() error {
	p := c.out
	p.set(func() {
		if !p.eof {
			p.eof, p.eofAt = true, time.Now().Add(p.delay)
		}
	})
	return nil
}

func (c *Conn) Read(b []byte) (int, error) {
	p := c.in
	for {
		p.mu.Lock()
		changed := p.changed
		now := time.Now()
		wait := time.Duration(-1)
		switch {
		case p.closed:
			p.mu.Unlock()
			return 0, net.ErrClosed
		case p.err != nil:
			err := p.err
			p.mu.Unlock()
			return 0, err
		case len(p.chunks) > 0:
			first := &p.chunks[0]
			if wait = first.at.Sub(now); wait <= 0 {
				n := copy(b, first.data)
				if first.data = first.data[n:]; len(first.data) == 0 {
					p.chunks = p.chunks[1:]
				}
				p.mu.Unlock()
				return n, nil
			}
		case p.eof:
			if wait = p.eofAt.Sub(now); wait <= 0 {
				p.mu.Unlock()
				return 0, io.EOF
			}
		}
		p.mu.Unlock()
		c.mu.Lock()
		until := c.readUntil
		c.mu.Unlock()
		if !until.IsZero() {
			left := until.Sub(now)
			if left <= 0 {
				return 0, os.ErrDeadlineExceeded
			}
			if wait < 0 || left < wait {
				wait = left
			}
		}
		if wait < 0 {
			<-changed
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (c *Conn) Write(b []byte) (int, error) {
	p := c.out
	for {
		p.mu.Lock()
		changed := p.changed
		switch {
		case p.err != nil || p.closed:
			p.mu.Unlock()
			return 0, os.NewSyscallError("write", syscall.EPIPE)
		case p.eof:
			p.mu.Unlock()
			return 0, errors.New("memnet: write after CloseWrite")
		case p.hole:
			p.mu.Unlock()
			return len(b), nil
		case !p.stopped:
			p.chunks = append(p.chunks, chunk{time.Now().Add(p.delay), append([]byte(nil), b...)})
			p.change()
			p.mu.Unlock()
			return len(b), nil
		}
		p.mu.Unlock()
		c.mu.Lock()
		until := c.writeUntil
		c.mu.Unlock()
		if until.IsZero() {
			<-changed
			continue
		}
		timer := time.NewTimer(time.Until(until))
		select {
		case <-changed:
			timer.Stop()
		case <-timer.C:
			return 0, os.ErrDeadlineExceeded
		}
	}
}

func (c *Conn) LocalAddr() net.Addr  { return c.local }
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

func (c *Conn) SetDeadline(t time.Time) error {
	c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

func (c *Conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	c.readUntil = t
	c.mu.Unlock()
	c.in.set(func() {})
	return nil
}

func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	c.writeUntil = t
	c.mu.Unlock()
	c.out.set(func() {})
	return nil
}
