// Package gate stands between clients and one shard of the lock table. It
// lets requests through, keeps them for a moment, or turns them away, as the
// node's role says. Like the table it is pure: no I/O, no clock, nothing
// started.
//
// Acquires that are kept lie in the [lockspace.Space], where their answers
// take their turn with all others of the same session and key. Releases, keeps
// and cancels that are kept lie here.
package gate

import (
	"time"

	"github.com/stile-lock/stile/protocol"
	"github.com/stile-lock/stile/server/cluster"
	"github.com/stile-lock/stile/server/lockspace"
)

// Request is a release, keep or cancel.
type Request struct {
	Session lockspace.Session
	Op      protocol.Op
	Key     []byte // copied if the request is kept
	Token   uint64
	Lease   time.Duration
	Nonce   lockspace.Nonce
}

// Verdict is how a request ended.
type Verdict uint8

const (
	// Kept: not yet; an Answer comes later.
	Kept Verdict = iota
	// Done: it did what it asks for.
	Done
	// Refused: with Code.
	Refused
	// Moved: another node is active.
	Moved
)

// Answer is what became of a request. For a keep, Lease is the lease granted.
type Answer struct {
	Request
	Verdict Verdict
	Code    protocol.Code
}

// Out is where a Gate sends what it causes.
type Out interface {
	// Settle takes the effects and changes of the Space, after each call of
	// one of its methods.
	Settle()
	// Answer ends a request that was kept. Its key is valid during the call.
	Answer(*Answer)
}

// Config is what a Gate is made with.
type Config struct {
	// HoldFor is how long a request is kept before it is refused with
	// no-active.
	HoldFor time.Duration
	Out     Out
}

// Gate is one shard of the lock table as clients meet it.
type Gate struct {
	Space *lockspace.Space
	cfg   Config
	mode  cluster.Mode
	kept  []kept // in order of arrival

	// What came while the table must stand still, and changes it.
	dropped []lockspace.Session
	undone  []undo
}

type undo struct {
	session lockspace.Session
	key     []byte
	token   uint64
	place   lockspace.Place
}

type kept struct {
	Request
	until lockspace.Time
}

// New returns a gate that serves.
func New(space *lockspace.Space, cfg Config) *Gate {
	return &Gate{Space: space, cfg: cfg, mode: cluster.Serve}
}

// Mode is the present mode.
func (g *Gate) Mode() cluster.Mode { return g.mode }

// Held is how many requests are kept, acquires included.
func (g *Gate) Held() int { return len(g.kept) + g.Space.HeldBack() }

// Acquire passes an acquire on, keeps it, or turns it away. mayHold is false
// if the node has no room for another kept request. It reports false if the
// acquire is to be answered with Moved, which the Space knows nothing of:
// nothing else of the session waits then. The caller settles.
func (g *Gate) Acquire(now lockspace.Time, a *lockspace.Acquire, mayHold bool) bool {
	switch g.mode {
	case cluster.Serve:
		g.Space.Acquire(now, *a)
	case cluster.Redirect:
		return false
	case cluster.Refuse:
		g.Space.Refuse(now, a.Session, a.Tag, a.Key, protocol.CodeNoActive)
	case cluster.Ending:
		g.Space.Refuse(now, a.Session, a.Tag, a.Key, protocol.CodeStopping)
	default:
		if !mayHold {
			g.Space.Refuse(now, a.Session, a.Tag, a.Key, protocol.CodeNoActive)
			break
		}
		g.Space.Hold(now, *a, now+lockspace.Time(g.cfg.HoldFor))
	}
	return true
}

// Do carries out a release, keep or cancel, keeps it, or turns it away. The
// caller settles, and answers unless the verdict is Kept.
func (g *Gate) Do(now lockspace.Time, r *Request, mayHold bool) (v Verdict, code protocol.Code, lease time.Duration) {
	switch g.mode {
	case cluster.Ending:
		if g.Space.Standby() {
			return Refused, protocol.CodeStopping, 0
		}
		return g.serve(now, r)
	case cluster.Serve:
		return g.serve(now, r)
	case cluster.Redirect:
		return Moved, 0, 0
	case cluster.Refuse:
		return Refused, protocol.CodeNoActive, 0
	}
	if !mayHold {
		return Refused, protocol.CodeNoActive, 0
	}
	k := kept{*r, now + lockspace.Time(g.cfg.HoldFor)}
	k.Key = append([]byte(nil), r.Key...)
	g.kept = append(g.kept, k)
	return Kept, 0, 0
}

// Break ends the grant of a key as an operator asks; see
// [lockspace.Space.Break]. It reports false if the table can't be changed here
// or at the moment: then nothing has happened. The caller settles.
func (g *Gate) Break(now lockspace.Time, key []byte, token uint64) (holder, next uint64, ok bool) {
	if g.mode != cluster.Serve {
		return 0, 0, false
	}
	holder, next = g.Space.Break(now, key, token)
	return holder, next, true
}

func (g *Gate) serve(now lockspace.Time, r *Request) (v Verdict, code protocol.Code, lease time.Duration) {
	ok := true
	switch r.Op {
	case protocol.OpRelease:
		ok = g.Space.Release(now, r.Key, r.Token)
	case protocol.OpKeep:
		lease, ok = g.Space.Keep(now, r.Session, r.Key, r.Token, r.Lease)
	case protocol.OpCancel:
		g.Space.Cancel(now, r.Key, r.Nonce)
	}
	if !ok {
		return Refused, protocol.CodeNotHeld, 0
	}
	return Done, 0, lease
}

// SetMode changes how requests are treated, and ends the kept ones that the
// new mode has an answer for: releases, keeps and cancels first, in order,
// then acquires.
func (g *Gate) SetMode(now lockspace.Time, mode cluster.Mode) {
	g.mode = mode
	if mode != cluster.Freeze {
		g.thaw(now)
	}
	switch mode {
	case cluster.Serve:
		g.answerKept(now)
		for more := true; more; {
			more = g.Space.Serve(now)
			g.cfg.Out.Settle()
		}
	case cluster.Redirect:
		g.Space.EndSessions(now, lockspace.Moved, 0)
		g.cfg.Out.Settle()
		g.answerKept(now)
	case cluster.Refuse:
		// Who waits in line can't be answered either: neither granted, nor told
		// at its limit that nothing was.
		g.answerKept(now)
		g.Space.EndSessions(now, lockspace.Refused, protocol.CodeNoActive)
		g.cfg.Out.Settle()
	case cluster.Ending:
		g.answerKept(now)
		g.Space.EndSessions(now, lockspace.Refused, protocol.CodeStopping)
		g.cfg.Out.Settle()
	}
}

// thaw makes up for what had to wait: before anybody is granted anything.
func (g *Gate) thaw(now lockspace.Time) {
	for _, s := range g.dropped {
		g.Space.Drop(now, s)
		g.cfg.Out.Settle()
	}
	for i := range g.undone {
		u := &g.undone[i]
		g.Space.Undo(now, u.session, u.key, u.token, u.place)
		g.cfg.Out.Settle()
	}
	g.dropped, g.undone = nil, nil
}

func (g *Gate) answerKept(now lockspace.Time) {
	kept := g.kept
	g.kept = nil
	for i := range kept {
		a := Answer{Request: kept[i].Request}
		a.Verdict, a.Code, a.Lease = g.Do(now, &a.Request, false)
		g.cfg.Out.Settle()
		g.cfg.Out.Answer(&a)
	}
}

// Advance ends what is due, at most about `most` things; see
// [lockspace.Space.Advance]. Where the table must stand still, nothing is. It
// reports whether more is due.
func (g *Gate) Advance(now lockspace.Time, most int) (more bool) {
	if g.mode == cluster.Freeze {
		return false
	}
	for len(g.kept) > 0 && g.kept[0].until <= now {
		a := Answer{Request: g.kept[0].Request, Verdict: Refused, Code: protocol.CodeNoActive}
		g.kept = g.kept[1:]
		g.cfg.Out.Answer(&a)
	}
	more = g.Space.Advance(now, most)
	g.cfg.Out.Settle()
	return more
}

// Next is when Advance is due.
func (g *Gate) Next() lockspace.Time {
	if g.mode == cluster.Freeze {
		return lockspace.Never
	}
	next := g.Space.Next()
	if len(g.kept) > 0 {
		next = min(next, g.kept[0].until)
	}
	return next
}

// Drop forgets a session.
func (g *Gate) Drop(now lockspace.Time, s lockspace.Session) {
	left := g.kept[:0]
	for i := range g.kept {
		if g.kept[i].Session != s {
			left = append(left, g.kept[i])
		}
	}
	clear(g.kept[len(left):])
	g.kept = left
	if g.mode == cluster.Freeze {
		g.dropped = append(g.dropped, s)
		return
	}
	g.Space.Drop(now, s)
	g.cfg.Out.Settle()
}

// Undo takes back a grant whose answer was lost with its session; see
// [lockspace.Space.Undo]. The key is copied if that has to wait.
func (g *Gate) Undo(now lockspace.Time, s lockspace.Session, key []byte, token uint64, p lockspace.Place) {
	if g.mode == cluster.Freeze {
		g.undone = append(g.undone, undo{s, append([]byte(nil), key...), token, p})
		return
	}
	g.Space.Undo(now, s, key, token, p)
	g.cfg.Out.Settle()
}
