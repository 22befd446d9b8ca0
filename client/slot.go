package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"
)

// slot is one place in the rotation: an address and at most one connection to
// it. Its goroutine dials, reads until the connection ends, and waits for the
// next beat, or for a call that needs the address now.
type slot struct {
	c      *Client
	addr   address
	listed bool // given to Dial; else only a redirect named it

	conn    *conn // nil while down; not yet live while its hello is unanswered
	trying  bool  // a dial or a hello is under way, or about to begin
	tries   uint64
	lastErr error // why it is down

	// spare: it answered a redirect. A spare stays connected and serves
	// again when a redirect names it, when it is reconnected, or when nothing
	// else is live.
	spare bool

	beatAt   time.Time // the next try in the background
	demanded bool      // the next try is on demand
	wake     chan struct{}
	removed  bool

	tryEnds  time.Time
	tryTimer *time.Timer
	tryStop  context.CancelFunc
	dialCtx  context.Context // of the try under way

	firstTried bool

	// For the rules on redirects (redirect.go).
	restUntil time.Time // failed as a redirect: not dialled on demand before
	silent    bool      // the last try ended without an answer, not with a refusal
	served    bool
	ceased    time.Time // unlisted: since when it does not serve
	retire    *time.Timer
}

func (c *Client) addSlot(a address, listed bool) *slot {
	s := &slot{c: c, addr: a, listed: listed, wake: make(chan struct{}, 1)}
	now := time.Now()
	s.beatAt = now
	if listed {
		s.trying = true
	}
	c.slots = append(c.slots, s)
	c.wg.Add(1)
	go s.run()
	return s
}

func (s *slot) kick() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *slot) run() {
	defer s.c.wg.Done()
	for s.await() {
		s.try()
	}
}

// beats reports whether the slot is dialled in the background: an address
// that only a redirect named must have served first.
func (s *slot) beats() bool { return s.listed || s.served }

// await sleeps until the slot is to be dialled. It returns false when there
// is nothing left to do.
func (s *slot) await() bool {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		s.c.mu.Lock()
		if s.c.closed || s.removed {
			s.c.mu.Unlock()
			return false
		}
		now := time.Now()
		left := time.Hour
		if s.beats() {
			left = s.beatAt.Sub(now)
		}
		if s.demanded || left <= 0 {
			s.begin(now)
			s.c.mu.Unlock()
			return true
		}
		s.c.mu.Unlock()
		timer.Reset(left)
		select {
		case <-s.wake:
		case <-timer.C:
		}
	}
}

// begin starts a try. The beat goes on from its start; a try on demand is
// extra and leaves the beat as it is, unless that falls due meanwhile.
func (s *slot) begin(now time.Time) {
	limit := demandLimit
	if !s.demanded {
		limit = beatEvery
	}
	if !s.beatAt.After(now) {
		s.beatAt = now.Add(s.c.cfg.jitter(beatEvery))
	}
	s.trying, s.demanded = true, false
	s.tries++
	s.tryEnds = now.Add(limit)
	ctx, cancel := context.WithCancel(s.c.ctx)
	s.tryStop = cancel
	this := s.tries
	s.tryTimer = time.AfterFunc(limit, func() {
		s.c.mu.Lock()
		defer s.c.mu.Unlock()
		if s.tries != this || !s.trying {
			return
		}
		if s.conn != nil {
			s.silent = true
			s.conn.fail(errors.New("connected, but no answer to the hello in time"))
			return
		}
		cancel()
	})
	s.dialCtx = ctx
}

// demand asks for a try now, of one second at most.
func (s *slot) demand(now time.Time) {
	switch {
	case !s.trying:
		s.trying, s.demanded = true, true
		s.kick()
	case s.tryTimer != nil && s.tryEnds.Sub(now) > demandLimit:
		s.tryEnds = now.Add(demandLimit)
		s.tryTimer.Reset(demandLimit)
	}
}

// attempt numbers the try that is under way or about to begin.
func (s *slot) attempt() uint64 {
	if s.tryTimer == nil {
		return s.tries + 1
	}
	return s.tries
}

// try dials, and reads until the connection ends.
func (s *slot) try() {
	nc, err := s.dial(s.dialCtx)
	s.c.mu.Lock()
	if err == nil && (s.c.closed || s.dialCtx.Err() != nil) {
		reset(nc)
		err = context.Cause(s.dialCtx)
	}
	if err != nil {
		s.silent = s.dialCtx.Err() != nil
		if s.silent && !s.c.closed {
			err = errors.New("no connection in time")
		}
		s.tryFailed(err, time.Now())
		s.c.mu.Unlock()
		return
	}
	s.silent = false
	n := s.start(nc, time.Now())
	s.c.mu.Unlock()
	n.read()
}

// rest keeps an address from being dialled again at once that a redirect has
// named and that could not be reached.
func (s *slot) rest(now time.Time) {
	if s.silent {
		s.restUntil = now.Add(redirectRest)
	} else {
		s.restUntil = now.Add(refusedRest)
	}
}

func (s *slot) dial(ctx context.Context) (net.Conn, error) {
	cfg := &s.c.cfg
	nc, err := cfg.dial(ctx, "tcp", s.addr.text)
	if err != nil || cfg.tls == nil {
		return nc, err
	}
	t := cfg.tls.Clone()
	if t.ServerName == "" || !s.listed {
		t.ServerName = s.addr.host
	}
	conn := tls.Client(nc, t)
	if err := conn.HandshakeContext(ctx); err != nil {
		reset(nc)
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return conn, nil
}

// tryFailed ends a try that came to nothing, and lets go on whoever waited
// for it.
func (s *slot) tryFailed(err error, now time.Time) {
	s.lastErr = err
	s.tryEnded()
	if !s.c.closed {
		s.c.cfg.log.Debug("stile: cannot connect", "addr", s.addr.text, "reason", err)
	}
	s.c.unpark(now)
}

func (s *slot) tryEnded() {
	s.trying = false
	s.stopTimers()
	if s.listed && !s.firstTried {
		s.firstTried = true
		if s.c.untried--; s.c.untried == 0 {
			s.c.markReady()
		}
	}
}

func (s *slot) stopTimers() {
	if s.tryTimer != nil {
		s.tryTimer.Stop()
		s.tryTimer = nil
		s.tryStop()
	}
	if s.c.closed && s.retire != nil {
		s.retire.Stop()
	}
}

// serves puts a connection whose hello was answered into the rotation.
func (s *slot) serves(now time.Time) {
	s.tryEnded()
	s.lastErr = nil
	s.spare, s.served = false, true
	s.ceased = time.Time{}
	s.c.markReady()
	s.c.unpark(now)
	s.c.due.connected(now)
	for k := range s.c.keeps {
		k.again()
	}
}

// lost takes note that n ended. One that ended before anything was read on it
// was a failed try, and the beat goes on as if it had been refused; else the
// beat starts anew from the drop.
func (s *slot) lost(n *conn, reason error, wasLive bool, now time.Time) {
	if s.conn != n {
		return
	}
	s.conn = nil
	s.lastErr = reason
	if n.silence.everRead {
		s.beatAt = now.Add(s.c.cfg.jitter(beatEvery))
	}
	if !wasLive {
		s.tryEnded()
	} else if !s.c.closed {
		s.c.cfg.log.Info("stile: connection lost", "addr", s.addr.text, "reason", reason)
	}
	s.ceases(now)
}

// reason says, for an error, why the address is of no use now.
func (s *slot) reason() string {
	switch {
	case s.conn != nil && s.conn.live && s.spare:
		return "connected; redirects"
	case s.conn != nil && s.conn.live:
		return "connected"
	case s.lastErr != nil:
		return s.lastErr.Error()
	}
	return "no connection yet"
}
