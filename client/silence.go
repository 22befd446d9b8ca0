package client

import (
	"errors"
	"strconv"
	"time"

	"github.com/stile-lock/stile/protocol"
)

// silence watches a connection for a peer that is gone without a word. With
// anything unanswered it sends a ping after a second without a byte, and
// resets the connection when two more seconds bring none; so every request
// leaves a black hole after three seconds. With nothing unanswered it pings
// every 15 seconds, so that the server does not close the connection as idle.
//
// The same pings are the ticks of the lease clock (lease.go) while an acquire
// waits: each one answered proves that the grant was not yet made.
type silence struct {
	timer *time.Timer
	at    time.Time // when the timer fires; never later than what is due

	read      time.Time // the last byte read, or the start
	everRead  bool
	busySince time.Time // when the connection last came to owe something
	pinged    time.Time // when the ping in flight was sent
	inFlight  bool      // one at most
	words     uint64
}

var errSilent = errors.New("no answer, not even to a ping, for 2 seconds")

func (s *silence) start(n *conn, now time.Time) {
	s.read = now
	s.at = now.Add(idlePing)
	s.timer = time.AfterFunc(idlePing, func() {
		n.c.mu.Lock()
		defer n.c.mu.Unlock()
		if !n.dead {
			s.check(n, time.Now())
		}
	})
}

func (s *silence) stop() { s.timer.Stop() }

func (s *silence) heard(now time.Time) {
	s.read = now
	s.everRead = true
}

// busy is told of every request that was sent. The timer is left alone when
// it fires soon enough anyway, as it does on a busy connection.
func (s *silence) busy(n *conn, now time.Time) {
	if n.pend.count == 1 {
		s.busySince = now
	}
	if due := now.Add(pingAfter); s.at.After(due) {
		s.arm(due, now)
	}
}

func (s *silence) arm(at, now time.Time) {
	s.at = at
	s.timer.Reset(at.Sub(now))
}

// check does what is due and sets the timer for what is due next.
func (s *silence) check(n *conn, now time.Time) {
	due, then := s.due(n.pend.count > 0)
	if now.Before(due) {
		s.arm(due, now)
		return
	}
	switch then {
	case silenceReset:
		n.fail(errSilent)
	case silencePing:
		s.ping(n, now)
		due, _ = s.due(true)
		s.arm(due, now)
	}
}

type silenceStep uint8

const (
	silencePing silenceStep = iota
	silenceReset
)

// due says what is to be done next, and when.
func (s *silence) due(owes bool) (time.Time, silenceStep) {
	switch {
	case s.inFlight:
		return later(s.read, s.pinged).Add(resetAfter), silenceReset
	case owes:
		return later(s.read, s.busySince).Add(pingAfter), silencePing
	default:
		return s.read.Add(idlePing), silencePing
	}
}

func (s *silence) ping(n *conn, now time.Time) {
	s.words++
	s.inFlight, s.pinged = true, now
	r := n.c.free.request()
	r.op, r.key, r.owner = opP, strconv.FormatUint(s.words, 36), (*pong)(n)
	n.out = protocol.AppendPing(n.out, []byte(r.key))
	n.sent(r, now)
}

// pong is the owner of a ping. Any answer will do: a peer that does not know
// pings is alive too.
type pong conn

func (p *pong) answered(_ *request, _ *protocol.Answer, now time.Time) {
	s := &p.silence
	s.inFlight = false
	if due, _ := s.due(p.pend.count > 0); s.at.After(due) {
		s.arm(due, now)
	}
}

func (p *pong) dropped(*request, error, time.Time) {}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
