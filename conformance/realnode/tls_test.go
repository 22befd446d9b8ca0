package realnode

import (
	"crypto/tls"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stile-lock/stile/client"
	"github.com/stile-lock/stile/conformance/testca"
)

// The client and the node over TLS, with and without certificates of clients.
func TestTLS(t *testing.T) {
	ca, other := testca.New(t, "ours"), testca.New(t, "other")
	cert, key := ca.Issue("node", "127.0.0.1")
	server := startNode(t, "--tls-cert", cert, "--tls-key", key)
	mutual := startNode(t, "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", ca.File)
	mine := []tls.Certificate{ca.Pair("client")}
	alien := []tls.Certificate{other.Pair("client")}
	for _, tt := range []struct {
		name string
		n    *node
		cfg  *tls.Config
		want string // in the error; "" if it works
	}{
		{"server", server, &tls.Config{RootCAs: ca.Pool}, ""},
		{"mutual", mutual, &tls.Config{RootCAs: ca.Pool, Certificates: mine}, ""},
		{"TLS 1.2", mutual, &tls.Config{RootCAs: ca.Pool, Certificates: mine, MaxVersion: tls.VersionTLS12}, ""},
		{"another authority of the server", server, &tls.Config{RootCAs: other.Pool}, "unknown authority"},
		{"another name of the server", server, &tls.Config{RootCAs: ca.Pool, ServerName: "n1.test"}, "wanted to match n1.test"},
		{"no certificate", mutual, &tls.Config{RootCAs: ca.Pool}, "certificate required"},
		{"another authority of the client", mutual, &tls.Config{RootCAs: ca.Pool, Certificates: alien}, "tls: "},
		{"no TLS", mutual, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			opts := []client.Option{}
			if tt.cfg != nil {
				opts = append(opts, client.TLS(tt.cfg))
			}
			c := dial(t, tt.n.addr, opts...)
			l, err := c.Acquire(t.Context(), "k", client.Wait(5*time.Second))
			if tt.cfg == nil || tt.want != "" {
				if !errors.Is(err, client.ErrNoConnection) || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%v, want %q in it", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Keep(t.Context(), time.Minute); err != nil {
				t.Error(err)
			}
			release(t, l)
		})
	}
}

// A client goes on over a change of the node's certificate, without losing its
// connections; one that comes later sees the new one.
func TestTLSReload(t *testing.T) {
	ca, next := testca.New(t, "ours"), testca.New(t, "next")
	cert, key := ca.Issue("node", "127.0.0.1")
	n := startNode(t, "--tls-cert", cert, "--tls-key", key)
	c := dial(t, n.addr, client.TLS(&tls.Config{RootCAs: ca.Pool}))
	l := acquire(t, c, "k", client.Lease(time.Minute))
	connections := n.status(t).Connections

	next.IssueTo(cert, key, "node", "127.0.0.1")
	if err := n.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	within(t, 10*time.Second, "the new certificate is in use", func() bool {
		nc, err := tls.Dial("tcp", n.addr, &tls.Config{RootCAs: next.Pool})
		if err == nil {
			nc.Close()
		}
		return err == nil
	})
	if err := l.Keep(t.Context(), time.Minute); err != nil {
		t.Error(err)
	}
	release(t, l)
	within(t, 10*time.Second, "the client has its connections", func() bool { return n.status(t).Connections == connections })
	later := dial(t, n.addr, client.TLS(&tls.Config{RootCAs: next.Pool}))
	release(t, acquire(t, later, "k"))
}
