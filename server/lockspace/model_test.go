package lockspace

import (
	"math"
	"slices"
	"time"

	"github.com/stile-lock/stile/protocol"
)

// model is the lock table once more, written from what the documents promise
// and meant to be read: slices and linear scans, one list for everything of
// a kind, deadlines found by looking at all of them. It takes the same calls
// as a Space and gives the same effects.
type model struct {
	cfg     Config
	now     Time
	arrival uint64
	grants  []*mGrant   // at most one per key
	line    []*mRequest // all waiters of all keys, in order of arrival
	turns   []*mRequest // acquires not answered yet, in the order they were read
	spent   []mSpent    // oldest first
	out     []Effect
}

type mGrant struct {
	key    string
	token  uint64
	ends   Time
	nonce  Nonce
	first  Session // whose acquire was granted
	shared bool    // another session was told since
}

type mRequest struct {
	session Session // 0: detached
	tag     uint64
	key     string
	nonce   Nonce
	asked   time.Duration
	arrival uint64
	since   Time // when it was asked first
	until   Time // own limit, Never for none
	grace   Time // detached: kept until then

	ended  bool // answer is set; it may have to wait for its turn
	answer Effect
}

type mSpent struct {
	key   string
	nonce Nonce
	until Time
}

func newModel(cfg Config) *model { return &model{cfg: cfg, now: math.MinInt64} }

func (m *model) effects() []Effect {
	out := m.out
	m.out = nil
	return out
}

func (m *model) begin(now Time) { m.now = max(m.now, now) }

// settle ends a lease that is over before a request for its key is looked
// at. Waits that are over stay until Advance, or until the key would be
// handed to them: nobody can see the difference but the counters.
func (m *model) settle(key string) {
	if g := m.grant(key); g != nil && g.ends <= m.now {
		m.endGrant(g)
	}
}

func (m *model) grant(key string) *mGrant {
	for _, g := range m.grants {
		if g.key == key {
			return g
		}
	}
	return nil
}

func (m *model) queued(key string, nonce Nonce) *mRequest {
	for _, r := range m.line {
		if r.key == key && r.nonce == nonce {
			return r
		}
	}
	return nil
}

func (m *model) isSpent(key string, nonce Nonce) bool {
	return slices.ContainsFunc(m.spent, func(s mSpent) bool { return s.key == key && s.nonce == nonce })
}

func (m *model) spend(key string, nonce Nonce) {
	if nonce == (Nonce{}) || m.isSpent(key, nonce) {
		return
	}
	m.forget()
	m.spent = append(m.spent, mSpent{key, nonce, m.now + Time(m.cfg.SpentFor)})
	if len(m.spent) > m.cfg.MaxSpent {
		m.spent = m.spent[1:]
	}
}

// forget drops the nonces that need not be remembered any longer. "At least"
// is promised; a table may as well do it only when it has to look anyway.
func (m *model) forget() {
	m.spent = slices.DeleteFunc(m.spent, func(s mSpent) bool { return s.until <= m.now })
}

func (r *mRequest) deadline() Time {
	if r.session == 0 {
		return min(r.until, r.grace)
	}
	return r.until
}

// finish ends a request; its answer goes out when it is its turn.
func (m *model) finish(r *mRequest, e Effect) {
	if r.session == 0 {
		return // nobody to tell
	}
	e.Session, e.Tag, e.Key = r.session, r.tag, []byte(r.key)
	r.ended, r.answer = true, e
	m.flush(r.session, r.key)
}

// flush sends the ended answers of a session and key that no earlier request
// stands before.
func (m *model) flush(session Session, key string) {
	for {
		i := slices.IndexFunc(m.turns, func(r *mRequest) bool { return r.session == session && r.key == key })
		if i < 0 || !m.turns[i].ended {
			return
		}
		e := m.turns[i].answer
		m.turns = slices.Delete(m.turns, i, i+1)
		if e.Kind == Granted {
			e.Lease = 0
			if g := m.grant(key); g != nil && g.token == e.Token {
				e.Lease = left(g.ends, m.now)
			}
		}
		m.out = append(m.out, e)
	}
}

// left is the time until ends in whole milliseconds.
func left(ends, now Time) time.Duration {
	return max(0, time.Duration(ends-now).Truncate(time.Millisecond))
}

func (m *model) lease(asked time.Duration) time.Duration {
	if asked == 0 {
		asked = m.cfg.DefaultLease
	}
	return min(asked, m.cfg.MaxLease).Truncate(time.Millisecond)
}

// give grants the key to r, or refuses r if there is no token.
func (m *model) give(r *mRequest) (ok bool) {
	token, ok := m.cfg.NextToken()
	if !ok {
		m.finish(r, Effect{Kind: Refused, Code: protocol.CodeNoActive})
		return false
	}
	m.grants = append(m.grants, &mGrant{
		key: r.key, token: token, ends: m.now + Time(m.lease(r.asked)),
		nonce: r.nonce, first: r.session,
	})
	m.finish(r, Effect{
		Kind: Granted, Token: token,
		Place: Place{arrival: r.arrival, until: r.until, asked: r.asked, since: r.since},
	})
	return true
}

// endGrant ends a grant for good and hands the key on.
func (m *model) endGrant(g *mGrant) {
	m.spend(g.key, g.nonce)
	m.free(g)
}

func (m *model) free(g *mGrant) {
	m.grants = slices.DeleteFunc(m.grants, func(x *mGrant) bool { return x == g })
	for _, r := range slices.Clone(m.line) {
		if r.key != g.key || r.session == 0 {
			continue
		}
		if r.until <= m.now {
			m.expireWait(r)
			continue
		}
		m.unqueue(r)
		if m.give(r) {
			return
		}
	}
}

func (m *model) unqueue(r *mRequest) {
	m.line = slices.DeleteFunc(m.line, func(x *mRequest) bool { return x == r })
}

// expireWait ends a wait at its limit, or a detached waiter at the end of its
// grace; the latter is forgotten, unless its own limit has passed as well.
func (m *model) expireWait(r *mRequest) {
	m.unqueue(r)
	if r.until <= m.now {
		m.spend(r.key, r.nonce)
	}
	m.finish(r, Effect{Kind: TimedOut})
}

func (m *model) acquire(now Time, a Acquire) {
	m.begin(now)
	key := string(a.Key)
	m.settle(key)
	m.arrival++
	r := &mRequest{
		session: a.Session, tag: a.Tag, key: key, nonce: a.Nonce, asked: a.Lease,
		arrival: m.arrival, since: m.now, until: Never,
	}
	switch {
	case a.Wait > 0:
		r.until = m.now + Time(a.Wait)
	case a.Wait < 0:
		r.until = m.now
	}
	m.turns = append(m.turns, r)

	old := (*mRequest)(nil)
	if a.Nonce != (Nonce{}) {
		if m.isSpent(key, a.Nonce) {
			m.finish(r, Effect{Kind: Refused, Code: protocol.CodeSpent})
			return
		}
		if g := m.grant(key); g != nil && g.nonce == a.Nonce {
			g.shared = g.shared || g.first != a.Session
			m.finish(r, Effect{Kind: Granted, Token: g.token, Repeat: true})
			return
		}
		if old = m.queued(key, a.Nonce); old != nil && old.deadline() <= m.now {
			m.expireWait(old)
			if old = nil; m.isSpent(key, a.Nonce) {
				m.finish(r, Effect{Kind: Refused, Code: protocol.CodeSpent})
				return
			}
		}
		if old != nil {
			r.arrival, r.since = old.arrival, old.since
			m.unqueue(old)
			m.finish(old, Effect{Kind: Refused, Code: protocol.CodeSuperseded})
		}
	}

	waiters := 0
	for _, w := range m.line {
		if w.key == key {
			waiters++
		}
	}
	switch {
	case m.grant(key) == nil:
		m.give(r)
	case a.Wait < 0:
		m.spend(key, a.Nonce)
		m.finish(r, Effect{Kind: TimedOut})
	case old == nil && (!a.MayQueue || waiters >= m.cfg.MaxWaitersPerKey):
		m.finish(r, Effect{Kind: Refused, Code: protocol.CodeQueueFull})
	default:
		m.enqueue(r)
	}
}

func (m *model) enqueue(r *mRequest) {
	i := 0
	for i < len(m.line) && m.line[i].arrival < r.arrival {
		i++
	}
	m.line = slices.Insert(m.line, i, r)
}

func (m *model) refuse(now Time, session Session, tag uint64, key []byte, code protocol.Code) {
	m.begin(now)
	r := &mRequest{session: session, tag: tag, key: string(key)}
	m.turns = append(m.turns, r)
	m.finish(r, Effect{Kind: Refused, Code: code})
}

func (m *model) release(now Time, key []byte, token uint64) bool {
	m.begin(now)
	m.settle(string(key))
	g := m.grant(string(key))
	if g == nil || g.token != token {
		return false
	}
	m.endGrant(g)
	return true
}

// breakKey is Break: the holder's token, and that of who has the key then.
func (m *model) breakKey(now Time, key []byte, token uint64) (holder, next uint64) {
	m.begin(now)
	m.settle(string(key))
	g := m.grant(string(key))
	if g == nil || g.token != token {
		return m.tokenOf(string(key)), 0
	}
	m.endGrant(g)
	return token, m.tokenOf(string(key))
}

func (m *model) tokenOf(key string) uint64 {
	if g := m.grant(key); g != nil {
		return g.token
	}
	return 0
}

func (m *model) keep(now Time, session Session, key []byte, token uint64, lease time.Duration) (time.Duration, bool) {
	m.begin(now)
	m.settle(string(key))
	g := m.grant(string(key))
	if g == nil || g.token != token {
		return 0, false
	}
	lease = m.lease(lease)
	g.ends = m.now + Time(lease)
	g.shared = g.shared || g.first != session
	return lease, true
}

func (m *model) cancel(now Time, key []byte, nonce Nonce) {
	m.begin(now)
	k := string(key)
	m.settle(k)
	if r := m.queued(k, nonce); r != nil {
		m.unqueue(r)
		m.spend(k, nonce)
		m.finish(r, Effect{Kind: TimedOut})
		return
	}
	if g := m.grant(k); g != nil && g.nonce == nonce {
		m.endGrant(g)
		return
	}
	m.spend(k, nonce)
}

func (m *model) drop(now Time, session Session) {
	m.begin(now)
	// All waiters leave before anything is handed on: nothing may be granted
	// to them.
	for _, r := range slices.Clone(m.line) {
		if r.session != session {
			continue
		}
		r.session = 0
		r.grace = m.now + Time(m.cfg.ReattachGrace)
		if r.nonce == (Nonce{}) {
			m.unqueue(r)
		}
	}
	var unread []*mRequest
	m.turns = slices.DeleteFunc(m.turns, func(r *mRequest) bool {
		// r.session is 0 for those that were detached just now.
		mine := r.session == session || r.session == 0
		if mine && r.ended && r.answer.Kind == Granted && !r.answer.Repeat {
			unread = append(unread, r)
		}
		return mine
	})
	for _, r := range unread {
		m.undoGrant(session, r.key, r.answer.Token, r.answer.Place)
	}
}

func (m *model) undo(now Time, session Session, key []byte, token uint64, p Place) {
	m.begin(now)
	m.undoGrant(session, string(key), token, p)
}

func (m *model) undoGrant(session Session, key string, token uint64, p Place) {
	m.settle(key)
	g := m.grant(key)
	if g == nil || g.token != token || g.first != session || g.shared {
		return
	}
	if g.nonce == (Nonce{}) || p.until <= m.now {
		m.endGrant(g)
		return
	}
	m.enqueue(&mRequest{
		key: key, nonce: g.nonce, asked: p.asked, arrival: p.arrival, since: p.since, until: p.until,
		grace: m.now + Time(m.cfg.ReattachGrace),
	})
	m.free(g)
}

// due lists what Advance would end now, in its order: waits, then leases,
// each by deadline, equal ones in the order they began.
func (m *model) due(now Time) (waits []*mRequest, leases []*mGrant) {
	for _, r := range m.line {
		if r.deadline() <= now {
			waits = append(waits, r)
		}
	}
	for _, g := range m.grants {
		if g.ends <= now {
			leases = append(leases, g)
		}
	}
	slices.SortStableFunc(waits, func(a, b *mRequest) int { return int(a.deadline() - b.deadline()) })
	slices.SortStableFunc(leases, func(a, b *mGrant) int { return int(a.ends - b.ends) })
	return waits, leases
}

func (m *model) advance(now Time, most int) (more bool) {
	m.begin(now)
	m.forget()
	waits, leases := m.due(m.now)
	for ; len(waits) > 0 && most > 0; most-- {
		m.expireWait(waits[0])
		waits = waits[1:]
	}
	for ; len(leases) > 0 && most > 0; most-- {
		m.endGrant(leases[0])
		leases = leases[1:]
	}
	return len(waits)+len(leases) > 0
}

// next is when advance has something to end.
func (m *model) next() Time {
	next := Never
	for _, r := range m.line {
		next = min(next, r.deadline())
	}
	for _, g := range m.grants {
		next = min(next, g.ends)
	}
	return next
}

func (m *model) endWaiters(now Time, code protocol.Code) {
	m.begin(now)
	line := m.line
	m.line = nil
	for _, r := range line {
		m.finish(r, Effect{Kind: Refused, Code: code})
	}
}

func (m *model) held() int    { return len(m.grants) }
func (m *model) waiting() int { return len(m.line) }
