package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stile-lock/stile/server/internal/testca"
)

func open(t *testing.T, f Files) *Certs {
	t.Helper()
	c, err := Open(f)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// shake is a handshake between a server and a client.
func shake(t *testing.T, server, client *tls.Config) (serverErr, clientErr error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	end := make(chan error, 1)
	go func() {
		nc, err := l.Accept()
		if err == nil {
			defer nc.Close()
			s := tls.Server(nc, server)
			if err = s.Handshake(); err == nil {
				_, err = s.Write([]byte("x"))
			}
		}
		end <- err
	}()
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c := tls.Client(nc, client)
	if clientErr = c.Handshake(); clientErr == nil {
		// With TLS 1.3 a client learns here that it is refused.
		_, clientErr = io.ReadFull(c, make([]byte, 1))
	}
	nc.Close()
	return <-end, clientErr
}

func TestServerAndDial(t *testing.T) {
	ca, other := testca.New(t, "ours"), testca.New(t, "other")
	cert, key := ca.Issue("node", []string{"n1.test", "10.0.0.1"}, nil)
	alien, alienKey := other.Issue("alien", []string{"n1.test"}, nil)
	mutual := open(t, Files{Cert: cert, Key: key, ClientCA: ca.File, Host: "n1.test"})
	stranger := open(t, Files{Cert: alien, Key: alienKey, CA: ca.File})

	for _, host := range []string{"n1.test", "10.0.0.1"} {
		if s, c := shake(t, mutual.Server(), mutual.Dial(host)); s != nil || c != nil {
			t.Errorf("as %s: %v, %v", host, s, c)
		}
	}
	var hostErr x509.HostnameError
	if _, err := shake(t, mutual.Server(), mutual.Dial("n2.test")); !errors.As(err, &hostErr) {
		t.Errorf("the wrong host: %v", err)
	}
	var unknown x509.UnknownAuthorityError
	if _, err := shake(t, stranger.Server(), mutual.Dial("n1.test")); !errors.As(err, &unknown) {
		t.Errorf("a server of another authority: %v", err)
	}
	if err, _ := shake(t, mutual.Server(), stranger.Dial("n1.test")); !errors.As(err, &unknown) {
		t.Errorf("a client of another authority: %v", err)
	}
	if s, c := shake(t, mutual.Server(), &tls.Config{RootCAs: ca.Pool, ServerName: "n1.test"}); s == nil || c == nil {
		t.Errorf("a client without a certificate: %v, %v", s, c)
	}
	old := mutual.Dial("n1.test")
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	if s, c := shake(t, mutual.Server(), old); s == nil || c == nil {
		t.Error("TLS 1.1 is spoken")
	}
	old.MaxVersion = tls.VersionTLS12
	if s, c := shake(t, mutual.Server(), old); s != nil || c != nil {
		t.Errorf("TLS 1.2: %v, %v", s, c)
	}
}

func TestRefused(t *testing.T) {
	ca, other := testca.New(t, "ours"), testca.New(t, "other")
	cert, key := ca.Issue("node", []string{"n1.test"}, nil)
	_, wrongKey := ca.Issue("wrong", nil, nil)
	ended, endedKey := ca.Issue("ended", []string{"n1.test"}, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) })
	early, earlyKey := ca.Issue("early", []string{"n1.test"}, func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) })
	server, serverKey := ca.Issue("server", []string{"n1.test"}, func(c *x509.Certificate) {
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	})
	junk := t.TempDir() + "/junk"
	whole, _ := os.ReadFile(ca.File)
	cut := t.TempDir() + "/cut"
	for name, content := range map[string]string{junk: "no PEM\n", cut: string(whole) + string(whole[:200])} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		f    Files
		want string
	}{
		{Files{Cert: "/nowhere", Key: key}, "/nowhere"},
		{Files{Cert: cert, Key: wrongKey}, "private key does not match"},
		{Files{Cert: junk, Key: key}, "--tls-cert"},
		{Files{Cert: ended, Key: endedKey}, "is valid from"},
		{Files{Cert: early, Key: earlyKey}, "is valid from"},
		{Files{Cert: cert, Key: key, ClientCA: junk}, "--tls-client-ca " + junk + " has no certificate"},
		{Files{Cert: cert, Key: key, ClientCA: cut}, "block 2 is broken"},
		{Files{Cert: cert, Key: key, ClientCA: key}, "no certificate: it is a PRIVATE KEY"},
		{Files{Cert: cert, Key: key, CA: "/nowhere"}, "--tls-ca"},
		{Files{Cert: cert, Key: key, ClientCA: ca.File, Host: "10.0.0.1"}, "the peers dial this node as 10.0.0.1"},
		{Files{Cert: cert, Key: key, ClientCA: ca.File, CA: other.File, Host: "n1.test"}, "as a server's"},
		{Files{Cert: cert, Key: key, ClientCA: other.File, CA: ca.File, Host: "n1.test"}, "when it dials them"},
		{Files{Cert: server, Key: serverKey, ClientCA: ca.File, Host: "n1.test"}, "good for servers and clients"},
	} {
		if _, err := Open(tt.f); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q in it", tt.f, err, tt.want)
		}
	}
	// What no peer looks at is no fault.
	open(t, Files{Cert: cert, Key: key, ClientCA: other.File})
	open(t, Files{Cert: server, Key: serverKey, CA: ca.File, Host: "n1.test"})
}

// New files are in force for new connections, also in settings that were given
// out before; broken ones change nothing.
func TestReload(t *testing.T) {
	ca := testca.New(t, "ours")
	cert, key := ca.Issue("node", []string{"old.test"}, nil)
	c := open(t, Files{Cert: cert, Key: key, ClientCA: ca.File})
	server := c.Server()
	good := func(host string) bool {
		_, err := shake(t, server, c.Dial(host))
		return err == nil
	}
	if !good("old.test") || good("new.test") {
		t.Fatal("before")
	}
	serial := c.Leaf().SerialNumber
	ca.Issue("node", []string{"new.test"}, nil)
	if !good("old.test") {
		t.Error("the files were read unasked")
	}
	if err := c.Reload(); err != nil || !good("new.test") || good("old.test") {
		t.Errorf("after: %v", err)
	}
	if c.Leaf().SerialNumber.Cmp(serial) == 0 {
		t.Error("Leaf is the old one")
	}
	if err := os.WriteFile(key, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.Reload(); err == nil || !good("new.test") {
		t.Errorf("a broken key: %v", err)
	}
}

// A certificate that clients will refuse is warned of, not refused: it may be
// meant for a name that leads here.
func TestDoubts(t *testing.T) {
	ca := testca.New(t, "ours")
	named, namedKey := ca.Issue("named", []string{"n1.test", "10.0.0.1"}, nil)
	bare, bareKey := ca.Issue("bare.test", nil, nil)
	usage := func(use ...x509.ExtKeyUsage) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.ExtKeyUsage = use }
	}
	client, clientKey := ca.Issue("client", []string{"n1.test"}, usage(x509.ExtKeyUsageClientAuth))
	plain, plainKey := ca.Issue("plain", []string{"n1.test"}, usage())
	server, serverKey := ca.Issue("server", []string{"n1.test"}, usage(x509.ExtKeyUsageServerAuth))
	for _, tt := range []struct {
		f    Files
		want string
	}{
		{Files{Cert: named, Key: namedKey}, ""},
		{Files{Cert: named, Key: namedKey, ClientHost: "n1.test"}, ""},
		{Files{Cert: named, Key: namedKey, ClientHost: "10.0.0.1"}, ""},
		{Files{Cert: named, Key: namedKey, ClientHost: "10.0.0.2"}, "is not for 10.0.0.2, and clients that dial this node so refuse it: it is for n1.test, 10.0.0.1"},
		{Files{Cert: named, Key: namedKey, ClientHost: "n2.test"}, "is not for n2.test"},
		{Files{Cert: bare, Key: bareKey}, "is for no host"},
		{Files{Cert: bare, Key: bareKey, ClientHost: "bare.test"}, "is for no host"},
		{Files{Cert: client, Key: clientKey, ClientHost: "n1.test"}, "not good for servers"},
		{Files{Cert: plain, Key: plainKey, ClientHost: "n1.test"}, ""},
		{Files{Cert: server, Key: serverKey, ClientHost: "n1.test"}, ""},
	} {
		w := open(t, tt.f).Warnings()
		if tt.want == "" && len(w) > 0 || tt.want != "" && (len(w) != 1 || !strings.Contains(w[0], tt.want)) {
			t.Errorf("%+v: %q, want %q", tt.f, w, tt.want)
		}
	}
}

func TestWarnings(t *testing.T) {
	ca := testca.New(t, "ours")
	cert, key := ca.Issue("node", []string{"n1.test"}, nil)
	if w := open(t, Files{Cert: cert, Key: key}).Warnings(); len(w) > 0 {
		t.Errorf("%q", w)
	}
	if err := os.Chmod(key, 0o644); err != nil {
		t.Fatal(err)
	}
	if w := open(t, Files{Cert: cert, Key: key}).Warnings(); len(w) != 1 || !strings.Contains(w[0], "chmod 600") {
		t.Errorf("%q", w)
	}
}
