package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const help = `Usage: thing <command> [flags]

Does a thing. It is
'quoted', and -dashed.

.Begins with a dot.

Flags:
  -h, --help                     Show help.
      --listen=HOST:PORT         Where to [listen]:
                                 a free port ($THING_LISTEN).
      --a-flag-with-a-long-name=HOST:PORT[#ID],…
                                 Its text is below.

Commands:
  do <what> [flags]
    Do it.

  undo [flags]
    Undo it.

Run "thing <command> --help" for more information on a command.
`

func TestParse(t *testing.T) {
	p, commands, err := parse(help)
	if err != nil {
		t.Fatal(err)
	}
	want := &page{
		usage: "thing <command> [flags]",
		about: []string{"Does a thing. It is 'quoted', and -dashed.", ".Begins with a dot."},
		flags: []option{
			{short: "h", long: "help", help: "Show help."},
			{long: "listen", value: "HOST:PORT", help: "Where to [listen]: a free port ($THING_LISTEN)."},
			{long: "a-flag-with-a-long-name", value: "HOST:PORT[#ID],…", help: "Its text is below."},
		},
	}
	if diff := cmp.Diff(want, p, cmp.AllowUnexported(page{}, option{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"do", "undo"}, commands); diff != "" {
		t.Errorf("commands, -want +got:\n%s", diff)
	}
	for _, bad := range []string{"", "thing: what?\n", "Usage: thing\n\nNo flags.\n", "Usage: thing\n\nFlags:\n  what is this\n"} {
		if _, _, err := parse(bad); err == nil {
			t.Errorf("%q was understood", bad)
		}
	}
}

// Each shell that there is takes what is made for it, and so does groff.
func TestRender(t *testing.T) {
	p, _, err := parse(help)
	if err != nil {
		t.Fatal(err)
	}
	p.name = "thing"
	do := *p
	do.name, do.flags = "do", append(do.flags, option{long: "twice", help: "It's done twice."})
	p.commands = []*page{&do}
	dir := t.TempDir()
	check := func(text string, name string, args ...string) {
		file := filepath.Join(dir, "file")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := exec.LookPath(name); err != nil {
			t.Logf("no %s here", name)
			return
		}
		if out, err := exec.Command(name, append(args, file)...).CombinedOutput(); err != nil || strings.Contains(string(out), "warning") {
			t.Errorf("%s: %v\n%s\n%s", name, err, out, text)
		}
	}
	for _, sh := range shells {
		text := sh.of(p)
		check(text, sh.name, "-n")
		for _, part := range []string{"listen", "twice", "do"} {
			if !strings.Contains(text, part) {
				t.Errorf("%s does not complete %s:\n%s", sh.name, part, text)
			}
		}
	}
	text := man(p, "v1", time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC))
	check(text, "groff", "-ww", "-man", "-Tascii")
	for _, part := range []string{".TH THING 1 2026-12-01", "\n\\&.Begins", `\fB\-\-listen\fR=\fIHOST:PORT\fR`, ".SS do\n", `\fB\-\-twice\fR`} {
		if !strings.Contains(text, part) {
			t.Errorf("the page has no %q:\n%s", part, text)
		}
	}
	if strings.Count(text, `\-\-listen`) != 1 {
		t.Errorf("a flag of the program is told of again with a command:\n%s", text)
	}
}

// A program that is to make its own pages and can't fails the packaging.
func TestOwnPages(t *testing.T) {
	program := filepath.Join(t.TempDir(), "thing")
	for script, fails := range map[string]bool{
		"echo $*": false, "echo no such command >&2; exit 2": true, "exit 0": true,
	} {
		if err := os.WriteFile(program, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		got, err := output(program, "completion", "bash")
		if (err != nil) != fails || !fails && got != "completion bash\n" {
			t.Errorf("%q: %q, %v", script, got, err)
		}
	}
}
