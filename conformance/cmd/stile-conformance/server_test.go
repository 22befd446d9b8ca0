package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stile-lock/stile/conformance/report"
)

// The binaries, built once.
var stiled, self string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "stile-conformance-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	stiled, self = filepath.Join(dir, "stiled"), filepath.Join(dir, "stile-conformance")
	for _, b := range []struct{ out, in, pkg string }{
		{stiled, filepath.Join("..", "..", "..", "server"), "./cmd/stiled"},
		{self, ".", "."},
	} {
		build := exec.Command("go", "build", "-o", b.out, b.pkg)
		build.Dir, build.Stderr = b.in, os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "building", b.pkg, err)
			return 1
		}
	}
	return m.Run()
}

// startNode starts a stiled that ends with the test, and returns its address
// and that of its admin server.
func startNode(t *testing.T, args ...string) (addr, admin string) {
	t.Helper()
	cmd := exec.Command(stiled, append([]string{
		"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--state-dir", t.TempDir(), "--log-format", "json",
	}, args...)...)
	logs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	in := bufio.NewScanner(logs)
	for addr == "" && in.Scan() {
		var line struct{ Listen, Admin string }
		json.Unmarshal(in.Bytes(), &line)
		addr, admin = line.Listen, line.Admin
	}
	if addr == "" {
		t.Fatal("stiled did not start")
	}
	go io.Copy(io.Discard, logs)
	return addr, admin
}

// program runs stile-conformance and returns what it says and its exit code.
func program(t *testing.T, args ...string) (string, int) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.Command(self, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

// unjudged skips a test whose only trouble is that this machine was too busy.
func unjudged(t *testing.T, out string, code int) {
	t.Helper()
	if code == int(report.CouldNotJudge) && strings.Contains(out, "this machine could not keep the time") {
		t.Skip("this machine is too busy to judge:\n" + out)
	}
}

func TestServerIsCertified(t *testing.T) {
	t.Parallel()
	addr, admin := startNode(t)
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	start := time.Now()
	const software = "<stiled> of the test"
	out, code := program(t, "server", "--addr", addr, "--software", software, "--certificate", file("cert.json"), "--badge", file("badge.svg"),
		"--junit", file("junit.xml"), "--cucumber-json", file("cucumber.json"), "--html", file("page.html"))
	unjudged(t, out, code)
	if code != 0 {
		t.Fatalf("exit %d:\n%s", code, out)
	}
	t.Logf("took %v", time.Since(start).Round(time.Second))

	text, err := os.ReadFile(file("cert.json"))
	if err != nil {
		t.Fatal(err)
	}
	cert, err := report.ParseCertificate(text)
	if err != nil {
		t.Fatal(err)
	}
	if got := cert.Passed(); !slices.Equal(got, []string{"core", "keep", "ping", "hello", "resume"}) {
		t.Errorf("certified: %v", got)
	}
	if !slices.Equal(cert.Target.Profiles, []string{"core", "keep", "ping", "hello", "resume"}) || cert.Target.Name != addr || cert.Target.Software != software {
		t.Errorf("the certificate is of %+v", cert.Target)
	}
	if !strings.Contains(out, "software: "+software) {
		t.Errorf("the software is not named:\n%s", out)
	}
	if out, code := program(t, "verify", file("cert.json")); code != 0 || !strings.Contains(out, "in order: "+software+" at "+addr+", H 1 ") {
		t.Errorf("verify: exit %d: %s", code, out)
	}
	// A forged one: a failure called a pass in the sum only.
	forged := strings.Replace(string(text), `"outcome": "passed"`, `"outcome": "failed"`, 1)
	os.WriteFile(file("forged.json"), []byte(forged), 0o644)
	if out, code := program(t, "verify", file("forged.json")); code != 1 {
		t.Errorf("verify of a forged certificate: exit %d: %s", code, out)
	}
	// Another one: what failed is said not to apply.
	forged = strings.Replace(string(text), `"left_out": {`, `"left_out": {"S-6.2-fifo": "it is for others",`, 1)
	os.WriteFile(file("forged.json"), []byte(forged), 0o644)
	if out, code := program(t, "verify", file("forged.json")); code != 1 || !strings.Contains(out, "S-6.2-fifo") {
		t.Errorf("verify of a forged certificate: exit %d: %s", code, out)
	}
	// One with no result at all: the first problems, and how many more.
	cert.Results = nil
	empty, err := json.Marshal(cert)
	if err != nil {
		t.Fatal(err)
	}
	os.WriteFile(file("forged.json"), empty, 0o644)
	lines := func(text string) int { return strings.Count(text, "\n") }
	if out, code := program(t, "verify", file("forged.json")); code != 1 || lines(out) != shownProblems+2 || !strings.Contains(out, "not in order: "+software) || !strings.Contains(out, "  profile core") || !regexp.MustCompile(`\nand \d{3} more\n$`).MatchString(out) {
		t.Errorf("verify of an empty certificate: exit %d: %s", code, out)
	}
	if !strings.Contains(string(text), `"limits":`) || !strings.Contains(out, "of the profile limits, which is not judged") {
		t.Errorf("nothing tells that limits were not tried:\n%s", out)
	}

	var junit struct {
		Suites []struct {
			Tests    int `xml:"tests,attr"`
			Failures int `xml:"failures,attr"`
		} `xml:"testsuite"`
	}
	text, _ = os.ReadFile(file("junit.xml"))
	if err := xml.Unmarshal(text, &junit); err != nil || len(junit.Suites) < 8 {
		t.Errorf("JUnit: %v, %d suites", err, len(junit.Suites))
	}
	var cucumber []struct{ Elements []any }
	text, _ = os.ReadFile(file("cucumber.json"))
	if err := json.Unmarshal(text, &cucumber); err != nil || len(cucumber) < 8 {
		t.Errorf("Cucumber JSON: %v, %d features", err, len(cucumber))
	}
	text, _ = os.ReadFile(file("page.html"))
	if !bytes.Contains(text, []byte(`id="S-6.2-fifo"`)) || !bytes.Contains(text, []byte("&lt;stiled&gt; of the test")) || bytes.Contains(text, []byte("ZgotmplZ")) {
		t.Error("the page lacks a scenario, or its template wrote something unsafe")
	}
	text, _ = os.ReadFile(file("badge.svg"))
	if err := xml.Unmarshal(text, new(any)); err != nil || !bytes.Contains(text, []byte("resume")) || !bytes.Contains(text, []byte("&lt;stiled&gt; of the test, suite")) {
		t.Errorf("badge: %v", err)
	}
	nothingLeft(t, admin)
}

func TestServerWithSecretAndLimits(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("open-sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	addr, admin := startNode(t, "--secret-file", secret, "--max-connections", "200", "--max-waiters-per-key", "1500", "--max-unanswered", "2000")
	out, code := program(t, "server", "--addr", addr, "--secret-file", secret,
		"--limits", "connections=200,waiters-per-key=1500,unanswered=2000,default-lease=30,max-lease=86400")
	unjudged(t, out, code)
	if code != 0 {
		t.Fatalf("exit %d:\n%s", code, out)
	}
	if strings.Contains(out, "open-sesame") {
		t.Error("the secret is shown")
	}
	nothingLeft(t, admin)
}

// nothingLeft fails if the node still has what the suite held or waited for.
func nothingLeft(t *testing.T, admin string) {
	t.Helper()
	var s struct{ Held, Waiting int }
	// A waiter with a nonce stays for a second after its connection.
	for end := time.Now().Add(2 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		resp, err := http.Get("http://" + admin + "/status")
		if err != nil {
			t.Fatal(err)
		}
		err = json.NewDecoder(resp.Body).Decode(&s)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if s.Held == 0 && s.Waiting == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("left behind: %d held, %d waiting", s.Held, s.Waiting)
		}
	}
}

// A cluster of the reference node is launched, broken and judged.
func TestLaunch(t *testing.T) {
	t.Parallel()
	secret, cert, logs := filepath.Join(t.TempDir(), "secret"), filepath.Join(t.TempDir(), "cert.json"), filepath.Join(t.TempDir(), "logs")
	if err := os.WriteFile(secret, []byte("open-sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const some = "@N-12.2-names-the-active,@N-12.1-killed,@N-12.1-first-redirect,@N-12.6-replicated,@N-12.6-step-down,@N-12.4-places"
	out, code := program(t, "server", "--launch", launch("--secret-file "+secret), "--secret-file", secret,
		"--tags", some, "--certificate", cert, "--node-logs", logs)
	unjudged(t, out, code)
	if code != 0 || !strings.Contains(out, "6 scenarios") {
		t.Fatalf("exit %d:\n%s", code, out)
	}
	if strings.Contains(out, "open-sesame") {
		t.Error("the secret is shown")
	}
	// Only some were run: the certificate is in order, and certifies nothing.
	if out, code := program(t, "verify", cert); code != 1 || !strings.Contains(out, "in order") || !strings.Contains(out, "certifies no profile") {
		t.Errorf("verify: exit %d: %s", code, out)
	}
	if text, err := os.ReadFile(filepath.Join(logs, "N-12.1-killed.log")); err != nil || !bytes.Contains(text, []byte("this node is active")) {
		t.Errorf("the nodes' logs: %v, %q", err, text)
	}
}

// launch is the template of the reference node, with some flags more.
func launch(flags string) string {
	return "'" + stiled + "' --listen {listen} --advertise {advertise} --peers {peers} --state-dir {state_dir} --admin= " + flags
}

// An interrupt ends the run, gives back what is held, and says that nothing
// was judged.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	addr, admin := startNode(t)
	var out bytes.Buffer
	cmd := exec.Command(self, "server", "--addr", addr, "--concurrency", "32")
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	start := time.Now()
	cmd.Process.Signal(os.Interrupt)
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 2 {
		t.Errorf("exit %d:\n%s", code, &out)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %v to end", took)
	}
	nothingLeft(t, admin)
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	addr, _ := startNode(t)
	list := filepath.Join(t.TempDir(), "known")
	os.WriteFile(list, []byte("S-4.1-free # it is known to fail\n"), 0o644)
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"server --addr 127.0.0.1:1", 2, "can't be reached"},
		{"server --addr " + addr + " --profile nonsense", 2, "no such profile"},
		{"server --addr " + addr + " --limits nonsense=1", 2, "there is no"},
		{"server --addr " + addr + " --limits connections=-3", 2, "connections=-3"},
		{"server --addr " + addr + " --concurrency -1", 2, "--concurrency"},
		{"server --addr " + addr + " --tags ~", 2, "is no tag"},
		{"server --addr " + addr + " --tags @keep&timed", 2, "is no tag"},
		{"list server --tags @keep,,@ping", 2, "is no tag"},
		{"server --addr " + addr + " --tags ping", 0, "conformant"},
		{"server --addr " + addr + " --tags @S-4.1-free --html /nowhere/at/all.html", 2, "--html"},
		{"server --nonsense", 2, "nonsense"},
		{"server", 2, "--launch"},
		{"server --addr " + addr + " --launch stiled", 2, "can't be used together"},
		{"server --launch stiled", 2, "lacks {listen}"},
		{"server --launch {listen}{peers}{port}", 2, "{port}, which is no placeholder"},
		{"server --launch /nowhere/stiled{listen}{peers}", 2, "can't be started"},
		{"server --launch {listen}{peers} --limits connections=5", 2, "go with --addr"},
		{"server --launch " + stiled + "_--no-such={listen}{peers}", 2, "no-such"},
		{"server --addr " + addr + " --tags @S-4.1-free", 0, "conformant"},
		{"server --addr " + addr + " --tags @S-10.4-accepted --profile secret", 2, "no --secret-file"},
		{"server --addr " + addr + " --tags @S-4.1-free --known-failures " + list, 1, "passed; take it off"},
		{"list server --tags @S-6.2-fifo", 0, "S-6.2-fifo  @core @must"},
		{"verify " + list, 2, "no certificate"},
	} {
		args := strings.Fields(c.args)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "_", " ")
		}
		out, code := program(t, args...)
		if code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("%s: exit %d, want %d and %q:\n%s", c.args, code, c.code, c.says, out)
		}
	}
}
