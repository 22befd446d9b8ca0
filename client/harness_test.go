package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stile-lock/stile/client/internal/memnet"
	"github.com/stile-lock/stile/protocol"
)

// world is a network with scripted servers, on virtual time.
type world struct {
	t     *testing.T
	net   *memnet.Net
	start time.Time

	mu      sync.Mutex
	servers []*server
}

// virtual runs f on virtual time.
func virtual(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, net: memnet.New(), start: time.Now()}
		defer synctest.Wait()
		defer func() {
			for _, s := range w.servers {
				s.stop()
			}
		}()
		f(w)
	})
}

// ms is the virtual time since the start of the test.
func (w *world) ms() int64 { return time.Since(w.start).Milliseconds() }

// client dials the servers at addrs with the jitter off, and closes at the
// end of the test.
func (w *world) client(addrs string, opts ...Option) *Client {
	w.t.Helper()
	opts = append([]Option{Dialer(w.net.DialContext), noJitter}, opts...)
	if os.Getenv("STILE_TEST_LOG") != "" {
		opts = append(opts, Logger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))))
	}
	c, err := Dial(context.Background(), addrs, opts...)
	if err != nil {
		w.t.Fatalf("Dial(%q): %v", addrs, err)
	}
	w.t.Cleanup(func() { c.Close() })
	return c
}

func noJitter(c *config) { c.jitter = func(d time.Duration) time.Duration { return d } }

// line is one request as a server read it.
type line struct {
	ms   int64
	conn int // the how manieth connection of this server, from 1
	text string
}

func (l line) String() string { return fmt.Sprintf("%d ms, connection %d: %s", l.ms, l.conn, l.text) }

// server is a scripted server: handle is called for every request line but
// hellos and pings, which are answered as profiles and mute say.
type server struct {
	w        *world
	addr     string
	profiles string // "" answers a hello with unknown-op
	hello    func(c *sconn, text string) bool
	accept   func(c *sconn) // called first for every connection
	handle   func(c *sconn, r request4)
	ended    func(c *sconn) // called last for every connection
	mutePing bool

	mu    sync.Mutex
	lis   *memnet.Listener
	lines []line
	conns []*sconn
	opens []int64
}

// request4 is a parsed request.
type request4 struct {
	op          protocol.Op
	key         string
	wait, lease time.Duration
	token       uint64
	nonce       string
	text        string
}

// sconn is a server's end of one connection.
type sconn struct {
	*memnet.Conn
	s  *server
	no int
}

func (c *sconn) send(format string, args ...any) {
	c.Write([]byte(fmt.Sprintf(format, args...) + "\n"))
}

const allProfiles = "core,cluster,keep,ping,hello,resume"

// server starts a server at addr; set may change it before it listens.
func (w *world) server(addr string, handle func(c *sconn, r request4), set ...func(s *server)) *server {
	s := &server{w: w, addr: addr, profiles: allProfiles, handle: handle}
	for _, f := range set {
		f(s)
	}
	w.mu.Lock()
	w.servers = append(w.servers, s)
	w.mu.Unlock()
	s.listen()
	return s
}

func core(s *server)     { s.profiles = "" }
func mutePing(s *server) { s.mutePing = true }

// script changes what the server does from now on.
func (s *server) script(handle func(c *sconn, r request4)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handle = handle
}

func (s *server) listen() {
	lis := s.w.net.Listen(s.addr)
	s.mu.Lock()
	s.lis = lis
	s.mu.Unlock()
	go func() {
		for {
			nc, err := lis.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			c := &sconn{Conn: nc, s: s, no: len(s.conns) + 1}
			s.conns = append(s.conns, c)
			s.opens = append(s.opens, s.w.ms())
			accept := s.accept
			s.mu.Unlock()
			if accept != nil {
				accept(c)
			}
			go s.serve(c)
		}
	}()
}

// refuse makes new connections fail.
func (s *server) refuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lis.Close()
}

// cut resets every connection.
func (s *server) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		c.Reset()
	}
}

func (s *server) stop() {
	s.refuse()
	s.cut()
}

func (s *server) serve(c *sconn) {
	var lines protocol.Lines
	var r protocol.Request
	for {
		n, err := c.Read(lines.Free())
		lines.Fed(n)
		for {
			text, ok, _ := lines.Next()
			if !ok {
				break
			}
			if code := protocol.ParseRequest(text, &r); code != 0 {
				s.w.t.Errorf("%s: the client sent %q: %v", s.addr, text, code)
				return
			}
			got := request4{r.Op, string(r.Key), r.Wait, r.Lease, r.Token, string(r.Nonce), string(text)}
			s.mu.Lock()
			s.lines = append(s.lines, line{s.w.ms(), c.no, got.text})
			handle := s.handle
			s.mu.Unlock()
			switch {
			case r.Op == opH && s.hello != nil && s.hello(c, got.text):
			case r.Op == opH && s.profiles == "":
				c.send("E H 1 unknown-op")
			case r.Op == opH:
				c.send("H 1 %s %s", s.addr, s.profiles)
			case r.Op == opP && s.mutePing:
			case r.Op == opP && s.profiles == "":
				c.send("E P %s unknown-op", r.Key)
			case r.Op == opP:
				c.send("P %s", r.Key)
			default:
				handle(c, got)
			}
		}
		if err != nil {
			c.Close()
			if s.ended != nil {
				s.ended(c)
			}
			return
		}
	}
}

// seen returns the lines read so far whose op is one of ops.
func (s *server) seen(ops string) []line {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []line
	for _, l := range s.lines {
		if strings.ContainsRune(ops, rune(l.text[0])) {
			all = append(all, l)
		}
	}
	return all
}

func (s *server) openings() []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.opens)
}

func (s *server) live() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// last is the newest connection.
func (s *server) last() *sconn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns[len(s.conns)-1]
}

var tokens struct {
	sync.Mutex
	last uint64
}

func nextToken() uint64 {
	tokens.Lock()
	defer tokens.Unlock()
	tokens.last++
	return tokens.last
}

// obliging grants and confirms everything at once.
func obliging(c *sconn, r request4) {
	switch r.op {
	case opA:
		c.send("A %s %d %s", r.key, nextToken(), leaseText(r.lease))
	case opR:
		c.send("R %s %d", r.key, r.token)
	case opK:
		c.send("K %s %d %s", r.key, r.token, leaseText(r.lease))
	case opC:
		c.send("C %s %s", r.key, r.nonce)
	}
}

func leaseText(d time.Duration) string {
	if d == 0 {
		d = 30 * time.Second
	}
	return string(protocol.AppendSeconds(nil, d))
}

// reset reads and resets.
func resetting(c *sconn, _ request4) { c.Reset() }

func silent(*sconn, request4) {}

// redirecting answers everything with a redirect.
func redirecting(addr string) func(c *sconn, r request4) {
	return func(c *sconn, r request4) { c.send("M %v %s %s", r.op, r.key, addr) }
}

func wantErr(t *testing.T, err, want error, outcome Outcome) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error is %v; want %v", err, want)
	}
	if got := OutcomeOf(err); got != outcome {
		t.Errorf("outcome of %v: %v; want %v", err, got, outcome)
	}
}

func (w *world) wantMs(what string, want int64) {
	w.t.Helper()
	if got := w.ms(); got != want {
		w.t.Errorf("%s at %d ms; want %d ms", what, got, want)
	}
}

func texts(lines []line) []string {
	var all []string
	for _, l := range lines {
		all = append(all, l.text)
	}
	return all
}

func times(lines []line) []int64 {
	var all []int64
	for _, l := range lines {
		all = append(all, l.ms)
	}
	return all
}

var bg = context.Background()

// must acquires.
func (w *world) must(c *Client, key string, opts ...AcquireOption) *Lock {
	w.t.Helper()
	l, err := c.Acquire(bg, key, opts...)
	if err != nil {
		w.t.Fatalf("Acquire(%q): %v", key, err)
	}
	return l
}
