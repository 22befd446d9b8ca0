package fencehttp_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stile-lock/stile/client/fence"
	"github.com/stile-lock/stile/client/fence/fencehttp"
)

func dialTo(addr string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, addr)
	}
}

func onlyKey(*http.Request) string { return "k" }

// guardFunc is a guard as a server may have its own.
type guardFunc func(ctx context.Context, write func() error) error

func (f guardFunc) Do(ctx context.Context, _ fence.Grant, write func() error) error {
	return f(ctx, write)
}

// request is a PUT with a grant.
func request(t *testing.T, url, grant, text string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "PUT", url, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(fencehttp.Header, grant)
	return req
}

func TestMiddlewareWithoutKey(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a middleware that does not know what to guard was taken")
		}
	}()
	fencehttp.Middleware{}.Wrap(http.NotFoundHandler())
}

// A guard waits no longer than the request does.
func TestMiddlewareAndContext(t *testing.T) {
	type mark struct{}
	guard := guardFunc(func(ctx context.Context, write func() error) error {
		if ctx.Value(mark{}) == nil {
			t.Error("the guard got another context than the request's")
		}
		return write()
	})
	r := request(t, "/", "7 k", "")
	fencehttp.Middleware{Guard: guard, Key: onlyKey}.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).
		ServeHTTP(httptest.NewRecorder(), r.WithContext(context.WithValue(r.Context(), mark{}, true)))
}

// A guard that fails after the handler has answered must not leave a success.
func TestMiddlewareFailsLate(t *testing.T) {
	for name, failed := range map[string]error{"at the commit": errors.New("no commit"), "as stale": &fence.StaleError{Key: "k", Token: 7, Seen: 9}} {
		guard := guardFunc(func(_ context.Context, write func() error) error {
			if err := write(); err != nil {
				return err
			}
			return failed
		})
		var logged bytes.Buffer
		server := httptest.NewUnstartedServer(fencehttp.Middleware{Guard: guard, Key: onlyKey}.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "written")
		})))
		server.Config.ErrorLog = log.New(&logged, "", 0)
		server.Start()
		if resp, err := http.DefaultClient.Do(request(t, server.URL, "7 k", "")); err == nil {
			t.Errorf("%s: the answer is %s", name, resp.Status)
			resp.Body.Close()
		}
		server.Close()
		if !strings.Contains(logged.String(), failed.Error()) {
			t.Errorf("%s: the log says %q", name, logged.String())
		}
	}
}

// A holder that is paused while it sends holds up nobody, and when it wakes up
// it is refused.
func TestPausedUpload(t *testing.T) {
	var written []string // by one handler at a time
	m := fencehttp.Middleware{Guard: new(fence.Guard), Key: onlyKey, MaxBody: 10}
	server := httptest.NewServer(m.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || int64(len(body)) != r.ContentLength {
			t.Errorf("the handler read %q of %d bytes, %v", body, r.ContentLength, err)
		}
		written = append(written, string(body))
	})))
	defer server.Close()
	upload := func(to *httptest.Server) net.Conn {
		conn, err := net.Dial("tcp", to.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(30 * time.Second))
		// By the 100 the server says that it reads.
		io.WriteString(conn, "PUT / HTTP/1.1\r\nHost: x\r\nFencing-Token: 7 k\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n")
		in := bufio.NewReader(conn)
		if line, err := in.ReadString('\n'); err != nil || !strings.Contains(line, "100") {
			t.Fatalf("got %q, %v", line, err)
		}
		io.WriteString(conn, "half ")
		return conn
	}
	paused, cutOff := upload(server), upload(server)
	defer paused.Close()
	defer cutOff.Close()
	resp, err := http.DefaultClient.Do(request(t, server.URL, "9 k", "the next"))
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("the next holder got %v, %v", resp, err)
	}
	resp.Body.Close()
	answer := func(conn net.Conn) error {
		in := bufio.NewReader(conn)
		for {
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode >= 200 {
				return fencehttp.ResponseError(resp)
			}
		}
	}
	io.WriteString(paused, "late!")
	if err := answer(paused); !errors.Is(err, fence.ErrStale) {
		t.Errorf("the one that woke up got %v", err)
	}
	cutOff.(*net.TCPConn).CloseWrite()
	var p *fencehttp.ProblemError
	if err := answer(cutOff); !errors.As(err, &p) || p.Type != fencehttp.ProblemBody || p.Status != 400 {
		t.Errorf("half a body: %v", err)
	}
	if len(written) != 1 || written[0] != "the next" {
		t.Errorf("written: %q", written)
	}

	// One that is slow is told so by the server's limit.
	slow := httptest.NewUnstartedServer(m.Wrap(http.NotFoundHandler()))
	slow.Config.ReadTimeout = 100 * time.Millisecond
	slow.Start()
	defer slow.Close()
	conn := upload(slow)
	defer conn.Close()
	if err := answer(conn); !errors.As(err, &p) || p.Type != fencehttp.ProblemBody || p.Status != 408 {
		t.Errorf("a slow body: %v", err)
	}
}

// A TimeoutHandler around the middleware answers early, and the next holder
// still comes after the handler, which goes on.
func TestTimeoutHandlerAround(t *testing.T) {
	entered, quit := make(chan string, 2), make(chan struct{})
	guarded := fencehttp.Middleware{Guard: new(fence.Guard), Key: onlyKey}.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		grant := r.Header.Get(fencehttp.Header)
		entered <- grant
		if grant == "7 k" {
			<-quit
		}
	}))
	first := httptest.NewRecorder()
	http.TimeoutHandler(guarded, 10*time.Millisecond, "").ServeHTTP(first, request(t, "/", "7 k", ""))
	if first.Code != 503 || <-entered != "7 k" {
		t.Fatalf("status %d", first.Code)
	}
	second := make(chan int)
	go func() {
		w := httptest.NewRecorder()
		guarded.ServeHTTP(w, request(t, "/", "9 k", ""))
		second <- w.Code
	}()
	select {
	case grant := <-entered:
		t.Errorf("%s entered while 7 k was inside", grant)
	case <-time.After(50 * time.Millisecond):
	}
	close(quit)
	if code := <-second; code != 200 || <-entered != "9 k" {
		t.Errorf("the second got %d", code)
	}
}
