package server

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stile-lock/stile/protocol"
)

// acquire is SPEC.md 4.1 and, with a nonce, 9.2.
func (s *Server) acquire(k *key, req *request, wait, lease time.Duration, name string) {
	if s.bug == bugWaitZero && wait == 0 {
		wait = protocol.NoQueue
	}
	if s.bug == bugQueuesMinusOne && wait == protocol.NoQueue {
		wait = 400 * time.Millisecond
	}
	if n := k.nonces[name]; n != nil && name != "" {
		switch {
		case n.grant != nil:
			s.tellAgain(k, req, n.grant, lease)
			return
		case n.waiter == nil && s.bug == bugSpentOvertakes:
			req.overtake(protocol.AppendError(nil, 'A', []byte(k.name), protocol.CodeSpent, ""))
			return
		case n.waiter == nil:
			req.end(protocol.AppendError(nil, 'A', []byte(k.name), protocol.CodeSpent, ""))
			return
		}
		if s.bug == bugTakeOverNeedsPlace && s.Waiters > 0 && len(k.line) >= s.Waiters {
			req.end(protocol.AppendError(nil, 'A', []byte(k.name), protocol.CodeQueueFull, ""))
			return
		}
		s.takeOver(k, req, n.waiter, wait, lease)
		return
	}
	if s.bug == bugRefusesLongLeases && lease > s.Longest {
		req.end(protocol.AppendError(nil, 'A', []byte(k.name), protocol.CodeBadRequest, ""))
		return
	}
	if s.bug == bugReentrant && k.held != nil && req.c.holds(k) {
		req.end(protocol.AppendGrant(nil, []byte(k.name), k.held.token, lease))
		return
	}
	w := &waiter{req: req, lease: lease, nonce: name, asked: time.Now()}
	if k.held == nil && (s.bug != bugDetachedBlocks || len(k.line) == 0) {
		s.grant(k, w)
		return
	}
	if wait == protocol.NoQueue {
		if s.bug != bugTimeoutForgets {
			s.spend(k, name)
		}
		req.end(protocol.AppendTimeout(nil, []byte(k.name)))
		return
	}
	if s.Waiters > 0 && len(k.line) >= s.Waiters {
		if s.bug == bugQueueFullSpends {
			s.spend(k, name)
		}
		req.end(protocol.AppendError(nil, 'A', []byte(k.name), protocol.CodeQueueFull, ""))
		return
	}
	w.queued = true
	k.line = append(k.line, w)
	if name != "" {
		k.nonces[name] = &nonce{waiter: w}
	}
	s.limit(k, w, wait)
}

// limit starts the clock of a wait.
func (s *Server) limit(k *key, w *waiter, wait time.Duration) {
	if w.timer != nil {
		w.timer.Stop()
	}
	w.limit = time.Time{}
	if wait == 0 {
		return
	}
	switch s.bug {
	case bugTimesOutLate:
		wait += 400 * time.Millisecond
	case bugTimesOutEarly:
		wait -= wait / 5
	}
	w.limit = time.Now().Add(wait)
	w.timer = s.after(wait+s.Late, func() {
		s.timeout(k, w)
	})
}

// timeout ends a request whose limit has passed.
func (s *Server) timeout(k *key, w *waiter) {
	if s.bug == bugWholeRequestWaits && w.req != nil && w.req != w.req.c.queue[w.req.place()][0] {
		return // its limit is looked at when its turn comes, which is never
	}
	if !slices.Contains(k.line, w) {
		return
	}
	if s.bug == bugGrantAfterT {
		w.limit = time.Time{}
	} else {
		k.leave(w)
	}
	if s.spend(k, w.nonce); s.bug == bugTimeoutForgets {
		delete(k.nonces, w.nonce)
	}
	if w.req != nil {
		w.req.end(protocol.AppendTimeout(nil, []byte(k.name)))
	}
}

// due ends what has to have ended by now, though a timer be late: waits first,
// then the lease (SPEC.md 6.3, 7.2).
func (s *Server) due(k *key) {
	now := time.Now()
	for _, w := range slices.Clone(k.line) {
		if !w.limit.IsZero() && !now.Before(w.limit) {
			s.timeout(k, w)
		}
	}
	if k.held != nil && !now.Before(k.held.end) && !now.Before(k.held.tick) {
		s.over(k)
	}
}

// leave takes a waiter out of the line.
func (k *key) leave(w *waiter) {
	k.line = slices.DeleteFunc(k.line, func(v *waiter) bool { return v == w })
	if w.timer != nil {
		w.timer.Stop()
	}
	if w.grace != nil {
		w.grace.Stop()
	}
}

// grant gives the free key to a request.
func (s *Server) grant(k *key, w *waiter) {
	lease := w.lease
	if lease == 0 {
		lease = s.Default
	}
	lease = min(lease, s.Longest)
	if s.bug == bugLongerLease {
		lease = max(lease, time.Second)
	}
	g := &grant{token: s.nextToken(k), nonce: w.nonce, from: w, began: time.Now(), asked: lease}
	k.last = w.req.c
	k.held = g
	if w.nonce != "" {
		k.nonces[w.nonce] = &nonce{grant: g}
		if s.bug == bugHandedOnForgets && w.queued {
			delete(k.nonces, w.nonce)
		}
	}
	s.lease(k, g, lease)
	if s.bug == bugLeaseFromRequest {
		s.lease(k, g, lease-time.Since(w.asked))
	}
	// It is told with what is left when its turn comes (SPEC.md 3.3).
	told := false
	answer := func() []byte {
		left := lease
		if s.bug == bugLeaseUntold {
			left = lease + 2*time.Second
		}
		g.told = true
		if told && s.bug != bugStaleLease && s.bug != bugHeldBackWhole {
			left = max(time.Until(g.end), 0)
		}
		return protocol.AppendGrant(nil, []byte(k.name), g.token, left)
	}
	req := w.req
	if s.bug == bugGrantAfterT && req.answer != nil {
		return // a grant that nobody knows of
	}
	req.c.granted = append(req.c.granted, g)
	told = req.c.queue[req.place()][0] != req
	req.endWith(answer)
}

func (s *Server) nextToken(k *key) uint64 {
	switch s.bug {
	case bugTokenPerKey:
		k.token++
		return k.token
	case bugTokenFalls:
		s.token--
		return s.token
	case bugTokenTwice:
		// Every second grant of a key has the token of the one before.
		if k.grants++; k.grants%2 == 0 {
			return k.token
		}
		s.token++
		k.token = s.token
		return k.token
	}
	s.token++
	if s.Gaps {
		s.token += rand.Uint64N(1 << 20)
	}
	return s.token
}

// lease lets the grant end after the time, counted from now.
func (s *Server) lease(k *key, g *grant, d time.Duration) {
	if g.timer != nil {
		g.timer.Stop()
	}
	switch s.bug {
	case bugReclaimsEarly:
		d -= d / 5
	case bugReclaimsLate:
		d += 400 * time.Millisecond
	case bugNeverReclaims:
		d += time.Hour
	}
	g.end = time.Now().Add(d)
	switch s.bug {
	case bugLeasesInTicks:
		g.tick = g.end.Truncate(40 * time.Millisecond).Add(40 * time.Millisecond)
		d = time.Until(g.tick)
	case bugShorterStays:
		if !g.short.IsZero() && g.short.Before(g.end) {
			g.end = g.short
			d = time.Until(g.end)
		}
		g.short = g.end
	}
	g.timer = s.after(d+s.Late, func() {
		if k.held == g && !time.Now().Before(g.end) {
			if s.bug == bugTellsOfTheEnd {
				for c := range s.conns {
					if c.holds(k) {
						c.say(protocol.AppendError(nil, 'A', []byte(k.name), protocol.CodeNotHeld, ""))
					}
				}
			}
			s.over(k)
		}
	})
}

func (c *conn) holds(k *key) bool { return slices.Contains(c.granted, k.held) }

// over ends the grant, and hands the key to the next in line.
func (s *Server) over(k *key) {
	k.held.timer.Stop()
	s.spend(k, k.held.nonce)
	if s.bug == bugForgetsNonce {
		delete(k.nonces, k.held.nonce)
	}
	pause := time.Duration(0) // of a bug, in which whoever comes has the key
	switch ended := !time.Now().Before(k.held.end); {
	case s.bug == bugBarging:
		pause = 2 * time.Millisecond
	case s.bug == bugBargingAtTheEnd && ended:
		pause = 20 * time.Millisecond
	case s.bug == bugSlowHandOver:
		pause = 400 * time.Millisecond
	}
	k.held = nil
	if pause > 0 {
		s.after(pause, func() { s.next(k) })
		return
	}
	s.next(k)
}

func (s *Server) next(k *key) {
	if k.held != nil {
		return
	}
	line := slices.Clone(k.line)
	switch s.bug {
	case bugLIFO:
		slices.Reverse(line)
	case bugTakesTurns:
		slices.SortStableFunc(line, func(a, b *waiter) int {
			return cmp.Compare(k.turn(a), k.turn(b))
		})
	}
	for _, w := range line {
		if w.req == nil { // a detached one is skipped
			if s.bug == bugDetachedBlocks {
				return
			}
			continue
		}
		if !w.limit.IsZero() && !time.Now().Before(w.limit) && s.bug != bugGrantAfterT {
			continue // its timer is late
		}
		k.leave(w)
		s.grant(k, w)
		if s.bug == bugGrantsTwo && len(k.line) > 0 && k.line[0].req != nil {
			v := k.line[0]
			k.leave(v)
			s.grant(k, v)
		}
		return
	}
}

// turn is a bug's: who was granted the key last comes last.
func (k *key) turn(w *waiter) int {
	if w.req != nil && w.req.c == k.last {
		return 1
	}
	return 0
}

// undo is SPEC.md 6.6: the grant is as if it had not been made. Its waiter has
// its place back, detached.
func (s *Server) undo(k *key, g *grant) {
	g.timer.Stop()
	k.held = nil
	w := g.from
	if w.nonce != "" && (w.limit.IsZero() || time.Now().Before(w.limit)) {
		k.line = slices.Insert(k.line, 0, w)
		k.nonces[w.nonce] = &nonce{waiter: w}
		s.detach(k, w)
	} else {
		s.spend(k, w.nonce)
	}
	s.next(k)
}

// living is the grant that the token proves, if it has not ended.
func (s *Server) living(k *key, token uint64) bool {
	if k.held == nil {
		return false
	}
	if s.bug == bugShortTokens {
		return uint32(k.held.token) == uint32(token)
	}
	return k.held.token == token || s.bug == bugAnyToken
}

// release is SPEC.md 4.2.
func (s *Server) release(k *key, req *request, token uint64) {
	if s.bug == bugOwnConnection && k.held != nil && !req.c.holds(k) || !s.living(k, token) {
		if s.bug == bugReleaseAlwaysFine {
			req.end(protocol.AppendRelease(nil, []byte(k.name), token))
			return
		}
		echo := k.name
		if s.bug == bugEchoesAnotherKey {
			echo += "x"
		}
		req.end(protocol.AppendError(nil, 'R', []byte(echo), protocol.CodeNotHeld, ""))
		return
	}
	echo := k.name
	if s.bug == bugLastRelease && req.c.last != "" {
		echo = req.c.last
	}
	req.c.last = k.name
	if s.GrantFirst {
		s.over(k)
		req.end(protocol.AppendRelease(nil, []byte(echo), token))
		return
	}
	req.end(protocol.AppendRelease(nil, []byte(echo), token))
	if s.bug == bugReleaseLater {
		g := k.held
		s.after(100*time.Millisecond, func() {
			if k.held == g {
				s.over(k)
			}
		})
		return
	}
	s.over(k)
}

// keep is SPEC.md 4.3.
func (s *Server) keep(k *key, req *request, token uint64, lease time.Duration) {
	if lease == 0 && s.bug == bugZeroIsTheLast && k.held != nil {
		lease = k.held.asked
	}
	if lease == 0 {
		lease = s.Default
	}
	if s.bug != bugKeepsForEver {
		lease = min(lease, s.Longest)
	}
	if s.bug == bugRevives && k.held == nil && s.isPast(k, token) {
		k.held = &grant{token: token}
	}
	if !s.living(k, token) {
		req.end(protocol.AppendError(nil, 'K', []byte(k.name), protocol.CodeNotHeld, ""))
		return
	}
	from := time.Duration(0)
	switch s.bug {
	case bugKeepAdds:
		from = time.Until(k.held.end)
	case bugKeepOnlyExtends:
		from = max(time.Until(k.held.end)-lease, 0)
	}
	if s.bug == bugKeepNewToken {
		s.token++
		k.held.token = s.token
	}
	k.held.keeps++
	switch {
	case s.bug == bugKeepsOnce && k.held.keeps > 1, s.bug == bugKeepsFirstGrants && k.held.from != nil && k.held.from.queued:
	default:
		s.lease(k, k.held, from+lease)
	}
	line := protocol.AppendKeep(nil, []byte(k.name), k.held.token, lease)
	if s.bug == bugKeepsAnsweredLate {
		req.end(nil)
		s.after(20*time.Millisecond, func() {
			req.c.say(line)
		})
		return
	}
	req.end(line)
}

// isPast is a bug's: any token that was given may be kept.
func (s *Server) isPast(_ *key, token uint64) bool { return token > 1 && token <= s.token }

// cancel is SPEC.md 4.4.
func (s *Server) cancel(k *key, req *request, name string) {
	n := k.nonces[name]
	if s.bug == bugCancelsElsewhere {
		for _, other := range s.keys {
			if o := other.nonces[name]; o != nil && o.grant != nil && other.held == o.grant {
				s.over(other)
			}
		}
	}
	if s.bug == bugCancelMissesDetached && n != nil && n.waiter != nil && n.waiter.req == nil {
		req.end(protocol.AppendCancel(nil, []byte(k.name), []byte(name)))
		return
	}
	if n != nil || s.bug != bugCancelForgets {
		s.spend(k, name)
	}
	if s.bug == bugForgetsCancelled {
		s.after(time.Second, func() {
			delete(k.nonces, name)
		})
	}
	if n != nil && n.waiter != nil && s.bug != bugCancelKeepsPlace {
		k.leave(n.waiter)
		if n.waiter.req != nil {
			n.waiter.req.end(protocol.AppendTimeout(nil, []byte(k.name)))
		}
	}
	req.end(protocol.AppendCancel(nil, []byte(k.name), []byte(name)))
	switch {
	case n == nil || n.grant == nil || k.held != n.grant || s.bug == bugCancelKeepsGrant:
	case s.bug == bugCancelSparesHandedOn && n.grant.from.queued:
	case s.bug == bugCancelLIFO:
		slices.Reverse(k.line)
		s.over(k)
		slices.Reverse(k.line)
	default:
		s.over(k)
	}
	if s.bug == bugCancelFrees && n != nil {
		delete(k.nonces, name)
	}
}

// tellAgain is SPEC.md 9.5.
func (s *Server) tellAgain(k *key, req *request, g *grant, lease time.Duration) {
	switch s.bug {
	case bugRepeatRenews:
		s.lease(k, g, lease)
	case bugRepeatNewToken:
		s.token++
		g.token = s.token
	}
	req.endWith(func() []byte {
		g.told = true
		left := max(time.Until(g.end), 0)
		if s.bug == bugRepeatWholeLease {
			left = lease
		}
		if k.held != g && s.bug != bugStaleLease {
			left = 0
		}
		if s.bug == bugStaleLease {
			left = lease
		}
		return protocol.AppendGrant(nil, []byte(k.name), g.token, left)
	})
}

// takeOver is SPEC.md 9.4, and for a detached waiter 9.6.
func (s *Server) takeOver(k *key, req *request, w *waiter, wait, lease time.Duration) {
	if old := w.req; old != nil {
		line := protocol.AppendError(nil, 'A', []byte(k.name), protocol.CodeSuperseded, "")
		if s.bug == bugSupersededOvertakes {
			old.overtake(line)
		} else {
			old.end(line)
		}
		if s.bug == bugOldConnectionMatters {
			w.old = old.c
		}
	}
	w.req = req
	if w.grace != nil && s.bug != bugGraceGoesOn {
		w.grace.Stop()
	}
	if s.bug != bugTakeOverOldTerms {
		w.lease = lease
	}
	switch {
	case k.held == nil && s.bug == bugNoWayBack && wait == protocol.NoQueue:
	case k.held == nil:
		k.leave(w)
		s.grant(k, w)
		return
	}
	switch {
	case wait == protocol.NoQueue && s.bug != bugTakeOverQueues:
		k.leave(w)
		s.spend(k, w.nonce)
		req.end(protocol.AppendTimeout(nil, []byte(k.name)))
		return
	case s.bug == bugTakeOverAtTheEnd:
		k.line = append(slices.DeleteFunc(k.line, func(v *waiter) bool { return v == w }), w)
	}
	if s.bug == bugShorterLimitStays && !w.limit.IsZero() && (wait == 0 || wait > time.Until(w.limit)) {
		return
	}
	if s.bug != bugTakeOverOldTerms {
		s.limit(k, w, max(wait, 0))
	}
}

// detach is SPEC.md 6.5: without a nonce the waiter is gone, with one it keeps
// its place for the grace.
func (s *Server) detach(k *key, w *waiter) {
	if w.nonce == "" || s.bug == bugNoGrace {
		k.leave(w)
		delete(k.nonces, w.nonce)
		return
	}
	w.req = nil
	if s.bug == bugGraceForEver {
		return
	}
	w.grace = s.after(grace, func() {
		if (w.req == nil || s.bug == bugGraceGoesOn) && slices.Contains(k.line, w) {
			k.leave(w)
			delete(k.nonces, w.nonce)
		}
	})
}
