package peer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

// Source appends one data frame to buf, which need not be empty, and returns
// the result; or it says that it has nothing now.
type Source func(buf []byte) ([]byte, bool)

// out is a connection that this node dials, from the attempt to its end.
type out struct {
	peer uint8
	gen  uint64

	life context.Context
	cut  context.CancelCauseFunc

	before <-chan struct{} // closed when the events of the one before are out; may be nil
	done   chan struct{}   // closed when its own are
	over   bool            // guarded by Mesh.mu: another one may be dialed

	wake chan struct{} // there may be something to write

	mu     sync.Mutex // guards all below
	queue  []byte     // control frames
	full   bool       // takes no more
	source Source
}

// Dial tries once, in the background, to connect to a peer. It does nothing
// if that is done already or under way.
func (m *Mesh) Dial(peer uint8) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := m.outs[peer]
	if m.closed || last != nil && !last.over {
		return
	}
	o := &out{peer: peer, gen: m.gen.Add(1), done: make(chan struct{}), wake: make(chan struct{}, 1)}
	o.life, o.cut = context.WithCancelCause(m.life)
	if last != nil {
		o.before = last.done
	}
	m.outs[peer] = o
	m.all.Go(func() { m.runOut(o) })
}

// CutOut resets the connection to a peer, or ends the attempt at one.
func (m *Mesh) CutOut(peer uint8) {
	m.mu.Lock()
	o := m.outs[peer]
	m.mu.Unlock()
	if o != nil {
		m.endOut(o, errCut)
	}
}

// endOut ends a connection, if it has not ended already. Another one can be
// dialed at once.
func (m *Mesh) endOut(o *out, why error) {
	m.mu.Lock()
	o.over = true // from here on runOut does not make it the one to send on
	m.up[o.peer].CompareAndSwap(o, nil)
	m.mu.Unlock()
	o.cut(why)
}

// Send sends a control frame ahead of all data that is not being written
// already. It never blocks, and keeps nothing of payload. It reports false if
// the connection is not up, or so much waits already that it is cut.
func (m *Mesh) Send(peer uint8, payload []byte) bool {
	o := m.up[peer].Load()
	if o == nil {
		return false
	}
	if err := o.enqueue(payload); err != nil {
		m.endOut(o, err)
		return false
	}
	o.kick()
	return true
}

// SetSource says where data for a peer comes from; nil, that there is none.
// The source is called, by one goroutine, when no control frame waits, until
// it has nothing; then again after a Kick. It is forgotten with the
// connection. SetSource reports false if that is not up.
//
// What was sent before SetSource goes out ahead of the source's data. The
// source before it may be called once more, but what that yields goes out
// ahead of all that is sent after SetSource.
func (m *Mesh) SetSource(peer uint8, s Source) bool {
	o := m.up[peer].Load()
	if o == nil {
		return false
	}
	o.mu.Lock()
	o.source = s
	o.mu.Unlock()
	o.kick()
	return true
}

// Kick says that the source for a peer may have something.
func (m *Mesh) Kick(peer uint8) {
	if o := m.up[peer].Load(); o != nil {
		o.kick()
	}
}

func (o *out) kick() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

func (o *out) enqueue(payload []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case len(payload) > MaxFrame:
		return fmt.Errorf("a frame of %d bytes is too long to send", len(payload))
	case o.full || len(o.queue)+len(payload) > maxQueue:
		o.full, o.queue = true, nil
		return fmt.Errorf("it does not read: more than %d bytes wait for it", maxQueue)
	}
	o.queue = binary.LittleEndian.AppendUint32(o.queue, uint32(len(payload)))
	o.queue = append(o.queue, payload...)
	return nil
}

// release drops what was not sent.
func (o *out) release() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.full, o.queue, o.source = true, nil, nil
}

// maxSpare is the largest buffer that is kept for the next write: some
// control frames and a data frame.
const maxSpare = 256 << 10

// take takes the control frames that wait, and leaves an empty buffer for the
// next ones. It takes the source in the same moment, which is what the order
// promised by SetSource rests on.
func (o *out) take(spare []byte) ([]byte, Source) {
	if cap(spare) > maxSpare {
		spare = nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	queue := o.queue
	o.queue = spare[:0]
	return queue, o.source
}

// runOut lives as long as the connection.
func (m *Mesh) runOut(o *out) {
	defer close(o.done)
	if o.before != nil {
		<-o.before
	}
	nc, w, refused, err := m.connect(o)
	if err != nil {
		err = whyEnded(o.life, err)
		m.endOut(o, err)
		var there misfit
		m.emit(Event{Kind: DialFailed, Peer: o.peer, Gen: o.gen, Refused: refused, Misfit: errors.As(err, &there), Err: err})
		return
	}
	dialed := nc // nc is set to nil by a return while the function may run
	stop := context.AfterFunc(o.life, func() { reset(dialed) })
	defer stop()
	m.mu.Lock()
	if !o.over {
		m.up[o.peer].Store(o)
	}
	m.mu.Unlock()
	m.linked[o.peer].Store(true)
	m.emit(Event{Kind: OutUp, Peer: o.peer, Gen: o.gen, Boot: w.boot, Hello: w.hello})

	var writer sync.WaitGroup
	writer.Go(func() { m.endOut(o, o.write(nc, m.writeTimeout)) })
	m.endOut(o, watch(nc))
	writer.Wait()
	reset(nc)
	o.release()
	m.emit(Event{Kind: OutLost, Peer: o.peer, Gen: o.gen, Err: context.Cause(o.life)})
}

// watch waits for the end of a connection on which nothing comes in.
func watch(nc net.Conn) error {
	var b [1]byte
	n, err := nc.Read(b[:])
	switch {
	case n > 0:
		return errors.New("the peer sends where it should only receive")
	case errors.Is(err, io.EOF):
		return errors.New("closed by the peer")
	}
	return err
}

// write writes what there is until it fails or the connection ends.
func (o *out) write(nc net.Conn, timeout time.Duration) error {
	var buf []byte
	for {
		var source Source
		buf, source = o.take(buf)
		if source != nil {
			var err error
			if buf, err = appendData(buf, source); err != nil {
				return err
			}
		}
		if len(buf) == 0 {
			select {
			case <-o.wake:
			case <-o.life.Done():
				return context.Cause(o.life)
			}
			continue
		}
		nc.SetWriteDeadline(time.Now().Add(timeout))
		if _, err := nc.Write(buf); err != nil {
			return fmt.Errorf("writing to it: %w", err)
		}
	}
}

// appendData appends a frame of the source, if it has one.
func appendData(buf []byte, source Source) ([]byte, error) {
	start := len(buf)
	buf = append(buf, 0, 0, 0, 0)
	head := len(buf)
	framed, ok := source(buf)
	if !ok {
		return buf[:start], nil
	}
	n := len(framed) - head
	if n < 0 || n > MaxFrame {
		return nil, fmt.Errorf("a source made a frame of %d bytes", n)
	}
	binary.LittleEndian.PutUint32(framed[start:], uint32(n))
	return framed, nil
}

// connect dials and shakes hands.
//
// A connection that is closed before a word tells that a process has ended
// whose kernel had still taken it. But it may also be that only this one was
// reset, and the node lives: so it is tried again, and where there is no
// process that is refused.
func (m *Mesh) connect(o *out) (nc net.Conn, w welcome, refused bool, err error) {
	ctx, cancel := context.WithTimeout(o.life, m.cfg.HandshakeTimeout)
	defer cancel()
	nc, w, refused, err = m.try(ctx, o)
	if errors.Is(err, errNoWord) {
		nc, w, refused, err = m.try(ctx, o)
	}
	return nc, w, refused, err
}

// errNoWord is the end of a connection before the other side said anything.
var errNoWord = errors.New("it was closed before a word")

func (m *Mesh) try(ctx context.Context, o *out) (nc net.Conn, w welcome, refused bool, err error) {
	addr, ok := m.cfg.Peers(o.peer)
	if !ok || addr == "" {
		return nil, w, false, fmt.Errorf("no address of node %d is known", o.peer)
	}
	nc, err = m.dial(ctx, addr)
	if err != nil {
		// A name can have several addresses. If one of them did not answer
		// until the end, the node may be there.
		cut := errors.Is(err, syscall.ECONNRESET)
		refused = ctx.Err() == nil && (errors.Is(err, syscall.ECONNREFUSED) || cut)
		if cut {
			err = fmt.Errorf("%w: %w", errNoWord, err)
		}
		return nil, w, refused, fmt.Errorf("node %d: %w", o.peer, err)
	}
	tune(nc)
	deadline, _ := ctx.Deadline()
	nc.SetDeadline(deadline)
	dialed := nc // nc is set to nil by a return while the function may run
	stop := context.AfterFunc(o.life, func() { reset(dialed) })
	if m.cfg.TLS != nil {
		var over net.Conn
		if over, refused, err = m.secure(ctx, nc, o.peer, addr); err == nil {
			nc = over
		}
	}
	if err == nil {
		w, refused, err = m.greet(nc, o)
	}
	if !stop() || err != nil {
		reset(nc)
		if o.life.Err() != nil {
			return nil, w, false, context.Cause(o.life)
		}
		return nil, w, refused, fmt.Errorf("node %d at %s: %w", o.peer, addr, err)
	}
	nc.SetDeadline(time.Time{})
	return nc, w, false, nil
}

// dial connects to an address, from LocalIP if that can reach it.
func (m *Mesh) dial(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	if local := m.cfg.LocalIP.Unmap(); local.IsValid() {
		to, err := loopback(ctx, addr, local)
		if err != nil {
			return nil, err
		}
		if to != "" {
			addr, d.LocalAddr = to, net.TCPAddrFromAddrPort(netip.AddrPortFrom(local, 0))
		}
	}
	return d.DialContext(ctx, "tcp", addr)
}

// loopback looks addr up and returns its first loopback address of the same
// family as local, or nothing.
func loopback(ctx context.Context, addr string, local netip.Addr) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", err
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return "", err
	}
	for _, ip := range ips {
		if ip = ip.Unmap(); ip.IsLoopback() && ip.Is4() == local.Is4() {
			return net.JoinHostPort(ip.String(), port), nil
		}
	}
	return "", nil
}
