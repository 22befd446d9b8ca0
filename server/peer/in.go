package peer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"time"
)

// in is a connection that a peer dialed.
type in struct {
	nc net.Conn
	r  *bufio.Reader

	life context.Context
	cut  context.CancelCauseFunc
	done chan struct{} // closed when all its events are out

	who greeting // after the handshake
}

// readSize is the buffer for what comes in: many small frames in one read.
const readSize = 16 << 10

// Accept takes over a connection whose first bytes are "N ", with the bytes
// that were read from it already.
func (m *Mesh) Accept(nc net.Conn, already []byte) {
	c := &in{nc: nc, done: make(chan struct{})}
	c.r = bufio.NewReaderSize(io.MultiReader(bytes.NewReader(bytes.Clone(already)), nc), readSize)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		nc.Close()
		return
	}
	if len(m.handshakes) == maxHandshakes {
		m.handshakes[0].cut(errors.New("too many unfinished handshakes"))
		m.handshakes = slices.Delete(m.handshakes, 0, 1)
	}
	c.life, c.cut = context.WithCancelCause(m.life)
	m.handshakes = append(m.handshakes, c)
	m.all.Go(func() { m.runIn(c) })
}

// CutIn resets the connection from a peer.
func (m *Mesh) CutIn(peer uint8) {
	m.mu.Lock()
	c := m.ins[peer]
	m.mu.Unlock()
	if c != nil {
		c.cut(errCut)
	}
}

// runIn lives as long as the connection.
func (m *Mesh) runIn(c *in) {
	defer close(c.done)
	defer c.nc.Close()
	defer c.cut(nil)
	stop := context.AfterFunc(c.life, func() { reset(c.nc) })
	defer stop()

	tune(c.nc)
	c.nc.SetDeadline(time.Now().Add(m.cfg.HandshakeTimeout))
	err := m.welcome(c)
	m.mu.Lock()
	if i := slices.Index(m.handshakes, c); i >= 0 {
		m.handshakes = slices.Delete(m.handshakes, i, i+1)
	}
	m.mu.Unlock()
	if err != nil {
		m.cfg.Log.Debug("a peer's handshake failed", slog.String("remote", remote(c.nc)), slog.Any("error", whyEnded(c.life, err)))
		return
	}
	c.nc.SetDeadline(time.Time{})
	if !m.replace(c) {
		return
	}
	e := Event{Peer: c.who.from, Gen: m.gen.Add(1)}
	e.Kind, e.Boot, e.Hello = InUp, c.who.boot, c.who.hello
	m.emit(e)
	e.Kind, e.Boot, e.Hello = Frame, 0, nil
	err = whyEnded(c.life, m.readFrames(c, e))
	c.cut(err)
	m.mu.Lock()
	delete(m.ins, c.who.from)
	m.mu.Unlock()
	e.Kind, e.Err = InLost, err
	m.emit(e)
}

// replace makes a connection the one from its peer, after the last event of
// the one before it. It reports false if that one is newer, which can be if
// this node was stopped for a while and finds several waiting.
func (m *Mesh) replace(c *in) bool {
	for {
		m.mu.Lock()
		old := m.ins[c.who.from]
		if old == nil {
			m.ins[c.who.from] = c
		}
		m.mu.Unlock()
		switch {
		case old == nil:
			return true
		case old.who.boot == c.who.boot && old.who.dial > c.who.dial:
			return false
		}
		old.cut(errReplaced)
		<-old.done
	}
}

// readFrames passes on what comes in until the connection ends.
func (m *Mesh) readFrames(c *in, e Event) error {
	var buf []byte
	for {
		var head [4]byte
		if _, err := io.ReadFull(c.r, head[:]); err != nil {
			if errors.Is(err, io.EOF) {
				return errors.New("closed by the peer")
			}
			return err
		}
		n := binary.LittleEndian.Uint32(head[:])
		if n > MaxFrame {
			return fmt.Errorf("the peer announces a frame of %d bytes, %d is the most", n, MaxFrame)
		}
		buf = slices.Grow(buf[:0], int(n))[:n]
		if _, err := io.ReadFull(c.r, buf); err != nil {
			return fmt.Errorf("within a frame: %w", err)
		}
		if c.life.Err() != nil {
			return context.Cause(c.life)
		}
		e.Payload = buf
		m.emit(e)
	}
}

func remote(nc net.Conn) string {
	if a := nc.RemoteAddr(); a != nil {
		return a.String()
	}
	return "unknown"
}
