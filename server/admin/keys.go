package admin

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/stile-lock/stile/protocol"
	"github.com/stile-lock/stile/server/history"
	"github.com/stile-lock/stile/server/node"
)

const (
	defaultKeys, maxKeys       = 100, 10_000 // of a page
	defaultWaiters, maxWaiters = 10, 1000    // of a key
	// maxPageWaiters is how many waiters a page has in all before it ends early.
	maxPageWaiters = 50_000
	// maxTop is how many keys are listed by another order than their own.
	maxTop = 100
	// maxListings is how many listings go on at once: each looks at every key.
	maxListings = 2
)

// listing is the answer to /keys.
type listing struct {
	Active  bool    `json:"active"`
	Node    string  `json:"node"`
	Held    int     `json:"held"`
	Waiting int     `json:"waiting"`
	Keys    []entry `json:"keys"`
	Next    string  `json:"next,omitempty"`
	NextHex string  `json:"next_hex,omitempty"`
}

// textListing has its tokens as text.
type textListing struct {
	listing
	Keys []topKey `json:"keys"`
}

// entry is a key that is held. A token can be greater than what programs keep
// exactly that read every number as a double, so it is there as text, too.
type entry struct {
	key
	Token   uint64    `json:"token"`
	Text    uint64    `json:"token_text,string"`
	Since   time.Time `json:"since"`
	Until   time.Time `json:"until"`
	Holder  client    `json:"holder"`
	Waiting int       `json:"waiting"`
	Waiters []waiter  `json:"waiters,omitempty"`
}

type waiter struct {
	client
	Since time.Time  `json:"since"`
	Until *time.Time `json:"until,omitempty"`
}

func entryOf(k *node.Key) entry {
	e := entry{
		key: keyOf(k.Key), Token: k.Token, Text: k.Token, Since: instant(k.Since), Until: instant(k.Until),
		Holder: clientOf(k.Holder), Waiting: k.Waiting,
	}
	for _, w := range k.Waiters {
		listed := waiter{client: clientOf(w.Client), Since: instant(w.Since)}
		if !w.Until.IsZero() {
			until := instant(w.Until)
			listed.Until = &until
		}
		e.Waiters = append(e.Waiters, listed)
	}
	return e
}

// keys is GET /keys.
func (s *Server) keys(w http.ResponseWriter, r *http.Request) {
	var q query
	values, err := url.ParseQuery(r.URL.RawQuery) // what is malformed is not left out
	if err == nil {
		q, err = queryOf(values)
	}
	if err != nil {
		fail(w, http.StatusBadRequest, "bad-request", err.Error())
		return
	}
	select {
	case s.listings <- struct{}{}:
		defer func() { <-s.listings }()
	case <-r.Context().Done():
		return
	}
	keys, next, err := s.find(r.Context(), q)
	if err != nil {
		return // who asked is gone
	}
	st := s.cfg.Node.Status()
	p := listing{Node: s.cfg.Addr, Held: st.Held, Waiting: st.Waiting, Keys: make([]entry, 0, len(keys))}
	p.Active, _ = s.cfg.Node.Serving()
	if next != nil {
		k := keyOf(next)
		p.Next, p.NextHex = k.Key, k.Hex
	}
	if q.text {
		writeJSON(w, http.StatusOK, textListing{p, topOf(keys)})
		return
	}
	for i := range keys {
		p.Keys = append(p.Keys, entryOf(&keys[i]))
	}
	writeJSON(w, http.StatusOK, p)
}

// find looks for the keys that were asked for, in the order that was asked for.
func (s *Server) find(ctx context.Context, q query) (keys []node.Key, next []byte, err error) {
	switch {
	case q.key != nil:
		if k, ok := s.cfg.Node.Key(q.key, q.Waiters); ok {
			keys = append(keys, k)
		}
		return keys, nil, nil
	case q.order == "":
		return s.cfg.Node.Keys(ctx, q.Query)
	}
	busiest, longest, err := s.cfg.Node.Top(ctx, node.TopQuery{Prefix: q.Prefix, Most: q.Limit, Waiters: q.Waiters})
	if q.order == "busiest" {
		return busiest, nil, err
	}
	return longest, nil, err
}

// query is the parameters of /keys.
type query struct {
	node.Query
	key   []byte // only this one
	order string // busiest, longest; "": that of the keys
	text  bool   // tokens are text
}

// queryOf reads the parameters of /keys.
func queryOf(v url.Values) (q query, err error) {
	q.Query = node.Query{Limit: defaultKeys, Waiters: defaultWaiters, MaxWaiters: maxPageWaiters}
	known := []string{"key", "key_hex", "prefix", "prefix_hex", "after", "after_hex", "limit", "waiters", "order", "tokens"}
	for name, values := range v {
		switch {
		case !slices.Contains(known, name):
			return q, fmt.Errorf("there is no parameter %q: want key, prefix, after (or key_hex, prefix_hex, after_hex), limit, waiters, order, tokens", name)
		case len(values) > 1:
			return q, fmt.Errorf("the parameter %s is given %d times", name, len(values))
		}
	}
	bytesOf := func(name string) ([]byte, error) {
		if v.Has(name) && v.Has(name+"_hex") {
			return nil, fmt.Errorf("give %s or %s_hex, not both", name, name)
		}
		if v.Has(name + "_hex") {
			b, err := hex.DecodeString(v.Get(name + "_hex"))
			if err != nil {
				return nil, fmt.Errorf("%s_hex is no hexadecimal number of bytes: %w", name, err)
			}
			return b, nil
		}
		if v.Has(name) {
			return []byte(v.Get(name)), nil
		}
		return nil, nil
	}
	if q.key, err = bytesOf("key"); err != nil {
		return q, err
	}
	if q.Prefix, err = bytesOf("prefix"); err != nil {
		return q, err
	}
	if q.After, err = bytesOf("after"); err != nil {
		return q, err
	}
	for _, n := range []struct {
		name        string
		to          *int
		least, most int
	}{{"limit", &q.Limit, 1, maxKeys}, {"waiters", &q.Waiters, 0, maxWaiters}} {
		if !v.Has(n.name) {
			continue
		}
		i, err := strconv.Atoi(v.Get(n.name))
		if err != nil || i < n.least || i > n.most {
			return q, fmt.Errorf("%s is %q: want a number from %d to %d", n.name, v.Get(n.name), n.least, n.most)
		}
		*n.to = i
	}
	if q.key != nil && (q.Prefix != nil || q.After != nil || v.Has("order")) {
		return q, errors.New("key asks for one key: leave out prefix, after and order")
	}
	if v.Has("order") {
		q.order = v.Get("order")
		switch o := q.order; {
		case o != "busiest" && o != "longest":
			return q, fmt.Errorf("order is %q: want busiest or longest, or leave it out for the order of the keys", o)
		case q.After != nil:
			return q, errors.New("after is for the order of the keys: leave out order")
		case q.Limit > maxTop:
			return q, fmt.Errorf("limit is %d: with order, want at most %d", q.Limit, maxTop)
		}
	}
	if v.Has("tokens") {
		if q.text = v.Get("tokens") == "text"; !q.text {
			return q, fmt.Errorf("tokens is %q: want text, or leave it out for numbers", v.Get("tokens"))
		}
	}
	return q, nil
}

const (
	maxBreakBody = 4096
	// breakWithin is how long a break waits for the standbys, in sync mode.
	breakWithin = 5 * time.Second
)

// broken is the answer to a break that was done.
type broken struct {
	key
	Token     uint64 `json:"token"`
	Text      uint64 `json:"token_text,string"`
	NextToken uint64 `json:"next_token,omitempty"`
	NextText  uint64 `json:"next_token_text,omitempty,string"`
}

// breakLock is POST /break.
func (s *Server) breakLock(w http.ResponseWriter, r *http.Request) {
	http.NewResponseController(w).SetReadDeadline(time.Now().Add(2 * breakWithin))
	k, token, err := readBreak(http.MaxBytesReader(w, r.Body, maxBreakBody))
	if err != nil {
		fail(w, http.StatusBadRequest, "bad-request", err.Error())
		return
	}
	// It goes on when the client does not wait: what is logged must be what
	// has happened.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), breakWithin)
	defer cancel()
	b, err := s.cfg.Node.Break(ctx, k, token)
	if err == nil || errors.Is(err, node.ErrUncertain) {
		s.cfg.Log.Warn("a lock was broken by an operator", slog.String("key", string(k)), slog.Uint64("token", token),
			slog.String("holder", b.Holder.Name), slog.String("holder_address", b.Holder.Addr),
			slog.Uint64("next_token", b.Next), slog.String("asked_by", r.RemoteAddr))
		s.cfg.History.Add(history.Event{
			Time: time.Now(), Kind: history.Break, Key: k, Token: token, NextToken: b.Next,
			Client: b.Holder.Name, Addr: b.Holder.Addr, By: r.RemoteAddr,
		})
	}
	switch {
	case err == nil:
		writeJSON(w, http.StatusOK, broken{keyOf(k), b.Token, b.Token, b.Next, b.Next})
	case errors.Is(err, node.ErrNotHeld):
		fail(w, http.StatusNotFound, "not-held", "nobody holds this key")
	case errors.Is(err, node.ErrOtherToken):
		writeJSON(w, http.StatusConflict, struct {
			failure
			Token uint64 `json:"token"`
			Text  uint64 `json:"token_text,string"`
		}{failure{"token", "the key is held under another token: look who holds it by now"}, b.Token, b.Token})
	case errors.Is(err, node.ErrNotActive):
		writeJSON(w, http.StatusMisdirectedRequest, struct {
			failure
			Active string `json:"active"`
		}{failure{"not-active", "another node is active: ask its admin port"}, b.Active})
	case errors.Is(err, node.ErrNoActive):
		fail(w, http.StatusServiceUnavailable, "no-active", "this node can't change its table at the moment: try again")
	default:
		fail(w, http.StatusServiceUnavailable, "uncertain", "the lock was broken, but the standbys that answers wait for do not know yet: if this node dies now, the old holder may have it again; look who holds it")
	}
}

// readBreak reads what to break.
func readBreak(body io.Reader) (k []byte, token uint64, err error) {
	const want = `want {"key": "…", "token": 123}, or "key_hex" with the key in hexadecimal, "token_text": "123" with the token as text`
	var q struct {
		Key   *string `json:"key"`
		Hex   *string `json:"key_hex"`
		Token *uint64 `json:"token"`
		Text  *uint64 `json:"token_text,string"`
	}
	dec := json.NewDecoder(body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&q); err != nil {
		return nil, 0, fmt.Errorf("the body can't be read: %w; %s", err, want)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, 0, errors.New("there is more than one JSON value in the body; " + want)
	}
	if q.Token == nil {
		q.Token = q.Text
	}
	switch {
	case q.Text != nil && *q.Text != *q.Token:
		return nil, 0, errors.New("token and token_text are not the same: whatever read the token as a number has rounded it, so leave token out; " + want)
	case (q.Key == nil) == (q.Hex == nil):
		return nil, 0, errors.New("there must be a key, or a key_hex; " + want)
	case q.Token == nil || *q.Token == 0:
		return nil, 0, errors.New("there is no token: it says which grant is meant; " + want)
	case q.Key != nil:
		k = []byte(*q.Key)
	default:
		if k, err = hex.DecodeString(*q.Hex); err != nil {
			return nil, 0, fmt.Errorf("key_hex: %w; %s", err, want)
		}
	}
	if !protocol.ValidKey(k) {
		return nil, 0, fmt.Errorf("%q is no key: it has 1 to %d bytes without spaces and control characters", k, protocol.MaxKey)
	}
	return k, *q.Token, nil
}
