package client

import (
	"time"

	"github.com/stile-lock/stile/protocol"
)

// The lease clock. A server's lease runs from the grant or the keep, which
// the client does not see; so it counts from a moment that is certainly not
// later. Expires never lies after the server's own end of the lease.
//
// A keep, and an acquire that does not wait, count from the send. A grant
// after a wait counts from the send of the last request on that connection
// whose answer was read before the grant: when the server read that request
// it had not yet granted. The pings of silence.go provide one every second.

// granted deals with the A that answers an acquire.
func (a *acquire) granted(r *request, ans *protocol.Answer, now time.Time) {
	n := r.conn
	from := r.sent
	if a.wait >= 0 {
		from = later(from, n.answeredSent)
	}
	l := &Lock{
		c: a.c, key: a.key, token: ans.Token, origin: n,
		lease: ans.Lease, asked: a.lease, expires: from.Add(ans.Lease),
	}
	l.enter()
	left := l.expires.Sub(now)
	// A grant that answers a repeated nonce tells the time left of a lease
	// that may be mostly over.
	short := 2*left < ans.Lease || a.known && 2*left < a.lease
	switch {
	case left > 0 && (!short || !n.keep):
		a.handOut(l)
	case n.keep:
		a.confirm(l, n, now)
	default:
		l.giveBack(now)
		a.startAnew(n, ErrLeaseLost, now)
	}
}

func (a *acquire) handOut(l *Lock) {
	a.dangling = false
	a.lock = l
	a.finish(l, nil, Happened)
}

// confirm sends a K before the lock is handed out, because too little of the
// lease would be left.
func (a *acquire) confirm(l *Lock, n *conn, now time.Time) {
	a.state, a.lock = acquireConfirming, l
	lease := l.asked
	if lease == 0 {
		lease = max(l.lease, time.Millisecond)
	}
	r := a.c.free.request()
	r.op, r.key, r.token, r.owner = opK, l.key, l.token, (*confirming)(a)
	n.out = protocol.AppendKeep(n.out, []byte(l.key), l.token, lease)
	n.sent(r, now)
	a.req = r
}

// confirming owns the K of an acquire that is not yet handed out.
type confirming acquire

func (x *confirming) answered(r *request, ans *protocol.Answer, now time.Time) {
	a, n := (*acquire)(x), r.conn
	l := a.lock
	a.req, a.lock = nil, nil
	switch {
	case ans.Op == opK:
		l.lease, l.expires = ans.Lease, r.sent.Add(ans.Lease)
		if now.Before(l.expires) {
			a.handOut(l)
			return
		}
		l.giveBack(now)
		a.startAnew(n, ErrLeaseLost, now)
	case ans.Op == protocol.OpMoved && !a.nonce.none():
		// Asking again under the same nonce gives the same token.
		l.leave()
		a.newRound()
		a.place = 0
		a.moved(r, ans.Addr, now)
	case ans.Op == protocol.OpError && ans.Code == protocol.CodeNotHeld:
		l.leave()
		a.startAnew(n, ErrLeaseLost, now)
	case ans.Op == protocol.OpError && ans.Code == protocol.CodeUnknownOp && now.Before(l.expires):
		a.handOut(l)
	default:
		l.giveBack(now)
		a.startAnew(n, ErrLeaseLost, now)
	}
}

func (x *confirming) dropped(r *request, reason error, now time.Time) {
	a := (*acquire)(x)
	l := a.lock
	a.req, a.lock = nil, nil
	a.lost = true
	a.note(r.conn.slot, reason.Error())
	if a.nonce.none() {
		l.giveBack(now)
		a.c.route(a, now)
		return
	}
	// The grant stands, so no other request of this key may hold its answer
	// back: with from at 0 the nonce stays only where none is pending.
	l.leave()
	a.known, a.dangling, a.from, a.fromOrder = true, true, 0, 0
	a.c.route(a, now)
}
