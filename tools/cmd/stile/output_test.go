//go:build linux

package main

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// to runs stile with a file as its standard output.
func to(t *testing.T, out *os.File, env []string, args ...string) (status int, stderr string) {
	t.Helper()
	cmd := exec.Command(stile, args...)
	var said strings.Builder
	cmd.Env, cmd.Stdout, cmd.Stderr = append(cleanEnv(), env...), out, &said
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	ws := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		return 1000 + int(ws.Signal()), said.String()
	}
	return ws.ExitStatus(), said.String()
}

// Every command that can't say what it has to says so, and fails; a reader
// that has seen enough ends it without a word.
func TestOutputThatFails(t *testing.T) {
	secret := secretFile(t, "operators")
	n := startNode(t, "--admin-secret-file", secret)
	env := append(n.env(), "STILE_ADMIN_SECRET_FILE="+secret)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	token := func(key string) string {
		return strings.TrimSpace(run(t, env, "acquire", key, "--lease", "1m").stdout)
	}
	kept, broken, released := token("kept"), token("broken"), token("released")
	for _, args := range [][]string{
		{"--help"}, {"--version"}, {"lock", "--help"}, {"man"}, {"completion", "bash"},
		{"status"}, {"status", "--json"}, {"keys"}, {"keys", "--json"}, {"keys", "none/"}, {"break", "broken", "--token", broken, "--yes"},
		{"acquire", "k"}, {"acquire", "k", "--json"}, {"keep", "kept", "--token", kept, "--json"}, {"release", "released", "--token", released, "--json"},
		{"bench", "--duration", "50ms", "--warmup", "0s", "-c", "1"},
	} {
		status, said := to(t, full, env, args...)
		if status != 125 || strings.Count(said, "no space left on device") != 1 {
			t.Errorf("%q: %d, %q", args, status, said)
		}
	}
	for _, args := range [][]string{{"--help"}, {"man"}, {"status"}, {"keys", "--json"}} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		if status, said := to(t, w, env, args...); status != 1000+int(syscall.SIGPIPE) || said != "" {
			t.Errorf("%q into a pipe that nobody reads: %d, %q", args, status, said)
		}
		w.Close()
	}
}

// No key is held under a token that nobody gets: where standard output is
// closed, or ends in a pipe that nobody reads. Go opens /dev/null in the place of
// a closed file; who writes >/dev/null needs no token.
func TestTokenForNobody(t *testing.T) {
	n := startNode(t)
	held := func(t *testing.T, want int) {
		t.Helper()
		if held, waiting, _ := n.count(t); held != want || waiting != 0 {
			t.Errorf("%d held, %d waiting", held, waiting)
		}
	}
	for _, args := range []string{"acquire a --lease 1m", "acquire a --lease 1m --json"} {
		for _, out := range []string{">&-", "1<>/dev/null"} {
			cmd := exec.Command("/bin/sh", "-c", `exec "$0" `+args+" "+out, stile)
			var said strings.Builder
			cmd.Env, cmd.Stderr = append(cleanEnv(), n.env()...), &said
			if cmd.Run(); cmd.ProcessState.ExitCode() != 125 || !strings.Contains(said.String(), "nothing was acquired") {
				t.Errorf("%s %s: %v, %q", args, out, cmd.ProcessState, said.String())
			}
			held(t, 0)
		}
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		if status, said := to(t, w, n.env(), strings.Fields(args)...); status != 125 || !strings.Contains(said, "the lock was given back") {
			t.Errorf("%s into a pipe that nobody reads: %d, %q", args, status, said)
		}
		w.Close()
		held(t, 0)
	}
	for i, line := range []string{`"$0" acquire b --lease 1m >/dev/null`, `"$0" acquire c --lease 1m | cat >/dev/null`} {
		cmd := exec.Command("/bin/sh", "-c", line, stile)
		cmd.Env = append(cleanEnv(), n.env()...)
		if said, err := cmd.CombinedOutput(); err != nil || len(said) > 0 {
			t.Errorf("%s: %v, %q", line, err, said)
		}
		held(t, i+1)
	}
}
