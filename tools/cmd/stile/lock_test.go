//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stile-lock/stile/conformance/ports"
)

func TestLockRuns(t *testing.T) {
	n := startNode(t)
	t.Run("token and key", func(t *testing.T) {
		r := run(t, n.env(), "lock", "k", "--", "sh", "-c", `echo "$STILE_KEY $STILE_TOKEN"`)
		r.want(t, 0)
		key, token, _ := strings.Cut(strings.TrimSpace(r.stdout), " ")
		if number, err := strconv.ParseUint(token, 10, 64); key != "k" || err != nil || number == 0 {
			t.Errorf("%q", r.stdout)
		}
	})
	t.Run("a lock within a lock", func(t *testing.T) {
		r := run(t, n.env(), "lock", "outer", "--", stile, "lock", "inner", "--", "sh", "-c", `echo "$STILE_KEY $STILE_TOKEN"; env | grep -c ^STILE_TOKEN=; exec "$0" lock third env`, stile)
		r.want(t, 0)
		lines := strings.Split(r.stdout, "\n")
		if !strings.HasPrefix(lines[0], "inner ") || lines[1] != "1" || !strings.Contains(r.stdout, "\nSTILE_KEY=third\n") || strings.Count(r.stdout, "STILE_KEY=") != 1 {
			t.Errorf("%q", r.stdout)
		}
	})
	t.Run("bytes that are no UTF-8", func(t *testing.T) {
		odd := "caf\xe9\xff\\,"
		r := run(t, n.env(), "lock", odd, "printf", "%s|%s", "a\xfe,b\\", odd)
		r.want(t, 0)
		if r.stdout != "a\xfe,b\\|"+odd {
			t.Errorf("%q", r.stdout)
		}
		run(t, n.env(), "lock", odd, "-c", "test \"$STILE_KEY\" = 'caf\xe9\xff\\,'").want(t, 0)
	})
	for _, test := range []struct {
		name   string
		args   []string
		status int
	}{
		{"its status", []string{"--", "sh", "-c", "exit 42"}, 42},
		{"without dashes", []string{"sh", "-c", "exit 43"}, 43},
		{"flags of the command", []string{"sh", "-c", "exit $#", "--", "--lease", "-x"}, 2},
		{"a shell line", []string{"-c", "exit 44"}, 44},
		{"128+n", []string{"-c", "kill -9 $$"}, 128 + 9},
		{"not found", []string{"--", "no-such-command"}, 127},
		{"not executable", []string{"--", "/etc/passwd"}, 126},
		{"no command", nil, 125},
		{"both", []string{"-c", "true", "--", "true"}, 125},
		{"bad flag", []string{"--typo", "--", "true"}, 125},
		{"wait and no-wait", []string{"--wait", "1s", "--no-wait", "--", "true"}, 125},
		{"too much grace", []string{"--lease", "2s", "--grace", "1.1s", "--", "true"}, 125},
	} {
		t.Run(test.name, func(t *testing.T) {
			run(t, n.env(), append([]string{"lock", "k"}, test.args...)...).want(t, test.status)
		})
	}
	t.Run("no key before the dashes", func(t *testing.T) {
		for _, args := range [][]string{
			{"lock", "--", "true"}, {"lock", "--", "touch", "started"}, {"lock", "--wait", "1s", "--", "sh", "-c", "true"}, {"lock", "-n", "--"},
		} {
			r := run(t, n.env(), args...)
			if r.want(t, 125); len(args) > 3 && !strings.Contains(r.stderr, "no KEY before --") {
				t.Errorf("%q: %s", args, r.stderr)
			}
		}
		run(t, n.env(), "lock", "--", "true").want(t, 125, "no KEY before --")
		for _, args := range [][]string{
			{"lock", "--", "-k", "--", "sh", "-c", "echo $STILE_KEY"}, {"lock", "-c", "echo $STILE_KEY", "--", "-k"},
		} {
			r := run(t, n.env(), args...)
			if r.want(t, 0); r.stdout != "-k\n" {
				t.Errorf("%q: %q", args, r.stdout)
			}
		}
		run(t, n.env(), "lock", "k", "--").want(t, 125, "no command")
	})
	t.Run("bad key", func(t *testing.T) { run(t, n.env(), "lock", "?", "true").want(t, 125, "bad key") })
	if held, waiting, _ := n.count(t); held != 0 || waiting != 0 {
		t.Errorf("%d held, %d waiting at the end", held, waiting)
	}
}

// Two jobs never run at the same time, and the second runs as soon as the
// first has ended.
func TestLockExcludes(t *testing.T) {
	n := startNode(t)
	file := filepath.Join(t.TempDir(), "log")
	var all []*process
	for i := range 4 {
		all = append(all, begin(t, n.env(), "lock", "k", "-c",
			fmt.Sprintf(`echo in >>%[1]s; sleep 0.1; echo out %[2]d >>%[1]s`, file, i)))
	}
	for _, p := range all {
		p.end(t, 20*time.Second).result().want(t, 0)
	}
	b, _ := os.ReadFile(file)
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if len(lines) != 8 {
		t.Fatalf("%q", lines)
	}
	for i, l := range lines {
		if in := l == "in"; in != (i%2 == 0) {
			t.Errorf("two at a time: %q", lines)
			break
		}
	}
}

func TestLockNotObtained(t *testing.T) {
	n := startNode(t)
	held := strings.TrimSpace(run(t, n.env(), "acquire", "k", "--lease", "1m").stdout)
	started := filepath.Join(t.TempDir(), "started")
	for _, test := range []struct {
		args     []string
		status   int
		from, to time.Duration
	}{
		{[]string{"--no-wait"}, 121, 0, 5 * time.Second},
		{[]string{"-n", "-E", "7"}, 7, 0, 5 * time.Second},
		{[]string{"--wait", "300ms"}, 121, 300 * time.Millisecond, 5 * time.Second},
	} {
		r := run(t, n.env(), append(append([]string{"lock", "k"}, test.args...), "--", "touch", started)...)
		r.want(t, test.status, "was not obtained")
		if r.took < test.from || r.took > test.to {
			t.Errorf("%v took %v", test.args, r.took)
		}
	}
	if _, err := os.Stat(started); err == nil {
		t.Error("the command was started without the lock")
	}
	run(t, n.env(), "release", "k", "--token", held).want(t, 0)
}

func TestLockWithoutServer(t *testing.T) {
	addr, err := ports.Addr("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	defer ports.Free(addr)
	started := filepath.Join(t.TempDir(), "started")
	env := []string{"STILE_ADDRS=" + addr}
	run(t, env, "lock", "k", "--retry-for", "100ms", "--", "touch", started).want(t, 122, addr, "--addrs")
	run(t, env, "lock", "k", "--retry-for", "100ms", "--no-server-exit-code", "9", "--", "touch", started).want(t, 9)
	run(t, env, "lock", "k", "--wait", "200ms", "--", "touch", started).want(t, 122)
	run(t, env, "lock", "k", "--no-wait", "--", "touch", started).want(t, 122)
	run(t, env, "acquire", "k", "--retry-for", "100ms").want(t, 122)
	// The wait ends first, in a pause between two tries or in one.
	run(t, env, "lock", "k", "--wait", "1s", "--retry-for", "1m", "--", "touch", started).want(t, 122, addr, "--addrs")
	silent := startNode(t)
	silent.stop(t)
	run(t, silent.env(), "lock", "k", "--wait", "300ms", "--", "touch", started).want(t, 122, silent.addr)
	r := run(t, silent.env(), "lock", "k", "--no-wait", "--", "touch", started)
	r.want(t, 122, silent.addr)
	if strings.Contains(r.stderr, "end of the wait") || strings.Contains(r.stderr, "limit on waiting") {
		t.Errorf("nobody asked to wait: %s", r.stderr)
	}
	if _, err := os.Stat(started); err == nil {
		t.Error("the command was started without a server")
	}
}

// A signal reaches the whole group of the command, and nothing of it is left.
// sh has background processes ignore INT and QUIT: they are ended, too.
func TestSignalsReachTheGroup(t *testing.T) {
	n := startNode(t)
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		t.Run(s.String(), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pids")
			p := begin(t, n.env(), "lock", "k", "-c", fmt.Sprintf(`sleep 1000 & echo $! >>%[1]s; echo $$ >>%[1]s; wait`, file))
			of := pids(t, file, 2)
			signalTo(t, p.cmd.Process.Pid, s)
			p.end(t, 10*time.Second).result().want(t, 128+int(s))
			for _, pid := range of {
				if alive(pid) {
					t.Errorf("%d of %v lives", pid, of)
				}
			}
			if held, waiting, _ := n.count(t); held != 0 || waiting != 0 {
				t.Errorf("%d held, %d waiting", held, waiting)
			}
		})
	}
}

// Signals that the command handles are its own affair.
func TestSignalsAreTheCommands(t *testing.T) {
	n := startNode(t)
	file := filepath.Join(t.TempDir(), "pids")
	p := begin(t, n.env(), "lock", "k", "-c", fmt.Sprintf(`trap 'echo usr1' USR1; trap 'echo term; exit 5' TERM; echo $$ >>%s; while :; do sleep 0.05; done`, file))
	pids(t, file, 1)
	signalTo(t, p.cmd.Process.Pid, syscall.SIGUSR1)
	within(t, 10*time.Second, "USR1 arrived", func() bool { return strings.Contains(p.stdout(), "usr1") })
	signalTo(t, p.cmd.Process.Pid, syscall.SIGTERM)
	p.end(t, 10*time.Second).result().want(t, 5, "term")
}

// A signal during the wait ends it: the command is not started, and no place
// in the line is left.
func TestInterruptedWait(t *testing.T) {
	n := startNode(t)
	token := strings.TrimSpace(run(t, n.env(), "acquire", "k", "--lease", "1m").stdout)
	started := filepath.Join(t.TempDir(), "started")
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		p := begin(t, n.env(), "lock", "k", "--", "touch", started)
		within(t, 10*time.Second, "it waits", func() bool { _, w, _ := n.count(t); return w == 1 })
		signalTo(t, p.cmd.Process.Pid, s)
		r := p.end(t, 5*time.Second).result()
		want := 128 + int(s)
		if s == syscall.SIGINT {
			want = 1000 + int(s) // by the signal itself, which shells look for
		}
		r.want(t, want)
		within(t, 5*time.Second, "nobody waits", func() bool { _, w, c := n.count(t); return w == 0 && c == 0 })
	}
	run(t, n.env(), "release", "k", "--token", token).want(t, 0)
	within(t, 5*time.Second, "nothing is held", func() bool { h, _, _ := n.count(t); return h == 0 })
	if _, err := os.Stat(started); err == nil {
		t.Error("the command was started")
	}
}

// stubborn is a command that counts on neither SIGTERM nor its lock.
const stubborn = `trap 'date +%%s.%%N >%[1]s.term' TERM; echo $$ >>%[1]s; while :; do sleep 0.02; done`

// The server stops: SIGTERM comes before the end of the lease, and the
// command, which ignores it, is dead at the end.
func TestLeaseLostByServer(t *testing.T) {
	n := startNode(t)
	file := filepath.Join(t.TempDir(), "pids")
	const lease = 3 * time.Second
	p := begin(t, n.env(), "lock", "k", "--lease", lease.String(), "-c", fmt.Sprintf(stubborn, file))
	pid := pids(t, file, 1)[0]
	time.Sleep(100 * time.Millisecond)
	n.stop(t)
	// No renewal can be later than this. The first is due after a third.
	last := time.Now()
	p.end(t, 10*time.Second)
	dead := time.Now()
	p.result().want(t, 123, "SIGTERM", "lost")
	if alive(pid) {
		t.Error("the command lives")
	}
	// Nor does it try to give back what is no lock any more.
	if late := dead.Sub(last); late > lease+time.Second {
		t.Errorf("it took %v", late)
	}
	termed := stamp(t, file+".term")
	if end := last.Add(lease); !termed.Before(end) {
		t.Errorf("SIGTERM came %v after the end of the lease", termed.Sub(end))
	}
}

// A command that has ended while the lock was held did well, whether or not a
// server can be told: that is tried until the lease ends, or a signal comes.
func TestReleaseEndsWithTheLease(t *testing.T) {
	n := startNode(t)
	const lease = 3 * time.Second
	begun := func() (p *process, pid int) {
		file := filepath.Join(t.TempDir(), "pids")
		p = begin(t, n.env(), "lock", "k", "--lease", lease.String(), "-c", fmt.Sprintf(`echo $$ >>%[1]s; while ! test -e %[1]s.go; do sleep 0.02; done; exit 3`, file))
		pid = pids(t, file, 1)[0]
		n.stop(t)
		if err := os.WriteFile(file+".go", nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return p, pid
	}
	p, _ := begun()
	last := time.Now() // no renewal is later
	p.end(t, 10*time.Second)
	if late := time.Since(last); late > lease+time.Second {
		t.Errorf("it took %v", late)
	}
	p.result().want(t, 3, "no server could be told")
	signalTo(t, n.cmd.Process.Pid, syscall.SIGCONT)
	within(t, 10*time.Second, "nothing is held", func() bool { h, _, _ := n.count(t); return h == 0 })

	p, pid := begun()
	within(t, 5*time.Second, "the command has ended", func() bool { return !alive(pid) })
	within(t, lease/2, "a signal ends it", func() bool { // one may still be for the command
		p.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.done:
			return true
		default:
			return false
		}
	})
	p.result().want(t, 128+int(syscall.SIGTERM))
}

// Whoever stops a job sends the signal to all of its processes, in some order
// and at some moment: the lock is given back all the same, and the status is
// that of the command.
func TestSignalsWhileItEnds(t *testing.T) {
	n := startNode(t)
	for i := range 40 {
		key, dir := fmt.Sprint("k", i), t.TempDir()
		p := begin(t, n.env(), "lock", key, "--lease", "1m", "-c", fmt.Sprintf("trap 'exit 3' TERM; echo $$ >%[1]s/new; mv %[1]s/new %[1]s/pid; while :; do sleep 0.01; done", dir))
		command := pids(t, filepath.Join(dir, "pid"), 1)[0]
		both := []int{command, p.cmd.Process.Pid}
		if i%2 == 1 {
			slices.Reverse(both)
		}
		for _, pid := range both {
			syscall.Kill(pid, syscall.SIGTERM) // it may have ended
			time.Sleep(time.Duration(i%10) * 2 * time.Millisecond)
		}
		p.end(t, 10*time.Second).result().want(t, 3)
		if held, _, _ := n.count(t); held != 0 {
			t.Fatalf("round %d: the lock is still held\n%s", i, p.stderr())
		}
	}
}

func stamp(t *testing.T, file string) time.Time {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("no SIGTERM: %v", err)
	}
	whole, fraction, _ := strings.Cut(strings.TrimSpace(string(b)), ".")
	s, err1 := strconv.ParseInt(whole, 10, 64)
	ns, err2 := strconv.ParseInt(fraction, 10, 64)
	if err1 != nil || err2 != nil {
		t.Fatalf("%q", b)
	}
	return time.Unix(s, ns)
}

// stile is stopped: the guard ends the command before the lease ends. The
// next in line is granted only then.
func TestGuardWhenStileIsStopped(t *testing.T) {
	n := startNode(t)
	file := filepath.Join(t.TempDir(), "pids")
	p := begin(t, n.env(), "lock", "k", "--lease", "2s", "-c", fmt.Sprintf(stubborn, file))
	pid := pids(t, file, 1)[0]
	signalTo(t, p.cmd.Process.Pid, syscall.SIGSTOP)
	// The one behind looks whether the first lives.
	next := begin(t, n.env(), "lock", "k", "-c", fmt.Sprintf("if kill -0 %d && ! grep -q '^State:.Z' /proc/%[1]d/status; then echo both; fi", pid))
	next.end(t, 15*time.Second).result().want(t, 0)
	if strings.Contains(next.stdout(), "both") {
		t.Error("two ran at the same time")
	}
	if _, err := os.Stat(file + ".term"); err != nil {
		t.Error("killed without a SIGTERM")
	}
	signalTo(t, p.cmd.Process.Pid, syscall.SIGCONT)
	p.end(t, 10*time.Second).result().want(t, 123, "the stile process stands still", "was lost while the command ran")
	// It had ended long before stile went on.
	if said := p.stderr(); strings.Contains(said, "is killed") {
		t.Errorf("%s", said)
	}
}

// stile is killed: the command gets SIGTERM at once, all of its group.
func TestGuardWhenStileIsKilled(t *testing.T) {
	n := startNode(t)
	file := filepath.Join(t.TempDir(), "pids")
	p := begin(t, n.env(), "lock", "k", "-c", fmt.Sprintf(`sleep 1000 & echo $! >>%[1]s; echo $$ >>%[1]s; wait`, file))
	of := pids(t, file, 2)
	p.cmd.Process.Kill()
	within(t, 5*time.Second, "the command has ended", func() bool { return !alive(of[0]) && !alive(of[1]) })
	within(t, 5*time.Second, "the guard has told why", func() bool { return strings.Contains(p.stderr(), "the stile process was killed") })
}

// Both are killed: the kernel still ends the command itself.
func TestKernelWhenBothAreKilled(t *testing.T) {
	n := startNode(t)
	file := filepath.Join(t.TempDir(), "pids")
	p := begin(t, n.env(), "lock", "k", "-c", fmt.Sprintf(`echo $$ >>%[1]s; exec sleep 1000`, file))
	pid := pids(t, file, 1)[0]
	guard := guardOf(t, p.cmd.Process.Pid)
	// Stopped, it can't start another one.
	signalTo(t, p.cmd.Process.Pid, syscall.SIGSTOP)
	signalTo(t, guard, syscall.SIGKILL)
	p.cmd.Process.Kill()
	within(t, 5*time.Second, "the command has ended", func() bool { return !alive(pid) })
}

// A guard that is killed is replaced.
func TestGuardIsReplaced(t *testing.T) {
	n := startNode(t)
	file := filepath.Join(t.TempDir(), "pids")
	p := begin(t, n.env(), "lock", "k", "--lease", "2s", "-c", fmt.Sprintf(`echo $$ >>%[1]s; exec sleep 1000`, file))
	pid := pids(t, file, 1)[0]
	first := guardOf(t, p.cmd.Process.Pid)
	signalTo(t, first, syscall.SIGKILL)
	within(t, 5*time.Second, "there is another", func() bool {
		g := findGuard(p.cmd.Process.Pid)
		return g > 0 && g != first
	})
	time.Sleep(200 * time.Millisecond)
	signalTo(t, p.cmd.Process.Pid, syscall.SIGSTOP)
	within(t, 5*time.Second, "the second guard has ended the command", func() bool { return !alive(pid) })
}

func guardOf(t *testing.T, pid int) (guard int) {
	t.Helper()
	within(t, 5*time.Second, "the guard runs", func() bool { guard = findGuard(pid); return guard > 0 })
	return guard
}

// findGuard looks among the children of stile.
func findGuard(pid int) int {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range tasks {
		b, _ := os.ReadFile(file)
		for f := range strings.FieldsSeq(string(b)) {
			cmd, _ := os.ReadFile("/proc/" + f + "/cmdline")
			if strings.Contains(string(cmd), "__guard") {
				child, _ := strconv.Atoi(f)
				return child
			}
		}
	}
	return 0
}

// The lock is lost at once, as by a break: the command is told at the next
// renewal.
func TestLockIsTakenAway(t *testing.T) {
	n := startNode(t)
	file := filepath.Join(t.TempDir(), "token")
	p := begin(t, n.env(), "lock", "k", "--lease", "3s", "-c", fmt.Sprintf(`echo $STILE_TOKEN >%s; exec sleep 1000`, file))
	token := pids(t, file, 1)[0]
	run(t, n.env(), "release", "k", "--token", strconv.Itoa(token)).want(t, 0)
	p.end(t, 10*time.Second).result().want(t, 123, "do not know the lock")
	// One that ended well in the meantime was not protected either.
	r := run(t, n.env(), "lock", "k", "-c", stile+" release k")
	r.want(t, 123, "lost before the command ended")
	run(t, n.env(), "lock", "k", "-c", stile+" release k; exit 6").want(t, 6, "lost before the command ended")
}

func TestLeftover(t *testing.T) {
	n := startNode(t)
	for _, test := range []struct {
		mode string
		line string
	}{
		{"end", `sleep 1000 & echo $! >>%s`},
		{"end", `trap '' TERM; sleep 1000 & echo $! >>%s`}, // has to be killed
		{"wait", `sleep 0.5 & echo $! >>%s`},
		{"leave", `sleep 3 >/dev/null 2>&1 & echo $! >>%s`},
	} {
		t.Run(test.mode, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pids")
			p := begin(t, n.env(), "lock", "k", "--lease", "3s", "--leftover", test.mode, "-c", fmt.Sprintf(test.line, file))
			pid := pids(t, file, 1)[0]
			p.end(t, 10*time.Second).result().want(t, 0)
			if lives := alive(pid); lives != (test.mode == "leave") {
				t.Errorf("it lives: %v", lives)
			}
			if test.mode == "leave" {
				syscall.Kill(pid, syscall.SIGKILL)
			}
			if test.mode == "wait" && p.took < 500*time.Millisecond {
				t.Errorf("took %v", p.took)
			}
			if held, _, _ := n.count(t); held != 0 {
				t.Errorf("%d held", held)
			}
		})
	}
}

// A failover does not disturb the command.
func TestLockOverFailover(t *testing.T) {
	c := startCluster(t)
	file := filepath.Join(t.TempDir(), "pids")
	p := begin(t, c.env(), "lock", "k", "--lease", "4s", "-c", fmt.Sprintf(`echo $$ >>%s; sleep 6; echo done`, file))
	pids(t, file, 1)
	c.nodes[0].kill()
	p.end(t, 30*time.Second).result().want(t, 0, "done")
}
