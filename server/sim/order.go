package sim

import (
	"slices"
	"strings"
	"time"

	"github.com/stile-lock/stile/protocol"
	"github.com/stile-lock/stile/server/cluster"
	"github.com/stile-lock/stile/server/lockspace"
)

// lineView is a second, simple idea of the lines of a process: who came when,
// and who may therefore be granted a key next.
type lineView struct {
	lines map[string][]*waiter
	held  []*request // taken, and not yet served, in order
	back  []string   // key and nonce of grants that were undone: their old places are not known here
	since Time       // of the promotion
}

// waiter is a place in line.
type waiter struct {
	nonce    string
	r        *request // nil: detached
	since    Time     // it has waited since then at least
	attached Time     // since when there is one
	until    Time     // 0: no limit
	replica  bool     // it was in line before the promotion, and nobody has come for it
	unsure   bool     // its place among the others is not known
}

func (v *lineView) init() { v.lines = make(map[string][]*waiter) }

// promoted begins with the waiters that the table has: their order is that of
// the active before, since the tables are compared.
func (v *lineView) promoted(p *process) {
	clear(v.lines)
	v.back = nil
	v.since = p.s.now
	for line := range strings.Lines(string(p.digest())) {
		parts := strings.Split(strings.TrimSpace(line), " < ")
		key, _, _ := strings.Cut(parts[0], " ")
		for _, w := range parts[1:] {
			nonce, _, _ := strings.Cut(w, " ")
			v.lines[key] = append(v.lines[key], &waiter{nonce: nonce, since: p.s.atLeast(nonce), replica: true})
		}
	}
}

func (v *lineView) find(key, nonce string) *waiter {
	if nonce == "" {
		return nil
	}
	for _, w := range v.lines[key] {
		if w.nonce == nonce {
			return w
		}
	}
	return nil
}

func (v *lineView) remove(key string, w *waiter) {
	v.lines[key] = slices.DeleteFunc(v.lines[key], func(o *waiter) bool { return o == w })
}

// take is called with each acquire that gets in line, before it does.
func (v *lineView) take(p *process, r *request) {
	w := v.find(r.key, r.nonce)
	if w == nil {
		w = &waiter{nonce: r.nonce, since: r.taken}
		v.lines[r.key] = append(v.lines[r.key], w)
		p.s.ages.queued[r.nonce] = r.taken
	}
	w.r, w.attached, w.replica, w.until = r, p.s.now, false, 0
	if r.wait > 0 {
		w.until = r.taken + r.wait
	} else if r.wait < 0 {
		w.until = p.s.now
	}
}

// checkRequest is called with each request before the table sees it.
func (s *Sim) checkRequest(p *process, r *request) {
	r.taken = s.now
	if r.op != protocol.OpAcquire {
		return
	}
	s.ages.first(r)
	switch p.mode {
	case cluster.Serve:
		p.view.take(p, r)
	case cluster.Hold, cluster.Freeze:
		p.view.held = append(p.view.held, r)
	}
}

// undone is called when a grant is undone whose answer was held. Its waiter gets
// its place back when the table serves again, and may have come anew by then.
func (v *lineView) undone(key, nonce string) {
	if nonce != "" {
		v.back = append(v.back, key+" "+nonce)
	}
}

// serve is called before the requests that were held are served.
func (v *lineView) serve(p *process) {
	held := v.held
	v.held = nil
	for _, r := range held {
		if !r.made && (r.wait <= 0 || r.taken+r.wait > p.s.now) {
			v.take(p, r)
		}
	}
}

// change is called with each change of a table that serves.
func (v *lineView) change(p *process, c *lockspace.Change) {
	key, nonce := string(c.Key), string(c.Nonce.Bytes())
	w := v.find(key, nonce)
	switch c.Kind {
	case lockspace.GrantMade:
		if w != nil {
			if slices.Contains(p.fresh, c.Token) {
				v.checkTurn(p, key, w)
			}
			v.remove(key, w)
		}
	case lockspace.WaiterQueued:
		p.s.checkAge(p, c, w)
		// Adopted; or it has its place back, since its grant was undone.
		if w == nil && nonce != "" {
			v.lines[key] = append(v.lines[key], &waiter{nonce: nonce, since: p.s.now, unsure: true})
		} else if i := slices.Index(v.back, key+" "+nonce); i >= 0 {
			v.back = slices.Delete(v.back, i, i+1)
			w.unsure = true
		}
	case lockspace.WaiterLeft:
		if w != nil {
			if w.replica && p.mode == cluster.Serve && p.s.now-v.since < 3*time.Second && p.alloc.Left() > 0 {
				p.s.fail("n%d: %s in the line of %s lost its place %v after the promotion", p.n.id, nonce, key, p.s.now-v.since)
			}
			v.remove(key, w)
		}
	case lockspace.NonceSpent:
		if w != nil && w.r == nil {
			v.remove(key, w)
		}
	}
}

// checkEffect is called with the end of each acquire.
func (s *Sim) checkEffect(p *process, e *lockspace.Effect) {
	v, r := &p.view, s.requests[e.Tag]
	for _, w := range v.lines[r.key] {
		if w.r != r {
			continue
		}
		if e.Kind == lockspace.Granted && !e.Repeat && p.log != nil {
			v.checkTurn(p, r.key, w)
		}
		v.remove(r.key, w)
		break
	}
}

// checkTurn fails if somebody stands before the waiter who is granted the key.
func (v *lineView) checkTurn(p *process, key string, w *waiter) {
	s := p.s
	// Where a session waits for a key twice, an answer can have to wait for the
	// one before it: then the end of an acquire is not seen when it happens.
	if w.unsure || s.plan.sameKeys {
		return
	}
	s.count("turns checked")
	for _, o := range v.lines[key] {
		switch {
		case o == w:
			return
		case o.unsure || o.until > 0 && o.until <= s.now:
		case o.r != nil && o.attached < s.now && o.r.session.nodeOpen:
			s.fail("n%d grants %s to %s, and %s, #%d, stands before it since %v", p.n.id, key, v.name(w), v.name(o), o.r.id, o.attached)
		case o.replica && s.now-v.since < lockspace.ReserveFor:
			s.fail("n%d grants %s to %s %v after its promotion, and %s stands before it", p.n.id, key, v.name(w), s.now-v.since, o.nonce)
		}
	}
}

func (v *lineView) name(w *waiter) string {
	if w.nonce != "" {
		return w.nonce
	}
	return "a client without a nonce"
}

// drop forgets a session.
func (v *lineView) drop(c *session) {
	for _, r := range c.pending {
		for _, w := range v.lines[r.key] {
			if w.r != r {
				continue
			}
			if w.r = nil; w.nonce == "" {
				v.remove(r.key, w)
			}
			break
		}
	}
	v.held = slices.DeleteFunc(v.held, func(r *request) bool { return r.session == c })
}
