package peer

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stile-lock/stile/server/certs"
	"github.com/stile-lock/stile/server/internal/testca"
)

// tlsNode is a mesh whose listener speaks TLS. Its host is 127.0.0.1.
func tlsNode(t *testing.T, id uint8, secret string, f certs.Files) (*node, string) {
	return tlsNodeAt(t, id, secret, f, time.Now)
}

// tlsNodeAt is one with a clock of its own.
func tlsNodeAt(t *testing.T, id uint8, secret string, f certs.Files, clock func() time.Time) (*node, string) {
	t.Helper()
	files, err := certs.Open(f)
	if err != nil {
		t.Fatal(err)
	}
	server, err := files.Server().GetConfigForClient(nil)
	if err != nil {
		t.Fatal(err)
	}
	server = server.Clone()
	server.Time = clock
	n := start(t, id, func(c *Config) {
		c.Secret, c.TLS = []byte(secret), func(host string) *tls.Config {
			dial := files.Dial(host)
			dial.Time = clock
			return dial
		}
		if files.Mutual() {
			c.Host = func(id uint8) (string, bool) { return "127.0.0.1", id < 3 }
		}
	})
	l := listen(t)
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				over := tls.Server(nc, server)
				first := make([]byte, 2)
				if _, err := over.Read(first[:1]); err != nil {
					nc.(*net.TCPConn).CloseWrite()
					nc.Read(make([]byte, 1<<10))
					nc.Close()
					return
				}
				n.Accept(over, first[:1])
			}()
		}
	}()
	return n, l.Addr().String()
}

func TestTLSLinks(t *testing.T) {
	ca, other := testca.New(t, "ours"), testca.New(t, "other")
	cert, key := ca.Issue("node", []string{"127.0.0.1"}, nil)
	clientCert, clientKey := ca.Issue("client", []string{"client.test"}, nil)
	alien, alienKey := other.Issue("alien", []string{"127.0.0.1"}, nil)
	mutual := certs.Files{Cert: cert, Key: key, ClientCA: ca.File}
	for _, tt := range []struct {
		name         string
		id           uint8 // of the dialer
		dials, waits certs.Files
		secrets      [2]string
		unproved     string  // in the dialer's error
		verdict      Verdict // told to it
		logged       string  // by the one that waits
	}{
		{name: "mutual, no secret", dials: mutual, waits: mutual},
		{name: "mutual and a secret", dials: mutual, waits: mutual, secrets: [2]string{"s", "s"}},
		{name: "a secret over TLS", dials: certs.Files{Cert: cert, Key: key, CA: ca.File}, waits: certs.Files{Cert: cert, Key: key}, secrets: [2]string{"s", "s"}},
		{name: "another secret", dials: mutual, waits: mutual, secrets: [2]string{"s", "z"}, unproved: "another cluster secret", logged: "does not know the cluster's secret"},
		{name: "the dialer has another authority", dials: certs.Files{Cert: alien, Key: alienKey, CA: ca.File}, waits: mutual, unproved: "refuses this node's certificate"},
		{name: "the other one has another authority", dials: mutual, waits: certs.Files{Cert: alien, Key: alienKey}, unproved: "its certificate is refused"},
		{name: "a client says it is a node", dials: certs.Files{Cert: clientCert, Key: clientKey, ClientCA: ca.File}, waits: mutual, verdict: Unvouched, logged: "its certificate does not"},
		{name: "a client says it is an unlisted node", id: 7, dials: certs.Files{Cert: clientCert, Key: clientKey, ClientCA: ca.File}, waits: mutual, verdict: Unvouched, logged: "its certificate does not"},
		{name: "an unlisted node that has the secret", id: 7, dials: mutual, waits: mutual, secrets: [2]string{"s", "s"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.id == 0 {
				tt.id = 1
			}
			a, _ := tlsNode(t, tt.id, tt.secrets[0], tt.dials)
			b, addr := tlsNode(t, 2, tt.secrets[1], tt.waits)
			a.book.set(2, addr)
			b.book.set(tt.id, "")
			a.Dial(2)
			if tt.unproved == "" && tt.verdict == accepted {
				next(t, a.outs, OutUp)
				next(t, b.ins, InUp)
				if !a.Send(2, []byte("over TLS")) {
					t.Error("not sent")
				}
				if e := next(t, b.ins, Frame); string(e.Payload) != "over TLS" {
					t.Errorf("%q", e.Payload)
				}
				a.Cut(2)
				next(t, b.ins, InLost)
				return
			}
			e := next(t, a.outs, DialFailed)
			var rejected *RejectedError
			switch {
			case e.Refused || !e.Misfit:
				t.Errorf("as if nobody were there: %v", e.Err)
			case tt.verdict != accepted && !(errors.As(e.Err, &rejected) && rejected.Verdict == tt.verdict):
				t.Errorf("%v", e.Err)
			case tt.unproved != "" && !(errors.Is(e.Err, errUnproved) && strings.Contains(e.Err.Error(), tt.unproved)):
				t.Errorf("%v", e.Err)
			}
			// It is told before it is logged.
			for begin := time.Now(); !strings.Contains(b.logLines.String(), tt.logged); time.Sleep(time.Millisecond) {
				if time.Since(begin) > patience {
					t.Fatalf("logged: %s", b.logLines)
				}
			}
			nothing(t, b.ins)
		})
	}
}

// Who dials learns that a certificate has ended, not that its authority is
// unknown.
func TestTLSEnded(t *testing.T) {
	ca := testca.New(t, "ours")
	cert, key := ca.Issue("node", []string{"127.0.0.1"}, nil)
	files := certs.Files{Cert: cert, Key: key, ClientCA: ca.File}
	later := func() time.Time { return time.Now().Add(10_000 * time.Hour) }
	for _, tt := range []struct {
		name         string
		dials, waits func() time.Time
		want         string
	}{
		{"the other one's", later, time.Now, "give that node a new one"},
		{"its own", time.Now, later, "--tls-cert has ended"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, _ := tlsNodeAt(t, 1, "", files, tt.dials)
			b, addr := tlsNodeAt(t, 2, "", files, tt.waits)
			a.book.set(2, addr)
			b.book.set(1, "")
			a.Dial(2)
			e := next(t, a.outs, DialFailed)
			if e.Refused || !errors.Is(e.Err, errUnproved) || !strings.Contains(e.Err.Error(), tt.want) || strings.Contains(e.Err.Error(), "authority") {
				t.Errorf("refused %t, %v", e.Refused, e.Err)
			}
		})
	}
	name, other := x509.HostnameError{Certificate: new(x509.Certificate), Host: "n1"}, x509.UnknownAuthorityError{}
	if said := refuseFor(name, "n1"); !strings.Contains(said, "has to be for n1") || strings.Contains(said, "authority") {
		t.Errorf("for another host: %s", said)
	}
	if said := refuseFor(other, "n1"); !strings.Contains(said, "--tls-ca") {
		t.Errorf("of another authority: %s", said)
	}
}

// One side speaks TLS and the other does not: somebody is there, and it is
// said what is wrong.
func TestTLSOnOneSide(t *testing.T) {
	ca := testca.New(t, "ours")
	cert, key := ca.Issue("node", []string{"127.0.0.1"}, nil)
	secure := certs.Files{Cert: cert, Key: key, CA: ca.File}
	serve := func(do func(nc net.Conn)) string {
		l := listen(t)
		go func() {
			for {
				nc, err := l.Accept()
				if err != nil {
					return
				}
				do(nc)
				nc.Close()
			}
		}()
		return l.Addr().String()
	}
	answers := serve(func(nc net.Conn) {
		nc.Read(make([]byte, 4096))
		nc.Write([]byte("E ? ? bad-request\n"))
	})
	files, err := certs.Open(secure)
	if err != nil {
		t.Fatal(err)
	}
	falters := serve(func(nc net.Conn) { // not a word within TLS
		over := tls.Server(nc, files.Server())
		over.Handshake()
		over.Read(make([]byte, 256))
	})
	overTLS, _ := tlsNode(t, 1, "s", secure)
	plain := start(t, 1)
	for _, tt := range []struct {
		name string
		node *node
		addr string
		text string
	}{
		{"TLS to plain", overTLS, answers, "does not speak TLS"},
		{"plain to what answers plain with an alert", plain, serve(func(nc net.Conn) {
			nc.Read(make([]byte, 4096))
			nc.Write([]byte("\x15\x03\x01\x00\x02\x02\x0a"))
		}), "it speaks TLS"},
		{"plain to TLS that says so", plain, answers, "all nodes have --tls-cert or none has"},
		{"TLS to one that closes", overTLS, falters, "closed before a word"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.node.book.set(2, tt.addr)
			tt.node.Dial(2)
			if e := next(t, tt.node.outs, DialFailed); e.Refused || !e.Misfit || !strings.Contains(e.Err.Error(), tt.text) {
				t.Errorf("refused %t, a misfit %t: %v", e.Refused, e.Misfit, e.Err)
			}
		})
	}
}

// A new secret is for links to come.
func TestSetSecret(t *testing.T) {
	a, b := pair(t)
	a.Dial(2)
	next(t, a.outs, OutUp)
	next(t, b.ins, InUp)
	b.SetSecret([]byte("new"))
	if !a.Send(2, []byte("still")) {
		t.Error("not sent")
	}
	next(t, b.ins, Frame)
	a.Cut(2)
	next(t, a.outs, OutLost)
	a.Dial(2)
	if e := next(t, a.outs, DialFailed); !errors.Is(e.Err, errUnproved) {
		t.Error(e.Err)
	}
	a.SetSecret([]byte("new"))
	a.Dial(2)
	next(t, a.outs, OutUp)
}

// A peer whose connection is taken, and that says nothing, may have no TLS; one
// that has been linked with most likely hangs.
func TestTLSSilent(t *testing.T) {
	ca := testca.New(t, "ours")
	cert, key := ca.Issue("node", []string{"127.0.0.1"}, nil)
	files := certs.Files{Cert: cert, Key: key, ClientCA: ca.File}
	silent := listen(t).Addr().String() // the kernel takes what nobody accepts
	const hangs, without = "its process hangs or is stopped", "--tls-cert"
	for _, linked := range []bool{false, true} {
		a, _ := tlsNode(t, 1, "", files)
		first, then := without, hangs
		if linked {
			b, addr := tlsNode(t, 2, "", files)
			a.book.set(2, addr)
			b.book.set(1, "")
			a.Dial(2)
			next(t, a.outs, OutUp)
			a.Cut(2)
			next(t, a.outs, OutLost)
			first, then = hangs, without
		}
		a.cfg.HandshakeTimeout = short
		a.book.set(2, silent)
		a.Dial(2)
		e := next(t, a.outs, DialFailed)
		said := e.Err.Error()
		if i, j := strings.Index(said, first), strings.Index(said, then); e.Refused || e.Misfit || i < 0 || j < i {
			t.Errorf("linked before: %v; refused %v, a misfit %v: %s", linked, e.Refused, e.Misfit, said)
		}
	}
}
