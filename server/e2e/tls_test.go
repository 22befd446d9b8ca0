package e2e

import (
	"bufio"
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stile-lock/stile/server/internal/testca"
)

// talker is a client over any connection.
type talker struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

func talk(t *testing.T, nc net.Conn) *talker {
	t.Cleanup(func() { nc.Close() })
	return &talker{t, nc, bufio.NewReader(nc)}
}

// ask sends a line and wants an answer that begins so.
func (c *talker) ask(line, want string) string {
	c.t.Helper()
	c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Write([]byte(line + "\n")); err != nil {
		c.t.Fatalf("%s: %v", line, err)
	}
	got, err := c.r.ReadString('\n')
	if err != nil || !strings.HasPrefix(got, want) {
		c.t.Fatalf("%s: %q, %v, want %q", line, got, err, want)
	}
	return strings.TrimSuffix(got, "\n")
}

func dialTLS(t *testing.T, addr string, cfg *tls.Config) (*tls.Conn, error) {
	t.Helper()
	return tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", addr, cfg)
}

// SIGHUP reads certificates and secrets anew, drops nobody, and a file that is
// broken changes nothing.
func TestReload(t *testing.T) {
	t.Parallel()
	ca := testca.New(t, "ours")
	hosts := []string{"127.0.0.1"}
	cert, key := ca.Issue("node", hosts, nil)
	secret := filepath.Join(t.TempDir(), "secret")
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(secret, "first-secret\n")
	n := start(t, "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", ca.File, "--secret-file", secret)
	mine, mineKey := ca.Issue("client", nil, nil)
	pair, err := tls.LoadX509KeyPair(mine, mineKey)
	if err != nil {
		t.Fatal(err)
	}
	dial := func() (*talker, string) {
		t.Helper()
		nc, err := dialTLS(t, n.addr, &tls.Config{RootCAs: ca.Pool, Certificates: []tls.Certificate{pair}})
		if err != nil {
			t.Fatal(err)
		}
		return talk(t, nc), nc.ConnectionState().PeerCertificates[0].SerialNumber.Text(16)
	}
	old, serial := dial()
	old.ask("H 1 me first-secret", "H 1 ")
	old.ask("A k -1 600", "A k ")

	said := func(text string, times int) {
		t.Helper()
		for begin := time.Now(); strings.Count(n.stderr(), text) < times; time.Sleep(time.Millisecond) {
			if time.Since(begin) > patience {
				t.Fatalf("it does not say %q %d times:\n%s", text, times, n.stderr())
			}
		}
	}
	ca.Issue("node", hosts, nil)
	write(secret, "second-secret\n")
	n.signal(syscall.SIGHUP)
	said("SIGHUP: read anew", 2)
	c, now := dial()
	if now == serial {
		t.Error("a new connection gets the old certificate")
	}
	c.ask("H 1 me first-secret", "E H 1 unauthorized")
	c.ask("H 1 me second-secret", "H 1 ")
	old.ask("A l -1 600", "A l ")

	write(cert, "broken")
	write(secret, "not one word\n")
	if problems := n.state().Problems; len(problems) != 0 {
		t.Errorf("all is well, and there are problems: %q", problems)
	}
	n.signal(syscall.SIGHUP)
	said("a new file can't be used, the old one stays in force", 2)
	// Both are problems until a reload succeeds, and do not keep anybody out.
	n.eventually("both are problems", func(s state) bool {
		return s.Ready && len(s.Problems) == 2 && strings.Contains(s.Problems[0], "--secret-file") && strings.Contains(s.Problems[1], "--tls-cert")
	})
	c, again := dial()
	if again != now {
		t.Error("a broken file changed the certificate")
	}
	c.ask("H 1 me second-secret", "H 1 ")
	old.ask("A m -1 600", "A m ")
	write(secret, "second-secret\n")
	n.signal(syscall.SIGHUP)
	n.eventually("one is a problem", func(s state) bool { return len(s.Problems) == 1 && strings.Contains(s.Problems[0], "--tls-cert") })
	ca.Issue("node", hosts, nil)
	n.signal(syscall.SIGHUP)
	n.eventually("none is", func(s state) bool { return len(s.Problems) == 0 })
	for _, s := range []string{"first-secret", "second-secret", "not one word"} {
		if strings.Contains(n.stderr(), s) {
			t.Errorf("the log shows a secret:\n%s", n.stderr())
		}
	}

	// Without a certificate nobody gets in.
	bare, err := dialTLS(t, n.addr, &tls.Config{RootCAs: ca.Pool})
	if err == nil {
		bare.SetDeadline(time.Now().Add(patience))
		_, err = bare.Read(make([]byte, 1))
		bare.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "certificate required") {
		t.Errorf("without a certificate: %v", err)
	}
	n.signal(syscall.SIGTERM)
	if status := n.status(patience); status != 0 {
		t.Errorf("status %d", status)
	}
}

// The client secret changes, and nobody who has the old or the new one is refused
// meanwhile, neither by the client port nor by the admin port.
func TestSecretChanges(t *testing.T) {
	t.Parallel()
	secret := secretFile(t, "first-secret")
	n := start(t, "--secret-file", secret)
	check := func(secret string, in bool) {
		t.Helper()
		hello, code := "H 1 ", 404 // nobody holds it
		if !in {
			hello, code = "E H 1 unauthorized", 401
		}
		nc, err := net.DialTimeout("tcp", n.addr, patience)
		if err != nil {
			t.Fatal(err)
		}
		talk(t, nc).ask("H 1 me "+secret, hello)
		if got, body := ask(t, n.admin, "POST", "/break", secret, `{"key": "k", "token": 1}`); got != code {
			t.Errorf("/break with %s: %d %s, want %d", secret, got, body, code)
		}
	}
	for i, step := range []struct {
		file          string
		first, second bool
	}{
		{file: "first-secret", first: true},
		{file: "first-secret\nsecond-secret", first: true, second: true},
		{file: "second-secret\nfirst-secret", first: true, second: true},
		{file: "second-secret", second: true},
	} {
		if err := os.WriteFile(secret, []byte(step.file+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		n.signal(syscall.SIGHUP)
		for begin := time.Now(); strings.Count(n.stderr(), "SIGHUP: read anew") <= i; time.Sleep(time.Millisecond) {
			if time.Since(begin) > patience {
				t.Fatalf("the file is not read anew:\n%s", n.stderr())
			}
		}
		check("first-secret", step.first)
		check("second-secret", step.second)
	}
}

// Beyond loopback the admin port speaks HTTPS with the node's certificate, the
// latest one, and asks operators for the secret, never for a certificate.
func TestAdminHTTPS(t *testing.T) {
	t.Parallel()
	ca := testca.New(t, "ours")
	cert, key := ca.Issue("node", []string{"127.0.0.1"}, nil)
	n := start(t, "--admin=0.0.0.0:0", "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", ca.File,
		"--admin-secret-file", secretFile(t, "for-admins"))
	_, port, err := net.SplitHostPort(n.admin)
	if err != nil {
		t.Fatal(err)
	}
	get := func() (code int, serial string) {
		t.Helper()
		c := http.Client{Timeout: patience, Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: ca.Pool}, DisableKeepAlives: true, ForceAttemptHTTP2: true,
		}}
		r, err := http.NewRequest("GET", "https://127.0.0.1:"+port+"/status", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer for-admins")
		resp, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode, resp.TLS.PeerCertificates[0].SerialNumber.Text(16)
	}
	code, serial := get()
	if code != 200 {
		t.Errorf("with the secret: %d", code)
	}
	if code, body := ask(t, "127.0.0.1:"+port, "GET", "/status", "for-admins", ""); code != 400 {
		t.Errorf("without TLS: %d %s", code, body)
	}
	ca.Issue("node", []string{"127.0.0.1"}, nil)
	n.signal(syscall.SIGHUP)
	n.waitFor("--tls-cert and what goes with it")
	if _, now := get(); now == serial {
		t.Error("after SIGHUP it has the old certificate")
	}
}

// A node with nothing to read anew goes on at SIGHUP.
func TestHangupOfAPlainNode(t *testing.T) {
	t.Parallel()
	n := start(t)
	c := n.dial()
	n.signal(syscall.SIGHUP)
	n.waitFor("no secrets and no certificates")
	c.inStep()
}

// Secrets are in no argument, no variable and no log line of a node.
func TestTheSecretIsNowhere(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(name, []byte("open-sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	n := start(t, "--secret-file", name)
	c := n.dial()
	c.answer("H 1 me open-sesame", "H 1 "+n.addr+" core,keep,ping,hello,resume")
	for _, file := range []string{"cmdline", "environ"} {
		if text, ok := n.proc(file); ok && strings.Contains(text, "sesame") {
			t.Errorf("%s shows the secret", file)
		}
	}
	if strings.Contains(n.stderr(), "sesame") {
		t.Error("the log shows the secret")
	}
}
