//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// shell is an interactive bash in a terminal.
type shell struct {
	t    *testing.T
	tty  *os.File
	cmd  *exec.Cmd
	mu   sync.Mutex
	text strings.Builder
	read int // of text, by expect
}

func startShell(t *testing.T, env []string) *shell {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash here to try job control with")
	}
	s := &shell{t: t, cmd: exec.Command(bash, "--norc", "--noprofile", "-i")}
	s.cmd.Env = append(append(cleanEnv(), env...), "PS1=ready> ", "TERM=xterm", "STILE="+stile, "HISTFILE=")
	if s.tty, err = pty.StartWithSize(s.cmd, &pty.Winsize{Rows: 30, Cols: 150}); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 4096)
		for {
			n, err := s.tty.Read(b)
			s.mu.Lock()
			s.text.Write(b[:n])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		// The hang-up ends what runs in the terminal.
		s.cmd.Process.Kill()
		s.cmd.Wait()
		s.tty.Close()
		select {
		case <-done:
		case <-time.After(time.Second): // a process that is left has it open
		}
	})
	s.expect("ready> ")
	return s
}

func (s *shell) send(text string) {
	s.t.Helper()
	if _, err := s.tty.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

// all is what was on the terminal so far.
func (s *shell) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// expect waits for a text, behind the one that it found last.
func (s *shell) expect(text string) {
	s.t.Helper()
	end := time.Now().Add(15 * time.Second)
	for {
		all := s.all()
		if i := strings.Index(all[s.read:], text); i >= 0 {
			s.read += i + len(text)
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("no %q on the terminal:\n%s", text, all)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestControlC(t *testing.T) {
	n := startNode(t)
	s := startShell(t, n.env())
	s.send("$STILE lock k -- sh -c 'echo be''gun; exec sleep 1000'\n")
	s.expect("begun")
	s.send("\x03")
	s.expect("ready> ")
	s.send("echo status $?\n")
	s.expect("status 130")
	within(t, 5*time.Second, "nothing is held", func() bool { h, w, _ := n.count(t); return h+w == 0 })

	// While it waits.
	token := strings.TrimSpace(run(t, n.env(), "acquire", "k", "--lease", "1m").stdout)
	s.send("$STILE lock k -- echo never\n")
	within(t, 10*time.Second, "it waits", func() bool { _, w, _ := n.count(t); return w == 1 })
	s.send("\x03")
	s.expect("ready> ")
	s.send("echo status $?\n")
	s.expect("status 130")
	within(t, 5*time.Second, "nobody waits", func() bool { _, w, _ := n.count(t); return w == 0 })
	run(t, n.env(), "release", "k", "--token", token).want(t, 0)
}

// Ctrl+C ends a script, too, and is not taken for a failure after which it
// goes on: while the command runs, and while it waits for the lock.
func TestControlCInAScript(t *testing.T) {
	n := startNode(t)
	s := startShell(t, n.env())
	script := filepath.Join(t.TempDir(), "script")
	text := "for i in 1 2 3; do $STILE lock k -- sh -c 'echo be''gun; exec sleep 1000'; echo went on; done\n"
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	interrupted := func() {
		s.send("\x03")
		s.expect("ready> ")
		s.send("echo status $?\n")
		s.expect("status 130")
		if strings.Contains(s.all(), "went on") {
			t.Fatalf("the script went on:\n%s", s.all())
		}
		within(t, 5*time.Second, "nobody waits", func() bool { _, w, _ := n.count(t); return w == 0 })
	}
	s.send("bash " + script + "\n")
	s.expect("begun")
	interrupted()
	within(t, 5*time.Second, "nothing is held", func() bool { h, _, _ := n.count(t); return h == 0 })

	run(t, n.env(), "acquire", "k", "--lease", "1m").want(t, 0)
	s.send("bash " + script + "\n")
	within(t, 10*time.Second, "it waits", func() bool { _, w, _ := n.count(t); return w == 1 })
	interrupted()
}

func TestControlZ(t *testing.T) {
	n := startNode(t)
	s := startShell(t, n.env())
	file := filepath.Join(t.TempDir(), "pids")
	s.send("$STILE lock k --lease 20s -- sh -c 'echo $$ >>" + file + "; echo be''gun; read a; echo got-$a'\n")
	s.expect("begun")
	pid := pids(t, file, 1)[0]
	s.send("\x1a")
	s.expect("Stopped")
	s.expect("ready> ")
	within(t, 5*time.Second, "the command is stopped", func() bool { return stopped(pid) })
	s.send("echo status $?\n")
	s.expect("status 148") // 128 and SIGTSTP
	s.send("jo''bs\n")
	s.expect("Stopped")
	// Again: what the first stop has changed is as it was. And at once: nothing
	// that is left of going on undoes the stop.
	for range 10 {
		s.send("fg\n")
		within(t, 5*time.Second, "the command goes on", func() bool { return !stopped(pid) })
		s.send("\x1a")
		s.expect("Stopped")
		s.expect("ready> ")
		within(t, 5*time.Second, "the command is stopped again", func() bool { return stopped(pid) })
		s.send("echo status $?\n")
		s.expect("status 148")
	}
	s.send("fg\n")
	within(t, 5*time.Second, "the command goes on", func() bool { return !stopped(pid) })
	s.send("input\n")
	s.expect("got-input")
	s.expect("ready> ")
	s.send("echo status $?\n")
	s.expect("status 0")

	// The terminal is the shell's again, and its modes are as before.
	s.send("echo all''right\n")
	s.expect("allright")
}

// A job that goes on renews its lease first, which takes a while where no server
// answers. That it does so once is what keeps a stop meanwhile.
func TestControlZWhileNoServerAnswers(t *testing.T) {
	n := startNode(t)
	s := startShell(t, n.env())
	file := filepath.Join(t.TempDir(), "pids")
	s.send("$STILE lock k --lease 1m -- sh -c 'echo $$ >>" + file + "; echo be''gun; read a; echo got-$a'\n")
	s.expect("begun")
	pid := pids(t, file, 1)[0]
	s.send("\x1a")
	s.expect("Stopped")
	n.stop(t)
	s.send("fg\n")
	within(t, 10*time.Second, "the command goes on", func() bool { return !stopped(pid) })
	s.send("\x1a")
	s.expect("Stopped")
	s.expect("ready> ")
	if !stopped(pid) {
		t.Error("the command goes on though it was stopped")
	}
}

// A job that begins in the background is stopped when it asks for input, and
// has the terminal after fg.
func TestBackground(t *testing.T) {
	n := startNode(t)
	s := startShell(t, n.env())
	file := filepath.Join(t.TempDir(), "pids")
	s.send("$STILE lock k --lease 20s -- sh -c 'echo $$ >>" + file + "; read a; echo got-$a' &\n")
	pid := pids(t, file, 1)[0]
	within(t, 5*time.Second, "the command is stopped", func() bool { return stopped(pid) })
	// A while after the command, the whole job is.
	within(t, 5*time.Second, "the shell sees that", func() bool {
		s.send("jobs\n")
		time.Sleep(50 * time.Millisecond)
		s.mu.Lock()
		defer s.mu.Unlock()
		return strings.Contains(s.text.String(), "Stopped")
	})
	s.send("fg\n")
	within(t, 5*time.Second, "the command goes on", func() bool { return !stopped(pid) })
	s.send("input\n")
	s.expect("got-input")
	s.expect("ready> ")
}

// In a pipeline the terminal stays with the others; a command that asks for
// it gets it.
func TestPipeline(t *testing.T) {
	n := startNode(t)
	s := startShell(t, n.env())
	s.send("$STILE lock k --lease 20s -- sh -c 'read a; echo got-$a' | tr a-z A-Z\n")
	time.Sleep(300 * time.Millisecond)
	s.send("input\n")
	s.expect("GOT-INPUT")
	s.expect("ready> ")
	s.send("$STILE lock k -- sh -c 'echo be''gun >&2; exec sleep 1000' | cat\n")
	s.expect("begun")
	s.send("\x03")
	s.expect("ready> ")
	within(t, 5*time.Second, "nothing is held", func() bool { h, w, _ := n.count(t); return h+w == 0 })
}

// Whoever stays stopped for longer than the lease does not go on without the
// lock.
func TestStoppedTooLong(t *testing.T) {
	n := startNode(t)
	s := startShell(t, n.env())
	file := filepath.Join(t.TempDir(), "pids")
	// A command of the shell itself: one that is just about to start a program
	// (vfork) can't be stopped.
	s.send("$STILE lock k --lease 2s -- sh -c 'echo $$ >>" + file + "; echo be''gun; read a; echo went on'\n")
	s.expect("begun")
	pid := pids(t, file, 1)[0]
	s.send("\x1a")
	s.expect("Stopped")
	run(t, n.env(), "lock", "k", "--", "true").want(t, 0)
	if alive(pid) && !stopped(pid) {
		t.Error("the command goes on")
	}
	s.send("fg\n")
	s.expect("lost")
	s.expect("ready> ")
	s.send("echo status $?\n")
	s.expect("status 123")
	if alive(pid) {
		t.Error("the command lives")
	}
}

// Breaking asks, and only a yes does it.
func TestBreakAsks(t *testing.T) {
	secret := secretFile(t, "operators")
	n := startNode(t, "--admin-secret-file", secret)
	s := startShell(t, append(n.env(), "STILE_ADMIN_SECRET_FILE="+secret))
	token := strings.TrimSpace(run(t, n.env(), "acquire", "k", "--lease", "1m").stdout)
	for _, answer := range []string{"", "no", "nyet"} {
		s.send("$STILE break k --token " + token + "\n")
		s.expect("[y/N]")
		s.send(answer + "\n")
		s.expect("nothing was done")
		s.expect("ready> ")
	}
	if held, _, _ := n.count(t); held != 1 {
		t.Fatalf("%d held", held)
	}
	s.send("$STILE break k --token " + token + "\n")
	s.expect("[y/N]")
	s.send("y\n")
	s.expect("k is broken")
}

// Colour is for a terminal whose user wants it.
func TestColour(t *testing.T) {
	n := startNode(t)
	for _, test := range []struct {
		before string
		colour bool
	}{{"", true}, {"NO_COLOR=1 ", false}, {"TERM=dumb ", false}} {
		s := startShell(t, n.env())
		s.send(test.before + "$STILE status; echo do''ne\n")
		s.expect("done")
		s.mu.Lock()
		text := s.text.String()
		s.mu.Unlock()
		_, table, _ := strings.Cut(text, "ADMIN")
		table, _, _ = strings.Cut(table, "done")
		if strings.Contains(table, "\x1b[") != test.colour || !strings.Contains(table, n.addr) {
			t.Errorf("with %q: %q", test.before, text)
		}
	}
}

// The live view in a terminal, while a lock comes and goes and the node dies.
func TestTop(t *testing.T) {
	n := startNode(t)
	for _, before := range []string{"", "NO_COLOR=1 "} {
		s := startShell(t, n.env())
		s.send(before + "$STILE top --every 100ms; echo status $?\n")
		s.expect("No key is held")
		p := begin(t, n.env(), "lock", "the/key", "--name", "somebody", "-c", "echo $STILE_TOKEN; exec sleep 100")
		s.expect("the/key")
		within(t, 5*time.Second, "it runs", func() bool { return strings.HasSuffix(p.stdout(), "\n") })
		s.expect("somebody")
		s.expect(strings.TrimSpace(p.stdout()))
		signalTo(t, p.cmd.Process.Pid, syscall.SIGTERM)
		s.expect("No key is held")
		if before != "" {
			n.kill()
			s.expect("unreachable")
		}
		s.send("q")
		s.expect("status 0")
		s.send("stty -a\n") // as it was
		s.expect(" icanon")
		s.mu.Lock()
		text := s.text.String()
		s.mu.Unlock()
		if coloured := strings.Contains(text, "\x1b[32m") || strings.Contains(text, ";32m"); coloured != (before == "") {
			t.Errorf("with %q, colour: %v", before, coloured)
		}
	}
}

// The live view of a cluster whose active stands still: the picture goes on, and
// says what is known of it, and what the others say.
func TestTopSilentActive(t *testing.T) {
	c := startCluster(t)
	run(t, c.env(), "acquire", "the/key", "--lease", "1m").want(t, 0)
	s := startShell(t, append(c.env(), "NO_COLOR=1"))
	s.send("$STILE top --every 100ms; echo status $?\n")
	s.expect("the/key")
	c.nodes[0].stop(t)
	s.expect("silent")
	s.expect("no answer within 1s, was active")
	s.expect("(say " + c.nodes[1].addr + " and " + c.nodes[2].addr + ")") // another one has taken over
	signalTo(t, c.nodes[0].cmd.Process.Pid, syscall.SIGCONT)
	s.send("q")
	s.expect("status 0")
	if strings.Contains(s.all(), "not asked") {
		t.Errorf("%q", s.all())
	}
}

func stopped(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	after := string(b[strings.LastIndexByte(string(b), ')')+1:])
	return strings.HasPrefix(after, " T")
}
