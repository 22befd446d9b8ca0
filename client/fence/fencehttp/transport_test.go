package fencehttp_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stile-lock/stile/client"
	"github.com/stile-lock/stile/client/fence"
	"github.com/stile-lock/stile/client/fence/fencehttp"
)

// base notes what it is given to send.
type base struct {
	sent   []*http.Request
	closed int
}

func (b *base) CloseIdleConnections() { b.closed++ }

func (b *base) RoundTrip(req *http.Request) (*http.Response, error) {
	b.sent = append(b.sent, req)
	return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody, Request: req}, nil
}

// body notes whether it was closed.
type body struct {
	io.Reader
	closed bool
}

func (b *body) Close() error { b.closed = true; return nil }

func TestTransport(t *testing.T) {
	var b base
	transport := &fencehttp.Transport{Base: &b}
	req := httptest.NewRequest("PUT", "http://example.com/", nil)
	// The grant is what counts, whatever stood there before.
	granted := req.WithContext(fencehttp.WithGrant(t.Context(), fence.NewGrant("k", 7)))
	granted.Header.Set(fencehttp.Header, "6 k")
	for _, r := range []*http.Request{req.WithContext(t.Context()), granted} {
		if _, err := transport.RoundTrip(r); err != nil {
			t.Fatal(err)
		}
	}
	if len(b.sent) != 2 {
		t.Fatalf("%d requests were sent by the base", len(b.sent))
	}
	if got := b.sent[1].Header.Values(fencehttp.Header); len(got) != 1 || got[0] != "7 k" {
		t.Errorf("with a grant the header is %q", got)
	}

	(&http.Client{Transport: transport}).CloseIdleConnections()
	if b.closed != 1 {
		t.Errorf("the idle connections of the base were closed %d times", b.closed)
	}

	// What has no grant although it should is not sent.
	var lock *client.Lock // of an acquire that failed
	for _, none := range []fence.Grant{nil, lock, fence.NewGrant("k", 0)} {
		content := &body{Reader: strings.NewReader("text")}
		r := req.WithContext(fencehttp.WithGrant(t.Context(), none))
		r.Body = content
		if _, err := transport.RoundTrip(r); !errors.Is(err, fence.ErrInvalid) || !content.closed {
			t.Errorf("with the grant %#v: %v; its body is closed: %t", none, err, content.closed)
		}
	}
	if len(b.sent) != 2 {
		t.Errorf("%d requests without a grant were sent", len(b.sent)-2)
	}
}

// The grant follows a redirect within its host, and goes to no other one.
func TestRedirects(t *testing.T) {
	var got map[string]string // by where it arrived
	mux := http.NewServeMux()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got[r.Host+r.URL.Path] = r.Header.Get(fencehttp.Header)
		mux.ServeHTTP(w, r)
	}))
	defer server.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "http://"), ":")
	here, there := "127.0.0.1:"+port, "localhost:"+port
	mux.Handle("/within", http.RedirectHandler("/end", http.StatusTemporaryRedirect))
	mux.Handle("/away", http.RedirectHandler("http://"+there+"/back", http.StatusTemporaryRedirect))
	mux.Handle("/back", http.RedirectHandler("http://"+here+"/end", http.StatusTemporaryRedirect))
	mux.HandleFunc("/end", func(http.ResponseWriter, *http.Request) {})

	// Whatever the names lead to, it is this server.
	hc := &http.Client{Transport: &fencehttp.Transport{Base: &http.Transport{DialContext: dialTo(server.Listener.Addr().String())}}}
	send := func(path string) map[string]string {
		got = map[string]string{}
		req, err := http.NewRequestWithContext(fencehttp.WithGrant(t.Context(), fence.NewGrant("k", 7)), "PUT", "http://"+here+path, strings.NewReader("text"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(fencehttp.Header, "by hand")
		resp, err := hc.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return got
	}
	if got := send("/within"); len(got) != 2 || got[here+"/within"] != "7 k" || got[here+"/end"] != "7 k" {
		t.Errorf("within the host: %q", got)
	}
	if got := send("/away"); len(got) != 3 || got[here+"/away"] != "7 k" || got[there+"/back"] != "" || got[here+"/end"] != "" {
		t.Errorf("to another host and back: %q", got)
	}
}
