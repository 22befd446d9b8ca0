package client

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/stile-lock/stile/client/internal/memnet"
	"github.com/stile-lock/stile/protocol"
)

// certificate makes a self-signed one for the names.
func certificate(t *testing.T, names ...string) (tls.Certificate, *x509.CertPool) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: names[0]}, DNSNames: names,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// tlsServer answers every acquire with answer and reports the hellos.
func (w *world) tlsServer(addr string, cert tls.Certificate, answer string, hellos chan<- string) *memnet.Listener {
	lis := w.net.Listen(addr)
	go func() {
		for {
			nc, err := lis.Accept()
			if err != nil {
				return
			}
			go func() {
				defer nc.Close()
				conn := tls.Server(nc, &tls.Config{Certificates: []tls.Certificate{cert}})
				var lines protocol.Lines
				var r protocol.Request
				for {
					n, err := conn.Read(lines.Free())
					lines.Fed(n)
					for {
						line, ok, _ := lines.Next()
						if !ok {
							break
						}
						protocol.ParseRequest(line, &r)
						if r.Op == opH {
							hellos <- addr + " " + string(line)
							conn.Write([]byte("H 1 " + addr + " " + allProfiles + "\n"))
						} else if r.Op == opA {
							conn.Write([]byte(answer + "\n"))
						}
					}
					if err != nil {
						return
					}
				}
			}()
		}
	}()
	return lis
}

// The certificate is verified against the redirect's host, even if a name
// was set for the listed addresses.
func TestTLSVerifiesTheRedirectsHost(t *testing.T) {
	cert, pool := certificate(t, "cluster.test", "n9")
	for _, test := range []struct {
		target string
		want   error
	}{
		{"n9:5625", nil},
		{"n8:5625", ErrNoActive},
	} {
		virtual(t, func(w *world) {
			hellos := make(chan string, 16)
			a := w.tlsServer("n0:5625", cert, "M A k "+test.target, hellos)
			b := w.tlsServer(test.target, cert, "A k 1 30", hellos)
			defer a.Close()
			defer b.Close()
			cfg := &tls.Config{RootCAs: pool, ServerName: "cluster.test", Time: func() time.Time { return x509Now }}
			c := w.client("n0:5625,n1:5625", TLS(cfg), Secret("s3cret"))
			defer c.Close()
			_, err := c.Acquire(bg, "k")
			if test.want == nil {
				if err != nil {
					t.Error(err)
				}
				<-hellos
				if got := <-hellos; got != "n9:5625 H 1 stile-go s3cret" {
					t.Errorf("under TLS the redirect's target read %q; want the secret too", got)
				}
				return
			}
			if wantErr(t, err, test.want, DidNotHappen); err != nil && !strings.Contains(err.Error(), "n8:5625: redirected there, but TLS: ") {
				t.Errorf("error: %v", err)
			}
		})
	}
}

// x509Now is the real time: the virtual one starts in the year 2000.
var x509Now = time.Now()

func TestTLSWrongCertificate(t *testing.T) {
	cert, pool := certificate(t, "somebody-else")
	virtual(t, func(w *world) {
		a := w.tlsServer("n0:5625", cert, "A k 1 30", make(chan string, 16))
		defer a.Close()
		c := w.client("n0:5625", TLS(&tls.Config{RootCAs: pool, Time: func() time.Time { return x509Now }}))
		defer c.Close()
		_, err := c.Acquire(bg, "k")
		if wantErr(t, err, ErrNoConnection, DidNotHappen); err != nil && !strings.Contains(err.Error(), "not n0") {
			t.Errorf("error: %v", err)
		}
	})
}
