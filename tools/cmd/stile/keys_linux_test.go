package main

import (
	"io"
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/creack/pty"
)

// A long key has a line of its own on a terminal, where it makes no others long,
// and is whole there and in a pipe.
func TestLongKey(t *testing.T) {
	n := startNode(t)
	key := strings.Repeat("orders/", 30) + "216bytes"
	token := strings.TrimSpace(run(t, n.env(), "acquire", key, "--lease", "1m", "--name", "ann").stdout)
	run(t, n.env(), "acquire", "door", "--lease", "1m", "--name", "ann").want(t, 0)
	run(t, n.env(), "keys").want(t, 0, key, token)

	cmd := exec.Command(stile, "keys")
	cmd.Env = append(append(cleanEnv(), n.env()...), "NO_COLOR=1", "TERM=xterm")
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 30, Cols: 130})
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	out, _ := io.ReadAll(tty) // Linux ends it with an error
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(strings.ReplaceAll(string(out), "\r", "")), "\n")
	if len(lines) != 4 || lines[2] != key || !strings.HasPrefix(lines[1], "door ") || strings.Index(lines[3], token) != strings.Index(lines[0], "TOKEN") {
		t.Fatalf("it is shown as\n%s", strings.Join(lines, "\n"))
	}
	for _, line := range append(lines[:2], lines[3]) {
		if w := utf8.RuneCountInString(line); w > 130 {
			t.Errorf("%d wide: %s", w, line)
		}
	}
}
