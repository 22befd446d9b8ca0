package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stile-lock/stile/server/certs"
)

// recipe is the block of commands below a heading of SECURITY.md.
func recipe(t *testing.T, heading string) string {
	t.Helper()
	raw, err := os.ReadFile("../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(raw), "\n## "+heading+"\n")
	_, rest, ok2 := strings.Cut(rest, "```sh\n")
	block, _, ok3 := strings.Cut(rest, "```\n")
	if !ok || !ok2 || !ok3 {
		t.Fatalf("SECURITY.md has no commands below %q", heading)
	}
	return block
}

func opensslIsThere() error {
	if _, err := exec.LookPath("bash"); err != nil {
		return err
	}
	out, err := exec.Command("openssl", "version").Output()
	if err != nil {
		return err
	}
	major := 0
	if n, _ := fmt.Sscanf(string(out), "OpenSSL %d.", &major); n == 0 || major < 3 {
		return fmt.Errorf("want OpenSSL 3, this is %s", out)
	}
	return nil
}

// What SECURITY.md says to type makes secrets and certificates that nodes take
// without a warning, and clients too.
func TestRecipe(t *testing.T) {
	t.Parallel()
	if err := opensslIsThere(); err != nil {
		// macOS has something else by that name.
		if os.Getenv("CI") == "true" && runtime.GOOS == "linux" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	dir := t.TempDir()
	lines := recipe(t, "How to make secrets and certificates")
	if !strings.Contains(lines, "IP:10.0.0.1") {
		t.Fatalf("no node of it is 10.0.0.1:\n%s", lines)
	}
	sh := exec.Command("bash", "-euc", strings.ReplaceAll(lines, "IP:10.0.0.1", "IP:127.0.0.1"))
	sh.Dir = dir
	if out, err := sh.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	read := func(name string) string {
		t.Helper()
		raw, err := os.ReadFile(in(name))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(raw))
	}
	if a, b := read("clients"), read("cluster"); len(a) < 20 || a == b {
		t.Errorf("the secrets are %q and %q", a, b)
	}
	// As a member of a cluster; a client's makes none.
	if _, err := certs.Open(certs.Files{Cert: in("n1.pem"), Key: in("n1.key"), ClientCA: in("ca.pem"), Host: "lock1.example"}); err != nil {
		t.Error(err)
	}
	if _, err := certs.Open(certs.Files{Cert: in("backup.pem"), Key: in("backup.key"), ClientCA: in("ca.pem"), Host: "lock1.example"}); err == nil {
		t.Error("a client's certificate makes a node")
	}

	n := start(t, "--tls-cert", in("n1.pem"), "--tls-key", in("n1.key"), "--tls-client-ca", in("ca.pem"),
		"--secret-file", in("clients"), "--admin-secret-file", in("admin"))
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(read("ca.pem"))) {
		t.Fatal("ca.pem has no certificate")
	}
	pair, err := tls.LoadX509KeyPair(in("backup.pem"), in("backup.key"))
	if err != nil {
		t.Fatal(err)
	}
	nc, err := dialTLS(t, n.addr, &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}})
	if err != nil {
		t.Fatal(err)
	}
	c := talk(t, nc)
	c.ask("H 1 backup "+read("clients"), "H 1 ")
	c.ask("A k -1 30", "A k ")
	if log := n.stderr(); strings.Contains(log, `"WARN"`) {
		t.Errorf("it warns:\n%s", log)
	}
}
