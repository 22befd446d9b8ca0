//go:build unix

package e2e

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A service manager hears that the node is ready when it takes connections,
// that it lives, again and again, and that it stops and for how long at most.
// While the process stands still the watchdog hears nothing.
func TestServiceManager(t *testing.T) {
	t.Parallel()
	bin, err := stiled()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "stile-notify-") // short: a socket's path is at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	buf := make([]byte, 4096)
	hear := func(within time.Duration) string {
		manager.SetReadDeadline(time.Now().Add(within))
		n, err := manager.Read(buf)
		if err != nil {
			return ""
		}
		return string(buf[:n])
	}

	cmd := exec.Command(bin, "--listen", "127.0.0.1:0", "--admin=", "--state-dir", filepath.Join(dir, "state"), "--stop-timeout", "7s")
	cmd.Env = append(cleanEnv(),
		"NOTIFY_SOCKET="+filepath.Join(dir, "notify"), "WATCHDOG_USEC="+strconv.Itoa(int((600*time.Millisecond).Microseconds())))
	p := launch(t, cmd)
	if got := hear(patience); got != "READY=1" {
		t.Fatalf("the manager heard %q first, want READY=1\n%s", got, p.stderr())
	}
	line := p.waitFor("stiled serves")
	_, addr, _ := strings.Cut(line, "listen=")
	addr, _, _ = strings.Cut(addr, " ")
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatalf("ready, but %v", err)
	}
	conn.Close()
	for range 3 {
		if got := hear(patience); got != "WATCHDOG=1" {
			t.Fatalf("the manager heard %q, want WATCHDOG=1", got)
		}
	}

	p.cmd.Process.Signal(syscall.SIGSTOP)
	for hear(50*time.Millisecond) != "" { // what was sent before
	}
	if got := hear(time.Second); got != "" {
		t.Errorf("the manager heard %q from a process that stands still", got)
	}
	p.cmd.Process.Signal(syscall.SIGCONT)
	if got := hear(patience); got != "WATCHDOG=1" {
		t.Errorf("the manager heard %q from a process that goes on, want WATCHDOG=1", got)
	}

	p.cmd.Process.Signal(syscall.SIGTERM)
	got := hear(patience)
	for got == "WATCHDOG=1" {
		got = hear(patience)
	}
	if want := "STOPPING=1\nEXTEND_TIMEOUT_USEC=8000000"; got != want {
		t.Errorf("the manager heard %q, want %q", got, want)
	}
	<-p.done
	if status := p.cmd.ProcessState.ExitCode(); status != 0 {
		t.Errorf("exit status %d", status)
	}
}
