package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

var bin string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "stilevet-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		bin = filepath.Join(dir, "stilevet")
		if runtime.GOOS == "windows" {
			bin += ".exe"
		}
		if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// run runs a command in dir, and returns all it printed and its exit status.
func run(t *testing.T, dir, name string, args ...string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK="+filepath.Join(dir, "go.work"), "GOFLAGS=", "GOPROXY=off")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s %v: %v", name, args, err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// misuse makes a workspace of the client and a module with one misuse of each
// kind.
func misuse(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("testdata/misuse/misuse.go")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"go.mod": "module example.com/misuse\n\ngo 1.26\n",
		"go.work": fmt.Sprintf("go 1.26\n\nuse (\n\t.\n\t%q\n\t%q\n)\n",
			filepath.ToSlash(filepath.Join(root, "client")), filepath.ToSlash(filepath.Join(root, "protocol"))),
		"misuse.go": string(source),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// reports are what each analyzer says of the module.
var reports = []struct {
	line int
	text string
	fix  bool
}{
	{14, "the lock in lock is not released on every path: it is still held at the return on line 18", true},
	{22, "the error of Guard.Check is dropped: a refused grant goes unnoticed", true},
	{28, "this context is cancelled when Release runs, by line 29: Release does not wait for the server's answer", true},
	{35, "this write is not fenced: nothing uses the token of the lock that Do takes on line 34", false},
	{43, "this loop in the function given to Do uses the context parent from outside", true},
}

func checkReports(t *testing.T, out string) {
	t.Helper()
	for _, r := range reports {
		if !regexp.MustCompile(fmt.Sprintf(`misuse\.go:%d:\d+: %s`, r.line, regexp.QuoteMeta(r.text))).MatchString(out) {
			t.Errorf("no report of line %d: %s", r.line, r.text)
		}
	}
	if n := len(regexp.MustCompile(`(?m)misuse\.go:\d+:\d+: [^\t]`).FindAllString(out, -1)); n != len(reports) {
		t.Errorf("%d reports instead of %d", n, len(reports))
	}
	if t.Failed() {
		t.Log(out)
	}
}

func TestAlone(t *testing.T) {
	out, status := run(t, misuse(t), bin, "./...")
	if status != 3 {
		t.Errorf("exit status %d, want 3", status)
	}
	checkReports(t, out)
}

func TestGoVet(t *testing.T) {
	dir := misuse(t)
	if out, _ := run(t, dir, "go", "vet", "-vettool="+bin, "-json", "."); !strings.Contains(out, "suggested_fixes") {
		t.Errorf("-json has no fixes:\n%s", out) // TestFix looks for them
	}
	out, status := run(t, dir, "go", "vet", "-vettool="+bin, ".")
	if status != 1 {
		t.Errorf("exit status %d, want 1", status)
	}
	checkReports(t, out)

	// Its flags are go vet's then.
	out, status = run(t, dir, "go", "vet", "-vettool="+bin, "-unusedtoken", ".")
	if status != 1 || !strings.Contains(out, "not fenced") || strings.Contains(out, "not released") {
		t.Errorf("only one analyzer: exit status %d\n%s", status, out)
	}
}

// TestFix applies all fixes: what is left compiles, and has no more of them.
func TestFix(t *testing.T) {
	dir := misuse(t)
	if out, status := run(t, dir, bin, "-fix", "./..."); status != 0 {
		t.Fatalf("-fix: exit status %d\n%s", status, out)
	}
	if out, status := run(t, dir, "go", "build", "./..."); status != 0 {
		t.Fatalf("fixed, it does not compile any more:\n%s", out)
	}
	out, _ := run(t, dir, "go", "vet", "-vettool="+bin, "-json", ".")
	for _, r := range reports {
		if strings.Contains(out, r.text[:20]) == r.fix {
			t.Errorf("fixed: %t, but afterwards:\n%s", r.fix, out)
		}
	}
	if strings.Contains(out, "suggested_fixes") {
		t.Errorf("there is more to fix:\n%s", out)
	}
}

func TestFlags(t *testing.T) {
	dir := misuse(t)
	for _, c := range []struct {
		args   []string
		status int
		say    string
	}{
		{[]string{"--version"}, 0, `^stilevet \S+\n$`},
		{[]string{"-V"}, 0, `^stilevet \S+\n$`},
		{[]string{"-V=full"}, 0, `^\S*stilevet(\.exe)? version devel .*buildID=\S+\n$`},
		{[]string{"help"}, 0, `(?s)deadrelease +report.*deafdo +report.*directive +report.*droppederr +report.*lostlock +report.*unusedtoken +report`},
		{[]string{"help", "lostlock"}, 0, `(?s)^lostlock: report locks.*//stile:kept`},
		{[]string{"-nosuch", "./..."}, 2, `flag provided but not defined: -nosuch`},
		{nil, 1, `Usage: \S+ \[-flag\] \[package\]`},
		{[]string{"./nosuch"}, 1, `nosuch`},
	} {
		out, status := run(t, dir, bin, c.args...)
		if status != c.status || !regexp.MustCompile(c.say).MatchString(out) {
			t.Errorf("stilevet %s: exit status %d, want %d, and %s, in:\n%s", strings.Join(c.args, " "), status, c.status, c.say, out)
		}
	}
	out, _ := run(t, dir, bin, "-flags")
	var flags []struct{ Name string }
	if err := json.Unmarshal([]byte(out), &flags); err != nil {
		t.Fatalf("-flags: %v\n%s", err, out)
	}
	names := map[string]bool{}
	for _, f := range flags {
		names[f.Name] = true
	}
	for _, name := range []string{"deadrelease", "deafdo", "directive", "droppederr", "lostlock", "unusedtoken", "tests", "generated", "json"} {
		if !names[name] {
			t.Errorf("-flags does not have %s", name)
		}
	}
}

// TestLeftOut has the same misuse in a test and in a generated file: all
// analyzers leave both out, and look at each with its flag, also for go vet.
func TestLeftOut(t *testing.T) {
	dir := misuse(t)
	source, err := os.ReadFile("testdata/misuse/misuse.go")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "misuse.go")); err != nil {
		t.Fatal(err)
	}
	// The other file has functions of the same names, in another package.
	for name, text := range map[string]string{
		"plain.go":     "package misuse\n",
		"made_test.go": string(source),
		"made/made.go": "// Code generated by a test. DO NOT EDIT.\n\n" + string(source),
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	finding := regexp.MustCompile(`(?m)(made_test|made)\.go:\d+:\d+: [^\t]`)
	for _, c := range []struct {
		flags []string
		want  map[string]int
	}{
		{nil, map[string]int{}},
		{[]string{"-tests"}, map[string]int{"made_test": len(reports)}},
		{[]string{"-generated"}, map[string]int{"made": len(reports)}},
	} {
		for _, command := range [][]string{{bin}, {"go", "vet", "-vettool=" + bin}} {
			args := append(append(command[1:], c.flags...), "./...")
			out, _ := run(t, dir, command[0], args...)
			got := map[string]int{}
			for _, m := range finding.FindAllStringSubmatch(out, -1) {
				got[m[1]]++
			}
			if !maps.Equal(got, c.want) {
				t.Errorf("%s %v: reports %v, want %v:\n%s", command[0], args, got, c.want, out)
			}
		}
	}
}
