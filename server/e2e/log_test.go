package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
)

// unread starts a node whose log nobody reads after its first lines.
func unread(t *testing.T, flags ...string) (n *node, log *bufio.Reader, pipe *os.File) {
	t.Helper()
	bin, err := stiled()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	cmd := stiledCmd(bin, t.TempDir(), flags...)
	cmd.Stderr, cmd.Env = w, cleanEnv()
	endWithUs(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	p := &process{t: t, cmd: cmd, done: make(chan struct{}), said: &said{change: make(chan struct{}, 1)}}
	go func() {
		cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-p.done
	})
	// Small, so that what is not read begins soon.
	log = bufio.NewReaderSize(r, 16)
	var line struct{ Msg, Listen, Admin string }
	for line.Msg != "stiled serves" {
		text, err := log.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	return &node{process: p, addr: line.Listen, admin: line.Admin}, log, r
}

// opened is far more connections than a pipe has room for the lines of.
const opened = 1000

// openMany has the node log two lines for each connection.
func (n *node) openMany() {
	n.t.Helper()
	for range opened {
		n.dial().Close()
	}
	// Some may wait to be accepted yet, when all have been dialed and closed.
	n.eventually("all are gone", func(s state) bool { return s.Counts.Accepted >= opened && s.Connections == 0 })
}

// Who does not read the log of a node holds up nobody, and not its end.
func TestNobodyReadsTheLog(t *testing.T) {
	t.Parallel()
	n, _, _ := unread(t)
	n.openMany()
	c := n.dial()
	c.release("k", c.acquire("k", "30"))
	n.signal(syscall.SIGTERM)
	if status := n.status(patience); status != 0 {
		t.Errorf("exit status %d", status)
	}
}

// Nor does one who goes away: the node serves, and stops as it should.
func TestReaderOfTheLogGoesAway(t *testing.T) {
	t.Parallel()
	n, _, pipe := unread(t)
	pipe.Close()
	n.openMany()
	n.signal(syscall.SIGHUP)
	c := n.dial()
	c.release("k", c.acquire("k", "30"))
	n.eventually("lost lines are counted", func(state) bool {
		_, text := ask(t, n.admin, "GET", "/metrics", "", "")
		return strings.Contains(text, "\nstile_log_lines_lost_total ") && !strings.Contains(text, "\nstile_log_lines_lost_total 0\n")
	})
	n.signal(syscall.SIGTERM)
	if status := n.status(patience); status != 0 {
		t.Errorf("exit status %d", status)
	}
}

// A log that is read late has every line, and whole ones.
func TestLogIsReadLate(t *testing.T) {
	t.Parallel()
	n, log, _ := unread(t)
	n.openMany()
	rest := make(chan string)
	go func() {
		all, err := io.ReadAll(log)
		if err != nil {
			t.Error(err)
		}
		rest <- string(all)
	}()
	n.signal(syscall.SIGTERM)
	if status := n.status(patience); status != 0 {
		t.Errorf("exit status %d", status)
	}
	said := map[string]int{}
	var last struct{ Msg string }
	for line := range strings.Lines(<-rest) {
		if err := json.Unmarshal([]byte(line), &last); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		said[last.Msg]++
	}
	if said["connection opened"] < opened || said["connection closed"] < opened || last.Msg != "stiled has stopped" {
		t.Errorf("the log has %s, the last is %q", fmt.Sprint(said), last.Msg)
	}
}
