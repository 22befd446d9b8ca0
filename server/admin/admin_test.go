package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stile-lock/stile/server/certs"
	"github.com/stile-lock/stile/server/history"
	"github.com/stile-lock/stile/server/node"
)

var started = time.Date(2026, 12, 1, 12, 30, 0, 0, time.UTC)

func newNode(t *testing.T) *node.Node {
	t.Helper()
	last := uint64(0)
	n := node.New(node.Config{Tokens: func() (uint64, bool) { last++; return last, true }})
	t.Cleanup(func() { n.Shutdown(context.Background()) })
	return n
}

// newServer returns the server of a node that is alone.
func newServer(t *testing.T, n *node.Node, secret string) *Server {
	t.Helper()
	past := new(history.Log)
	past.Add(history.Event{Time: started, Kind: history.Role, Role: "active", Why: "it is alone", Epoch: 60_500_000})
	var set [][]byte
	if secret != "" {
		set = [][]byte{[]byte(secret)}
	}
	return New(Config{
		Node: n, Addr: "127.0.0.1:5625", StateDir: "/var/lib/stile", Started: started,
		Epoch: func() uint32 { return 60_500_000 }, History: past,
		Secrets: set, Log: slog.New(slog.DiscardHandler),
	})
}

// newHandler is one that listens on loopback, without a secret.
func newHandler(t *testing.T) (*node.Node, http.Handler) {
	t.Helper()
	n := newNode(t)
	s := newServer(t, n, "")
	s.loopback = true
	return n, s.handler()
}

// at is what a path of names and numbers leads to.
func at(v any, path string) any {
	for _, step := range strings.Split(path, ".") {
		switch in := v.(type) {
		case map[string]any:
			v = in[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(in) {
				return nil
			}
			v = in[i]
		default:
			return nil
		}
	}
	return v
}

func get(h http.Handler, method, path string) (int, string, http.Header) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, "http://localhost:5626"+path, nil))
	return w.Code, w.Body.String(), w.Header()
}

// connect sends lines over a connection of its own and reads the answers. The
// connection stays open.
func connect(t *testing.T, n *node.Node, answers int, lines string) {
	t.Helper()
	ours, theirs := net.Pipe()
	if !n.ServeConn(theirs) {
		t.Fatal("no room for a connection")
	}
	t.Cleanup(func() { ours.Close() })
	ours.SetDeadline(time.Now().Add(20 * time.Second))
	go io.WriteString(ours, lines)
	r := bufio.NewReader(ours)
	for range answers {
		if _, err := r.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	go io.Copy(io.Discard, r) // a stop waits for those who do not read
	ours.SetDeadline(time.Time{})
}

func TestHealthAndReadiness(t *testing.T) {
	n, h := newHandler(t)
	for _, path := range []string{"/healthz", "/readyz"} {
		if code, body, _ := get(h, "GET", path); code != http.StatusOK || body != "ok\n" {
			t.Errorf("%s: %d %q", path, code, body)
		}
	}
	n.Shutdown(t.Context())
	if code, body, _ := get(h, "GET", "/readyz"); code != http.StatusServiceUnavailable || body != "stopping\n" {
		t.Errorf("/readyz of a node that stops: %d %q", code, body)
	}
	// A supervisor must not kill a node because it drains.
	if code, _, _ := get(h, "GET", "/healthz"); code != http.StatusOK {
		t.Errorf("/healthz of a node that stops: %d", code)
	}
}

// A certificate that ends soon is a problem, and a metric in any case.
func TestCertificates(t *testing.T) {
	s := newServer(t, newNode(t), "")
	s.loopback = true
	soon, late := time.Now().Add(time.Hour), time.Now().Add(1000*time.Hour)
	s.cfg.Certificates = func() []certs.End {
		return []certs.End{{Which: certs.Node, File: "node.pem", At: soon}, {Which: certs.Authority, File: "ca.pem", At: late}}
	}
	h := s.handler()
	var got struct{ Problems []string }
	if _, body, _ := get(h, "GET", "/status"); json.Unmarshal([]byte(body), &got) != nil || len(got.Problems) != 1 || !strings.Contains(got.Problems[0], "node.pem ends at") {
		t.Errorf("/status: %s", body)
	}
	_, body, _ := get(h, "GET", "/metrics")
	for which, at := range map[string]time.Time{"node": soon, "authority": late} {
		_, value, ok := strings.Cut(body, `stile_certificate_expiry_timestamp_seconds{certificate="`+which+`"} `)
		value, _, _ = strings.Cut(value, "\n")
		if v, err := strconv.ParseFloat(value, 64); !ok || err != nil || int64(v) != at.Unix() {
			t.Errorf("%s: %q, want %d", which, value, at.Unix())
		}
	}
	s.cfg.Certificates = nil
	if _, body, _ := get(h, "GET", "/status"); !strings.Contains(body, `"problems": []`) {
		t.Errorf("without TLS: %s", body)
	}
}

func TestStatus(t *testing.T) {
	n, h := newHandler(t)
	// Two keys held; three waiters, one of them with a nonce.
	connect(t, n, 3, "A a 0 600\nA b 0 600\nA a 0 30\nA b 0 30\nP x\n")
	connect(t, n, 1, "A b 0 30 Sesame-nonce\nP x\n")
	code, body, header := get(h, "GET", "/status")
	if code != http.StatusOK || header.Get("Content-Type") != "application/json" {
		t.Errorf("%d, %v", code, header)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	for field, want := range map[string]any{
		"connections": 2.0, "held": 2.0, "waiting": 3.0, "stopping": false,
		"addr": "127.0.0.1:5625", "state_dir": "/var/lib/stile", "epoch": 60_500_000.0,
		"started": "2026-12-01T12:30:00Z", "role": "active", "ready": true,
	} {
		if got[field] != want {
			t.Errorf("%s is %v, want %v", field, got[field], want)
		}
	}
	for _, field := range []string{"version", "commit"} {
		if s, _ := got[field].(string); s == "" {
			t.Errorf("%s is %v", field, got[field])
		}
	}
	if g, _ := got["goroutines"].(float64); g < 2 {
		t.Errorf("goroutines is %v", got["goroutines"])
	}
	for path, want := range map[string]any{
		"counts.grants.immediate": 2.0, "counts.grants.handed_over": 0.0, "counts.connections_accepted": 2.0,
		"changes.0.role": "active", "changes.0.why": "it is alone", "changes.0.time": "2026-12-01T12:30:00Z",
	} {
		if has := at(got, path); has != want {
			t.Errorf("%s is %v, want %v", path, has, want)
		}
	}
	if strings.Contains(body, "Sesame") {
		t.Errorf("the status shows a nonce: %s", body)
	}
	n.Shutdown(t.Context())
	if _, body, _ := get(h, "GET", "/status"); !strings.Contains(body, `"stopping": true`) || !strings.Contains(body, `"waiting": 0`) {
		t.Errorf("after the stop: %s", body)
	}
}

func TestOnlyReads(t *testing.T) {
	_, h := newHandler(t)
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS"} {
		for _, path := range []string{"/healthz", "/readyz", "/status", "/keys", "/metrics", "/events"} {
			if code, _, header := get(h, method, path); code != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %d", method, path, code)
			} else if allow := header.Get("Allow"); !strings.Contains(allow, "GET") {
				t.Errorf("%s %s: Allow: %s", method, path, allow)
			}
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/status", "/keys", "/metrics", "/", "/page.js"} {
		if code, _, _ := get(h, "HEAD", path); code != http.StatusOK {
			t.Errorf("HEAD %s: %d", path, code)
		}
	}
	for _, path := range []string{"/x", "/keys/x", "/status/", "/debug/pprof/", "/healthz/x"} {
		if code, _, _ := get(h, "GET", path); code != http.StatusNotFound {
			t.Errorf("GET %s: %d", path, code)
		}
	}
}

// The status is taken while the node works.
func TestStatusUnderLoad(t *testing.T) {
	n, h := newHandler(t)
	const rounds = 200
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if code, _, _ := get(h, "GET", "/status"); code != http.StatusOK {
				t.Errorf("/status: %d", code)
			}
		}
	}()
	var lines strings.Builder
	for i := range rounds {
		fmt.Fprintf(&lines, "A k%d -1 600\n", i)
	}
	connect(t, n, rounds, lines.String())
	close(stop)
	<-stopped
	if s := n.Status(); s.Held != rounds {
		t.Errorf("%d held, want %d", s.Held, rounds)
	}
}
