package sim

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/stile-lock/stile/protocol"
)

// client is a program that takes locks, by the rules that SPEC.md has for
// clients, and some that break them only in being slow or dead.
type client struct {
	s        *Sim
	id, host int
	probe    bool // it only acts in the end

	sessions []*session // by node; nil: none
	second   *session   // another one to some node
	dialedAt []Time
	target   int // the node that served last
	cursor   int

	paused  bool
	backlog []func()

	core   bool // it knows no nonces
	nonces int
	calls  []*call
	frees  []*free
	next   Time // when the next call begins
	most   int  // calls at once
}

type callState int

const (
	acquiring callState = iota
	cancelling
	confirming // granted, and the lease is being renewed before use
	holding
	ended
)

// call is one acquire of the program's, and what it does with the lock.
type call struct {
	c           *client
	key, nonce  string
	wait, lease time.Duration
	begun       Time
	patience    Time // until when it waits
	state       callState
	probe       bool

	open      []*request // acquires that are not answered
	redirects int
	retryAt   Time
	preferred int // node, -1: any
	twice     bool
	asked     bool // at least one acquire was sent

	nextSend Time // cancelling, confirming
	giveUp   Time

	hold    *hold
	token   uint64
	by      int // node
	until   Time
	holdEnd Time
	keepAt  Time
	style   style
}

type style int

const (
	quick   style = iota
	keeper        // it renews
	dead          // it never releases
	sleeper       // it wakes after its lease and goes on
)

// hold is a lock as its holder sees it.
type hold struct {
	c       *client
	key     string
	token   uint64
	since   Time // the grant was asked for
	until   Time // by the holder's own clock
	granted Time
	reign   uint64 // number of the reign that granted or last kept it
	over    bool   // it was given back, or may have been
}

// free is a lock being released.
type free struct {
	key    string
	token  uint64
	at     int // node
	until  Time
	next   Time
	copies int
	done   bool
}

func (s *Sim) newClient(i int, probe bool) *client {
	c := &client{
		s: s, id: i, host: s.plan.nodes + i, probe: probe, core: s.chance(0.15) && !probe,
		sessions: make([]*session, s.plan.nodes), dialedAt: make([]Time, s.plan.nodes),
		target: s.rng.IntN(s.plan.nodes), most: 1 + s.rng.IntN(2),
	}
	for n := range c.dialedAt {
		c.dialedAt[n] = -time.Hour
	}
	c.next = s.between(0, 2*time.Second)
	s.after(s.between(0, pollEvery), c.poll)
	return c
}

const pollEvery = 60 * time.Millisecond

// deliver makes something happen in the client: now, or when it wakes.
func (c *client) deliver(f func()) {
	if c.paused {
		c.backlog = append(c.backlog, f)
		return
	}
	f()
}

func (c *client) pause(d Time) {
	if c.paused || c.probe {
		return
	}
	c.s.logf("c%d: paused for %v", c.id, d)
	c.paused = true
	c.s.after(d, func() {
		c.paused = false
		backlog := c.backlog
		c.backlog = nil
		for _, f := range backlog {
			c.deliver(f)
		}
	})
}

// poll looks at everything that time brings.
func (c *client) poll() {
	s := c.s
	s.after(pollEvery, c.poll)
	if c.paused {
		return
	}
	for n, x := range append(slices.Clone(c.sessions), c.second) {
		switch {
		case x == nil:
			if n < len(s.nodes) && s.now-c.dialedAt[n] > 3*time.Second {
				c.connect(s.nodes[n])
			}
		case x.connected && len(x.unanswered) > 0:
			silent := s.now - max(x.lastRead, x.unanswered[0].sent)
			if silent > 3*time.Second {
				s.count("sessions reset by clients: silent")
				x.closeAtClient()
			} else if silent > time.Second && !x.pinged {
				x.pinged = true
				x.send(&request{op: protocol.OpPing, key: "p"})
			}
		}
	}
	c.act()
}

// poke is called when something has changed.
func (c *client) poke() { c.act() }

func (c *client) act() {
	s := c.s
	for _, f := range c.frees {
		c.actFree(f)
	}
	c.frees = slices.DeleteFunc(c.frees, func(f *free) bool { return f.done })
	for _, k := range c.calls {
		c.actCall(k)
	}
	c.calls = slices.DeleteFunc(c.calls, func(k *call) bool { return k.state == ended && len(k.open) == 0 })
	if c.probe || s.draining || s.now < c.next || len(c.calls) >= c.most {
		return
	}
	c.next = s.now + s.between(0, 600*time.Millisecond)
	key := s.drawKey()
	for _, k := range c.calls {
		if k.key == key && !s.plan.sameKeys {
			return
		}
	}
	c.begin(key)
}

func (s *Sim) drawKey() string { return "k" + strconv.Itoa(s.rng.IntN(s.plan.keys)) }

func (c *client) begin(key string) *call {
	s := c.s
	k := &call{c: c, key: key, begun: s.now, preferred: -1, state: acquiring}
	switch {
	case c.probe:
	case s.chance(0.25):
		k.wait = -1
	case s.chance(0.5):
		k.wait = s.between(50*time.Millisecond, 4*time.Second).Truncate(time.Millisecond)
	}
	k.patience = s.now + s.between(2*time.Second, 7*time.Second)
	if k.wait > 0 {
		k.patience = s.now + k.wait + 200*time.Millisecond
	}
	k.lease = s.between(time.Second, 5*time.Second).Truncate(time.Millisecond)
	if s.chance(0.15) {
		k.lease = s.between(50*time.Millisecond, time.Second).Truncate(time.Millisecond)
	}
	if !c.core {
		c.nonces++
		k.nonce = fmt.Sprintf("c%d-%d", c.id, c.nonces)
	}
	if c.probe {
		k.lease = 2 * time.Second
	}
	switch p := s.rng.IntN(100); {
	case c.probe || p < 70:
		k.style = quick
	case p < 85:
		k.style = keeper
	case p < 93:
		k.style = dead
	default:
		k.style = sleeper
	}
	k.twice = k.nonce != "" && s.chance(0.15)
	if s.chance(0.2) {
		k.preferred = s.rng.IntN(s.plan.nodes)
	}
	c.calls = append(c.calls, k)
	c.actCall(k)
	return k
}

// session returns a live one: to the node, if that is not -1, or another. It
// dials what is down.
func (c *client) session(node int) *session {
	s := c.s
	if node < 0 {
		node = c.target
	}
	for i := range s.plan.nodes {
		n := (node + i) % s.plan.nodes
		x := c.sessions[n]
		if x == nil {
			if s.now-c.dialedAt[n] > 100*time.Millisecond {
				c.connect(s.nodes[n])
			}
			continue
		}
		if x.connected {
			return x
		}
	}
	return nil
}

func (c *client) actCall(k *call) {
	s := c.s
	switch k.state {
	case acquiring:
		if s.now >= k.patience {
			c.cancel(k)
			return
		}
		left := k.wait
		if left > 0 {
			if left -= s.now - k.begun; left <= 0 {
				return // its own limit; patience follows
			}
			left = left.Truncate(time.Millisecond) + time.Millisecond
		}
		again := k.twice && len(k.open) == 1 && s.now-k.open[0].sent > 200*time.Millisecond
		if !again && (len(k.open) > 0 || s.now < k.retryAt) {
			return
		}
		x := c.session(k.preferred)
		if again {
			x = c.other(k.open[0].session)
			k.twice = x == nil
		}
		if x == nil {
			return
		}
		if k.asked && k.nonce == "" && !k.probe {
			s.count("acquires sent again without a nonce")
		}
		r := &request{op: protocol.OpAcquire, key: k.key, nonce: k.nonce, wait: left, lease: k.lease, call: k}
		k.open = append(k.open, r)
		k.asked = true
		k.retryAt = s.now + 100*time.Millisecond
		x.send(r)
	case cancelling:
		if s.now >= k.giveUp {
			k.state = ended
			return
		}
		if s.now < k.nextSend {
			return
		}
		if x := c.session(k.preferred); x != nil {
			k.nextSend = s.now + 200*time.Millisecond
			x.send(&request{op: protocol.OpCancel, key: k.key, nonce: k.nonce, call: k})
		}
	case confirming, holding:
		c.actHold(k)
	}
}

// other is another session than x, to the same node.
func (c *client) other(x *session) *session {
	if y := c.second; y == nil || y.n != x.n {
		if y != nil {
			y.closeAtClient()
		}
		c.second = c.dial(x.n)
		return nil
	} else if y.connected && y != x {
		return y
	}
	return nil
}

func (c *client) actHold(k *call) {
	s := c.s
	if s.now >= k.until && k.style != sleeper {
		if k.style == keeper || k.state == confirming {
			s.count("locks lost to their lease")
		}
		c.done(k)
		return
	}
	if k.state == holding && s.now >= k.holdEnd {
		s.write(k)
		if k.style != dead {
			c.release(k.key, k.token, k.by)
			k.hold.over = true
		}
		c.done(k)
		return
	}
	if (k.state == confirming || k.style == keeper) && s.now >= k.keepAt {
		if x := c.session(k.by); x != nil {
			k.keepAt = s.now + k.lease/5 + 50*time.Millisecond
			x.send(&request{op: protocol.OpKeep, key: k.key, token: k.token, lease: k.lease, call: k})
		}
	}
}

func (c *client) done(k *call) {
	k.state = ended
	c.next = max(c.next, c.s.now+c.s.between(0, 300*time.Millisecond))
}

// cancel gives a call up. Its nonce is spent, or its late grant released.
func (c *client) cancel(k *call) {
	s := c.s
	if k.probe {
		s.fail("%s could not be acquired in the end", k.key)
	}
	if k.nonce == "" || !k.asked {
		k.state = ended
		return
	}
	s.count("acquires cancelled")
	k.state, k.giveUp = cancelling, s.now+5*time.Second
	c.actCall(k)
}

func (c *client) release(key string, token uint64, at int) {
	s := c.s
	f := &free{key: key, token: token, at: at, until: s.now + 5*time.Second}
	c.frees = append(c.frees, f)
	c.actFree(f)
}

func (c *client) actFree(f *free) {
	s := c.s
	if f.done || s.now < f.next {
		return
	}
	if s.now >= f.until {
		s.count("releases given up")
		f.done = true
		return
	}
	if x := c.session(f.at); x != nil {
		f.next = s.now + 200*time.Millisecond
		f.copies++
		x.send(&request{op: protocol.OpRelease, key: f.key, token: f.token})
	}
}

// lost is called with the requests of a session that is gone.
func (c *client) lost(gone []*request) {
	for _, r := range gone {
		if k := r.call; k != nil && r.op == protocol.OpAcquire {
			k.open = slices.DeleteFunc(k.open, func(o *request) bool { return o == r })
			k.retryAt = c.s.now
			k.preferred = -1
			if c.target == r.session.n.id {
				c.target = (c.target + 1) % c.s.plan.nodes
			}
		}
	}
}

// answered is called with each answer.
func (c *client) answered(r *request, a answer) {
	s := c.s
	if a.kind == protocol.OpMoved {
		if to, err := strconv.Atoi(a.addr[1:]); err == nil {
			c.target = to
		}
		if a.addr == address(r.session.n.id) {
			s.fail("n%d redirects to itself", r.session.n.id)
		}
	}
	switch r.op {
	case protocol.OpAcquire:
		k := r.call
		k.open = slices.DeleteFunc(k.open, func(o *request) bool { return o == r })
		c.answeredAcquire(k, r, a)
	case protocol.OpRelease:
		for _, f := range c.frees {
			if f.key == r.key && f.token == r.token {
				switch {
				case a.kind == protocol.OpRelease || a.kind == protocol.OpError && a.code == protocol.CodeNotHeld:
					f.done = true
				case a.kind == protocol.OpMoved:
					f.at, f.next = c.target, s.now
				}
			}
		}
	case protocol.OpKeep:
		k := r.call
		if k.token != r.token || k.state != holding && k.state != confirming {
			break
		}
		switch {
		case a.kind == protocol.OpKeep:
			k.until = r.sent + a.lease
			k.hold.until, k.hold.reign = k.until, a.reign
			k.keepAt = r.sent + k.lease/3
			if k.state == confirming {
				c.use(k)
			}
		case a.kind == protocol.OpMoved:
			k.by, k.keepAt = c.target, s.now
		case a.code == protocol.CodeNotHeld:
			s.count("locks lost: a keep says not-held")
			k.hold.over = true
			c.done(k)
		}
	case protocol.OpCancel:
		k := r.call
		if k.state != cancelling {
			break
		}
		switch a.kind {
		case protocol.OpCancel:
			k.state = ended
		case protocol.OpMoved:
			k.preferred, k.nextSend = c.target, s.now
		}
	}
	c.act()
}

func (c *client) answeredAcquire(k *call, r *request, a answer) {
	s := c.s
	switch a.kind {
	case protocol.OpAcquire:
		s.count("grants answered")
		c.target = r.session.n.id
		switch {
		case k.state == acquiring:
			c.granted(k, r, a)
		case k.token == a.token:
		case k.state == cancelling && k.nonce != "":
			// The cancel ends it.
		default:
			s.count("grants that came too late")
			c.release(r.key, a.token, r.session.n.id)
		}
	case protocol.OpTimeout:
		if k.state == acquiring {
			if k.wait == 0 {
				s.fail("c%d: #%d has no limit, and timed out", c.id, r.id)
			}
			s.count("acquires timed out")
			c.done(k)
		}
	case protocol.OpMoved:
		if k.state != acquiring {
			break
		}
		k.redirects++
		k.preferred = c.target
		k.retryAt = s.now
		if k.redirects > 1 {
			k.retryAt += min(time.Second, 25*time.Millisecond<<min(k.redirects, 8))
		}
	case protocol.OpError:
		if k.state != acquiring {
			break
		}
		switch a.code {
		case protocol.CodeSuperseded:
			s.count("answers: superseded")
		case protocol.CodeSpent:
			s.count("answers: spent")
			if len(k.open) == 0 {
				c.done(k)
			}
		case protocol.CodeNoActive, protocol.CodeStopping:
			s.count("answers: " + codeName(a.code))
			k.retryAt = s.now + s.between(50*time.Millisecond, 400*time.Millisecond)
			k.preferred = (r.session.n.id + 1) % s.plan.nodes
		default:
			s.fail("c%d: #%d is answered %s", c.id, r.id, codeName(a.code))
		}
	}
}

// granted begins a hold. The lease is counted from the sending of the
// acquire; if too little of it is left, it is renewed first.
func (c *client) granted(k *call, r *request, a answer) {
	s := c.s
	k.token, k.by, k.until = a.token, r.session.n.id, r.sent+a.lease
	k.hold = &hold{c: c, key: k.key, token: a.token, since: r.sent, granted: s.now, until: k.until, reign: a.reign}
	s.holdBegins(k.hold)
	k.keepAt = s.now + k.lease/3
	if k.until-s.now < k.lease/2 {
		s.count("grants confirmed by a keep")
		k.state, k.keepAt = confirming, s.now
		k.until = max(k.until, s.now+k.lease) // it may be held still: the keep tells
		c.actCall(k)
		return
	}
	c.use(k)
}

func (c *client) use(k *call) {
	s := c.s
	k.state = holding
	if k.probe {
		s.probes--
	}
	s.write(k)
	switch k.style {
	case quick:
		k.holdEnd = s.now + s.between(2*time.Millisecond, 150*time.Millisecond)
	case keeper:
		k.holdEnd = s.now + s.between(300*time.Millisecond, 3*time.Second)
	case dead:
		k.holdEnd = s.now + s.between(0, 50*time.Millisecond)
	case sleeper:
		k.holdEnd = k.until + s.between(0, time.Second)
	}
}
