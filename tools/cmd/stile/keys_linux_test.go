package main

import (
	"io"
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/creack/pty"
)

// A long key makes no long lines on a terminal, and is whole in a pipe.
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
	text := strings.ReplaceAll(string(out), "\r", "")
	if !strings.Contains(text, "orders/orders/") || !strings.Contains(text, "…  "+token) || strings.Contains(text, "216bytes") {
		t.Errorf("it is shown as\n%s", text)
	}
	for line := range strings.Lines(text) {
		if w := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); w > 130 {
			t.Errorf("%d wide: %s", w, line)
		}
	}
}
