package fencehttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stile-lock/stile/client/fence"
	"github.com/stile-lock/stile/client/fence/fencehttp"
)

func Example() {
	// The server: PUT /docs/NAME is guarded by the lock docs/NAME.
	guarded := fencehttp.Middleware{
		Guard:   new(fence.Guard),
		MaxBody: 1 << 20,
		Key: func(r *http.Request) string {
			if r.Method == http.MethodGet {
				return ""
			}
			return strings.TrimPrefix(r.URL.Path, "/")
		},
	}
	server := httptest.NewServer(guarded.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Printf("written: %s\n", body)
	})))
	defer server.Close()

	// The holders.
	hc := &http.Client{Transport: &fencehttp.Transport{}}
	put := func(lock fence.Grant, text string) error {
		ctx := fencehttp.WithGrant(context.Background(), lock)
		req, err := http.NewRequestWithContext(ctx, "PUT", server.URL+"/docs/7", strings.NewReader(text))
		if err != nil {
			return err
		}
		resp, err := hc.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if err := fencehttp.ResponseError(resp); err != nil {
			return err
		}
		if resp.StatusCode/100 != 2 {
			return errors.New(resp.Status)
		}
		return nil
	}
	first, second := fence.NewGrant("docs/7", 3), fence.NewGrant("docs/7", 5)
	fmt.Println(put(first, "by the first"))
	fmt.Println(put(second, "by the second"))
	fmt.Println(put(first, "by the first, who slept"))
	// Output:
	// written: by the first
	// <nil>
	// written: by the second
	// <nil>
	// stale token 3 for "docs/7": 5 was seen
}

// respond sends a request to the middleware with the headers given, and
// returns the answer and how often the handler ran.
func respond(t *testing.T, m fencehttp.Middleware, headers ...string) (resp *http.Response, ran int) {
	t.Helper()
	h := m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ran++
		if g, ok := fencehttp.FromContext(r.Context()); ok {
			w.Header().Set("Got", fence.FormatGrant(g))
		}
	}))
	r := httptest.NewRequest("PUT", "/", nil)
	for _, v := range headers {
		r.Header.Add(fencehttp.Header, v)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result(), ran
}

func TestMiddleware(t *testing.T) {
	m := fencehttp.Middleware{Guard: new(fence.Guard), Key: func(*http.Request) string { return "a/b" }}
	for _, test := range []struct {
		name    string
		headers []string
		status  int
		typ     string
		detail  string
	}{
		{"granted", []string{"7 a%2Fb"}, 200, "", ""},
		{"again", []string{"7 a%2Fb"}, 200, "", ""},
		{"stale", []string{"6 a%2Fb"}, 409, fencehttp.ProblemStale, `stale token 6 for "a/b": 7 was seen`},
		{"none", nil, 428, fencehttp.ProblemMissing, `acquire the lock "a/b"`},
		{"bad", []string{"seven a%2Fb"}, 400, fencehttp.ProblemInvalid, `"seven"`},
		{"two", []string{"8 a%2Fb", "9 a%2Fb"}, 400, fencehttp.ProblemInvalid, "more than one"},
		{"of another key", []string{"99 b"}, 400, fencehttp.ProblemInvalid, `is one of "b", but what the request writes is guarded by "a/b"`},
		{"greater than any JSON number", []string{"18446744073709551615 a%2Fb"}, 200, "", ""},
		{"stale then", []string{"18446744073709551614 a%2Fb"}, 409, fencehttp.ProblemStale, "18446744073709551615 was seen"},
	} {
		resp, ran := respond(t, m, test.headers...)
		if resp.StatusCode != test.status || (ran == 1) != (test.status == 200) {
			t.Errorf("%s: status %d, the handler ran %d times", test.name, resp.StatusCode, ran)
		}
		if test.status == 200 {
			if got := resp.Header.Get("Got"); got != test.headers[0] {
				t.Errorf("%s: the handler got the grant %q", test.name, got)
			}
			continue
		}
		if got := resp.Header.Get("Content-Type"); got != "application/problem+json" {
			t.Errorf("%s: Content-Type %q", test.name, got)
		}
		if got := resp.Header.Get("Cache-Control"); got != "no-store" {
			t.Errorf("%s: Cache-Control %q", test.name, got)
		}
		var p struct {
			Type, Title, Detail string
			Status              int
		}
		if err := json.NewDecoder(resp.Body).Decode(&p); err != nil || p.Type != test.typ || p.Status != test.status || p.Title == "" ||
			!strings.Contains(p.Detail, test.detail) {
			t.Errorf("%s: the body is %+v, %v", test.name, p, err)
		}
	}

	m.Key = func(*http.Request) string { return "" }
	if resp, ran := respond(t, m); resp.StatusCode != 200 || ran != 1 || resp.Header.Get("Got") != "" {
		t.Errorf("unguarded: status %d, the handler ran %d times", resp.StatusCode, ran)
	}
}

type brokenGuard struct{ error }

func (g brokenGuard) Do(context.Context, fence.Grant, func() error) error { return g.error }

// A guard that can't look lets nothing through; without one the handler looks.
func TestMiddlewareWithOtherGuards(t *testing.T) {
	key := func(*http.Request) string { return "k" }
	m := fencehttp.Middleware{Guard: brokenGuard{errors.New("no disk")}, Key: key}
	if resp, ran := respond(t, m, "7 k"); resp.StatusCode != 503 || ran != 0 {
		t.Errorf("status %d, the handler ran %d times", resp.StatusCode, ran)
	}
	m = fencehttp.Middleware{Key: key}
	for _, token := range []string{"7 k", "6 k"} {
		if resp, ran := respond(t, m, token); resp.StatusCode != 200 || ran != 1 || resp.Header.Get("Got") != token {
			t.Errorf("status %d, the handler ran %d times", resp.StatusCode, ran)
		}
	}
	if resp, _ := respond(t, m); resp.StatusCode != 428 {
		t.Errorf("status %d", resp.StatusCode)
	}

	w := httptest.NewRecorder()
	if fencehttp.WriteProblem(w, errors.New("no disk")) || w.Body.Len() > 0 {
		t.Error("another error was answered as a stale token")
	}
	// A handler may have said how long its own answer is.
	w.Header().Set("Content-Length", "5")
	if !fencehttp.WriteProblem(w, &fence.StaleError{Key: "k", Token: 6, Seen: 7}) || w.Header().Get("Content-Length") != "" {
		t.Errorf("the header of a refusal is %v", w.Header())
	}
}

// What a server refuses is the same error for the holder, with any key.
func TestThereAndBack(t *testing.T) {
	m := fencehttp.Middleware{Guard: &fence.Guard{MaxKeys: 1}, Key: func(r *http.Request) string { return r.URL.Query().Get("key") }}
	server := httptest.NewServer(m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })))
	defer server.Close()
	hc := &http.Client{Transport: &fencehttp.Transport{Base: server.Client().Transport}}
	send := func(key string, token uint64) error {
		ctx := fencehttp.WithGrant(t.Context(), fence.NewGrant(key, token))
		req, err := http.NewRequestWithContext(ctx, "POST", server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		q := req.URL.Query()
		q.Set("key", key)
		req.URL.RawQuery = q.Encode()
		resp, err := hc.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if len(req.Header) > 0 {
			t.Errorf("the caller's request was changed: %v", req.Header)
		}
		err = fencehttp.ResponseError(resp)
		if body, _ := io.ReadAll(resp.Body); (err != nil) != strings.Contains(string(body), "stale fencing token") {
			t.Errorf("the body after the look at it: %q", body)
		}
		return err
	}
	for _, key := range []string{"k", "a;b,\"c\"=%+&", "\xff\xfe"} {
		if err := send(key, 1<<62+1); err != nil {
			t.Errorf("%q: %v", key, err)
		}
		var stale *fence.StaleError
		if err := send(key, 1<<62); !errors.As(err, &stale) || *stale != (fence.StaleError{Key: key, Token: 1 << 62, Seen: 1<<62 + 1}) {
			t.Errorf("%q: %v", key, err)
		}
	}
	var stale *fence.StaleError
	if err := send("forgotten", 5); !errors.As(err, &stale) || !stale.Forgotten {
		t.Errorf("got %v", err)
	}
	if err := send("", 5); !errors.Is(err, fence.ErrInvalid) {
		t.Errorf("an empty key: %v", err)
	}
}

// Whatever a middleware answers in a handler's place is an error.
func TestEveryProblemIsAnError(t *testing.T) {
	key := func(*http.Request) string { return "k" }
	broken := fencehttp.Middleware{Guard: brokenGuard{errors.New("no disk")}, Key: key}
	short := fencehttp.Middleware{Guard: new(fence.Guard), Key: key, MaxBody: 3}
	for _, test := range []struct {
		m      fencehttp.Middleware
		header string
		status int
		typ    string
		says   string
	}{
		{broken, "", 428, fencehttp.ProblemMissing, "428"},
		{broken, "7", 400, fencehttp.ProblemInvalid, "not a fencing token of this resource"},
		{broken, "7 k", 503, fencehttp.ProblemUnchecked, "no disk"},
		{short, "7 k", 413, fencehttp.ProblemBody, "3 bytes at most"},
	} {
		h := test.m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Errorf("%s: the handler ran", test.typ) }))
		r := httptest.NewRequest("PUT", "/", strings.NewReader("long"))
		if test.header != "" {
			r.Header.Set(fencehttp.Header, test.header)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		err := fencehttp.ResponseError(w.Result())
		var p *fencehttp.ProblemError
		if !errors.As(err, &p) || p.Type != test.typ || p.Status != test.status || w.Code != test.status || errors.Is(err, fence.ErrStale) ||
			!strings.Contains(err.Error(), test.says) {
			t.Errorf("%d %s: %v", test.status, test.typ, err)
		}
	}
}

// Answers of others that look alike are no refusals.
func TestResponseError(t *testing.T) {
	for name, resp := range map[string]*http.Response{
		"a success":    {StatusCode: 200, Header: http.Header{"Content-Type": {"application/problem+json"}}, Body: io.NopCloser(strings.NewReader(`{"type":"` + fencehttp.ProblemStale + `","token":"1","seen":"2"}`))},
		"another type": {StatusCode: 409, Header: http.Header{"Content-Type": {"application/problem+json"}}, Body: io.NopCloser(strings.NewReader(`{"type":"about:blank","token":"1","seen":"2"}`))},
		"no problem":   {StatusCode: 409, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(`{"type":"` + fencehttp.ProblemStale + `","token":"1","seen":"2"}`))},
		"no JSON":      {StatusCode: 409, Header: http.Header{"Content-Type": {"application/problem+json"}}, Body: io.NopCloser(strings.NewReader("conflict"))},
	} {
		if err := fencehttp.ResponseError(resp); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	answer := func(body string) *http.Response {
		return &http.Response{StatusCode: 409, Header: http.Header{"Content-Type": {"application/problem+json"}}, Body: io.NopCloser(strings.NewReader(body))}
	}
	// A refusal without its tokens is one all the same.
	var p *fencehttp.ProblemError
	if err := fencehttp.ResponseError(answer(`{"type":"` + fencehttp.ProblemStale + `"}`)); !errors.As(err, &p) || p.Type != fencehttp.ProblemStale {
		t.Errorf("without a token: %v", err)
	}
	// One of another token, as a proxy's, is not about this request's key.
	resp := answer(`{"type":"` + fencehttp.ProblemStale + `","key":"theirs","token":"1","seen":"2"}`)
	resp.Request = httptest.NewRequest("PUT", "/", nil)
	resp.Request = resp.Request.WithContext(fencehttp.WithGrant(t.Context(), fence.NewGrant("ours", 7)))
	var stale *fence.StaleError
	if err := fencehttp.ResponseError(resp); !errors.As(err, &stale) || stale.Key != "theirs" {
		t.Errorf("of another token: %v", err)
	}
	// All of a long answer can be read afterwards.
	long := `{"type":"about:blank","detail":"` + strings.Repeat("x", 1<<20) + `"}`
	resp = answer(long)
	if err := fencehttp.ResponseError(resp); err != nil {
		t.Error(err)
	}
	if body, err := io.ReadAll(resp.Body); string(body) != long {
		t.Errorf("%d bytes of %d are left, %v", len(body), len(long), err)
	}
}
