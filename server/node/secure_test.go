package node

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stile-lock/stile/server/certs"
	"github.com/stile-lock/stile/server/internal/testca"
)

// secureNode is a node that speaks TLS, and how to dial it.
func secureNode(t *testing.T, change ...func(*Config)) (n *Node, addr string, dial func() *tls.Conn) {
	t.Helper()
	ca := testca.New(t, "ours")
	cert, key := ca.Issue("node", []string{"127.0.0.1"}, nil)
	files, err := certs.Open(certs.Files{Cert: cert, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	last := uint64(0)
	cfg := Config{Tokens: func() (uint64, bool) { last++; return last, true }, TLS: files.Server()}
	for _, f := range change {
		f(&cfg)
	}
	n = New(cfg)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := n.Shutdown(ctx); err != nil {
			t.Errorf("the node does not stop: %v", err)
		}
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go n.Serve(l)
	addr = l.Addr().String()
	return n, addr, func() *tls.Conn {
		t.Helper()
		nc, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: ca.Pool})
		if err != nil {
			t.Fatal(err)
		}
		nc.SetDeadline(time.Now().Add(20 * time.Second))
		t.Cleanup(func() { nc.NetConn().Close() })
		return nc
	}
}

func ask(t *testing.T, nc net.Conn, r *bufio.Reader, line, want string) {
	t.Helper()
	if _, err := io.WriteString(nc, line+"\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := r.ReadString('\n'); err != nil || !strings.HasPrefix(got, want) {
		t.Fatalf("%s: %q, %v, want %q", line, got, err, want)
	}
}

// Answers that the kernel does not take at once come whole and in order, and
// who was slow once is served on.
func TestSecureSlowReader(t *testing.T) {
	_, _, dial := secureNode(t, func(c *Config) { c.WriteTimeout, c.MaxOutbound = 2*time.Second, 64<<20 })
	nc := dial()
	const pings = 60_000
	line := func(i int) string { return fmt.Sprintf("P %d-%s\n", i, bytes.Repeat([]byte("x"), 200)) }
	go func() {
		var all bytes.Buffer
		for i := range pings {
			all.WriteString(line(i))
		}
		nc.Write(all.Bytes())
	}()
	time.Sleep(100 * time.Millisecond)
	r := bufio.NewReader(nc)
	for i := range pings {
		if got, err := r.ReadString('\n'); err != nil || got != line(i) {
			t.Fatalf("answer %d of %d: %.20q, %v", i, pings, got, err)
		}
	}
	time.Sleep(2100 * time.Millisecond) // past the deadline of the last slow write
	ask(t, nc, r, "P later", "P later")
}

// A secure client that reads nothing is cut off, and the grant that it could
// not read goes to the next.
func TestSecureClientThatDoesNotRead(t *testing.T) {
	n, _, dial := secureNode(t, func(c *Config) { c.WriteTimeout, c.MaxOutbound = 8*time.Second, 64<<20 })
	holder, slow, next := dial(), dial(), dial()
	hr, nr := bufio.NewReader(holder), bufio.NewReader(next)
	ask(t, holder, hr, "A k 0 60", "A k 1 ")
	io.WriteString(slow, "A k 0 60\n")
	for n.Status().Waiting != 1 {
		time.Sleep(time.Millisecond)
	}
	io.WriteString(next, "A k 0 60\n")
	for n.Status().Waiting != 2 {
		time.Sleep(time.Millisecond)
	}
	// Fill what is between the two, so that the grant can't leave: a kernel takes
	// 4 MiB at most. All of it is answered when the last line is.
	ping := []byte("P " + strings.Repeat("x", 250) + "\n")
	if _, err := slow.Write(append(bytes.Repeat(ping, 30_000), "A last -1 60\n"...)); err != nil {
		t.Fatal(err)
	}
	for n.Status().Held != 2 {
		time.Sleep(time.Millisecond)
	}
	ask(t, holder, hr, "R k 1", "R k 1")
	if s := n.Status(); s.Held != 2 || s.Waiting != 1 {
		t.Errorf("the slow one is not the holder for a while: %+v", s)
	}
	if got, err := nr.ReadString('\n'); err != nil || !strings.HasPrefix(got, "A k 4 ") {
		t.Errorf("the next in line got %q, %v", got, err)
	}
}

// Both ends of a half-close are heard, in TLS and in TCP.
func TestSecureHalfClose(t *testing.T) {
	_, _, dial := secureNode(t)
	nc := dial()
	io.WriteString(nc, "P a\nA k -1 60\nP b\n")
	nc.CloseWrite()
	all, err := io.ReadAll(nc)
	if err != nil || !strings.HasPrefix(string(all), "P a\n") || !strings.HasSuffix(string(all), "P b\n") {
		t.Errorf("%q, %v", all, err)
	}
	if _, err := nc.NetConn().Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("below TLS: %v", err)
	}
}

// Without TLS a client learns what is missing.
func TestSecureTellsPlainClients(t *testing.T) {
	_, addr, _ := secureNode(t)
	for _, says := range []string{"P hello there\n", "N 1 1 0 abc 1 000102030405060708090a0b0c0d0e0f\n", "GET / HTTP/1.1\r\n\r\n"} {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		nc.SetDeadline(time.Now().Add(10 * time.Second))
		io.WriteString(nc, says)
		if got, err := io.ReadAll(nc); err != nil || string(got) != "E ? ? bad-request this node speaks TLS\n" {
			t.Errorf("%q: %q, %v", says, got, err)
		}
	}
}

// A node without TLS tells so, at once, to who speaks it: the first thing that
// such a client says may be short, and have no end of a line.
func TestPlainTellsSecureClients(t *testing.T) {
	_, addr, _ := secureNode(t, func(c *Config) { c.TLS = nil })
	for _, short := range []bool{true, false} {
		cfg := &tls.Config{InsecureSkipVerify: true}
		if short {
			cfg.CurvePreferences = []tls.CurveID{tls.X25519}
		}
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		nc.SetDeadline(time.Now().Add(20 * time.Second))
		var plain tls.RecordHeaderError
		if err := tls.Client(nc, cfg).Handshake(); !errors.As(err, &plain) || string(plain.RecordHeader[:]) != "E ? ?" {
			t.Errorf("short %t: %v", short, err)
		}
	}
}

// Handshakes that stop half way end in time, and stand in nobody's way.
func TestSecureUnfinishedHandshakes(t *testing.T) {
	n, addr, dial := secureNode(t, func(c *Config) { c.HandshakeTimeout = 300 * time.Millisecond })
	hello := append([]byte{22, 3, 1, 1, 252, 1, 0, 1, 248, 3, 3}, make([]byte, 40)...)
	begin := time.Now()
	for _, says := range [][]byte{nil, {22}, hello} {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		nc.SetDeadline(time.Now().Add(10 * time.Second))
		nc.Write(says)
		defer func() {
			if _, err := io.ReadAll(nc); err != nil {
				t.Errorf("%d bytes: %v", len(says), err)
			}
			if took := time.Since(begin); took < 300*time.Millisecond {
				t.Errorf("%d bytes: closed after %v", len(says), took)
			}
		}()
	}
	nc := dial()
	ask(t, nc, bufio.NewReader(nc), "P x", "P x")
	for n.Status().Connections > 1 {
		time.Sleep(time.Millisecond)
	}
}

// Over the limit there is an answer, in TLS.
func TestSecureTooManyConnections(t *testing.T) {
	_, _, dial := secureNode(t, func(c *Config) { c.MaxConnections = 1 })
	first := dial()
	r := bufio.NewReader(first)
	ask(t, first, r, "P x", "P x")
	if got, err := io.ReadAll(dial()); err != nil || string(got) != "E ? ? limit too many connections\n" {
		t.Errorf("%q, %v", got, err)
	}
	ask(t, first, r, "P y", "P y")
}

// A grant that another client's release makes leaves at once.
func TestSecureHandOver(t *testing.T) {
	_, _, dial := secureNode(t)
	a, b := dial(), dial()
	ar, br := bufio.NewReader(a), bufio.NewReader(b)
	for i := 1; i < 200; i += 2 {
		ask(t, a, ar, "A k 0 60", fmt.Sprintf("A k %d ", i))
		io.WriteString(b, "A k 0 60\n")
		ask(t, b, br, "P x", "P x")
		ask(t, a, ar, fmt.Sprintf("R k %d", i), fmt.Sprintf("R k %d", i))
		if got, err := br.ReadString('\n'); err != nil || !strings.HasPrefix(got, fmt.Sprintf("A k %d ", i+1)) {
			t.Fatalf("%q, %v", got, err)
		}
		ask(t, b, br, fmt.Sprintf("R k %d", i+1), "R k ")
	}
}
