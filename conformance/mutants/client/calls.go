package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/stile-lock/stile/protocol"
)

// lock is a grant.
type lock struct {
	c          *Client
	key, token string
	lease      time.Duration
	expires    time.Time
	origin     *conn
	lost       bool
	released   bool
	tell       func() // called once when it is lost
	timer      *time.Timer
}

func fail(kind, outcome, text string) *failure {
	return &failure{kind: kind, outcome: outcome, text: text}
}

func text(d time.Duration) string { return string(protocol.AppendSeconds(nil, d)) }

// acquire is one logical acquire: its tries, one after the other.
type acquire struct {
	c           *Client
	key         string
	wait, lease time.Duration
	start       time.Time
	unserved    time.Time // since the call, or the loss of a place in line
	deadline    time.Time // zero: no limit
	nonce       string
	tried       map[*conn]bool
	dialled     map[*slot]dialWait
	target      *slot
	redirects   int
	unsure      bool // a request was written and its answer lost
	noActive    bool
	sent        *request
	anews       int
	caller      context.Context
	asked       bool // it was tried before
}

func (c *Client) acquire(ctx context.Context, key string, wait, lease time.Duration) (*lock, *failure) {
	strict := c.f.KeysTooStrict && strings.ContainsFunc(key, func(r rune) bool { return r > 0x7e })
	if !c.f.KeysUnchecked && !protocol.ValidKey([]byte(key)) || strict {
		return nil, fail("bad_argument", "no", "bad key")
	}
	if !c.f.DurationsUnchecked && (lease < 0 || lease > protocol.MaxSeconds || wait > protocol.MaxSeconds) {
		return nil, fail("bad_argument", "no", "bad duration")
	}
	now := time.Now()
	a := &acquire{c: c, key: key, wait: wait, lease: lease, start: now, unserved: now, tried: map[*conn]bool{}, dialled: map[*slot]dialWait{}, caller: ctx}
	defer a.placed()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var end time.Time
	switch {
	case wait < 0:
		end = a.start.Add(200 * time.Millisecond)
	case wait > 0:
		a.deadline = a.start.Add(wait)
		end = a.deadline.Add(200 * time.Millisecond)
	}
	if !end.IsZero() && !c.f.NoOwnClock {
		var stop func()
		ctx, stop = context.WithDeadline(ctx, end)
		defer stop()
	}
	for {
		l, f, again := a.try(ctx)
		if !again {
			if f != nil && (f.kind == "no_connection" || f.kind == "no_active") && time.Since(a.unserved) < c.retry {
				a.tried, a.dialled, a.redirects, a.noActive = map[*conn]bool{}, map[*slot]dialWait{}, 0, false
				time.Sleep(100 * time.Millisecond)
				continue
			}
			return l, f
		}
	}
}

func (a *acquire) outcome() string {
	if a.unsure && !a.c.f.AlwaysNo {
		return "maybe"
	}
	return "no"
}

// over is the end by the call's own clock, or by its caller.
func (a *acquire) over(ctx context.Context) *failure {
	outcome := a.outcome()
	if a.sent != nil {
		outcome = "maybe"
	}
	a.leaveNothing()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fail("timeout", outcome, "no answer in time")
	}
	return fail("cancelled", outcome, "")
}

// leaveNothing sees to it that a call given up leaves no lock behind.
func (a *acquire) leaveNothing() {
	c := a.c
	c.mu.Lock()
	defer c.mu.Unlock()
	var origin *conn
	if r := a.sent; r != nil {
		origin = r.c
		back := func(x answer) {
			if x.field(0) == "A" && !c.f.LateGrantDropped {
				go c.deliver(context.Background(), &delivery{op: "R", key: a.key, arg: x.field(2), origin: r.c})
			}
		}
		select {
		case x := <-r.answer:
			back(x)
		default:
			r.late = back
		}
	}
	if a.nonce != "" && (a.sent != nil || a.unsure) && !c.f.NoCancel {
		go c.deliver(context.Background(), &delivery{op: "C", key: a.key, arg: a.nonce, origin: origin})
	}
}

// try does one step. again tells that the call goes on.
func (a *acquire) try(ctx context.Context) (l *lock, f *failure, again bool) {
	c := a.c
	if ctx.Err() != nil {
		return nil, a.over(ctx), false
	}
	// Several that lost one connection go on in the order of their calls.
	c.wait(time.Now().Add(time.Second), ctx.Done(), a.turn)
	left := a.wait
	first := !a.asked
	a.asked = true
	if a.wait > 0 && !first {
		left = time.Until(a.deadline)
		if left = (left + time.Millisecond - 1).Truncate(time.Millisecond); left <= 0 && !c.f.ZeroIsNoLimit {
			a.leaveNothing()
			return nil, fail("timeout", a.outcome(), ""), false
		}
		left = max(left, 0)
		if c.f.WholeWait {
			left = a.wait
		}
	}
	c.mu.Lock()
	n, wait := a.choose()
	if n == nil {
		c.mu.Unlock()
		if wait == nil {
			if !c.f.FailsAndForgets {
				a.leaveNothing()
			}
			kind := "no_connection"
			if a.noActive && !(c.f.LastReasonWins && len(a.dialled) > 0) {
				kind = "no_active"
			}
			return nil, fail(kind, a.outcome(), a.reasons()), false
		}
		c.wait(time.Now().Add(time.Second), ctx.Done(), wait)
		return nil, nil, true
	}
	a.tried[n] = true
	line := fmt.Sprintf("A %s %s %s", a.key, protocol.AppendWait(nil, left), text(a.lease))
	if c.f.WaitInSeconds && left > 0 {
		line = fmt.Sprintf("A %s %d %s", a.key, int(left/time.Second), text(a.lease))
	}
	behind := len(n.pend["A "+a.key]) > 0
	for _, r := range n.pend["A "+a.key] {
		// Its answer would be stuck behind a younger call's.
		if a.nonce != "" && r.call.start.After(a.start) && !c.f.BehindAYounger {
			go c.deliver(context.Background(), &delivery{op: "C", key: a.key, arg: a.nonce, origin: n})
			a.nonce = ""
		}
	}
	if n.resume && !c.f.NoNonce {
		if a.nonce == "" || c.f.FreshNonces {
			c.count++
			a.nonce = c.prefix + strconv.Itoa(c.count)
			if c.f.OneNonce {
				a.nonce = c.prefix
			}
		}
		line += " " + a.nonce
	}
	r := n.send("A", a.key, line, make(chan answer, 1))
	r.call = a
	a.sent = r
	c.mu.Unlock()
	a.placed()
	done := ctx.Done()
	if behind && c.f.BehindALonger {
		done = a.caller.Done()
	}
	select {
	case x := <-r.answer:
		a.sent = nil
		return a.answered(ctx, r, x)
	case <-done:
		f := a.over(ctx)
		if c.f.CancelWaits && f.kind == "cancelled" {
			time.Sleep(time.Second)
		}
		return nil, f, false
	}
}

// turn reports whether no older call that lost its connection is still to be
// sent anew.
func (a *acquire) turn() bool {
	for _, b := range a.c.moving {
		older := b.start.Before(a.start)
		if a.c.f.YoungestFirst {
			older = a.start.Before(b.start)
		}
		if b != a && b.key == a.key && older {
			return false
		}
	}
	return true
}

// placed ends what others of its key wait for.
func (a *acquire) placed() {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	for i, b := range a.c.moving {
		if b == a {
			a.c.moving = append(a.c.moving[:i:i], a.c.moving[i+1:]...)
			a.c.broadcast()
			return
		}
	}
}

func (a *acquire) reasons() string {
	c := a.c
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []string
	for _, s := range c.slots {
		list = append(list, fmt.Sprintf("%s: %v", s.addr, s.err))
	}
	return strings.Join(list, "; ")
}

// choose finds the connection to ask next, or what to wait for; neither when
// all have been tried.
func (a *acquire) choose() (*conn, func() bool) {
	c := a.c
	if s := a.target; s != nil {
		if s.conn != nil && s.conn.live {
			a.target = nil
			return s.conn, nil
		}
		if a.dial(s) {
			return nil, func() bool { return s.conn != nil && s.conn.live || !a.dialling(s) }
		}
		// It could not be reached: leave it alone for a while.
		if _, asked := a.dialled[s]; asked && time.Now().After(s.rest) && !c.f.NoRest {
			s.rest = time.Now().Add(250 * time.Millisecond)
			if c.f.RestsLong || s.dialing || s.err != nil && strings.Contains(s.err.Error(), "hello") {
				s.rest = time.Now().Add(3 * time.Second)
			}
		}
		a.target = nil
	}
	room := func(n *conn) bool { return len(n.order) < crowd || c.f.Crowds }
	fresh := func(n *conn) bool { return !a.tried[n] && room(n) }
	free := func(n *conn) bool { return fresh(n) && (len(n.pend["A "+a.key]) == 0 || c.f.BehindALonger) }
	cursor := c.cursor
	n := c.next(&cursor, free)
	if n == nil {
		n = c.next(&cursor, fresh)
	}
	if c.f.FailsEarly && len(a.tried) > 0 {
		return nil, nil
	}
	if n != nil {
		c.cursor = cursor
		if c.f.RotationSkips && c.cursor == 0 {
			c.cursor = 1 % len(c.slots)
		}
		if c.f.NoRotation {
			c.cursor = 0
		}
		return n, nil
	}
	var crowded *conn
	for _, s := range c.slots {
		if n := s.conn; n != nil && n.live && !s.spare && !room(n) {
			crowded = n
		}
	}
	if crowded != nil {
		return nil, func() bool { return room(crowded) || crowded.dead }
	}
	if c.f.NoDemand {
		return nil, nil
	}
	var list []*slot
	for _, s := range c.slots {
		if (s.conn == nil || !s.conn.live) && a.dial(s) {
			list = append(list, s)
		}
	}
	if list == nil {
		return nil, nil
	}
	return nil, func() bool {
		done := true
		for _, s := range list {
			if s.conn != nil && s.conn.live && !a.tried[s.conn] {
				return true
			}
			done = done && !a.dialling(s)
		}
		return done
	}
}

// dialWait is a dial that an acquire waits for.
type dialWait struct {
	tries int
	until time.Time
}

// dial asks for a dial of a slot, once per acquire. It reports whether there is
// one to wait for.
func (a *acquire) dial(s *slot) bool {
	if _, asked := a.dialled[s]; asked {
		return a.dialling(s)
	}
	if time.Now().Before(s.rest) && !s.dialing {
		return false
	}
	a.dialled[s] = dialWait{s.tries, time.Now().Add(time.Second)}
	s.ask()
	return true
}

func (a *acquire) dialling(s *slot) bool {
	w := a.dialled[s]
	return s.tries == w.tries && time.Now().Before(w.until)
}

// answered deals with what came for r.
func (a *acquire) answered(ctx context.Context, r *request, x answer) (*lock, *failure, bool) {
	c := a.c
	switch x.field(0) {
	case "":
		a.unsure = true
		c.mu.Lock()
		if c.f.GivesUpOnLoss {
			c.mu.Unlock()
			a.leaveNothing()
			return nil, fail("no_connection", "maybe", "connection lost"), false
		}
		if r.c.answeredSent.After(r.sent) && time.Since(r.sent) > 200*time.Millisecond {
			if !c.f.NeverAnew {
				a.tried, a.dialled = map[*conn]bool{}, map[*slot]dialWait{}
			}
			if !c.f.RetryFromTheCall {
				a.unserved = time.Now()
			}
		}
		c.mu.Unlock()
		return nil, nil, true
	case "A":
		return a.granted(ctx, r, x)
	case "T":
		if c.f.TimeoutMovesOn {
			return nil, nil, true
		}
		return nil, fail("timeout", a.outcome(), ""), false
	case "M":
		return a.moved(ctx, r, x.field(3))
	}
	code := x.field(3)
	switch {
	case code == "no-active" || code == "stopping" || c.f.RetriesAnything && code != "spent":
		a.noActive = true
		return nil, nil, true
	case code == "spent" && a.anews < 5 && !c.f.SpentIsFinal:
		a.anews++
		c.mu.Lock()
		a.nonce = ""
		delete(a.tried, r.c)
		c.mu.Unlock()
		return nil, nil, true
	}
	outcome := "maybe"
	for _, known := range protocol.Codes() {
		if known.String() == code && known.NoEffect() {
			outcome = a.outcome()
		}
	}
	if c.f.AlwaysNo {
		outcome = "no"
	}
	return nil, &failure{"refused", code, outcome, ""}, false
}

func (a *acquire) moved(ctx context.Context, r *request, addr string) (*lock, *failure, bool) {
	c := a.c
	a.noActive = true
	if c.f.RedirectIgnored {
		return nil, nil, true
	}
	if c.f.RedirectFails {
		return nil, fail("no_active", a.outcome(), "redirected to "+addr), false
	}
	c.mu.Lock()
	s := c.follow(r.c, addr)
	c.mu.Unlock()
	if s == nil {
		return nil, nil, true
	}
	if a.redirects++; a.redirects >= 10 && !c.f.LoopsForEver {
		a.leaveNothing()
		return nil, fail("no_active", a.outcome(), "redirected ten times"), false
	}
	a.target = s
	if a.redirects > 1 && !c.f.NoPauses {
		d := min(50*time.Millisecond<<(a.redirects-2), time.Second)
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
	return nil, nil, true
}

// follow is the slot that a redirect leads to, nil if it is refused.
func (c *Client) follow(n *conn, addr string) *slot {
	n.s.spare = true
	n.s.ceases()
	if c.f.SparesClosed {
		defer n.fail(errors.New("it serves no more"))
	}
	host, port, _ := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); !c.f.FollowsAnywhere && (port == "0" || ip != nil && ip.IsUnspecified() || addr == n.s.addr) {
		return nil
	}
	var found *slot
	for _, s := range c.slots {
		if s.addr == addr {
			s.spare = s.spare && c.f.SparesForEver
			if found == nil || found.conn == nil {
				found = s
			}
		}
	}
	if found == nil && c.only || c.f.ListedOnly && found == nil {
		return nil
	}
	if found == nil || c.f.SecondConnection && found.conn != nil && len(c.slots) < 4 {
		return c.addSlot(addr, false)
	}
	found.ceased = time.Time{}
	return found
}

func (a *acquire) granted(ctx context.Context, r *request, x answer) (*lock, *failure, bool) {
	c := a.c
	lease := duration(x.field(3))
	if c.f.CountsAsAsked && a.lease > 0 {
		lease = a.lease
	}
	from := r.sent
	if a.wait >= 0 && !c.f.CountsFromAcquire {
		from = later(from, x.base)
	}
	if c.f.CountsFromRead {
		from = x.at
	}
	l := &lock{c: c, key: a.key, token: x.field(2), lease: lease, expires: from.Add(lease), origin: r.c}
	if c.f.TokensAsFloats {
		f, _ := strconv.ParseFloat(l.token, 64)
		l.token = strconv.FormatFloat(f, 'f', 0, 64)
	}
	back := func() (*lock, *failure, bool) {
		go c.deliver(context.Background(), &delivery{op: "R", key: a.key, arg: l.token, origin: r.c})
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.f.AsksWithTheOld {
			a.nonce = ""
		}
		delete(a.tried, r.c)
		if a.anews++; a.anews > 10 {
			return nil, fail("other", "no", "no grant arrives in time"), false
		}
		return nil, nil, true
	}
	left := time.Until(l.expires)
	if 2*left < lease && r.c.keep && !c.f.NoKeepFirst {
		c.mu.Lock()
		if r.c.dead {
			c.mu.Unlock()
			return back()
		}
		k := r.c.send("K", a.key, fmt.Sprintf("K %s %s %s", a.key, l.token, text(max(a.lease, time.Millisecond))), make(chan answer, 1))
		k.token = l.token
		c.mu.Unlock()
		select {
		case y := <-k.answer:
			if y.field(0) != "K" {
				return back()
			}
			l.lease = duration(y.field(3))
			l.expires = k.sent.Add(l.lease)
			left = time.Until(l.expires)
		case <-ctx.Done():
			_, _, _ = back()
			return nil, a.over(ctx), false
		}
	}
	if left <= 0 && !c.f.HandsOutTheEnded {
		return back()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l.arm()
	return l, nil, false
}

// arm sets the timer that declares the lock lost.
func (l *lock) arm() {
	if l.timer != nil {
		l.timer.Stop()
	}
	l.timer = time.AfterFunc(time.Until(l.expires), func() {
		l.c.mu.Lock()
		defer l.c.mu.Unlock()
		l.lose()
	})
}

func (l *lock) lose() {
	if l.lost || l.released || l.c.f.NeverLost {
		return
	}
	l.lost = true
	if l.tell != nil {
		go l.tell()
	}
}

func duration(seconds string) time.Duration {
	f, _ := strconv.ParseFloat(seconds, 64)
	return time.Duration(f * float64(time.Second))
}

// delivery is a release or a cancel.
type delivery struct {
	op, key, arg string
	origin       *conn
	l            *lock
}

func (l *lock) release(ctx context.Context) *failure {
	c := l.c
	c.mu.Lock()
	l.released = !l.lost
	if l.timer != nil {
		l.timer.Stop()
	}
	c.mu.Unlock()
	over := make(chan *failure, 1)
	sending := context.Background()
	if c.f.CancelStopsRelease {
		sending = ctx
	}
	go func() {
		over <- c.deliver(sending, &delivery{op: "R", key: l.key, arg: l.token, origin: l.origin, l: l})
	}()
	select {
	case f := <-over:
		return f
	case <-ctx.Done():
		return fail("cancelled", "maybe", "")
	}
}

// deliver writes copies until one is answered, for 5 s.
func (c *Client) deliver(ctx context.Context, d *delivery) *failure {
	start := time.Now()
	next := start
	answers := make(chan answer, 100)
	owing, copies, redirects := 0, 0, 0
	var avoid *conn
	var target *slot
	end := start.Add(5 * time.Second)
	if c.f.ReleasesForEver {
		end = start.Add(time.Hour)
	}
	once := c.f.ReleaseOnce || c.f.CancelOnce && d.op == "C"
	for {
		now := time.Now()
		if !now.Before(end) || ctx.Err() != nil {
			return fail("undelivered", "maybe", "not confirmed in 5 s")
		}
		if (owing == 0 || c.f.ReleasesPileUp) && !now.Before(next) && (copies == 0 || !once) {
			c.mu.Lock()
			n := c.forDelivery(d, avoid, target)
			if n == nil {
				c.askForDelivery(d, target)
				c.mu.Unlock()
				c.wait(now.Add(200*time.Millisecond), ctx.Done(), func() bool { return c.forDelivery(d, avoid, target) != nil })
				if c.f.NoDemand {
					time.Sleep(20 * time.Millisecond)
				}
				continue
			}
			r := n.send(d.op, d.key, d.op+" "+d.key+" "+d.arg, answers)
			r.token, r.nonce = d.arg, d.arg
			c.mu.Unlock()
			copies++
			owing++
			next = now.Add(200 * time.Millisecond)
			if c.f.ReleasePace != 0 {
				next = now.Add(c.f.ReleasePace)
			}
			avoid, target = nil, nil
		}
		until := end
		if owing == 0 && next.Before(until) && (copies == 0 || !once) || c.f.ReleasesPileUp {
			until = next
		}
		t := time.NewTimer(time.Until(until))
		select {
		case <-t.C:
			continue
		case x := <-answers:
			t.Stop()
			owing--
			switch x.field(0) {
			case "":
			case d.op:
				return nil
			case "M":
				avoid = x.from.c
				c.mu.Lock()
				if target = c.follow(x.from.c, x.field(3)); target != nil && !c.f.ReleaseNotMoved {
					target.ask()
				}
				c.mu.Unlock()
				if c.f.ReleaseNotMoved {
					target = nil
				}
				if redirects++; redirects == 1 {
					next = time.Now()
				}
			case "E":
				switch code := x.field(3); {
				case code == "not-held" && d.op == "R":
					good := d.l != nil && copies > 1 && time.Now().Before(d.l.expires)
					if good && !c.f.CopyNotHeld || c.f.NotHeldIsFine {
						return nil
					}
					if copies > 1 {
						return fail("not_held", "maybe", "")
					}
					return fail("not_held", "no", "")
				case code == "no-active", code == "stopping":
					avoid = x.from.c
				case c.f.ReleaseRetriesAnything:
				default:
					return &failure{"refused", code, "maybe", ""}
				}
			}
		case <-ctx.Done():
			t.Stop()
		}
	}
}

// forDelivery is the connection for the next copy.
func (c *Client) forDelivery(d *delivery, avoid *conn, target *slot) *conn {
	if target != nil {
		if target.conn != nil && target.conn.live {
			return target.conn
		}
		if target.dialing {
			return nil
		}
	}
	fine := func(n *conn) bool { return n != avoid && (d.op == "R" || n.resume) }
	if o := d.origin; o != nil && o.live && fine(o) && !c.f.RotatesR && !c.f.ReleaseMovesCursor {
		return o
	}
	if c.f.ReleaseMovesCursor {
		return c.next(&c.cursor, fine)
	}
	if n := c.next(&c.cursorR, fine); n != nil {
		return n
	}
	return c.next(&c.cursorR, func(n *conn) bool { return d.op == "R" || n.resume })
}

func (c *Client) askForDelivery(d *delivery, target *slot) {
	if target != nil {
		target.ask()
		return
	}
	if c.f.NoDemand {
		return
	}
	for range c.slots {
		s := c.slots[c.rounds%len(c.slots)]
		c.rounds++
		if s.conn == nil && !s.dialing {
			s.ask()
			return
		}
	}
}

// keep sends K until it is answered or the lease is over.
func (l *lock) keep(ctx context.Context, lease time.Duration) *failure {
	c := l.c
	unsure := "no"
	for {
		c.mu.Lock()
		if l.lost || l.released {
			c.mu.Unlock()
			return fail("not_held", unsure, "")
		}
		end := l.expires
		n := l.origin
		if c.f.KeepMovesCursor {
			n = c.next(&c.cursor, func(n *conn) bool { return n.keep })
		} else if !n.live || c.f.RotatesR {
			n = c.next(&c.cursorR, func(n *conn) bool { return n.keep })
		}
		if n == nil || !n.live || !n.keep && !c.f.KeepAlways {
			live := c.next(&c.cursorR, func(*conn) bool { return true }) != nil
			c.mu.Unlock()
			if live {
				return fail("unsupported", unsure, "")
			}
			time.Sleep(50 * time.Millisecond)
			continue
		}
		r := n.send("K", l.key, fmt.Sprintf("K %s %s %s", l.key, l.token, text(lease)), make(chan answer, 1))
		r.token = l.token
		c.mu.Unlock()
		t := time.NewTimer(time.Until(end))
		select {
		case x := <-r.answer:
			t.Stop()
			switch {
			case x.field(0) == "":
				unsure = "maybe"
				if c.f.KeepOnce {
					return fail("other", "maybe", "connection lost")
				}
				time.Sleep(50 * time.Millisecond)
				continue
			case x.field(0) == "K":
				c.mu.Lock()
				if l.lease = duration(x.field(3)); c.f.KeepsAsAsked {
					l.lease = lease
				}
				l.expires = r.sent.Add(l.lease)
				if c.f.KeepFromRead {
					l.expires = x.at.Add(l.lease)
				}
				l.arm()
				c.mu.Unlock()
				return nil
			case x.field(3) == "not-held":
				c.mu.Lock()
				if !c.f.KeepNotHeldIgnored {
					l.lose()
				}
				c.mu.Unlock()
				return fail("not_held", "no", "")
			}
			return &failure{"refused", x.field(3), "maybe", ""}
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
		c.mu.Lock()
		r.late = func(x answer) {
			switch {
			case x.field(0) == "K" && c.f.LateKeepRevives:
				l.lost, l.expires = false, x.at.Add(lease)
			case x.field(0) == "K" && l.lost:
				go c.deliver(context.Background(), &delivery{op: "R", key: l.key, arg: l.token, origin: r.c})
			}
		}
		c.mu.Unlock()
		if ctx.Err() != nil {
			return fail("cancelled", "maybe", "")
		}
		time.Sleep(10 * time.Millisecond) // the timer of the lock goes first
		c.mu.Lock()
		l.lose()
		c.mu.Unlock()
		return fail("not_held", "maybe", "lease lost")
	}
}
