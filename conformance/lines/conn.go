// Package lines is a connection that speaks lines, for the steps of any half:
// it reads at all times, notes in the transcript what goes out and comes in,
// and ends with its scenario.
package lines

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stile-lock/stile/conformance/suite"
)

// Conn is one connection of a scenario, with its name in the transcript. One
// goroutine at a time may wait on it; the other methods may be called by any.
type Conn struct {
	Name string
	w    *suite.World
	nc   net.Conn

	mu      sync.Mutex
	unread  []Line
	end     error         // why reading ended
	endAt   time.Duration // and when
	changed chan struct{} // has one element when there is something new
	dropped bool
	stopped atomic.Bool // it reads no more until the scenario ends
	ending  chan struct{}
}

// Line is a line that was received.
type Line struct {
	Text string        // without its LF
	At   time.Duration // when it had been read, as World.Now
}

// New takes over an open connection, in either role, and reads it from now on.
// When the scenario ends, it is drained and closed.
func New(w *suite.World, name string, nc net.Conn) *Conn {
	c := &Conn{Name: name, w: w, nc: nc, changed: make(chan struct{}, 1), ending: make(chan struct{})}
	w.Note(name, "open")
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.read()
	}()
	// What is still in flight is read to the end: an answer that nobody looks
	// at may be a grant that has to be given back.
	w.Cleanup(func(ctx context.Context) {
		close(c.ending)
		c.CloseWrite()
		nc.SetReadDeadline(time.Now().Add(time.Second))
		select {
		case <-done:
		case <-ctx.Done():
		}
		nc.Close()
	})
	return c
}

func (c *Conn) read() {
	in := bufio.NewReader(Bounded(c.nc, MaxRead))
	for {
		if c.stopped.Load() {
			<-c.ending
		}
		text, err := in.ReadString('\n')
		at := c.w.Now()
		if text != "" {
			c.w.Received(c.Name, strings.TrimSuffix(text, "\n"))
		}
		c.mu.Lock()
		if strings.HasSuffix(text, "\n") {
			c.unread = append(c.unread, Line{strings.TrimSuffix(text, "\n"), at})
		}
		if err != nil {
			c.end, c.endAt = err, at
			if !c.dropped && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, net.ErrClosed) {
				c.w.Note(c.Name, "%s", Why(err))
			}
		}
		c.mu.Unlock()
		select {
		case c.changed <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// Send sends one line, to which it adds the LF, and returns the time just
// before.
func (c *Conn) Send(line string) (time.Duration, error) { return c.SendAs(line, line) }

// SendAs is Send with another text in the transcript: for secrets.
func (c *Conn) SendAs(line, shown string) (time.Duration, error) {
	return c.Write([]byte(line+"\n"), shown)
}

// Write sends bytes as they are.
func (c *Conn) Write(b []byte, shown string) (time.Duration, error) {
	at := c.w.Now()
	c.w.Sent(c.Name, shown)
	c.nc.SetWriteDeadline(time.Now().Add(suite.Answer))
	if _, err := c.nc.Write(b); err != nil {
		return at, c.w.Fail(c.Name+" to be read by the other side", fmt.Sprintf("%s (%v) when it sent %s", Why(err), err, shown))
	}
	return at, nil
}

// StopReading makes the connection one whose client does not read any more.
// A line that is under way may still be read.
func (c *Conn) StopReading() { c.stopped.Store(true) }

// TryWrite sends what the other side takes within the time. It is no failure
// if that is not all.
func (c *Conn) TryWrite(b []byte, within time.Duration, shown string) {
	c.w.Sent(c.Name, shown)
	c.nc.SetWriteDeadline(time.Now().Add(within))
	n, err := c.nc.Write(b)
	if err != nil {
		c.w.Note(c.Name, "%d of %d bytes were taken: %s", n, len(b), Why(err))
	}
}

// Silent is the error of Next when nothing came.
type Silent struct{ For time.Duration }

func (s Silent) Error() string {
	return fmt.Sprintf("nothing for %v", s.For.Round(10*time.Millisecond))
}

// Closed is the error of Next when nothing more will come.
type Closed struct {
	Why string
	At  time.Duration
}

func (c Closed) Error() string { return c.Why }

// Next takes the next line that was received, and waits for it if need be.
// Its errors are Silent, Closed, and that of a scenario that has to stop.
func (c *Conn) Next(within time.Duration) (Line, error) {
	timer := time.NewTimer(within)
	defer timer.Stop()
	for {
		c.mu.Lock()
		if len(c.unread) > 0 {
			l := c.unread[0]
			c.unread = c.unread[1:]
			c.mu.Unlock()
			return l, nil
		}
		end, at := c.end, c.endAt
		c.mu.Unlock()
		if end != nil {
			return Line{}, Closed{Why(end), at}
		}
		select {
		case <-c.changed:
		case <-timer.C:
			return Line{}, Silent{within}
		case <-c.w.Context().Done():
			return Line{}, c.w.Stopped()
		}
	}
}

// Why says in words how a connection ended.
func Why(err error) string {
	switch {
	case errors.Is(err, io.EOF):
		return "the connection was closed"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "the connection was reset"
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "the time for it was over"
	case errors.Is(err, net.ErrClosed):
		return "the suite had closed the connection"
	}
	return "the connection broke: " + err.Error()
}

// CloseWrite ends the sending half.
func (c *Conn) CloseWrite() error {
	if half, ok := c.nc.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Drop closes both directions, as a client's end does.
func (c *Conn) Drop() {
	c.drop("drop")
	c.nc.Close()
}

// Reset gives the connection up with a reset.
func (c *Conn) Reset() {
	c.drop("reset")
	if tcp, ok := c.nc.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	c.nc.Close()
}

func (c *Conn) drop(how string) {
	c.w.Note(c.Name, "%s", how)
	c.mu.Lock()
	c.dropped = true
	c.mu.Unlock()
}
