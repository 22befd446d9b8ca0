package admin

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// With a certificate the port speaks HTTPS beyond loopback, and HTTP on it.
func TestServeTLS(t *testing.T) {
	own := httptest.NewUnstartedServer(nil) // has a certificate
	own.StartTLS()
	config := &tls.Config{Certificates: own.TLS.Certificates}
	own.Close()
	for listen, scheme := range map[string]string{"0.0.0.0:0": "https", "127.0.0.1:0": "http"} {
		s := newServer(t, newNode(t), "s3cret")
		l, err := net.Listen("tcp", listen)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(l, config) }()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		c := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
		}}
		resp, err := c.Get(scheme + "://127.0.0.1:" + port + "/healthz")
		if err != nil {
			t.Fatalf("%s: %v", listen, err)
		}
		if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "ok\n" {
			t.Errorf("%s: %q, %v", listen, body, err)
		}
		resp.Body.Close()
		s.Close()
		if err := <-ended; err != http.ErrServerClosed {
			t.Error(err)
		}
	}
}
