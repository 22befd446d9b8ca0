package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stile-lock/stile/bench/echo"
	"github.com/stile-lock/stile/bench/internal/fake"
	"github.com/stile-lock/stile/bench/workload"
)

// TestMain lets the test binary be this program, and what it starts: the node
// and the echo server.
func TestMain(m *testing.M) {
	if os.Getenv("BE_COMPARE") == "" {
		os.Exit(m.Run())
	}
	switch args := os.Args[1:]; {
	case slices.Contains(args, "--state-dir"):
		beNode(args)
	case args[0] == "echo-server":
		l, err := net.Listen("tcp", args[2])
		if err != nil {
			os.Exit(1)
		}
		echo.Serve(l)
	default:
		main()
	}
}

// beNode is a node that can be wrong, as BE_WRONG names it.
func beNode(args []string) {
	flag := func(name string) string { return args[slices.Index(args, name)+1] }
	s := &fake.Server{}
	if i := slices.IndexFunc(fake.Wrongs, func(w fake.Wrong) bool { return w.Name == os.Getenv("BE_WRONG") }); i >= 0 {
		s = fake.Wrongs[i].Server()
	}
	l, err := net.Listen("tcp", flag("--listen"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	go s.Serve(l)
	http.ListenAndServe(flag("--admin"), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte("{}"))
	}))
}

// compare runs the program against a node that is wrong in some way.
func compare(t *testing.T, wrong string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], append(args, "--stiled", os.Args[0], "--stile-bench", os.Args[0],
		"--redis", "no-redis-here", "--etcd", "no-etcd-here", "--etcd-load", "no-load-here")...)
	cmd.Env = append(os.Environ(), "BE_COMPARE=1", "BE_WRONG="+wrong)
	var out, log strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &log
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), log.String()
}

func TestCompare(t *testing.T) {
	file := filepath.Join(t.TempDir(), "figures.json")
	status, out, log := compare(t, "", "hand-over", "--rounds", "2", "--duration", "50ms", "--warmup", "10ms", "--json", file)
	if status != 0 {
		t.Fatalf("status %d\n%s%s", status, out, log)
	}
	for _, want := range []string{
		"median time from release to next grant", "≤ 1.25 ×", "processors",
		"Not measured: no-redis-here: not on this machine", "the package is redis-server; --install installs it",
		"Not measured: no-etcd-here", "the program that loads it is missing",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var table workload.Table
	if err := json.Unmarshal(content, &table); err != nil || table.Rounds != 2 || len(table.Figures) != 3 {
		t.Errorf("%v, %+v", err, table)
	}
}

// TestWrongAnswerIsStatus1 is about both kinds of workloads: those that load as
// stile-bench does, and those that talk for themselves.
func TestWrongAnswerIsStatus1(t *testing.T) {
	for _, workload := range []string{"connections", "growth"} {
		status, out, log := compare(t, "the grant of another key", workload, "--smoke", "--duration", "60s")
		if status != 1 || out != "" || !strings.Contains(log, "wrong answer") {
			t.Errorf("%s: status %d\n%s%s", workload, status, out, log)
		}
	}
}

func TestFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"no-such"}, `there is no workload "no-such", but uncontended, hand-over, herd, leases`},
		{[]string{"--rounds", "0"}, "give 1 or more"},
	} {
		if status, out, log := compare(t, "", c.args...); status != 1 || out != "" || !strings.Contains(log, c.says) {
			t.Errorf("%q: status %d\n%s%s", c.args, status, out, log)
		}
	}
	cmd := exec.Command(os.Args[0], "--stiled", "no-node-here")
	cmd.Env = append(os.Environ(), "BE_COMPARE=1")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "build the node first") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestSize(t *testing.T) {
	p := program{Smoke: true, Held: 7}
	want := workload.Smoke
	want.Held = 7
	if got := p.size(); got != want {
		t.Errorf("%+v", got)
	}
	if got := (&program{}).size(); got != workload.Full {
		t.Errorf("%+v", got)
	}
}

// TestInstallNeedsRoot sees to it that nothing is tried that cannot work.
func TestInstallNeedsRoot(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("this is root, who could")
	}
	if err := install(t.Context(), "redis-server"); err == nil || !strings.Contains(err.Error(), "root") {
		t.Errorf("the error is %v", err)
	}
}
