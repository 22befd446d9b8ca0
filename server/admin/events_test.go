package admin

import (
	"bufio"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stile-lock/stile/server/history"
)

// listen reads /events of a server on loopback, as a browser does.
func listen(t *testing.T, url string) func() map[string]any {
	t.Helper()
	resp, err := http.Get(url + "/events")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%s, %v", resp.Status, resp.Header)
	}
	r := bufio.NewReader(resp.Body)
	return func() (v map[string]any) {
		t.Helper()
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if end, err := r.ReadString('\n'); !ok || end != "\n" || err != nil {
			t.Fatalf("%q, %q, %v", line, end, err)
		}
		if err := json.Unmarshal([]byte(data), &v); err != nil {
			t.Fatalf("%v: %s", err, data)
		}
		return v
	}
}

func serveHere(t *testing.T, s *Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l, nil) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-ended; err != http.ErrServerClosed {
			t.Error(err)
		}
		s.events.mu.Lock()
		defer s.events.mu.Unlock()
		if s.events.stop != nil && len(s.events.listeners) == 0 {
			t.Error("the events go on, and nobody listens")
		}
	})
	return "http://" + l.Addr().String()
}

func TestEvents(t *testing.T) {
	n := newNode(t)
	s := newServer(t, n, "")
	url := serveHere(t, s)
	connect(t, n, 3, "H 1 shop/7\nA a 0 600\nA b 0 600\nA b 0 600\nA b 0 600\n")
	connect(t, n, 2, "A c 0 600\nA c 0 600\nP x\n")
	next := listen(t, url)
	got := next()
	for path, want := range map[string]any{
		"role": "active", "epoch": 60_500_000.0, "ready": true, "node": "127.0.0.1:5625", "held": 3.0, "waiting": 3.0, "connections": 2.0,
		"counts.grants.immediate": 3.0, "changes.0.why": "it is alone", "changes.0.token": nil,
		"busiest.0.key": "b", "busiest.0.waiting": 2.0, "busiest.0.waiters.1.addr": "pipe", "busiest.0.waiters.2": nil, "busiest.0.token": "2", "busiest.0.holder.client": "shop/7",
		"busiest.1.key": "c", "busiest.2": nil,
		"longest.0.key": "a", "longest.1.key": "b", "longest.2.key": "c", "longest.3": nil,
	} {
		if has := at(got, path); has != want {
			t.Errorf("%s is %v, want %v", path, has, want)
		}
	}
	// At once on a change, with tokens as text.
	s.cfg.History.Add(history.Event{Time: time.Now(), Kind: history.Break, Key: []byte("a"), Token: 1 << 60})
	for at(got, "changes.0.kind") != "break" {
		got = next()
	}
	if token := at(got, "changes.0.token"); token != "1152921504606846976" {
		t.Errorf("the token is %v", token)
	}
	// And once a second in any case.
	first, err := time.Parse(time.RFC3339Nano, next()["time"].(string))
	if err != nil {
		t.Fatal(err)
	}
	if second, err := time.Parse(time.RFC3339Nano, next()["time"].(string)); err != nil || second.Sub(first) < 100*time.Millisecond {
		t.Errorf("the next event came %v later, %v", second.Sub(first), err)
	}
}

// A table that takes long to look through is looked through less often.
func TestTopIsLookedForInMeasure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		connect(t, n, 1, "A a 0 600\n")
		looked := top{at: time.Now(), took: time.Second}
		time.Sleep(topShare*time.Second - 1)
		if looked.look(t.Context(), n); len(looked.longest) > 0 {
			t.Error("it looks again too soon")
		}
		time.Sleep(1)
		if looked.look(t.Context(), n); len(looked.longest) != 1 {
			t.Error("it does not look again")
		}
	})
}

// There is room for so many. Who does not read loses its place, and the
// others get on with it.
func TestListenersAreBounded(t *testing.T) {
	s := newServer(t, newNode(t), "")
	e := &s.events
	var all []chan []byte
	for range maxListeners {
		ch, ok := e.join()
		if !ok {
			t.Fatalf("no room for listener %d", len(all)+1)
		}
		all = append(all, ch)
	}
	s.loopback = true
	w := httptest.NewRecorder()
	s.handler().ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/events", nil))
	if w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Errorf("one too many: %d %s", w.Code, w.Body)
	}
	reader := all[0]
	deadline := time.After(60 * time.Second)
	for dropped := 0; dropped < len(all)-1; {
		select {
		case _, ok := <-reader:
			if !ok {
				t.Fatal("who reads is dropped")
			}
		case <-deadline:
			t.Fatal("those who do not read are kept")
		}
		s.cfg.History.Add(history.Event{Kind: history.Role})
		e.mu.Lock()
		dropped = maxListeners - len(e.listeners)
		e.mu.Unlock()
	}
	if ch, ok := e.join(); !ok {
		t.Error("their room is not free again")
	} else {
		e.leave(ch)
	}
	for _, ch := range all {
		e.leave(ch)
	}
	if e.stop != nil {
		t.Error("the loop goes on")
	}
}
