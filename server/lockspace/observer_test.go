package lockspace

import (
	"slices"
	"time"

	"github.com/stile-lock/stile/protocol"
)

// observer judges effects by rules that a client could state, from the calls
// and the effects alone. It knows less than the model and has nothing in
// common with it, so that a misreading made in both the model and the Space
// still has somebody to notice it.
type observer struct {
	t        tb
	cfg      Config
	now      Time
	requests map[uint64]*seen // by tag
	pending  []*seen          // without an effect, in order of arrival
	keys     map[string]*seenKey
	spent    map[seenNonce]Time // when it was spent for certain
	used     map[seenNonce]bool
	granted  map[uint64]string // tokens given, with their key
	ending   struct {          // what the call in progress ends
		key   string
		token uint64
		nonce Nonce
	}
}

type seen struct {
	tag       uint64
	session   Session
	key       string
	nonce     Nonce
	until     Time
	malformed bool
	done      bool
	mustSpent bool // the nonce was spent when the request came
	behind    bool // an older request of its turn was unanswered before this call
}

type seenKey struct {
	newest uint64 // the greatest token seen
	holder uint64 // 0: nobody known
	ends   Time   // not before this, unless it is ended
	nonce  Nonce
}

type seenNonce struct {
	key   string
	nonce Nonce
}

func newObserver(t tb, cfg Config) *observer {
	return &observer{
		t: t, cfg: cfg,
		requests: map[uint64]*seen{},
		keys:     map[string]*seenKey{},
		spent:    map[seenNonce]Time{},
		used:     map[seenNonce]bool{},
		granted:  map[uint64]string{},
	}
}

func (o *observer) of(key string) *seenKey {
	k := o.keys[key]
	if k == nil {
		k = &seenKey{}
		o.keys[key] = k
	}
	return k
}

// alive reports whether the known holder must still be holding.
func (o *observer) alive(k *seenKey) bool { return k.holder != 0 && o.now < k.ends }

func (o *observer) acquire(a *Acquire) {
	r := &seen{tag: a.Tag, session: a.Session, key: string(a.Key), nonce: a.Nonce, until: Never}
	if a.Wait > 0 {
		r.until = o.now + Time(a.Wait)
	}
	if at, ok := o.spent[seenNonce{r.key, r.nonce}]; ok && o.now < at+Time(o.cfg.SpentFor) {
		r.mustSpent = true
	}
	o.used[seenNonce{r.key, r.nonce}] = true
	o.add(r)
}

func (o *observer) refuse(session Session, tag uint64, key string) {
	o.add(&seen{tag: tag, session: session, key: key, malformed: true})
}

func (o *observer) add(r *seen) {
	o.requests[r.tag] = r
	o.pending = append(o.pending, r)
}

// markSpent notes a nonce that is spent from now on. With few remembered
// others may push it out, and nothing is certain.
func (o *observer) markSpent(key string, nonce Nonce) {
	if nonce != (Nonce{}) && o.cfg.MaxSpent >= 1000 {
		n := seenNonce{key, nonce}
		if at, ok := o.spent[n]; !ok || o.now >= at+Time(o.cfg.SpentFor) {
			o.spent[n] = o.now
		}
	}
}

func (o *observer) release(key string, token uint64, ok bool) {
	k := o.of(key)
	if o.alive(k) {
		if ok && token != k.holder {
			o.t.Fatalf("%d released %q, but %d holds it", token, key, k.holder)
		}
		if !ok && token == k.holder {
			o.t.Fatalf("%d could not release %q while it holds it", token, key)
		}
	}
	if ok && token == k.holder {
		o.markSpent(key, k.nonce)
	}
}

func (o *observer) keep(key string, token uint64, lease time.Duration, ok bool) {
	k := o.of(key)
	if o.alive(k) && ok != (token == k.holder) {
		o.t.Fatalf("%d keeps %q: %v, but %d holds it", token, key, ok, k.holder)
	}
	if ok && token == k.holder {
		k.ends = o.now + Time(lease)
	}
}

func (o *observer) cancel(key string, nonce Nonce) {
	// What was spent before is not remembered longer for being cancelled as
	// well. So only a new nonce, or the holder's, is spent now for certain.
	n := seenNonce{key, nonce}
	k := o.of(key)
	if o.alive(k) && k.nonce == nonce || !o.used[n] {
		o.markSpent(key, nonce)
	}
	o.used[n] = true
}

func (o *observer) drop(session Session) {
	o.pending = slices.DeleteFunc(o.pending, func(r *seen) bool {
		if r.session == session {
			delete(o.requests, r.tag) // any effect from now on is one too many
		}
		return r.session == session
	})
}

// over notes that the call in progress ends a grant, named by its token or by
// its nonce. The call may even have made that grant itself, when it found the
// lease before it at its end; so the name is good for the whole call.
func (o *observer) over(key string, token uint64, nonce Nonce) {
	o.ending.key, o.ending.token, o.ending.nonce = key, token, nonce
	o.endHolder(key)
}

func (o *observer) endHolder(key string) {
	k, e := o.of(key), &o.ending
	if e.key == key && (k.holder == e.token || e.nonce != (Nonce{}) && k.nonce == e.nonce) {
		k.holder = 0
	}
}

// older returns the first pending request before r that f accepts.
func (o *observer) older(r *seen, f func(*seen) bool) *seen {
	for _, p := range o.pending {
		if p == r {
			return nil
		}
		if f(p) {
			return p
		}
	}
	return nil
}

func (o *observer) effects(effects []Effect) {
	if len(effects) == 0 {
		return
	}
	for _, r := range o.pending {
		r.behind = o.older(r, func(p *seen) bool { return p.session == r.session && p.key == r.key }) != nil
	}
	for i := range effects {
		o.effect(&effects[i])
	}
}

func (o *observer) effect(e *Effect) {
	r := o.requests[e.Tag]
	switch {
	case r == nil || r.session != e.Session || r.key != string(e.Key):
		o.t.Fatalf("%v: nobody there asked for it", show([]Effect{*e}))
	case r.done:
		o.t.Fatalf("%v: a second answer", show([]Effect{*e}))
	}
	if p := o.older(r, func(p *seen) bool { return p.session == r.session && p.key == r.key }); p != nil {
		o.t.Fatalf("%v: #%d of the same session and key is not answered yet", show([]Effect{*e}), p.tag)
	}
	r.done = true
	if r.malformed && e.Kind != Refused {
		o.t.Fatalf("%v: but the request was malformed", show([]Effect{*e}))
	}
	if r.mustSpent && (e.Kind != Refused || e.Code != protocol.CodeSpent) {
		o.t.Fatalf("%v: but its nonce was spent", show([]Effect{*e}))
	}
	switch e.Kind {
	case Granted:
		o.grant(r, e)
	case TimedOut:
		if !r.behind {
			o.markSpent(r.key, r.nonce)
		}
	}
	o.pending = slices.DeleteFunc(o.pending, func(p *seen) bool { return p == r })
}

func (o *observer) grant(r *seen, e *Effect) {
	k := o.of(r.key)
	if !e.Repeat {
		if _, twice := o.granted[e.Token]; twice {
			o.t.Fatalf("%v: the token was given before", show([]Effect{*e}))
		}
		o.granted[e.Token] = r.key
	}
	if !e.Repeat && !r.behind {
		// Granted just now.
		if o.now >= r.until {
			o.t.Fatalf("%v: granted at %v, past its limit %v", show([]Effect{*e}), time.Duration(o.now), time.Duration(r.until))
		}
		if e.Token <= k.newest {
			o.t.Fatalf("%v: the key has had token %d", show([]Effect{*e}), k.newest)
		}
		if r.nonce == (Nonce{}) {
			// A nonce may have inherited a place, or have lost it.
			p := o.older(r, func(p *seen) bool {
				return p.key == r.key && p.nonce == (Nonce{}) && !p.malformed && !p.behind && o.now < p.until
			})
			if p != nil {
				o.t.Fatalf("%v: #%d was in line before it", show([]Effect{*e}), p.tag)
			}
		}
	}
	if e.Lease > 0 {
		if e.Token < k.newest {
			o.t.Fatalf("%v: the key has had token %d", show([]Effect{*e}), k.newest)
		}
		if o.alive(k) && k.holder != e.Token {
			o.t.Fatalf("%v: %d holds the key", show([]Effect{*e}), k.holder)
		}
		k.holder, k.ends, k.nonce = e.Token, o.now+Time(e.Lease), r.nonce
		o.endHolder(r.key)
	}
	k.newest = max(k.newest, e.Token)
}

// drained checks, when nothing can happen any more, that nobody was
// forgotten.
func (o *observer) drained(live []Session) {
	for _, r := range o.pending {
		if slices.Contains(live, r.session) {
			o.t.Fatalf("#%d was never answered", r.tag)
		}
	}
}
