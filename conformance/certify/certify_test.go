package certify

import (
	"context"
	"encoding/json"
	"flag"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stile-lock/stile/conformance/ports"
	"github.com/stile-lock/stile/conformance/report"
	"github.com/stile-lock/stile/conformance/testca"
)

var (
	keep = flag.String("certificates", "", "directory for the certificates, badges and reports")
)

// program builds a program of the workspace.
func program(t *testing.T, module, pkg string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), filepath.Base(pkg))
	build := exec.Command("go", "build", "-o", out, pkg)
	build.Dir = filepath.Join("..", "..", module)
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build, err, text)
	}
	return out
}

// serve starts a server on a free address of loopback and returns that. It is
// stopped at the end of the test.
func serve(t *testing.T, command func(addr string) *exec.Cmd) string {
	t.Helper()
	addr, err := ports.Addr("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	cmd := command(addr)
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			t.Error("the server did not stop")
			cmd.Process.Kill()
			<-ended
		}
		if t.Failed() {
			t.Logf("the server said:\n%s", said.String())
		}
	})
	for limit := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
			return addr
		}
		if time.Now().After(limit) {
			t.Fatalf("%v does not listen on %s", cmd, addr)
		}
	}
}

// certify runs the suite against a target: it must be conformant, and pass
// these profiles.
func certify(t *testing.T, suite, name string, profiles []string, args ...string) {
	t.Helper()
	dir := *keep
	if dir == "" {
		dir = t.TempDir()
	}
	file := func(ext string) string { return filepath.Join(dir, name+ext) }
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, suite, append(args,
		"--certificate", file(".json"), "--badge", file(".svg"), "--html", file(".html"), "--junit", file(".xml"))...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	start := time.Now()
	out, err := cmd.CombinedOutput()
	t.Logf("%s: %v, in %v\n%s", name, cmd.ProcessState, time.Since(start).Round(100*time.Millisecond), out)

	text, readErr := os.ReadFile(file(".json"))
	if readErr != nil {
		t.Fatalf("no certificate: %v", readErr)
	}
	var got report.Certificate
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	var busy []string
	for _, r := range got.Results {
		switch {
		case !r.Must || r.Outcome == report.Passed:
		case r.Outcome == report.NotJudged && strings.Contains(r.Text, "this machine could not keep the time"):
			busy = append(busy, r.ID)
		default:
			t.Errorf("%s: %s: %s", r.ID, r.Outcome, r.Text)
		}
	}
	if t.Failed() {
		return
	}
	if len(busy) > 0 {
		t.Skipf("this machine is too busy for a certificate: it did not keep the time for %v", busy)
	}
	if err != nil {
		t.Errorf("%v: %v", cmd, err)
	}
	for _, want := range profiles {
		if !slices.ContainsFunc(got.Profiles, func(p report.Profile) bool { return p.Name == want && p.Passed }) {
			t.Errorf("the certificate does not have the profile %s", want)
		}
	}
	if out, err := exec.Command(suite, "verify", file(".json")).CombinedOutput(); err != nil {
		t.Errorf("verify: %v\n%s", err, out)
	}
}

func TestCertify(t *testing.T) {
	if *keep != "" {
		dir, err := filepath.Abs(*keep)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		*keep = dir
	}
	suite := program(t, "conformance", "./cmd/stile-conformance")
	stiled := program(t, "server", "./cmd/stiled")
	said, err := exec.Command(stiled, "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	version := strings.TrimSpace(string(said))
	testee := program(t, "conformance", "./cmd/stile-testee-go")
	// Whatever python3 is may be a script that looks for it, anew at each start.
	interpreter, noPython := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
	python := strings.TrimSpace(string(interpreter))
	all := []string{"core", "keep", "ping", "hello", "resume"}

	t.Run("node", func(t *testing.T) {
		t.Parallel()
		secret := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(secret, []byte("open-sesame\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		addr := serve(t, func(addr string) *exec.Cmd {
			return exec.Command(stiled, "--listen", addr, "--admin=", "--state-dir", t.TempDir(), "--secret-file", secret,
				"--max-connections", "200", "--max-waiters-per-key", "1500", "--max-unanswered", "2000")
		})
		certify(t, suite, "stiled", append(all, "secret", "limits"), "server", "--addr", addr, "--software", version, "--secret-file", secret,
			"--limits", "connections=200,waiters-per-key=1500,unanswered=2000,default-lease=30,max-lease=86400")
	})
	t.Run("node over TLS", func(t *testing.T) {
		t.Parallel()
		ca := testca.New(t, "ours")
		cert, key := ca.Issue("node", "127.0.0.1")
		mine, mineKey := ca.Issue("suite")
		addr := serve(t, func(addr string) *exec.Cmd {
			return exec.Command(stiled, "--listen", addr, "--admin=", "--state-dir", t.TempDir(),
				"--tls-cert", cert, "--tls-key", key, "--tls-client-ca", ca.File,
				"--max-connections", "200", "--max-waiters-per-key", "1500", "--max-unanswered", "2000")
		})
		certify(t, suite, "stiled-tls", append(all, "limits"), "server", "--addr", addr, "--software", version,
			"--tls-ca", ca.File, "--tls-cert", mine, "--tls-key", mineKey,
			"--limits", "connections=200,waiters-per-key=1500,unanswered=2000,default-lease=30,max-lease=86400")
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		certify(t, suite, "stiled-cluster", []string{"cluster"}, "server", "--software", version, "--launch",
			stiled+" --listen {listen} --advertise {advertise} --peers {peers} --state-dir {state_dir} --admin=")
	})
	t.Run("client", func(t *testing.T) {
		t.Parallel()
		certify(t, suite, "client-go", append(all, "secret", "limits"), "client", "--testee", testee)
	})
	t.Run("python server", func(t *testing.T) {
		if noPython != nil {
			t.Skip("there is no python3 on this machine: the examples in Python are not certified")
		}
		t.Parallel()
		addr := serve(t, func(addr string) *exec.Cmd {
			return exec.Command(python, filepath.Join("..", "examples", "server.py"), "--listen", addr)
		})
		certify(t, suite, "server-python", all, "server", "--addr", addr, "--software", "examples/server.py")
	})
	t.Run("python client", func(t *testing.T) {
		if noPython != nil {
			t.Skip("there is no python3 on this machine: the examples in Python are not certified")
		}
		t.Parallel()
		certify(t, suite, "client-python", append(all, "secret", "limits"), "client", "--testee", python+" "+filepath.Join("..", "examples", "testee.py"))
	})
}
