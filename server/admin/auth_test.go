package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// request makes one from an address, with a secret or none.
func request(h http.Handler, method, url, from, secret, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, url, strings.NewReader(body))
	r.RemoteAddr = from
	if secret != "" {
		r.Header.Set("Authorization", "Bearer "+secret)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

const (
	here, far = "127.0.0.1:1000", "192.0.2.7:1000"
	toBreak   = `{"key":"door","token":1}`
)

// Who may do what, by where the server listens and whether it has a secret.
func TestWhoMay(t *testing.T) {
	n := newNode(t)
	for _, tc := range []struct {
		secret   string
		loopback bool
		host     string
		given    string
		read     int
		change   int
	}{
		{"", true, "127.0.0.1:5626", "", 200, 403},
		{"", true, "localhost", "", 200, 403},
		{"", true, "[::1]:5626", "", 200, 403},
		{"", true, "evil.example:5626", "", 403, 403}, // a page of that name, in a browser here
		{"s3cret", true, "127.0.0.1:5626", "", 200, 401},
		{"s3cret", true, "127.0.0.1:5626", "wrong", 200, 401},
		{"s3cret", true, "127.0.0.1:5626", "s3cret", 200, 404},
		{"s3cret", true, "evil.example:5626", "", 401, 401},
		{"s3cret", true, "evil.example:5626", "s3cret", 200, 404},
		{"s3cret", false, "127.0.0.1:5626", "", 401, 401}, // the listener counts, not the way
		{"s3cret", false, "node.example:5626", "", 401, 401},
		{"s3cret", false, "node.example:5626", "s3cre", 401, 401},
		{"s3cret", false, "node.example:5626", "s3cret", 200, 404},
		{"", false, "node.example:5626", "", 200, 403}, // --insecure
	} {
		s := newServer(t, n, tc.secret)
		s.loopback = tc.loopback
		h, base := s.handler(), "http://"+tc.host
		for _, path := range []string{"/status", "/keys", "/metrics"} {
			w := request(h, "GET", base+path, here, tc.given, "")
			if w.Code != tc.read {
				t.Errorf("%+v: GET %s: %d %s", tc, path, w.Code, w.Body)
			}
			checkRefusal(t, w)
		}
		w := request(h, "POST", base+"/break", here, tc.given, toBreak)
		if w.Code != tc.change {
			t.Errorf("%+v: break: %d %s", tc, w.Code, w.Body)
		}
		checkRefusal(t, w)
		for _, path := range []string{"/healthz", "/readyz"} {
			if w := request(h, "GET", base+path, far, "", ""); w.Code != 200 {
				t.Errorf("%+v: GET %s: %d", tc, path, w.Code)
			}
		}
	}
}

func checkRefusal(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	if w.Code < 400 {
		return
	}
	var f failure
	if err := json.Unmarshal(w.Body.Bytes(), &f); err != nil || f.Error == "" || f.Message == "" {
		t.Errorf("%d says %q: %v", w.Code, w.Body, err)
	}
	if challenge := w.Header().Get("WWW-Authenticate"); (w.Code == 401) != strings.HasPrefix(challenge, "Bearer") {
		t.Errorf("%d with the challenge %q", w.Code, challenge)
	}
	if strings.Contains(w.Body.String(), "s3cret") {
		t.Errorf("it tells the secret: %s", w.Body)
	}
}

func TestOtherSchemes(t *testing.T) {
	s := newServer(t, newNode(t), "s3cret")
	h := s.handler()
	for header, want := range map[string]int{
		"s3cret": 401, "Basic s3cret": 401, "bearers3cret": 401, "Bearer": 401, "Bearer  s3cret": 401, "Bearer s3cret ": 401,
		"bearer s3cret": 200, // a scheme is the same in any case
	} {
		r := httptest.NewRequest("GET", "http://x/status", nil)
		r.Header.Set("Authorization", header)
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%q: %d, want %d", header, w.Code, want)
		}
	}
}

// Who has no right secret is counted by reason, and a wrong one is logged once a
// minute, without it.
func TestRefusalsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		s := New(Config{Log: slog.New(slog.NewTextHandler(&out, nil))})
		s.SetSecrets([][]byte{[]byte("s3cret")})
		h := s.reader(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("ok")) })
		ask := func(secret string, times int) {
			for range times {
				request(h, "GET", "http://x/keys", far, secret, "")
			}
		}
		ask("", 2)
		ask("s3cret", 1)
		if out.Len() > 0 {
			t.Errorf("logged: %s", &out)
		}
		ask("guess", 5)
		time.Sleep(time.Minute)
		ask("guess", maxWrong+3)
		for kind, want := range []uint64{2, 5 + maxWrong, 3} {
			if got := s.refused[kind].Load(); got != want {
				t.Errorf("%s: %d, want %d", refusalNames[kind], got, want)
			}
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], "another secret") || !strings.Contains(lines[0], "remote="+far) || !strings.Contains(lines[0], "path=/keys") ||
			!strings.Contains(lines[1], "not_logged_before=4") || strings.Contains(out.String(), "guess") {
			t.Errorf("logged:\n%s", &out)
		}
	})
}

// After ten wrong secrets an address is not listened to for the rest of a
// minute. Others are, and so is who gives none.
func TestFailuresAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Log: slog.New(slog.DiscardHandler)})
		s.SetSecrets([][]byte{[]byte("s3cret"), []byte("0ld")})
		h := s.reader(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("ok")) })
		for range 3 {
			for i := range maxWrong {
				if w := request(h, "GET", "http://x/", far, fmt.Sprint("guess", i), ""); w.Code != 401 {
					t.Fatalf("failure %d: %d", i, w.Code)
				}
				time.Sleep(time.Second)
			}
			w := request(h, "GET", "http://x/", far, "s3cret", "")
			if w.Code != 429 || w.Header().Get("Retry-After") != "50" {
				t.Fatalf("the right one after too many wrong ones: %d, %v", w.Code, w.Header())
			}
			if w := request(h, "GET", "http://x/", here, "s3cret", ""); w.Code != 200 {
				t.Fatalf("another address: %d", w.Code)
			}
			if w := request(h, "GET", "http://x/", far, "", ""); w.Code != 401 {
				t.Fatalf("without a secret: %d", w.Code)
			}
			time.Sleep(51 * time.Second)
			if w := request(h, "GET", "http://x/", far, "s3cret", ""); w.Code != 200 {
				t.Fatalf("a minute later: %d", w.Code)
			}
		}
	})
}
