package adminapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// server answers one request with a status and a body, and keeps what it got.
func server(t *testing.T, status int, body string) (addr string, got *http.Request, sent *string) {
	t.Helper()
	got, sent = new(http.Request), new(string)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		*got, *sent = *r, string(b)
		w.WriteHeader(status)
		io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://"), got, sent
}

func TestBreak(t *testing.T) {
	addr, got, sent := server(t, 200, `{"key": "k", "token": 7, "next_token": 8}`)
	c := &Client{Secret: "s"}
	b, err := c.Break(t.Context(), addr, "k", 7)
	if err != nil || *b != (Broken{Key: "k", Token: 7, NextToken: 8}) {
		t.Fatalf("%+v, %v", b, err)
	}
	if got.Method != "POST" || got.URL.Path != "/break" || got.Header.Get("Authorization") != "Bearer s" {
		t.Errorf("%s %s %v", got.Method, got.URL, got.Header)
	}
	if *sent != `{"key":"k","token":7}` {
		t.Errorf("sent %s", *sent)
	}
	if _, err := c.Break(t.Context(), addr, "\xff", 7); err != nil || *sent != `{"key_hex":"ff","token":7}` {
		t.Errorf("sent %s, %v", *sent, err)
	}

	// Done, but the standbys do not know.
	addr, _, _ = server(t, 503, `{"error": "uncertain", "message": "the lock was broken, but"}`)
	if b, err := c.Break(t.Context(), addr, "k", 7); err != nil || !b.Uncertain || b.Token != 7 {
		t.Errorf("%+v, %v", b, err)
	}
	for _, test := range []struct {
		status int
		body   string
		want   Error
	}{
		{409, `{"error": "token", "token": 9}`, Error{Status: 409, Code: "token", Token: 9}},
		{421, `{"error": "not-active", "active": "a:1"}`, Error{Status: 421, Code: "not-active", Active: "a:1"}},
		{503, `{"error": "no-active"}`, Error{Status: 503, Code: "no-active"}},
		{500, `oops`, Error{Status: 500}},
	} {
		addr, _, _ := server(t, test.status, test.body)
		_, err := c.Break(t.Context(), addr, "k", 7)
		var e *Error
		if test.want.Addr = addr; !errors.As(err, &e) || *e != test.want {
			t.Errorf("%+v, want %+v", err, test.want)
		}
	}
}

func TestKeys(t *testing.T) {
	addr, got, _ := server(t, 200, `{"active": true, "node": "n:1", "held": 2, "keys": [
		{"key": "a", "token": 5, "since": "2026-01-02T03:04:05.5Z", "until": "2026-01-02T03:04:35Z", "holder": {"client": "me", "addr": "h:9"},
		 "waiting": 1, "waiters": [{"client": "w", "addr": "", "since": "2026-01-02T03:04:05Z"}]},
		{"key_hex": "ff00", "token": 6, "holder": {}}], "next_hex": "ff00"}`)
	c := new(Client)
	q := Query{Prefix: "a/b c", Limit: 10, Waiters: 3}
	p, err := c.Keys(t.Context(), addr, q)
	if err != nil {
		t.Fatal(err)
	}
	if v := got.URL.Query(); v.Get("prefix") != "a/b c" || v.Get("limit") != "10" || v.Get("waiters") != "3" {
		t.Errorf("asked %s", got.URL)
	}
	if len(p.Keys) != 2 || p.Keys[1].Key != "\xff\x00" || p.Keys[0].Waiters[0].Client != "w" || p.Keys[0].Waiters[0].Until != nil || !p.More() {
		t.Errorf("%+v", p)
	}
	if p.Keys[0].Since.Sub(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) != 500*time.Millisecond {
		t.Errorf("since %v", p.Keys[0].Since)
	}
	// The next page, and what is printed as JSON is as nodes write it.
	if _, err := c.Keys(t.Context(), addr, q.After(p)); err != nil || got.URL.Query().Get("after_hex") != "ff00" || got.URL.Query().Get("prefix") != "a/b c" {
		t.Errorf("asked %s, %v", got.URL, err)
	}
	b, err := json.Marshal(p.Keys[1])
	if err != nil || !strings.Contains(string(b), `"key_hex":"ff00"`) || strings.Contains(string(b), `"key":`) {
		t.Errorf("%s, %v", b, err)
	}
}

// The secret goes where it is meant to go, and nowhere else.
func TestSecretStaysHere(t *testing.T) {
	stolen := ""
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { stolen += r.Header.Get("Authorization") }))
	defer thief.Close()
	s := httptest.NewServer(http.RedirectHandler(thief.URL, http.StatusTemporaryRedirect))
	defer s.Close()
	c := &Client{Secret: "s"}
	if _, err := c.Status(t.Context(), strings.TrimPrefix(s.URL, "http://")); err == nil || stolen != "" {
		t.Errorf("a redirect was followed: %v, %q", err, stolen)
	}
	// In the clear to others only if the address says so.
	_, err := c.Status(t.Context(), "192.0.2.1:5626")
	if err == nil || !strings.Contains(err.Error(), "anybody can read") {
		t.Errorf("%v", err)
	}
	if base, err := c.base("http://192.0.2.1:5626"); err != nil || base != "http://192.0.2.1:5626" {
		t.Errorf("%q, %v", base, err)
	}
}

func TestWhatAnswersIsNoNode(t *testing.T) {
	addr, _, _ := server(t, 404, "404 page not found")
	if _, err := new(Client).Status(t.Context(), addr); err == nil || !strings.Contains(err.Error(), "is this the admin port") {
		t.Errorf("%v", err)
	}
	addr, _, _ = server(t, 200, "<html>")
	if _, err := new(Client).Status(t.Context(), addr); err == nil || !strings.Contains(err.Error(), "is this the admin port") {
		t.Errorf("%v", err)
	}
	addr, _, _ = server(t, 401, `{"error": "unauthorized", "message": "…"}`)
	if _, err := new(Client).Status(t.Context(), addr); err == nil || !strings.Contains(err.Error(), "--admin-secret-file") {
		t.Errorf("%v", err)
	}
	if _, err := new(Client).Status(t.Context(), "nonsense"); err == nil || !strings.Contains(err.Error(), "host:port") {
		t.Errorf("%v", err)
	}
}

// Once the active has told of its keys, who is silent holds up nothing.
func TestEnoughPages(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	active := true
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"active": %v, "node": "a", "keys": []}`, active)
	}))
	defer s.Close()
	c := &Client{Addrs: []string{silent.Addr().String(), s.Listener.Addr().String()}, Within: time.Hour}
	began := time.Now()
	pages := c.EnoughPages(t.Context(), Query{Limit: 1}) // and not after an hour
	b := Best(pages)
	if b == nil || !b.Got.Active || pages[0].Err == nil || time.Since(b.At) < graceForOthers/2 || b.At.Before(began) {
		t.Errorf("%+v, %+v", b, pages)
	}
	// Where a standby alone told, the others are waited for.
	active, c.Within = false, 500*time.Millisecond
	if pages = c.EnoughPages(t.Context(), Query{Limit: 1}); !Silent(pages[0].Err) || pages[1].Got == nil {
		t.Errorf("%+v", pages)
	}
}
