// Package adminapi asks the admin servers of nodes: who is what, who holds
// which key, and to break a lock.
package adminapi

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/stile-lock/stile/tools/cmd/stile/shown"
)

// Client asks a list of admin servers.
type Client struct {
	// Addrs are host:port, or whole http:// or https:// addresses. Without
	// http:// or https:// it is HTTPS if TLS is set and the host is not
	// this machine, as nodes do it. The secret goes to others over plain HTTP
	// only if the address says http://.
	Addrs  []string
	Secret string      // "": none
	TLS    *tls.Config // nil: only http, and https with the system's authorities
	// Within bounds one question, as a node that is stopped accepts, but never
	// answers; 0 is 3 s. A break has three times as long: it may wait for
	// standbys.
	Within time.Duration

	once sync.Once
	http *http.Client
}

const defaultWithin = 3 * time.Second

// maxBody bounds what is read of an answer.
const maxBody = 64 << 20

// Error is an answer that is not the wanted one. Its text says what to do.
type Error struct {
	Addr    string
	Status  int    // of HTTP
	Code    string // "error" in the body, "" if there is none
	Message string
	Token   uint64 // with code "token": of who holds the key
	Active  string // with code "not-active": where clients find the active, "" if unknown
}

func (e *Error) Error() string {
	switch {
	case e.Status == http.StatusUnauthorized:
		return e.Addr + " asks for a secret, or for another one: give --admin-secret-file (or --secret-file, if the nodes have no admin secret of their own)"
	case e.Code == "too-many-failures":
		return e.Addr + ": " + e.Message + ". The right one is not looked at either; the node's log names the address, under 'has another secret'"
	case e.Code != "" && e.Message != "":
		return e.Addr + ": " + e.Code + ": " + e.Message
	case e.Code != "":
		return e.Addr + ": " + e.Code
	}
	return fmt.Sprintf("%s: answered %d %s: is this the admin port of a node?", e.Addr, e.Status, http.StatusText(e.Status))
}

// SettingsError tells of a server that is there, but not as the settings of
// this client have it.
type SettingsError struct {
	Addr string
	Text string // what is wrong, and what to do
}

func (e *SettingsError) Error() string { return e.Addr + " " + e.Text }

// SilentError tells of a server that did not answer in time. Whether it is there
// nobody knows: the process or its machine stands still, or the network drops
// what is sent.
type SilentError struct {
	Addr   string
	Within time.Duration
}

func (e *SilentError) Error() string { return fmt.Sprintf("%s: no answer within %v", e.Addr, e.Within) }

// Status is what a node tells of itself. Fields that a node does not know are
// zero.
type Status struct {
	Version     string    `json:"version"`
	Addr        string    `json:"addr"` // that clients use
	Role        string    `json:"role"` // "" before there were roles outside of clusters
	Started     time.Time `json:"started"`
	Epoch       uint64    `json:"epoch"`
	Connections int       `json:"connections"`
	Held        int       `json:"held"`
	Waiting     int       `json:"waiting"`
	Stopping    bool      `json:"stopping"`
	Ready       *bool     `json:"ready,omitempty"` // as /readyz has it
	Counts      *Counts   `json:"counts,omitempty"`
	Problems    []string  `json:"problems,omitempty"` // of the node itself
	Cluster     *Cluster  `json:"cluster,omitempty"`
}

// Counts only ever rise while a node runs.
type Counts struct {
	Grants      map[string]uint64 `json:"grants"`
	GrantsEnded map[string]uint64 `json:"grants_ended"`
	Timeouts    map[string]uint64 `json:"timeouts"`
	Keeps       uint64            `json:"keeps"`
}

// Cluster is a node's view of its cluster.
type Cluster struct {
	ID       int    `json:"id"`
	Role     string `json:"role"`
	Why      string `json:"why"`
	Mode     string `json:"mode"` // how clients are answered
	Epoch    string `json:"epoch"`
	Active   int    `json:"active"` // id, -1: none known
	Complete bool   `json:"complete"`
	Stopping bool   `json:"stopping"`
	Sync     bool   `json:"sync"`
	InSync   []int  `json:"in_sync,omitempty"`
	Handoff  string `json:"handoff,omitempty"`
	Peers    []Peer `json:"peers"`
}

// Peer is another node as one sees it.
type Peer struct {
	ID      int      `json:"id"`
	Addr    string   `json:"addr"`
	Role    string   `json:"role"`
	Reached bool     `json:"reached"`
	There   bool     `json:"there,omitempty"` // not reached, and yet it answers
	Problem string   `json:"problem,omitempty"`
	Fed     bool     `json:"fed"`
	Lag     *uint64  `json:"lag,omitempty"`
	Silent  *float64 `json:"silent_s,omitempty"`
}

// Serves reports whether the node answers clients itself.
func (s *Status) Serves() bool {
	if s.Cluster != nil {
		return s.Cluster.Mode == "serve" && !s.Stopping
	}
	return !s.Stopping
}

// ActiveAddr is where clients find the active, as far as the node knows: ""
// if it knows none.
func (s *Status) ActiveAddr() string {
	c := s.Cluster
	switch {
	case s.Serves():
		return s.Addr
	case c == nil || c.Active < 0:
		return ""
	}
	for _, p := range c.Peers {
		if p.ID == c.Active {
			return p.Addr
		}
	}
	return ""
}

// Unready says why a node is not ready, as far as its status tells; "" if it is.
func (s *Status) Unready() string {
	switch {
	case s.Ready == nil || *s.Ready:
		return ""
	case s.Stopping:
		return "it is about to end"
	case s.Cluster != nil && s.Cluster.Mode == "redirect" && !s.Cluster.Complete:
		return "it has not got the whole table of the active yet"
	}
	return "its /readyz says why"
}

// RoleName is the role in a word.
func (s *Status) RoleName() string {
	switch {
	case s.Stopping:
		return "stopping"
	case s.Cluster != nil:
		return s.Cluster.Role
	}
	return "alone"
}

// ClientsAre says how a node answers clients.
func (c *Cluster) ClientsAre() string {
	switch c.Mode {
	case "serve":
		return "served"
	case "redirect":
		return "redirected"
	case "hold", "freeze":
		return "kept waiting"
	case "refuse":
		return "refused"
	}
	return shown.Text(c.Mode)
}

// Key is a key, which need not be text.
type Key string

// keyFields is how JSON has a key.
type keyFields struct {
	Key *string `json:"key,omitempty"`
	Hex *string `json:"key_hex,omitempty"`
}

func (f keyFields) key() (Key, error) {
	if f.Hex != nil {
		b, err := hex.DecodeString(*f.Hex)
		return Key(b), err
	}
	if f.Key != nil {
		return Key(*f.Key), nil
	}
	return "", errors.New("a key is missing")
}

func fieldsOf(k Key) keyFields {
	text := string(k)
	if !utf8.ValidString(text) {
		text = hex.EncodeToString([]byte(text))
		return keyFields{Hex: &text}
	}
	return keyFields{Key: &text}
}

// Holding is a key that is held.
type Holding struct {
	Key     Key
	Token   uint64
	Since   time.Time
	Until   time.Time
	Holder  Who
	Waiting int
	Waiters []Waiter
}

type holdingJSON struct {
	keyFields
	Token   uint64    `json:"token"`
	Text    uint64    `json:"token_text,string"` // the same, see the node's
	Since   time.Time `json:"since"`
	Until   time.Time `json:"until"`
	Holder  Who       `json:"holder"`
	Waiting int       `json:"waiting"`
	Waiters []Waiter  `json:"waiters,omitempty"`
}

// MarshalJSON writes it as nodes do.
func (h Holding) MarshalJSON() ([]byte, error) {
	return json.Marshal(holdingJSON{fieldsOf(h.Key), h.Token, h.Token, h.Since, h.Until, h.Holder, h.Waiting, h.Waiters})
}

// UnmarshalJSON reads what nodes write.
func (h *Holding) UnmarshalJSON(b []byte) error {
	var j holdingJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	k, err := j.key()
	*h = Holding{k, j.Token, j.Since, j.Until, j.Holder, j.Waiting, j.Waiters}
	return err
}

// Who is a client: its name and address, "" where a node does not know them.
// It is gone if its connection has ended: what it holds it still holds.
type Who struct {
	Client string `json:"client"`
	Addr   string `json:"addr"`
	Gone   bool   `json:"gone,omitempty"`
}

// Waiter stands in line.
type Waiter struct {
	Who
	Since time.Time  `json:"since"`
	Until *time.Time `json:"until,omitempty"` // nil: without limit
}

// Page is some of a node's keys, in order.
type Page struct {
	Active  bool      `json:"active"` // the node serves; else it tells its copy
	Node    string    `json:"node"`
	Held    int       `json:"held"`
	Waiting int       `json:"waiting"`
	Keys    []Holding `json:"keys"`
	Next    string    `json:"next,omitempty"`
	NextHex string    `json:"next_hex,omitempty"`
}

// More reports whether there are keys behind this page.
func (p *Page) More() bool { return p.Next != "" || p.NextHex != "" }

// Query says which keys.
type Query struct {
	Prefix  string
	Limit   int // 1 to 10,000
	Waiters int // of each key, at most
	order   string
	after   url.Values
}

// After is the query for what comes behind a page.
func (q Query) After(p *Page) Query {
	q.after = url.Values{}
	if p.NextHex != "" {
		q.after.Set("after_hex", p.NextHex)
	} else {
		q.after.Set("after", p.Next)
	}
	return q
}

// Broken is a lock that was broken.
type Broken struct {
	Key       Key
	Token     uint64
	NextToken uint64 // of the first in line, who has the key now; 0: nobody waited
	// Uncertain: it was broken, but the standbys do not know yet. If the node
	// dies now, the old holder may have the key again. NextToken is 0 then,
	// whether or not somebody waited.
	Uncertain bool
}

// Status asks one of the servers.
func (c *Client) Status(ctx context.Context, addr string) (*Status, error) {
	s := new(Status)
	return s, c.do(ctx, http.MethodGet, addr, "/status", nil, s)
}

// Keys asks one of the servers.
func (c *Client) Keys(ctx context.Context, addr string, q Query) (*Page, error) {
	v := url.Values{"limit": {strconv.Itoa(q.Limit)}, "waiters": {strconv.Itoa(q.Waiters)}}
	if q.Prefix != "" {
		if utf8.ValidString(q.Prefix) {
			v.Set("prefix", q.Prefix)
		} else {
			v.Set("prefix_hex", hex.EncodeToString([]byte(q.Prefix)))
		}
	}
	if q.order != "" {
		v.Set("order", q.order)
	}
	for name, values := range q.after {
		v[name] = values
	}
	p := new(Page)
	return p, c.do(ctx, http.MethodGet, addr, "/keys?"+v.Encode(), nil, p)
}

// MaxTop is how many keys of each kind Top returns at most.
const MaxTop = 100

// Top asks one of the servers for the keys that most wait for, and then for
// those that have been held for longest.
func (c *Client) Top(ctx context.Context, addr string) (*Page, error) {
	p, err := c.Keys(ctx, addr, Query{Limit: MaxTop, order: "busiest"})
	if err != nil {
		return nil, err
	}
	longest, err := c.Keys(ctx, addr, Query{Limit: MaxTop, order: "longest"})
	if err != nil {
		return nil, err
	}
	for _, h := range longest.Keys {
		if !slices.ContainsFunc(p.Keys, func(b Holding) bool { return b.Key == h.Key }) {
			p.Keys = append(p.Keys, h)
		}
	}
	return p, nil
}

// graceForOthers is how long the others are waited for once an active has told.
const graceForOthers = 200 * time.Millisecond

// EnoughPages asks every server for keys, until all have answered, or an active
// has: then the rest has failed.
func (c *Client) EnoughPages(ctx context.Context, q Query) []Answer[Page] {
	ctx, enough := context.WithCancel(ctx)
	defer enough()
	return All(ctx, c, func(ctx context.Context, addr string) (*Page, error) {
		p, err := c.Keys(ctx, addr, q)
		if err == nil && p.Active {
			time.AfterFunc(graceForOthers, enough)
		}
		return p, err
	})
}

// Best is the active's answer, or else any; nil if there is none.
func Best(pages []Answer[Page]) *Answer[Page] {
	var best *Answer[Page]
	for i, p := range pages {
		if p.Got != nil && (best == nil || p.Got.Active && !best.Got.Active) {
			best = &pages[i]
		}
	}
	return best
}

// Break asks one of the servers.
func (c *Client) Break(ctx context.Context, addr string, key Key, token uint64) (*Broken, error) {
	body, err := json.Marshal(struct {
		keyFields
		Token uint64 `json:"token"`
	}{fieldsOf(key), token})
	if err != nil {
		return nil, err
	}
	var answer struct {
		Token     uint64 `json:"token"`
		NextToken uint64 `json:"next_token"`
	}
	err = c.do(ctx, http.MethodPost, addr, "/break", body, &answer)
	var e *Error
	if errors.As(err, &e) && e.Code == "uncertain" {
		return &Broken{Key: key, Token: token, Uncertain: true}, nil
	}
	if err != nil {
		return nil, err
	}
	return &Broken{Key: key, Token: answer.Token, NextToken: answer.NextToken}, nil
}

func (c *Client) do(ctx context.Context, method, addr, path string, body []byte, to any) error {
	within := cmp.Or(c.Within, defaultWithin)
	if method == http.MethodPost {
		within *= 3
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	base, err := c.base(addr)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, base+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("--admin %q is not an address: want host:port", addr)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.Secret != "" {
		// Whoever writes http:// knows that it is readable on the way.
		if base == "http://"+addr && !loopback(req.URL.Hostname()) {
			return fmt.Errorf("%s: the admin secret does not go over a connection that anybody can read: give --tls or --tls-ca, ask over a tunnel, or write http://%[1]s where the network is closed", addr)
		}
		req.Header.Set("Authorization", "Bearer "+c.Secret)
	}
	c.once.Do(func() {
		c.http = &http.Client{
			Transport: &http.Transport{TLSClientConfig: c.TLS, MaxIdleConnsPerHost: 2, IdleConnTimeout: 30 * time.Second},
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse // nodes send none; nobody else gets the secret
			},
		}
	})
	resp, err := c.http.Do(req)
	if err != nil {
		return reason(ctx, addr, err, within)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return reason(ctx, addr, err, within)
	}
	if resp.StatusCode != http.StatusOK {
		e := &Error{Addr: addr, Status: resp.StatusCode}
		var f struct {
			Error, Message string
			Token          uint64
			Active         string
		}
		if json.Unmarshal(b, &f) == nil {
			e.Code, e.Message, e.Token, e.Active = f.Error, f.Message, f.Token, f.Active
		} else if bytes.Contains(b, []byte("HTTPS server")) {
			return &SettingsError{addr, "speaks HTTPS: give --tls or --tls-ca, and https:// before an address of this machine"}
		}
		return e
	}
	if err := json.Unmarshal(b, to); err != nil {
		return fmt.Errorf("%s: the answer is not what a node says: %w; is this the admin port?", addr, err)
	}
	return nil
}

// reason makes what net/http says short.
func reason(ctx context.Context, addr string, err error, within time.Duration) error {
	if ctx.Err() == context.DeadlineExceeded {
		return &SilentError{addr, within}
	}
	if errors.Is(err, http.ErrSchemeMismatch) {
		return &SettingsError{addr, "speaks no HTTPS: give its address with http://, or without --tls and --tls-ca"}
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil && op.Op == "dial" {
		return fmt.Errorf("%s: %w", addr, op.Err)
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return fmt.Errorf("%s: %w", addr, err)
}

func (c *Client) base(addr string) (string, error) {
	if strings.HasPrefix(addr, "http://") || strings.HasPrefix(addr, "https://") {
		return strings.TrimRight(addr, "/"), nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("--admin %q is not an address: want host:port or [v6]:port, like 127.0.0.1:5626", addr)
	}
	if c.TLS != nil && !loopback(host) {
		return "https://" + addr, nil
	}
	return "http://" + addr, nil
}

func loopback(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.IsLoopback()
	}
	return strings.EqualFold(host, "localhost")
}

// Answer is what one server answered.
type Answer[T any] struct {
	Addr string // of the admin server
	Got  *T     // nil: see Err
	Err  error
	At   time.Time // when it came
}

// All asks every server at the same time; the answers are in their order.
func All[T any](ctx context.Context, c *Client, ask func(ctx context.Context, addr string) (*T, error)) []Answer[T] {
	answers := make([]Answer[T], len(c.Addrs))
	var wg sync.WaitGroup
	for i, addr := range c.Addrs {
		wg.Go(func() {
			got, err := ask(ctx, addr)
			if err != nil {
				got = nil
			}
			answers[i] = Answer[T]{addr, got, err, time.Now()}
		})
	}
	wg.Wait()
	return answers
}
