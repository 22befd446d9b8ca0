package client

import (
	"errors"
	"time"

	"github.com/stile-lock/stile/protocol"
)

// delivery is a release or a cancel on its way to a server. It is undelivered
// while no live connection owes its answer. Every 200 ms, for 5 s from the
// call, an undelivered one is written to the connection that its grant came
// from, else to the next in the rotation, else to one that is dialled for it.
// Every copy has its own place in its connection's order.
type delivery struct {
	c      *Client
	op     protocol.Op // opR or opC
	key    string
	token  uint64
	nonce  nonce
	origin *conn // where the grant came from or the acquire was sent; may be dead
	lock   *Lock // R of a lock: its own clock tells if a "not held" is good news

	start     time.Time
	nextDue   time.Time
	copies    int    // written so far
	owing     int    // of those, how many a live connection has yet to answer
	avoid     uint64 // a connection that just declined
	target    *slot  // where a redirect leads
	redirects int

	targetDialled bool
	notBefore     time.Time // the pause before a further redirect is followed
	wants         bool      // found no connection: the first that becomes live gets it
	dials         int       // asked for, to take turns among the addresses

	done   bool
	err    error
	notify chan struct{} // closed at the end, if anybody waits

	prev, next *delivery
	listed     bool
}

// deliveries is every unfinished delivery, the next due first. All come due
// at the same interval, so that nearly each is simply put at the end. Guarded
// by Client.mu.
type deliveries struct {
	c          *Client
	head, tail *delivery
	timer      *time.Timer
	armed      bool
	at         time.Time // if armed; never later than the first is due
}

func (q *deliveries) init(c *Client) { q.c = c }

func (q *deliveries) push(d *delivery, now time.Time) {
	d.nextDue = now.Add(resendEvery)
	if end := d.start.Add(resendFor); end.Before(d.nextDue) {
		d.nextDue = end
	}
	after := q.tail
	for after != nil && after.nextDue.After(d.nextDue) {
		after = after.prev // rare: only next to an end
	}
	d.prev, d.listed = after, true
	if after == nil {
		d.next, q.head = q.head, d
	} else {
		d.next, after.next = after.next, d
	}
	if d.next == nil {
		q.tail = d
	} else {
		d.next.prev = d
	}
	if !q.armed || q.at.After(d.nextDue) {
		q.arm(d.nextDue, now)
	}
}

func (q *deliveries) arm(at, now time.Time) {
	q.armed, q.at = true, at
	d := at.Sub(now)
	if q.timer == nil {
		q.timer = time.AfterFunc(d, q.tick)
		return
	}
	q.timer.Reset(d)
}

func (q *deliveries) remove(d *delivery) {
	if !d.listed {
		return
	}
	d.listed = false
	if d.prev == nil {
		q.head = d.next
	} else {
		d.prev.next = d.next
	}
	if d.next == nil {
		q.tail = d.prev
	} else {
		d.next.prev = d.prev
	}
	d.prev, d.next = nil, nil
}

// add starts a delivery: its first copy is written at once.
func (q *deliveries) add(d *delivery, now time.Time) {
	d.start = now
	q.push(d, now)
	d.write(now)
}

func (q *deliveries) tick() {
	q.c.mu.Lock()
	defer q.c.mu.Unlock()
	q.armed = false
	now := time.Now()
	for d := q.head; d != nil && !d.nextDue.After(now); d = q.head {
		q.remove(d)
		if now.Sub(d.start) >= resendFor {
			d.end(ErrUndelivered, MayHaveHappened)
			continue
		}
		q.push(d, now)
		if d.owing == 0 && !now.Before(d.notBefore) {
			d.write(now)
		}
	}
	if q.head != nil {
		q.arm(q.head.nextDue, now)
	}
}

// connected offers a connection that just became live to deliveries that
// found none.
func (q *deliveries) connected(now time.Time) {
	for d, last := q.head, q.tail; d != nil; {
		next := d.next
		if d.wants && d.owing == 0 && !now.Before(d.notBefore) && now.Sub(d.start) < resendFor {
			// The pace of the copies goes on from here.
			q.remove(d)
			q.push(d, now)
			d.write(now)
		}
		if d == last {
			return
		}
		d = next
	}
}

func (q *deliveries) closeAll() {
	for d := q.head; d != nil; d = q.head {
		outcome := MayHaveHappened
		if d.copies == 0 {
			outcome = DidNotHappen
		}
		d.end(ErrClosed, outcome)
	}
	if q.timer != nil {
		q.timer.Stop()
	}
}

func (d *delivery) can() func(*conn) bool {
	if d.op == opC {
		return resumePeer
	}
	return anyPeer
}

// write sends one copy, or asks for a connection.
func (d *delivery) write(now time.Time) {
	c := d.c
	d.wants = false
	var n *conn
	if s := d.target; s != nil && !s.removed && s.conn != nil && d.can()(s.conn) && s.conn.live {
		n = s.conn
		d.target = nil
	} else if s == nil || s.removed || !s.trying {
		if s != nil && d.targetDialled {
			s.rest(now)
		}
		d.target = nil
		n = c.pickOther(d.origin, d.avoid, d.can())
	}
	if n == nil {
		d.wants = true
		d.dial(now)
		return
	}
	r := c.free.request()
	r.op, r.key, r.token, r.nonce, r.owner = d.op, d.key, d.token, d.nonce, d
	if d.op == opR {
		n.out = protocol.AppendRelease(n.out, []byte(d.key), d.token)
	} else {
		n.out = protocol.AppendCancel(n.out, []byte(d.key), d.nonce.bytes())
	}
	d.copies++
	d.owing++
	d.avoid = 0
	n.sent(r, now)
}

// dial asks for one more connection: to the redirect's target, to where the
// grant came from, then to the others in turn.
func (d *delivery) dial(now time.Time) {
	if s := d.target; s != nil && !s.removed {
		s.demand(now)
		return
	}
	if d.dials == 0 && d.origin != nil && !d.origin.slot.removed {
		d.dials++
		if s := d.origin.slot; s.conn == nil && !s.trying {
			s.demand(now)
			return
		}
	}
	slots := d.c.slots
	for range slots {
		s := slots[(d.c.cursor+d.dials)%len(slots)]
		d.dials++
		if s.conn == nil && !s.trying && !now.Before(s.restUntil) {
			s.demand(now)
			return
		}
	}
}

func (d *delivery) answered(r *request, a *protocol.Answer, now time.Time) {
	d.owing--
	if d.done {
		return // an older copy's answer: the first one counts
	}
	switch {
	case a.Op == d.op:
		d.end(nil, Happened)
	case a.Op == protocol.OpMoved:
		d.moved(r.conn, a.Addr, now)
	case a.Op != protocol.OpError:
		panic("client: answer " + a.Op.String() + " to a release or cancel")
	case a.Code == protocol.CodeNotHeld && d.op == opR:
		d.notHeld(now)
	case a.Code == protocol.CodeNoActive, a.Code == protocol.CodeStopping, a.Code == protocol.CodeLimit, a.Code == protocol.CodeQueueFull:
		d.avoid = r.conn.id // undelivered: again when it is due, elsewhere if possible
	default:
		outcome := outcomeOfCode(a.Code)
		if d.copies > 1 {
			outcome = MayHaveHappened
		}
		d.end(serverError(a), outcome)
	}
}

// notHeld: to an only copy it means what it says. To one of several it is the
// echo of an earlier copy, if the lease has not ended by the client's own
// clock.
func (d *delivery) notHeld(now time.Time) {
	switch {
	case d.copies > 1 && d.lock != nil && now.Before(d.lock.expires):
		d.end(nil, Happened)
	case d.copies > 1:
		d.end(ErrNotHeld, MayHaveHappened)
	case d.lock != nil && !now.Before(d.lock.expires):
		d.end(ErrLeaseLost, DidNotHappen)
	default:
		d.end(ErrNotHeld, DidNotHappen)
	}
}

// moved goes on to where a redirect leads, within the 5 s: at once for the
// first one, with the pauses of an acquire for further ones.
func (d *delivery) moved(n *conn, addr []byte, now time.Time) {
	s, err := d.c.follow(n, addr, now)
	d.avoid = n.id
	if err != nil {
		return
	}
	d.target, d.targetDialled = s, false
	if s.conn == nil && !s.trying && !now.Before(s.restUntil) {
		d.targetDialled = true
		s.demand(now)
	}
	d.redirects++
	if pause := redirectPause(d.redirects); pause > 0 {
		d.notBefore = now.Add(pause)
		time.AfterFunc(pause, func() {
			d.c.mu.Lock()
			defer d.c.mu.Unlock()
			if now := time.Now(); !d.done && d.owing == 0 && !now.Before(d.notBefore) && now.Sub(d.start) < resendFor {
				d.c.due.remove(d)
				d.c.due.push(d, now)
				d.write(now)
			}
		})
		return
	}
	d.c.due.remove(d)
	d.c.due.push(d, now)
	d.write(now)
}

func (d *delivery) dropped(r *request, _ error, _ time.Time) { d.owing-- }

func (d *delivery) end(err error, outcome Outcome) {
	d.done = true
	d.c.due.remove(d)
	if err != nil {
		d.err = &Error{Op: "release", Key: d.key, Outcome: outcome, Err: err}
		if errors.Is(err, ErrUndelivered) && d.notify != nil {
			d.err.(*Error).Addrs = d.c.addrErrors(nil)
		}
	}
	if d.notify != nil {
		close(d.notify)
	}
}
