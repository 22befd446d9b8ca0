package realnode

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// stiled is the binary under test, built once.
var stiled string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "stile-realnode-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	stiled = filepath.Join(dir, "stiled")
	build := exec.Command("go", "build", "-o", stiled, "./cmd/stiled")
	build.Dir = filepath.Join("..", "..", "server")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building stiled:", err)
		return 1
	}
	return m.Run()
}

// node is a stiled process that ends with the test.
type node struct {
	cmd         *exec.Cmd
	addr, admin string
}

func startNode(t *testing.T, args ...string) *node {
	t.Helper()
	return startNodeAt(t, "127.0.0.1:0", t.TempDir(), args...)
}

func startNodeAt(t *testing.T, listen, dir string, args ...string) *node {
	t.Helper()
	cmd := exec.Command(stiled, append([]string{
		"--listen", listen, "--admin", "127.0.0.1:0", "--state-dir", dir, "--log-format", "json",
	}, args...)...)
	logs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	n := &node{cmd: cmd}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGCONT)
		cmd.Process.Kill()
		cmd.Wait()
	})
	in := bufio.NewScanner(logs)
	var seen []string
	for n.addr == "" && in.Scan() {
		var line struct{ Listen, Admin string }
		json.Unmarshal(in.Bytes(), &line)
		n.addr, n.admin = line.Listen, line.Admin
		seen = append(seen, in.Text())
	}
	if n.addr == "" {
		t.Fatalf("stiled did not start:\n%s", strings.Join(seen, "\n"))
	}
	go io.Copy(io.Discard, logs)
	return n
}

func (n *node) kill() {
	n.cmd.Process.Kill()
	n.cmd.Wait()
}

type status struct{ Connections, Held, Waiting, Goroutines, Descriptors int }

func (n *node) status(t *testing.T) (s status) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	resp, err := client.Get("http://" + n.admin + "/status")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
		t.Fatal(err)
	}
	s.Descriptors = descriptors(t, n.cmd.Process.Pid)
	return s
}

func descriptors(t *testing.T, pid int) int {
	t.Helper()
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Skipf("descriptors can't be counted here: %v", err)
	}
	return len(fds)
}

// within polls until ok, or fails after the time.
func within(t *testing.T, d time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(d)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", d, what)
		}
		time.Sleep(time.Millisecond)
	}
}

// proxy forwards lines between clients and a node.
type proxy struct {
	net.Listener
	to string
	// answer may change an answer; it returns "" to swallow it.
	answer func(line string) string

	mu    sync.Mutex
	conns []net.Conn
	deaf  bool // neither direction moves, nothing is closed
}

func startProxy(t *testing.T, to string, answer func(string) string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l, to: to, answer: answer}
	t.Cleanup(func() {
		l.Close()
		p.cut()
	})
	go func() {
		for {
			down, err := l.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", to)
			if err != nil {
				down.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, down, up)
			p.mu.Unlock()
			go p.copy(up, down, nil)
			go p.copy(down, up, answer)
		}
	}()
	return p
}

func (p *proxy) copy(dst, src net.Conn, change func(string) string) {
	defer dst.Close()
	defer src.Close()
	in := bufio.NewReader(src)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		if p.isDeaf() {
			continue
		}
		if change != nil {
			line = change(line)
		}
		if _, err := io.WriteString(dst, line); err != nil {
			return
		}
	}
}

func (p *proxy) isDeaf() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.deaf
}

func (p *proxy) setDeaf(deaf bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf = deaf
}

// cut closes every connection there is.
func (p *proxy) cut() {
	p.mu.Lock()
	conns := p.conns
	p.conns = nil
	p.mu.Unlock()
	for _, c := range conns {
		c.Close()
	}
}

// coreOnly makes a node look like one that speaks core only.
func coreOnly(line string) string {
	if strings.HasPrefix(line, "H ") {
		return "E H 1 unknown-op\n"
	}
	return line
}
