//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stile-lock/stile/conformance/ports"
)

// The programs under test, built once.
var stile, stiled string

// raceFlag builds stile with the race detector, if the test has it.
var raceFlag []string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "stile-cli-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	stile, stiled = filepath.Join(dir, "stile"), filepath.Join(dir, "stiled")
	for _, b := range []struct {
		dir, to, from string
		flags         []string
	}{
		{".", stile, ".", raceFlag}, {filepath.Join("..", "..", "..", "server"), stiled, "./cmd/stiled", nil},
	} {
		build := exec.Command("go", append(append([]string{"build"}, b.flags...), "-o", b.to, b.from)...)
		build.Dir, build.Stderr = b.dir, os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "building", b.from, ":", err)
			return 1
		}
	}
	return m.Run()
}

// node is a stiled that ends with the test.
type node struct {
	cmd         *exec.Cmd
	addr, admin string
}

func startNode(t *testing.T, args ...string) *node {
	t.Helper()
	addr, err := ports.Addr("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ports.Free(addr) })
	n := &node{addr: addr}
	n.start(t, t.TempDir(), args...)
	return n
}

func (n *node) start(t *testing.T, dir string, args ...string) {
	t.Helper()
	n.cmd = exec.Command(stiled, append([]string{
		"--listen", n.addr, "--admin", "127.0.0.1:0", "--state-dir", dir, "--log-format", "json",
	}, args...)...)
	n.cmd.Env = cleanEnv()
	logs, err := n.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.kill)
	in := bufio.NewScanner(logs)
	var seen []string
	for n.admin == "" && in.Scan() {
		var line struct{ Admin string }
		json.Unmarshal(in.Bytes(), &line)
		n.admin = line.Admin
		seen = append(seen, in.Text())
	}
	if n.admin == "" {
		t.Fatalf("stiled did not start:\n%s", strings.Join(seen, "\n"))
	}
	go io.Copy(io.Discard, logs)
}

func (n *node) kill() {
	n.cmd.Process.Signal(syscall.SIGCONT)
	n.cmd.Process.Kill()
	n.cmd.Wait()
}

func (n *node) stop(t *testing.T) { signalTo(t, n.cmd.Process.Pid, syscall.SIGSTOP) }

func (n *node) count(t *testing.T) (held, waiting, connections int) {
	t.Helper()
	out := run(t, []string{"STILE_ADMIN_ADDRS=" + n.admin}, "status", "--json").stdout
	var s struct {
		Nodes []struct {
			Status struct{ Held, Waiting, Connections int }
		}
	}
	if err := json.Unmarshal([]byte(out), &s); err != nil || len(s.Nodes) != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	st := s.Nodes[0].Status
	return st.Held, st.Waiting, st.Connections
}

// cleanEnv is the environment without settings of Stile.
func cleanEnv() (env []string) {
	// A program under the race detector else sleeps for a second at its end.
	env = append(env, "GORACE=atexit_sleep_ms=10")
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "STILE_") {
			env = append(env, kv)
		}
	}
	return env
}

func (n *node) env() []string {
	// Some shells ignore signals of their own accord.
	return []string{"STILE_ADDRS=" + n.addr, "STILE_ADMIN_ADDRS=" + n.admin, "SHELL=/bin/sh"}
}

// process is a stile that runs.
type process struct {
	cmd    *exec.Cmd
	mu     sync.Mutex
	outBuf bytes.Buffer
	errBuf bytes.Buffer
	done   chan struct{}
	began  time.Time
	took   time.Duration
	status int
}

type locked struct {
	p *process
	b *bytes.Buffer
}

func (l locked) Write(b []byte) (int, error) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	return l.b.Write(b)
}

func (p *process) stdout() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.outBuf.String()
}

func (p *process) stderr() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.errBuf.String()
}

// begin starts stile. What is left of it at the end of the test is killed.
func begin(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(stile, args...), done: make(chan struct{})}
	p.cmd.Env = append(cleanEnv(), env...)
	p.cmd.Stdout, p.cmd.Stderr = locked{p, &p.outBuf}, locked{p, &p.errBuf}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal
	// Somebody who holds the pipes must not hold up the test.
	p.cmd.WaitDelay = 2 * time.Second
	p.began = time.Now()
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		err := p.cmd.Wait()
		p.took = time.Since(p.began)
		p.status = p.cmd.ProcessState.ExitCode()
		if ws := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
			p.status = 1000 + int(ws.Signal())
		} else if errors.Is(err, exec.ErrWaitDelay) {
			p.status = 2000 // something held the pipes
		}
		close(p.done)
	}()
	t.Cleanup(func() {
		p.cmd.Process.Signal(syscall.SIGCONT)
		p.cmd.Process.Kill()
		<-p.done
	})
	return p
}

// end waits for it.
func (p *process) end(t *testing.T, within time.Duration) *process {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(within):
		t.Fatalf("stile %v has not ended within %v\nstdout: %s\nstderr: %s", p.cmd.Args[1:], within, p.stdout(), p.stderr())
	}
	return p
}

// result is what a stile that has ended said.
type result struct {
	status         int
	stdout, stderr string
	took           time.Duration
}

func (p *process) result() result { return result{p.status, p.stdout(), p.stderr(), p.took} }

func run(t *testing.T, env []string, args ...string) result {
	t.Helper()
	return begin(t, env, args...).end(t, 40*time.Second).result()
}

func (r result) want(t *testing.T, status int, in ...string) {
	t.Helper()
	if r.status != status {
		t.Errorf("status %d, want %d\nstdout: %s\nstderr: %s", r.status, status, r.stdout, r.stderr)
	}
	for _, text := range in {
		if !strings.Contains(r.stdout+r.stderr, text) {
			t.Errorf("no %q in\nstdout: %s\nstderr: %s", text, r.stdout, r.stderr)
		}
	}
}

// within polls until ok.
func within(t *testing.T, d time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(d)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", d, what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// pids waits for the numbers that a command has written into a file, one to a
// line.
func pids(t *testing.T, file string, n int) []int {
	t.Helper()
	var all []int
	within(t, 10*time.Second, "the command wrote its process ids", func() bool {
		b, _ := os.ReadFile(file)
		all = all[:0]
		for line := range strings.Lines(string(b)) {
			if pid, err := strconv.Atoi(strings.TrimSuffix(line, "\n")); err == nil && strings.HasSuffix(line, "\n") {
				all = append(all, pid)
			}
		}
		return len(all) >= n
	})
	return all
}

// alive reports whether a process runs: not if it is a zombie.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	after := string(b[bytes.LastIndexByte(b, ')')+1:])
	return !strings.HasPrefix(after, " Z") && !strings.HasPrefix(after, " X")
}

func signalTo(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatalf("signal %v to %d: %v", s, pid, err)
	}
}

type cluster struct{ nodes []*node }

func startCluster(t *testing.T, args ...string) *cluster {
	t.Helper()
	c := new(cluster)
	var list []string
	for range 3 {
		addr, err := ports.Addr("127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ports.Free(addr) })
		c.nodes = append(c.nodes, &node{addr: addr})
		list = append(list, addr)
	}
	for _, n := range c.nodes {
		n.start(t, t.TempDir(), append([]string{"--peers", strings.Join(list, ",")}, args...)...)
	}
	within(t, 20*time.Second, "the cluster is well", func() bool { return run(t, c.env(), "status").status == 0 })
	return c
}

func (c *cluster) env() []string {
	var addrs, admins []string
	for _, n := range c.nodes {
		addrs, admins = append(addrs, n.addr), append(admins, n.admin)
	}
	return []string{"STILE_ADDRS=" + strings.Join(addrs, ","), "STILE_ADMIN_ADDRS=" + strings.Join(admins, ","), "SHELL=/bin/sh"}
}
