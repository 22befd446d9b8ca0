package sim

import (
	"time"

	"github.com/stile-lock/stile/protocol"
	"github.com/stile-lock/stile/server/cluster"
	"github.com/stile-lock/stile/server/gate"
	"github.com/stile-lock/stile/server/lockspace"
)

// session is a connection of a client to a process.
type session struct {
	c  *client
	n  *node
	p  *process // from the acceptance on
	id lockspace.Session

	up, down *pipe

	// At the client.
	clientOpen bool
	connected  bool
	unanswered []*request
	lastRead   Time
	pinged     bool

	// At the node.
	nodeOpen bool
	pending  []*request // read, and no answer made yet
}

// request is a line of a client. Its number is its index among all.
type request struct {
	id      uint64
	session *session
	call    *call
	op      protocol.Op
	key     string
	token   uint64
	nonce   string
	wait    time.Duration
	lease   time.Duration
	sent    Time
	taken   Time // read by the node
	over    bool // answered, or its session is gone
	made    bool // its answer was made
}

type answer struct {
	kind  protocol.Op
	token uint64
	lease time.Duration
	addr  string
	code  protocol.Code
	reign uint64 // in which it was made, 0: none
}

// connect begins a session.
func (c *client) connect(n *node) {
	s := c.s
	c.sessions[n.id], c.dialedAt[n.id] = c.dial(n), s.now
}

func (c *client) dial(n *node) *session {
	s := c.s
	x := &session{c: c, n: n, clientOpen: true, lastRead: s.now}
	x.up, x.down = s.net.pipe(c.host, n.id), s.net.pipe(n.id, c.host)
	x.up.send(func() {
		p := n.proc
		if p == nil || p.done {
			x.down.reset(false, x.lostAtClient)
			return
		}
		x.p, x.nodeOpen = p, true
		p.deliver(func() {
			if !x.nodeOpen {
				return
			}
			p.lastSession++
			x.id = p.lastSession
			p.sessions[x.id] = x
			p.sessionList = append(p.sessionList, x)
		})
		x.down.send(func() {
			c.deliver(func() {
				if x.clientOpen {
					x.connected, x.lastRead = true, s.now
					c.poke()
				}
			})
		})
	})
	s.after(time.Second, func() {
		c.deliver(func() {
			if x.clientOpen && !x.connected {
				x.closeAtClient()
			}
		})
	})
	return x
}

// send writes a line.
func (x *session) send(r *request) {
	s := x.c.s
	r.session, r.sent, r.id = x, s.now, uint64(len(s.requests))
	s.requests = append(s.requests, r)
	x.unanswered = append(x.unanswered, r)
	if s.log.on {
		s.logf("c%d > n%d: #%d %c %s token %d nonce %q wait %v lease %v", x.c.id, x.n.id, r.id, r.op, r.key, r.token, r.nonce, r.wait, r.lease)
	}
	x.up.send(func() {
		if x.p == nil || !x.nodeOpen || x.p.dead {
			x.down.reset(false, x.lostAtClient)
			return
		}
		x.p.deliver(func() {
			if x.nodeOpen {
				x.p.handle(x, r)
			}
		})
	})
}

// handle does what a line says.
func (p *process) handle(x *session, r *request) {
	x.pending = append(x.pending, r)
	now := p.Now()
	if r.op == protocol.OpPing {
		x.inOrder(r)
		x.answer(r, answer{kind: protocol.OpPing})
		return
	}
	sh := p.shardOf(r.key)
	mayHold := p.kept() < 1<<16
	p.s.checkRequest(p, r)
	if r.op == protocol.OpAcquire {
		ok := sh.gate.Acquire(now, &lockspace.Acquire{
			Session: x.id, Tag: r.id, Key: []byte(r.key), Wait: r.wait, Lease: r.lease,
			Nonce: lockspace.MakeNonce([]byte(r.nonce)), MayQueue: true,
		}, mayHold)
		sh.Settle()
		if !ok {
			p.reply(r, answer{kind: protocol.OpMoved, addr: p.redirect}, sh, lockspace.Place{}, false)
		}
	} else {
		v, code, lease := sh.gate.Do(now, &gate.Request{
			Session: x.id, Op: r.op, Key: []byte(r.key), Token: r.token, Lease: r.lease,
			Nonce: lockspace.MakeNonce([]byte(r.nonce)),
		}, mayHold)
		sh.Settle()
		if v != gate.Kept {
			p.verdict(r, v, code, lease, sh)
		}
	}
	sh.arm()
	p.kick()
}

// kept is how many requests the process keeps.
func (p *process) kept() (n int) {
	for _, sh := range p.shards {
		n += sh.gate.Held()
	}
	return n
}

// oldest is the oldest request with the op and the key that no answer was
// made to.
func (x *session) oldest(op protocol.Op, key string) *request {
	for _, r := range x.pending {
		if r.op == op && r.key == key {
			return r
		}
	}
	return nil
}

// inOrder checks that it is the turn of the request's answer.
func (x *session) inOrder(r *request) {
	s := x.c.s
	if r.made {
		s.fail("n%d answers #%d twice", x.n.id, r.id)
	}
	if x.oldest(r.op, r.key) != r {
		s.fail("n%d answers #%d out of turn", x.n.id, r.id)
	}
	r.made = true
	for i := range x.pending {
		if x.pending[i] == r {
			x.pending = append(x.pending[:i], x.pending[i+1:]...)
			break
		}
	}
}

// answer hands an answer to the kernel.
func (x *session) answer(r *request, a answer) {
	s := x.c.s
	if s.log.on {
		s.logf("n%d > c%d: #%d %c %s %c token %d lease %v %s %s", x.n.id, x.c.id, r.id, r.op, r.key, a.kind, a.token, a.lease, a.addr, codeName(a.code))
	}
	if s.breaks(doubleAnswers) && x.p.mode == cluster.Redirect && r.op != protocol.OpPing && r.taken < s.now {
		s.opt.Mutant = "" // once
		x.answer(r, a)
	}
	x.down.send(func() {
		if !x.clientOpen {
			x.up.reset(false, x.lostAtNode)
			return
		}
		x.c.deliver(func() {
			if x.clientOpen {
				x.read(r, a)
			}
		})
	})
}

func codeName(c protocol.Code) string {
	if c == 0 {
		return ""
	}
	return c.String()
}

// read is the answer at the client.
func (x *session) read(r *request, a answer) {
	s := x.c.s
	x.lastRead = s.now
	for i, o := range x.unanswered {
		if o.op == r.op && o.key == r.key {
			if o != r {
				s.fail("c%d reads the answer to #%d where one to #%d is due", x.c.id, r.id, o.id)
			}
			x.unanswered = append(x.unanswered[:i], x.unanswered[i+1:]...)
			break
		}
	}
	if r.over {
		s.fail("c%d reads a second answer to #%d", x.c.id, r.id)
	}
	r.over = true
	if r.op == protocol.OpPing {
		x.pinged = false
		return
	}
	x.c.answered(r, a)
}

// closeAtClient resets the session from the client's side.
func (x *session) closeAtClient() {
	if x.clientOpen {
		x.endAtClient()
		x.up.reset(false, x.lostAtNode)
	}
}

func (x *session) endAtClient() {
	x.clientOpen, x.connected = false, false
	if x.c.sessions[x.n.id] == x {
		x.c.sessions[x.n.id] = nil
	}
	if x.c.second == x {
		x.c.second = nil
	}
	gone := x.unanswered
	x.unanswered = nil
	for _, r := range gone {
		r.over = true
	}
	x.c.lost(gone)
}

func (x *session) lostAtClient() {
	x.c.deliver(func() {
		if x.clientOpen {
			x.endAtClient()
		}
	})
}

// closeAtNode resets it from the node's side; its process forgets it by drop.
func (x *session) closeAtNode(lost bool) {
	if x.nodeOpen {
		x.nodeOpen = false
		x.down.reset(lost, x.lostAtClient)
	}
}

func (x *session) lostAtNode() {
	if x.p == nil {
		return
	}
	x.p.deliver(func() {
		if x.nodeOpen {
			x.nodeOpen = false
			x.p.drop(x)
		}
	})
}
