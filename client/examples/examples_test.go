package examples

import (
	"bytes"
	"fmt"
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

	"github.com/stile-lock/stile/client/fence"
	"github.com/stile-lock/stile/client/fence/fencetest/servers"
	"github.com/stile-lock/stile/conformance/cluster/rig"
)

// bin is where the node and the recipes are, built once.
var bin string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if bin, err = os.MkdirTemp("", "stile-examples-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(bin)
	if _, err := servers.BuildStiled(bin); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if out, err := exec.Command("go", "build", "-o", bin, "./...").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the recipes: %v\n%s", err, out)
		return 1
	}
	defer endPostgres()
	return m.Run()
}

// Recipes are short.
func TestLength(t *testing.T) {
	files, err := filepath.Glob("*/main.go")
	ok(t, err)
	if len(files) != 5 {
		t.Errorf("there are %d recipes: %v", len(files), files)
	}
	for _, file := range files {
		src, err := os.ReadFile(file)
		ok(t, err)
		if n := bytes.Count(src, []byte("\n")); n >= 80 {
			t.Errorf("%s has %d lines", file, n)
		}
	}
}

// startNode starts a node of the test's own and returns its address.
func startNode(t *testing.T) string {
	t.Helper()
	return startCluster(t).Addrs()
}

// startCluster starts a node that can be stopped.
func startCluster(t *testing.T) *rig.Cluster {
	t.Helper()
	c, err := rig.New(rig.Options{Binary: filepath.Join(bin, "stiled"), Nodes: 1, Dir: t.TempDir()})
	ok(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.Logs())
		}
		c.Close()
	})
	ok(t, c.StartAll())
	_, err = c.WaitActive(1, rig.Patience)
	ok(t, err)
	return c
}

// program is a recipe that runs.
type program struct {
	cmd  *exec.Cmd
	done chan error

	mu  sync.Mutex
	out bytes.Buffer
}

func (p *program) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *program) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

func start(t *testing.T, name string, args ...string) *program {
	t.Helper()
	p := &program{cmd: exec.Command(filepath.Join(bin, name), args...), done: make(chan error, 1)}
	p.cmd.Stdout, p.cmd.Stderr = p, p
	p.cmd.SysProcAttr = servers.Child(syscall.SIGKILL)
	ok(t, p.cmd.Start())
	go func() { p.done <- p.cmd.Wait() }()
	t.Cleanup(func() {
		p.signal(syscall.SIGKILL)
		if t.Failed() {
			t.Logf("%v wrote:\n%s", p.cmd.Args, p.text())
		}
	})
	return p
}

// signal sends a signal to the program and what it has started.
func (p *program) signal(s syscall.Signal) { syscall.Kill(-p.cmd.Process.Pid, s) }

// wait waits for its end, and returns whether it succeeded.
func (p *program) wait(t *testing.T) bool {
	t.Helper()
	return p.status(t) == 0
}

// status waits for its end, and returns its exit status.
func (p *program) status(t *testing.T) int {
	t.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(2 * rig.Patience):
		t.Fatalf("%v does not end", p.cmd.Args)
		return -1
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func until(t *testing.T, what string, cond func() bool) time.Duration {
	t.Helper()
	took, err := rig.Until(rig.Patience, what, func() (bool, error) { return cond(), nil })
	ok(t, err)
	return took
}

// One leads. When it stops, the next does at once; when it dies, the next does
// when its lease is over.
func TestLeader(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
	stile := startNode(t)
	programs := map[string]*program{}
	for _, name := range []string{"a", "b", "c"} {
		programs[name] = start(t, "leader", "-stile", stile, "-name", name, "-lease", lease.String())
	}
	last := uint64(0)
	leads := func() string {
		for name, p := range programs {
			if _, after, found := strings.Cut(p.text(), name+" leads with token "); found {
				digits, _, _ := strings.Cut(after, "\n")
				token, err := strconv.ParseUint(digits, 10, 64)
				ok(t, err)
				if token <= last {
					t.Errorf("token %d after %d", token, last)
				}
				last = token
				delete(programs, name)
				for other, p := range programs {
					if p.text() != "" {
						t.Errorf("%s and %s lead", name, other)
					}
				}
				programs[name] = p
				return name
			}
		}
		return ""
	}
	next := func() (name string, took time.Duration) {
		took = until(t, "there is a leader", func() bool { name = leads(); return name != "" })
		return name, took
	}

	first, _ := next()
	programs[first].signal(syscall.SIGTERM)
	if !programs[first].wait(t) || !strings.Contains(programs[first].text(), "leads no longer") {
		t.Errorf("%s did not end well", first)
	}
	delete(programs, first)
	second, took := next()
	if took >= lease/2 {
		t.Errorf("%s led %v after %s had stopped", second, took, first)
	}
	programs[second].signal(syscall.SIGKILL)
	delete(programs, second)
	if third, took := next(); took < lease/2 {
		t.Errorf("%s led %v after the death of %s, whose lease was %v", third, took, second, lease)
	}
}

// Five machines start a job at one time.
func TestCron(t *testing.T) {
	t.Parallel()
	stile := startNode(t)
	for _, test := range []struct {
		name, limit, script string
		runs                int // of the script
		succeed             int // of the programs
	}{
		{"once", "1h", `echo "$FENCING_TOKEN" >> runs`, 1, 5},
		{"the first fails", "1h", `echo x >> runs; test $(wc -l < runs) -gt 1`, 2, 4},
		{"the first hangs", "3s", `echo x >> runs; test $(wc -l < runs) -gt 1 || exec sleep 60`, 2, 4},
		{"the first dies", "1h", `echo x >> runs; test $(wc -l < runs) -gt 1 || kill -9 $PPID`, 2, 4},
		{"the first is stopped", "1h", `echo x >> runs; test $(wc -l < runs) -gt 1 || { kill $PPID; sleep 60; }`, 2, 4},
		{"all fail", "1h", `echo x >> runs; exit 1`, 5, 0},
		// What each of them has started would write in the time of the others.
		{"all hang", "1s", `echo x >> runs; (sleep 2; echo late >> runs); sleep 60`, 5, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			key := strings.ReplaceAll(test.name, " ", "-")
			run := func() *program {
				return start(t, "cron", "-stile", stile, "-job", key, "-run", "today", "-lease", "3s", "-limit", test.limit,
					"sh", "-c", "cd "+dir+"; "+test.script)
			}
			var programs []*program
			for range 5 {
				programs = append(programs, run())
			}
			succeeded, here := 0, 0
			for _, p := range programs {
				if p.wait(t) {
					succeeded++
				}
				here += strings.Count(p.text(), "is done here")
			}
			runs, err := os.ReadFile(filepath.Join(dir, "runs"))
			ok(t, err)
			if n := bytes.Count(runs, []byte("\n")); n != test.runs || succeeded != test.succeed || here != min(1, test.succeed) {
				t.Errorf("it ran %d times, %d times to the end; %d of 5 programs succeeded", n, here, succeeded)
			}
			if test.succeed < 5 {
				return
			}
			if g, err := fence.ParseGrant(strings.TrimSpace(string(runs))); err != nil || g.Key() != "cron/"+key+"/today" {
				t.Errorf("the command was given the grant %v, %v", g, err)
			}
			// One that is late finds it done.
			late := run()
			if !late.wait(t) || !strings.Contains(late.text(), "is done elsewhere") {
				t.Errorf("one that is late says %q", late.text())
			}
		})
	}
}

// Six want a licence of two, of which each may be used once a second.
func TestLicences(t *testing.T) {
	t.Parallel()
	const every, late = time.Second, 200 * time.Millisecond
	stile := startNode(t)
	var programs []*program
	for range 6 {
		programs = append(programs, start(t, "licences", "-stile", stile, "-count", "2", "-every", every.String(), "-limit", "1m",
			"sh", "-c", `echo "$LICENCE" $(date +%s%N)`))
	}
	uses := map[string][]time.Time{}
	for _, p := range programs {
		var licence string
		var at int64
		if !p.wait(t) {
			t.Errorf("one failed: %s", p.text())
		}
		_, err := fmt.Sscan(p.text(), &licence, &at)
		ok(t, err)
		uses[licence] = append(uses[licence], time.Unix(0, at))
	}
	for licence, at := range uses {
		slices.SortFunc(at, time.Time.Compare)
		t.Log(licence, at)
		for i := 1; i < len(at); i++ {
			if between := at[i].Sub(at[i-1]); between < every-late {
				t.Errorf("%s was used twice within %v", licence, between)
			}
		}
	}
	if len(uses["licence/1"])+len(uses["licence/2"]) != 6 || len(uses) != 2 {
		t.Errorf("the licences used: %v", uses)
	}
}

// A licence comes back however its use ends, and the command's status is the
// program's.
func TestLicenceComesBack(t *testing.T) {
	t.Parallel()
	stile := startNode(t)
	use := func(script string) *program {
		return start(t, "licences", "-stile", stile, "-count", "1", "-every", "1ms", "-limit", "1h", "sh", "-c", script)
	}
	if status := use("exit 7").status(t); status != 7 {
		t.Errorf("the status is %d", status)
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		goesOn := filepath.Join(t.TempDir(), "goes-on")
		first := use("echo began; (sleep 1; echo x > " + goesOn + "); sleep 60")
		until(t, "it is used", func() bool { return first.text() != "" })
		next := use("echo had it")
		first.signal(sig)
		if first.wait(t) {
			t.Errorf("%v: the first succeeded", sig)
		}
		if !next.wait(t) { // far sooner than the limit
			t.Errorf("%v: the next failed: %s", sig, next.text())
		}
		time.Sleep(1500 * time.Millisecond)
		if _, err := os.Stat(goesOn); err == nil {
			t.Errorf("%v: what it had started went on", sig)
		}
	}
	// Mistakes cost no licence.
	for _, args := range [][]string{{"-count", "1"}, {"-count", "0", "true"}, {"-count", "-1", "true"}} {
		p := start(t, "licences", append([]string{"-stile", stile}, args...)...)
		if p.wait(t) || !strings.Contains(p.text(), "usage: ") {
			t.Errorf("%q: %s", args, p.text())
		}
	}
	if !use("true").wait(t) {
		t.Error("the licence is gone")
	}
}
