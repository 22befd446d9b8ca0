package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stile-lock/stile/bench/internal/fake"
)

// TestMain lets the tests run this program as users do.
func TestMain(m *testing.M) {
	if os.Getenv("BE_STILE_BENCH") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func command(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	// A program under the race detector else sleeps for a second at its end.
	cmd.Env = append(os.Environ(), "BE_STILE_BENCH=1", "GORACE=atexit_sleep_ms=10")
	return cmd
}

func bench(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	cmd := command(args...)
	var out, log strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &log
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), log.String()
}

func TestLoad(t *testing.T) {
	addr, dir := fake.Listen(t, &fake.Server{}), t.TempDir()
	files := []string{filepath.Join(dir, "r.json"), filepath.Join(dir, "r.html"), filepath.Join(dir, "r.svg")}
	for _, driver := range []string{"raw", "nonce", "client"} {
		status, out, log := bench(t, "--addr", addr, "--driver", driver, "--duration", "100ms", "--warmup", "10ms",
			"-c", "4", "-d", "2", "--json", files[0], "--html", files[1], "--svg", files[2])
		if status != 0 || !strings.Contains(out, "pairs/s") || !strings.Contains(out, "p99.99") {
			t.Fatalf("%s: status %d\n%s%s", driver, status, out, log)
		}
		for _, f := range files {
			if i, err := os.Stat(f); err != nil || i.Size() < 500 {
				t.Errorf("%s: %v", f, err)
			}
		}
	}
	fake.Longer(t, func(d time.Duration) bool {
		_, out, _ := bench(t, "load", "--addr", addr, "--duration", d.String(), "--warmup", "0s", "--json", "-")
		var got []struct{ Pairs int }
		if err := json.Unmarshal([]byte(out), &got); err != nil || len(got) != 1 {
			t.Fatalf("%v in %s", err, out)
		}
		return got[0].Pairs > 0
	})
}

// TestWrongAnswersAreStatus1 has the program meet a server that is wrong, in each
// way.
func TestWrongAnswersAreStatus1(t *testing.T) {
	for _, w := range fake.Wrongs {
		t.Run(w.Name, func(t *testing.T) {
			t.Parallel()
			args := []string{"-c", "1", "--keys", "1000", "--warmup", "0s"}
			if w.Name == "no answer" {
				args = append(args, "--drain", "100ms")
			}
			if w.Nonces {
				args = append(args, "--driver", "nonce", "--cancel", "0.5")
			}
			if w.OneKey {
				args = append(args, "-c", "4", "-d", "2", "--keys", "1", "--shared", "--hold", "5ms")
			}
			fake.Longer(t, func(d time.Duration) bool {
				// A server of its own: one that comes to be wrong in a second run may be
				// so from its first answer on, which looks otherwise.
				status, out, log := bench(t, append(args, "--addr", fake.Listen(t, w.Server()), "--duration", d.String())...)
				if status == 0 {
					return false // it has not come to the wrong answer
				}
				if status != 1 || out != "" || !strings.Contains(log, "wrong answer") || !strings.Contains(log, w.Says) {
					t.Errorf("status %d, want 1 and %q\n%s%s", status, w.Says, out, log)
				}
				return true
			})
		})
	}
}

func TestRefusalIsStatus1(t *testing.T) {
	addr := fake.Listen(t, &fake.Server{Spoil: func(_ int, request, _ string) string {
		return "E A " + strings.Fields(request)[1] + " queue-full"
	}})
	status, out, log := bench(t, "--addr", addr)
	if status != 1 || out != "" || !strings.Contains(log, "queue-full") || strings.Contains(log, "wrong") {
		t.Errorf("status %d\n%s%s", status, out, log)
	}
}

func TestNoServer(t *testing.T) {
	status, _, log := bench(t, "--addr", "127.0.0.1:1")
	if status != 1 || !strings.Contains(log, "connection 1 of 64 cannot be opened") {
		t.Errorf("status %d: %s", status, log)
	}
}

func TestEchoServer(t *testing.T) {
	server := command("echo-server", "--listen", "127.0.0.1:0")
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer server.Wait()
	defer server.Process.Kill()
	said, err := bufio.NewReader(out).ReadString('\n')
	addr, ok := strings.CutPrefix(strings.TrimSpace(said), "listening on ")
	if err != nil || !ok {
		t.Fatalf("%q, %v", said, err)
	}
	if status, _, log := bench(t, "--addr", addr, "--driver", "echo", "--duration", "50ms", "--warmup", "0s"); status != 0 {
		t.Errorf("status %d: %s", status, log)
	}
}
