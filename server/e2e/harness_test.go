package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stile-lock/stile/protocol/invariants"
)

const (
	// patience is how long anything that must happen may take. It is for
	// machines that are very busy; nothing depends on it but how long a
	// failing test takes.
	patience = 20 * time.Second

	// tooLate is how late a lease, a wait or a hand-over may be here. What
	// the protocol asks for is 50 ms, where the machine has time.
	tooLate = 2 * time.Second
)

var binDir string // removed at the end

// helperEnv makes the test binary one of the helpers below instead.
const helperEnv = "STILED_E2E_HELPER"

var helpers = map[string]func(args []string) error{}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if name := os.Getenv(helperEnv); name != "" {
		if err := helpers[name](os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	flag.Parse()
	// These tests mostly wait; how many cores there are says little.
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		f.Value.Set("16")
	}
	dir, err := os.MkdirTemp("", "stile-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binDir = dir
	return m.Run()
}

// stiled is the binary, built once, when the first test needs it.
var stiled = sync.OnceValues(func() (string, error) { return build("stiled", "") })

// build builds the server as the tests were built.
func build(name, ldflags string) (string, error) {
	bin := filepath.Join(binDir, name)
	args := []string{"build", "-o", bin, "-buildvcs=false"}
	if raceEnabled {
		args = append(args, "-race")
	}
	if invariants.Enabled {
		args = append(args, "-tags", "invariants")
	}
	if ldflags != "" {
		args = append(args, "-ldflags", ldflags)
	}
	out, err := exec.Command("go", append(args, "github.com/stile-lock/stile/server/cmd/stiled")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return bin, nil
}

func mustBuild(t *testing.T, name, ldflags string) string {
	t.Helper()
	bin, err := build(name, ldflags)
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// process is a program under test.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended and all is read
	*said
}

// said is what a process has written.
type said struct {
	stdout bytes.Buffer // to be read when it has ended

	mu     sync.Mutex
	lines  []string      // of stderr
	change chan struct{} // there are more of them
}

// launch starts a program and makes sure that it ends with the test.
func launch(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, done: make(chan struct{}), said: &said{change: make(chan struct{}, 1)}}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if cmd.Stdout == nil {
		cmd.Stdout = &p.stdout
	}
	if cmd.Env == nil {
		cmd.Env = cleanEnv()
	}
	endWithUs(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		r := bufio.NewReader(stderr)
		for {
			line, err := r.ReadString('\n')
			if line != "" {
				p.mu.Lock()
				p.lines = append(p.lines, strings.TrimSuffix(line, "\n"))
				p.mu.Unlock()
				select {
				case p.change <- struct{}{}:
				default:
				}
			}
			if err != nil {
				break
			}
		}
		cmd.Wait()
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-p.done
		if t.Failed() {
			t.Logf("%s wrote:\n%s", filepath.Base(cmd.Path), p.stderr())
		}
	})
	return p
}

// cleanEnv is the environment without our settings.
func cleanEnv() []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "STILE_") })
}

func (p *process) stderr() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

// waitFor waits until a line of stderr has the text, and returns the line.
func (p *process) waitFor(text string) string {
	p.t.Helper()
	deadline := time.After(patience)
	for {
		p.mu.Lock()
		i := slices.IndexFunc(p.lines, func(line string) bool { return strings.Contains(line, text) })
		line := ""
		if i >= 0 {
			line = p.lines[i]
		}
		p.mu.Unlock()
		if i >= 0 {
			return line
		}
		select {
		case <-p.change:
		case <-p.done:
			// The last lines came with the end.
			if !strings.Contains(p.stderr(), text) {
				p.t.Fatalf("it ended, %v, and never said %q:\n%s", p.cmd.ProcessState, text, p.stderr())
			}
		case <-deadline:
			p.t.Fatalf("it does not say %q; it said:\n%s", text, p.stderr())
		}
	}
}

// status waits for the end and returns the exit status, -1 for a signal.
func (p *process) status(within time.Duration) int {
	p.t.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(within):
		p.t.Fatalf("it runs on after %v", within)
		return 0
	}
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// kill ends it as a power cut would.
func (p *process) kill() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	p.status(patience)
}

// node is a running stiled.
type node struct {
	*process
	addr, admin string
	dir         string
	epoch       uint64
}

// start starts stiled on free ports of the loopback with a state directory of
// its own, and waits until it serves. Flags given here win.
func start(t *testing.T, flags ...string) *node {
	t.Helper()
	return startIn(t, t.TempDir(), flags...)
}

func startIn(t *testing.T, dir string, flags ...string) *node {
	t.Helper()
	bin, err := stiled()
	if err != nil {
		t.Fatal(err)
	}
	return startBin(t, bin, dir, flags...)
}

func startBin(t *testing.T, bin, dir string, flags ...string) *node {
	t.Helper()
	n := &node{process: launch(t, stiledCmd(bin, dir, flags...)), dir: dir}
	var line struct {
		Listen, Admin string
		StateDir      string `json:"state_dir"`
		Epoch         uint64
		Version       string
	}
	said := n.waitFor(`"stiled serves"`)
	if err := json.Unmarshal([]byte(said), &line); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	if line.Listen == "" || line.StateDir != dir || line.Epoch == 0 || line.Version == "" {
		t.Errorf("the start line misses something: %s", said)
	}
	n.addr, n.admin, n.epoch = line.Listen, line.Admin, line.Epoch
	t.Cleanup(func() {
		n.cmd.Process.Kill()
		<-n.done
		n.checkLog()
	})
	return n
}

// on returns the node for use in a subtest.
func (n *node) on(t *testing.T) *node {
	p, m := *n.process, *n
	p.t, m.process = t, &p
	return &m
}

func stiledCmd(bin, dir string, flags ...string) *exec.Cmd {
	return exec.Command(bin, append([]string{
		"--listen=127.0.0.1:0", "--admin=127.0.0.1:0", "--state-dir", dir, "--log-format=json", "--log-level=debug",
	}, flags...)...)
}

// checkLog fails the test if the log holds anything but log lines: a panic,
// or a report of the race detector.
func (n *node) checkLog() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, line := range n.lines {
		if !json.Valid([]byte(line)) {
			n.t.Errorf("stderr has more than the log:\n%s", strings.Join(n.lines, "\n"))
			return
		}
	}
}

// state is what the node says of itself.
type state struct {
	Connections, Held, Waiting, Goroutines int
	Stopping, Ready                        bool
	Problems                               []string
	Counts                                 struct {
		Accepted int `json:"connections_accepted"`
	}
}

var statusClient = http.Client{
	Timeout:   patience,
	Transport: &http.Transport{DisableKeepAlives: true},
}

func (n *node) state() state {
	n.t.Helper()
	s, err := fetch(n.admin)
	if err != nil {
		n.t.Fatal(err)
	}
	return s
}

func fetch(admin string) (s state, err error) {
	resp, err := statusClient.Get("http://" + admin + "/status")
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	return s, json.NewDecoder(resp.Body).Decode(&s)
}

// eventually waits until the node's state is as it should be.
func (n *node) eventually(what string, ok func(state) bool) time.Duration {
	n.t.Helper()
	begin := time.Now()
	for {
		s := n.state()
		if ok(s) {
			return time.Since(begin)
		}
		if time.Since(begin) > patience {
			n.t.Fatalf("not within %v: %s; the state is %+v", patience, what, s)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (n *node) waiting(want int) {
	n.t.Helper()
	n.eventually(fmt.Sprintf("%d waiting", want), func(s state) bool { return s.Waiting == want })
}

// client is somebody at a terminal.
type client struct {
	t *testing.T
	*net.TCPConn
	r *bufio.Reader
}

func (n *node) dial() *client {
	n.t.Helper()
	return n.dialWith(net.Dialer{})
}

func (n *node) dialWith(d net.Dialer) *client {
	n.t.Helper()
	d.Timeout = patience
	nc, err := d.Dial("tcp", n.addr)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { nc.Close() })
	return &client{t: n.t, TCPConn: nc.(*net.TCPConn), r: bufio.NewReader(nc)}
}

// dialAll opens many connections.
func (n *node) dialAll(many int) []*client {
	n.t.Helper()
	all := make([]*client, many)
	for i := range all {
		all[i] = n.dial()
	}
	return all
}

// send sends a line.
func (c *client) send(format string, args ...any) {
	c.t.Helper()
	c.write(fmt.Appendf(nil, format+"\n", args...))
}

// write sends bytes.
func (c *client) write(b []byte) {
	c.t.Helper()
	c.SetWriteDeadline(time.Now().Add(patience))
	if _, err := c.Write(b); err != nil {
		c.t.Fatalf("sending %.80q: %v", b, err)
	}
}

// line reads the next line.
func (c *client) line() string {
	c.t.Helper()
	c.SetReadDeadline(time.Now().Add(patience))
	line, err := c.r.ReadString('\n')
	if err != nil {
		c.t.Fatalf("reading a line: %q, %v", line, err)
	}
	return strings.TrimSuffix(line, "\n")
}

// want reads a line and compares it. After the code of an E line any text
// may follow.
func (c *client) want(format string, args ...any) {
	c.t.Helper()
	want := fmt.Sprintf(format, args...)
	if got := c.line(); !same(got, want) {
		c.t.Fatalf("got %.300q, want %.300q", got, want)
	}
}

func same(got, want string) bool {
	return got == want || strings.HasPrefix(want, "E ") && strings.HasPrefix(got, want+" ")
}

// grant reads the grant of a key and returns its token.
func (c *client) grant(key string) uint64 {
	c.t.Helper()
	line := c.line()
	f := strings.Split(line, " ")
	if len(f) != 4 || f[0] != "A" || f[1] != key {
		c.t.Fatalf("got %.300q, want a grant of %q", line, key)
	}
	token, err := strconv.ParseUint(f[2], 10, 63)
	if err != nil {
		c.t.Fatalf("%s: %v", line, err)
	}
	return token
}

// granted reads a grant made after a wait. Its lease may be told a little
// shorter than it was asked for, never longer (SPEC.md 3.3).
func (c *client) granted(key string, token uint64, lease float64) {
	c.t.Helper()
	var k string
	var got uint64
	var left float64
	line := c.line()
	if _, err := fmt.Sscanf(line, "A %s %d %g", &k, &got, &left); err != nil || k != key || got != token || left > lease || left < lease-tooLate.Seconds() {
		c.t.Fatalf("got %.300q, want A %s %d %v", line, key, token, lease)
	}
}

// acquire takes a key that is free.
func (c *client) acquire(key string, lease string) uint64 {
	c.t.Helper()
	c.send("A %s -1 %s", key, lease)
	return c.grant(key)
}

func (c *client) release(key string, token uint64) {
	c.t.Helper()
	c.send("R %s %d", key, token)
	c.want("R %s %d", key, token)
}

// inStep makes sure that all lines sent so far were read, and that nothing
// else was answered.
func (c *client) inStep() {
	c.t.Helper()
	c.send("P in-step")
	c.want("P in-step")
}

// quiet fails the test if anything comes within d.
func (c *client) quiet(d time.Duration) {
	c.t.Helper()
	c.SetReadDeadline(time.Now().Add(d))
	line, err := c.r.ReadString('\n')
	if !errors.Is(err, os.ErrDeadlineExceeded) || line != "" {
		c.t.Fatalf("got %q, %v, want silence", line, err)
	}
}

// closed waits for the node to close the connection in good order, after all
// it had to say.
func (c *client) closed() {
	c.t.Helper()
	c.SetReadDeadline(time.Now().Add(patience))
	rest, err := io.ReadAll(c.r)
	if err != nil || len(rest) > 0 {
		c.t.Fatalf("got %.300q, %v, want the end of the connection", rest, err)
	}
}

// reset ends the connection with an RST.
func (c *client) reset() {
	c.SetLinger(0)
	c.Close()
}

// lateness collects how late things were.
type lateness struct {
	t    *testing.T
	what string
	mu   sync.Mutex
	all  []time.Duration
}

// add judges one sample: how long after `begin` something came that was due
// after d.
func (l *lateness) add(begin time.Time, d time.Duration) {
	l.t.Helper()
	late := time.Since(begin) - d
	l.mu.Lock()
	l.all = append(l.all, late)
	l.mu.Unlock()
	if late < 0 {
		l.t.Errorf("%s of %v: %v early", l.what, d, -late)
	} else if late > tooLate {
		l.t.Errorf("%s of %v: %v late", l.what, d, late)
	}
}

func (l *lateness) print() {
	l.t.Helper()
	if len(l.all) == 0 {
		return
	}
	slices.Sort(l.all)
	at := func(q float64) time.Duration { return l.all[int(q*float64(len(l.all)-1))].Round(10 * time.Microsecond) }
	l.t.Logf("%s: %d samples, late by %v (half), %v (99 %%), %v (worst)", l.what, len(l.all), at(.5), at(.99), at(1))
}
