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

// Nobody gets the token of an acquire whose output is closed. Go opens
// /dev/null in its place, so that it can only be told of.
func TestClosedOutput(t *testing.T) {
	n := startNode(t)
	sh := func(line string) string {
		cmd := exec.Command("/bin/sh", "-c", line, stile)
		var said strings.Builder
		cmd.Env, cmd.Stderr = append(cleanEnv(), n.env()...), &said
		if err := cmd.Run(); err != nil {
			t.Errorf("%s: %v, %s", line, err, said.String())
		}
		return said.String()
	}
	if said := sh(`exec "$0" acquire a --lease 100ms >&-`); !strings.Contains(said, "nobody has the token") {
		t.Errorf("closed: %q", said)
	}
	if said := sh(`exec "$0" acquire b --lease 100ms >/dev/null`); said != "" {
		t.Errorf("/dev/null: %q", said)
	}
	if said := sh(`exec "$0" acquire c --lease 100ms | cat >/dev/null`); said != "" {
		t.Errorf("a pipe: %q", said)
	}
}
