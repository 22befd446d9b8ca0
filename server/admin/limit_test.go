package admin

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// A port with as many connections as it takes gives up the one that has been
// idle for longest, and turns the new one away if none is.
func TestLimit(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	limited := limit(l, 2)
	accepted := make(chan net.Conn, 9)
	go func() {
		for {
			c, err := limited.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- c
		}
	}()
	dial := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(20 * time.Second))
		return c
	}
	ends := func(c net.Conn, which string) {
		t.Helper()
		if _, err := c.Read(make([]byte, 1)); err == nil || isTimeout(err) {
			t.Errorf("%s goes on: %v", which, err)
		}
	}
	_, first := dial(), <-accepted
	b, second := dial(), <-accepted
	limited.state(first, http.StateActive)
	limited.state(second, http.StateActive)
	ends(dial(), "a third, while both are being answered,")
	limited.state(second, http.StateIdle)
	c, third := dial(), <-accepted
	ends(b, "the idle one, when a third comes,")
	second.Close() // as the server does then: it counts no more
	limited.state(third, http.StateActive)
	ends(dial(), "a fourth, while both are being answered,")
	third.Close()
	third.Close()
	c.Close()
	dial()
	(<-accepted).Close()
	first.Close()
	if n := len(limited.open); n != 0 {
		t.Errorf("%d are open at the end", n)
	}
}

func isTimeout(err error) bool {
	e, ok := err.(net.Error)
	return ok && e.Timeout()
}

// Who opens connections and leaves them alone, or keeps them alive, keeps
// nobody out: not supervisors, nor who wants to break a lock.
func TestIdleConnectionsKeepNobodyOut(t *testing.T) {
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
		go s.Serve(l, config)
		_, port, _ := net.SplitHostPort(l.Addr().String())
		for i := range maxConnections + 20 {
			nc, err := net.Dial("tcp", "127.0.0.1:"+port)
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			if scheme == "https" {
				nc = tls.Client(nc, &tls.Config{InsecureSkipVerify: true})
			}
			if i%2 == 0 {
				continue // says nothing
			}
			nc.SetDeadline(time.Now().Add(20 * time.Second))
			io.WriteString(nc, "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
			resp, err := http.ReadResponse(bufio.NewReader(nc), nil)
			if err != nil || resp.StatusCode != 200 {
				t.Fatalf("%s: number %d: %v", scheme, i, err)
			}
		}
		c := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
		}}
		for range 5 {
			resp, err := c.Get(scheme + "://127.0.0.1:" + port + "/readyz")
			if err != nil {
				t.Fatalf("%s: %v", scheme, err)
			}
			resp.Body.Close()
		}
		s.Close()
	}
}
