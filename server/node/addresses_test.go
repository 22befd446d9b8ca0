package node

import (
	"bytes"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// from is a connection from an address.
type from struct {
	net.Conn
	addr net.Addr
}

func (f from) RemoteAddr() net.Addr { return f.addr }

func addressFrom(ip string) netip.Addr {
	return addressOf(from{addr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(ip), 1))})
}

func TestAddressOf(t *testing.T) {
	for ip, want := range map[string]string{
		"192.0.2.7": "192.0.2.7", "::ffff:192.0.2.7": "192.0.2.7",
		"2001:db8:1:2:3:4:5:6": "2001:db8:1:2::", "fe80::1%eth0": "fe80::",
		"127.0.0.1": "invalid IP", "127.9.9.9": "invalid IP", "::1": "invalid IP", "::ffff:127.0.0.1": "invalid IP",
	} {
		if got := addressFrom(ip).String(); got != want {
			t.Errorf("%s counts as %s, want %s", ip, got, want)
		}
	}
	if a := addressOf(from{addr: &net.UnixAddr{}}); a.IsValid() {
		t.Error(a)
	}
}

func TestConnectionsPerAddress(t *testing.T) {
	s := newAddresses(2, 0)
	a, b, here := addressFrom("192.0.2.1"), addressFrom("192.0.2.2"), addressFrom("127.0.0.1")
	for i, want := range []bool{true, true, false, false} {
		if s.enter(a) != want {
			t.Errorf("connection %d of an address: want %t", i, want)
		}
	}
	if !s.enter(b) {
		t.Error("another address is refused")
	}
	for range 10_000 {
		if !s.enter(here) {
			t.Fatal("this machine is refused")
		}
	}
	s.leave(a)
	if !s.enter(a) || s.enter(a) {
		t.Error("after one has left, not one can enter")
	}
	s.leave(a)
	s.leave(a)
	s.leave(b)
	s.leave(here)
	if len(s.conns) > 0 {
		t.Errorf("left behind: %v", s.conns)
	}
}

func TestWrongSecretsPerAddress(t *testing.T) {
	s := newAddresses(0, 3)
	a, here := addressFrom("192.0.2.1"), addressFrom("127.0.0.1")
	now := time.Now()
	for i := range 3 {
		if s.barred(a, now) {
			t.Errorf("barred after %d", i)
		}
		if bars := s.failed(a, now); bars != (i == 2) {
			t.Errorf("failure %d: bars is %t", i, bars)
		}
		if s.failed(here, now) {
			t.Error("this machine is to be barred")
		}
	}
	if !s.barred(a, now) || s.barred(here, now) {
		t.Error("the address is not barred, or this machine is")
	}
}

// Who does not give the secret in time is closed, however alive it is.
func TestHelloTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(Config{Tokens: func() (uint64, bool) { return 1, true }, Secrets: [][]byte{[]byte("sesame")}})
		t.Cleanup(func() { n.Shutdown(t.Context()) })
		good, bad := connectIdle(t, n), connectIdle(t, n)
		good.send("H 1 me sesame\n")
		if got, err := good.r.ReadString('\n'); err != nil || got[:4] != "H 1 " {
			t.Fatal(got, err)
		}
		begin := time.Now()
		for {
			if _, err := bad.nc.Write([]byte("P x\n")); err != nil {
				break
			}
			if _, err := bad.r.ReadString('\n'); err != nil {
				break
			}
			time.Sleep(time.Second)
		}
		if took := time.Since(begin); took < time.Minute || took > time.Minute+2*sweepEvery {
			t.Errorf("closed after %v, want a minute", took)
		}
		good.send("P x\n")
		good.want("P x")
	})
}

// A client without the right secret is logged once a minute, and nothing of what
// it said.
func TestUnauthorizedIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		n := New(Config{
			Tokens: func() (uint64, bool) { return 1, true }, Secrets: [][]byte{[]byte("s3cret")},
			Log: slog.New(slog.NewTextHandler(&out, nil)),
		})
		t.Cleanup(func() { n.Shutdown(t.Context()) })
		ask := func(lines ...string) {
			c := connectIdle(t, n)
			for _, line := range lines {
				c.send(line + "\n")
				if got, err := c.r.ReadString('\n'); err != nil || !strings.Contains(got, " unauthorized ") {
					t.Fatalf("%s: %q, %v", line, got, err)
				}
			}
		}
		ask("H 1 swapped guess", "H 1 swapped", "A door 0 30")
		time.Sleep(time.Minute)
		ask("A door 0 30")
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], "a client is refused") || !strings.Contains(lines[0], "another secret") || !strings.Contains(lines[0], "remote=") ||
			!strings.Contains(lines[1], "no secret") || !strings.Contains(lines[1], "not_logged_before=2") {
			t.Errorf("logged:\n%s", &out)
		}
		for _, said := range []string{"guess", "swapped", "s3cret"} {
			if strings.Contains(out.String(), said) {
				t.Errorf("%q is in the log:\n%s", said, &out)
			}
		}
	})
}

// A new secret counts for new hellos; who gave the old one is served on.
func TestSetSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(Config{Tokens: func() (uint64, bool) { return 1, true }, Secrets: [][]byte{[]byte("old")}})
		t.Cleanup(func() { n.Shutdown(t.Context()) })
		first, second, third := connectIdle(t, n), connectIdle(t, n), connectIdle(t, n)
		hello := func(p *idlePeer, secret, want string) {
			t.Helper()
			p.send("H 1 me " + secret + "\n")
			if got, err := p.r.ReadString('\n'); err != nil || got[:len(want)] != want {
				t.Fatalf("%q, %v", got, err)
			}
		}
		hello(first, "old", "H 1 ")
		n.SetSecrets([][]byte{[]byte("new"), []byte("newer")})
		first.send("A k -1 60\n")
		first.want("A k 1 60")
		hello(second, "old", "E H 1 unauthorized")
		second.send("A k -1 60\n")
		if got, _ := second.r.ReadString('\n'); got[:20] != "E A k unauthorized s" {
			t.Errorf("%q", got)
		}
		hello(second, "new", "H 1 ")
		hello(third, "newer", "H 1 ")
	})
}
