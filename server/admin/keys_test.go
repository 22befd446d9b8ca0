package admin

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stile-lock/stile/server/cluster"
	"github.com/stile-lock/stile/server/history"
	"github.com/stile-lock/stile/server/node"
	"github.com/stile-lock/stile/server/replica"
)

func decode(t *testing.T, body string) (v map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return v
}

func TestKeys(t *testing.T) {
	n, h := newHandler(t)
	connect(t, n, 2, "H 1 shop/7\nA door 0 600\nA door 0 600\n")
	connect(t, n, 2, "A window 0 60\nA door 5 600\nP x\n")
	code, body, _ := get(h, "GET", "/keys")
	got := decode(t, body)
	if code != 200 {
		t.Fatalf("%d %s", code, body)
	}
	for path, want := range map[string]any{
		"active": true, "node": "127.0.0.1:5625", "held": 2.0, "waiting": 2.0, "next": nil, "next_hex": nil,
		"keys.0.key": "door", "keys.0.key_hex": nil, "keys.0.token": 1.0, "keys.0.token_text": "1", "keys.0.holder.client": "shop/7", "keys.0.waiting": 2.0,
		"keys.0.waiters.0.client": "shop/7", "keys.0.waiters.0.until": nil, "keys.0.waiters.1.client": "",
		"keys.1.key": "window", "keys.1.waiting": 0.0, "keys.1.waiters": nil, "keys.1.holder.client": "", "keys.2": nil,
	} {
		if has := at(got, path); has != want {
			t.Errorf("%s is %v, want %v", path, has, want)
		}
	}
	moment := func(path string) time.Time {
		t.Helper()
		s, _ := at(got, path).(string)
		v, err := time.Parse(time.RFC3339Nano, s)
		if err != nil || !strings.HasSuffix(s, "Z") {
			t.Errorf("%s is %q: %v", path, s, err)
		}
		return v
	}
	now := time.Now()
	if d := moment("keys.0.until").Sub(moment("keys.0.since")); d < 599*time.Second || d > 601*time.Second {
		t.Errorf("a lease of %v", d)
	}
	if d := moment("keys.0.waiters.1.until").Sub(now); d > 5*time.Second || d < -20*time.Second {
		t.Errorf("it waits until %v from now", d)
	}
	for _, path := range []string{"keys.0.since", "keys.1.since", "keys.0.waiters.0.since"} {
		if age := now.Sub(moment(path)); age < -time.Millisecond || age > 20*time.Second {
			t.Errorf("%s was %v ago", path, age)
		}
	}
	if addr, _ := at(got, "keys.0.holder.addr").(string); addr == "" {
		t.Error("the holder has no address")
	}
	for order, first := range map[string]string{"busiest": "door", "longest": "door"} {
		_, body, _ = get(h, "GET", "/keys?tokens=text&limit=1&order="+order)
		got := decode(t, body)
		if at(got, "keys.0.key") != first || at(got, "keys.0.token") != "1" || at(got, "keys.0.waiters.1.client") != "" || at(got, "keys.1") != nil || at(got, "held") != 2.0 {
			t.Errorf("the %s: %s", order, body)
		}
	}
	_, body, _ = get(h, "GET", "/keys?order=longest&prefix=w")
	if got := decode(t, body); at(got, "keys.0.key") != "window" || at(got, "keys.0.token") != 2.0 || at(got, "keys.1") != nil {
		t.Errorf("of those that begin with w: %s", body)
	}
	_, body, _ = get(h, "GET", "/keys?key_hex=646f6f72&waiters=1")
	if got := decode(t, body); at(got, "keys.0.key") != "door" || at(got, "keys.0.waiting") != 2.0 || at(got, "keys.0.waiters.1") != nil || at(got, "keys.1") != nil {
		t.Errorf("one key: %s", body)
	}
	if _, body, _ = get(h, "GET", "/keys?key=doo"); at(decode(t, body), "keys.0") != nil {
		t.Errorf("a key that nobody holds: %s", body)
	}
	_, body, _ = get(h, "GET", "/keys?waiters=1&prefix=d")
	if got = decode(t, body); at(got, "keys.0.waiters.1") != nil || at(got, "keys.0.waiting") != 2.0 || at(got, "keys.1") != nil {
		t.Error(body)
	}
}

// All pages together have each key once, in bytewise order, whatever bytes
// are in it.
func TestKeysByPages(t *testing.T) {
	n, h := newHandler(t)
	var lines strings.Builder
	var want []string
	for i := range 256 {
		if i > 0x20 && i != 0x7f && i != '?' {
			want = append(want, string([]byte{byte(i)}), "p"+string([]byte{byte(i)}))
		}
	}
	for _, k := range want {
		fmt.Fprintf(&lines, "A %s 0 600\n", k)
	}
	connect(t, n, len(want), lines.String())
	list := func(limit int, prefix string) (keys []string) {
		q := url.Values{"limit": {fmt.Sprint(limit)}}
		if prefix != "" {
			q.Set("prefix", prefix)
		}
		for pages := 0; ; pages++ {
			if pages > len(want) {
				t.Fatal("there is no last page")
			}
			code, body, _ := get(h, "GET", "/keys?"+q.Encode())
			var p listing
			if err := json.Unmarshal([]byte(body), &p); code != 200 || err != nil || len(p.Keys) > limit {
				t.Fatal(code, err, body)
			}
			for _, e := range p.Keys {
				if e.Hex != "" {
					b, err := hex.DecodeString(e.Hex)
					if err != nil || e.Key != "" {
						t.Fatal(e, err)
					}
					keys = append(keys, string(b))
				} else {
					keys = append(keys, e.Key)
				}
			}
			q.Del("after")
			q.Del("after_hex")
			switch {
			case p.Next != "":
				q.Set("after", p.Next)
			case p.NextHex != "":
				q.Set("after_hex", p.NextHex)
			default:
				return keys
			}
		}
	}
	sorted := func(prefix string) []string {
		keys := slices.DeleteFunc(slices.Clone(want), func(k string) bool { return !strings.HasPrefix(k, prefix) })
		slices.Sort(keys)
		return keys
	}
	for _, limit := range []int{1, 7, 100, len(want), 10_000} {
		if diff := cmp.Diff(sorted(""), list(limit, "")); diff != "" {
			t.Errorf("pages of %d: %s", limit, diff)
		}
	}
	if diff := cmp.Diff(sorted("p"), list(10, "p")); diff != "" {
		t.Error(diff)
	}
}

func TestKeysRefuses(t *testing.T) {
	_, h := newHandler(t)
	for _, q := range []string{
		"limit=0", "limit=10001", "limit=x", "limit=", "waiters=-1", "waiters=1001", "prefix_hex=0", "after_hex=zz",
		"prefix=a&prefix_hex=61", "after=a&after_hex=61", "key=a&prefix=a", "key=a&after=a", "key=a&order=longest", "key=a&key_hex=61", "k=a", "limit=1&limit=2",
		"order=", "order=key", "order=longest&after=a", "order=busiest&limit=101", "tokens=", "tokens=hex", "key=%zz", "key=a;b", "prefix=a%",
	} {
		if code, body, _ := get(h, "GET", "/keys?"+q); code != 400 || at(decode(t, body), "error") != "bad-request" {
			t.Errorf("%s: %d %s", q, code, body)
		}
	}
	if code, body, _ := get(h, "GET", "/keys"); code != 200 || !strings.Contains(body, `"keys": []`) {
		t.Errorf("nothing is held: %d %s", code, body)
	}
}

func TestBreak(t *testing.T) {
	n := newNode(t)
	s := newServer(t, n, "s3cret")
	var log bytes.Buffer
	s.cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	h := s.handler()
	connect(t, n, 2, "H 1 shop/7\nA door 0 600\nA door 0 600\n")
	connect(t, n, 1, "A \xff 0 600\n")
	for _, tc := range []struct {
		name, body string
		code       int
		want       map[string]any
	}{
		{"nobody holds it", `{"key":"window","token":1}`, 404, map[string]any{"error": "not-held"}},
		{"another token", `{"key":"door","token":7}`, 409, map[string]any{"error": "token", "token": 1.0, "token_text": "1"}},
		{"with a waiter", `{"key":"door","token_text":"1"}`, 200, map[string]any{"key": "door", "token": 1.0, "token_text": "1", "next_token": 3.0, "next_token_text": "3"}},
		{"the same again", `{"key":"door","token":1,"token_text":"1"}`, 409, map[string]any{"error": "token", "token": 3.0}},
		{"without a waiter", `{"key_hex":"ff","token":2}`, 200, map[string]any{"key_hex": "ff", "token": 2.0, "next_token": nil, "next_token_text": nil}},
		{"and again", `{"key_hex":"ff","token":2}`, 404, map[string]any{"error": "not-held"}},
	} {
		w := request(h, "POST", "http://x/break", far, "s3cret", tc.body)
		got := decode(t, w.Body.String())
		if w.Code != tc.code {
			t.Errorf("%s: %d %s", tc.name, w.Code, w.Body)
		}
		for field, want := range tc.want {
			if got[field] != want {
				t.Errorf("%s: %s is %v, want %v", tc.name, field, got[field], want)
			}
		}
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 2 {
		t.Errorf("it logs %q", lines)
	}
	for _, part := range []string{"level=WARN", "key=door", "token=1", "next_token=3", "holder=shop/7", "asked_by=" + far} {
		if !strings.Contains(lines[0], part) {
			t.Errorf("no %s in %s", part, lines[0])
		}
	}
	if e := s.cfg.History.Last()[1]; e.Kind != history.Break || string(e.Key) != "door" || e.Token != 1 || e.NextToken != 3 || e.Client != "shop/7" || e.By != far {
		t.Errorf("the history has %+v", e)
	}
	w := request(h, "GET", "http://x/status", far, "s3cret", "")
	got := decode(t, w.Body.String())
	for path, want := range map[string]any{
		"changes.0.kind": "break", "changes.0.key_hex": "ff", "changes.1.key": "door", "changes.1.token": 1.0,
		"changes.0.token_text": "2", "changes.0.next_token_text": nil, "changes.1.token_text": "1", "changes.1.next_token_text": "3", "changes.2.token_text": nil,
		"changes.1.next_token": 3.0, "changes.1.holder.client": "shop/7", "changes.1.by": far, "changes.2.kind": "role",
		"counts.grants_ended.broken": 2.0, "counts.grants.handed_over": 1.0,
	} {
		if has := at(got, path); has != want {
			t.Errorf("%s is %v, want %v", path, has, want)
		}
	}
}

func TestBreakRefuses(t *testing.T) {
	s := newServer(t, newNode(t), "s3cret")
	h := s.handler()
	for _, body := range []string{
		"", "{}", "[]", `"door"`, `{"key":"door"}`, `{"token":1}`, `{"key":"door","token":0}`, `{"key":"door","token":-1}`,
		`{"key":"door","token":"1"}`, `{"key":"door","token_text":1}`, `{"key":"door","token_text":"1","token":2}`, `{"key":"door","token_text":"x"}`, `{"key":"door","token_text":"0"}`, `{"key":"door","token":1.5}`, `{"key":"door","key_hex":"61","token":1}`, `{"key_hex":"6","token":1}`,
		`{"key":"","token":1}`, `{"key":"a b","token":1}`, `{"key":"?","token":1}`, `{"key":"door","token":1,"force":true}`,
		`{"key":"door","token":1}{}`, `{"key":"` + strings.Repeat("a", 256) + `","token":1}`, `{"key":"` + strings.Repeat("a", 1<<20) + `","token":1}`,
	} {
		if w := request(h, "POST", "http://x/break", far, "s3cret", body); w.Code != 400 || at(decode(t, w.Body.String()), "error") != "bad-request" {
			t.Errorf("%.60s: %d %s", body, w.Code, w.Body)
		}
	}
	s.cfg.Node.Shutdown(t.Context())
	if w := request(h, "POST", "http://x/break", far, "s3cret", toBreak); w.Code != 503 || at(decode(t, w.Body.String()), "error") != "no-active" {
		t.Errorf("a node that stops: %d %s", w.Code, w.Body)
	}
}

// In sync mode a break goes on when who asked for it has gone, so that what is
// noted is what has happened.
func TestBreakGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		last := uint64(0)
		n := node.New(node.Config{
			Tokens: func() (uint64, bool) { last++; return last, true },
			Cluster: &node.Cluster{
				Sync: true, HoldFor: time.Second, Kick: func() {},
				Clock: func() time.Duration { return 0 }, PauseLimit: time.Hour,
			},
		})
		t.Cleanup(func() { n.Shutdown(context.Background()) })
		log := replica.NewLog(replica.Epoch{N: 1}, replica.Place{}, 0)
		n.Table().SetLog(log)
		n.Table().SetMode(cluster.Serve, "")
		n.Table().Committed(1000)
		connect(t, n, 1, "A k 0 600\n")
		n.Table().Committed(log.Pos())
		s := newServer(t, n, "s3cret")
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		r := httptest.NewRequestWithContext(gone, "POST", "http://x/break", strings.NewReader(`{"key": "k", "token": 1}`))
		r.Header.Set("Authorization", "Bearer s3cret")
		w := httptest.NewRecorder()
		done := make(chan bool)
		go func() { s.handler().ServeHTTP(w, r); close(done) }()
		time.Sleep(time.Second)
		select {
		case <-done:
			t.Fatalf("it did not wait for the standbys: %d %s", w.Code, w.Body)
		default:
		}
		n.Table().Committed(log.Pos())
		<-done
		if e := s.cfg.History.Last()[0]; w.Code != 200 || e.Kind != history.Break || e.Token != 1 {
			t.Errorf("%d %s, noted is %+v", w.Code, w.Body, e)
		}
	})
}
