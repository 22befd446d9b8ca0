package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stile-lock/stile/server/config"
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
	for _, part := range []string{".TH THING 1 2026-12-01", "\n\\&.Begins", `\fB\-\-listen\fR=\fIHOST:PORT\fR`, ".SS do\n", ".SH SEE ALSO\n", `\fB\-\-twice\fR`} {
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

// files are completed in this directory; no shell but bash is counted on here.
var completed = []struct{ words, want string }{
	{"stiled --config |", "a.yaml sub"},
	{"stiled --config = |", "a.yaml sub"},
	{"stiled --config = a|", "a.yaml"},
	{"stiled --config =|", "a.yaml sub"},
	{"stiled --tls-key |", "a.yaml sub"},
	{"stiled --state-dir |", "sub"},
	{"stiled --replication |", "async sync"},
	{"stiled --replication s|", "sync"},
	{"stiled --log-level = |", "debug info warn error"},
	{"stiled --log-format |", "json text"},
	{"stiled --takeback |", "auto manual"},
	{"stiled --listen |", ""},
	{"stiled --insecure --repl|", "--replication"},
	{"stiled --log-|", "--log-level --log-format"},
	{"thing |", "serve verify"},
	{"thing serve --secret-file |", "a.yaml sub"},
	{"thing serve --sec|", "--secret-file"},
	{"thing verify |", ""}, // files, by the default
}

func TestBashCompletes(t *testing.T) {
	pages := map[string]*page{
		"stiled": stiled(t),
		"thing": {name: "thing", flags: []option{{long: "help"}}, commands: []*page{
			{name: "serve", flags: []option{{long: "help"}, {long: "secret-file", value: "FILE"}}},
			{name: "verify", flags: []option{{long: "help"}}},
		}},
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.yaml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range completed {
		line, _ := strings.CutSuffix(c.words, "|")
		words := strings.Split(line, " ")
		script := bash(pages[words[0]]) + fmt.Sprintf("compopt() { :; }\nCOMP_WORDS=('%s'); COMP_CWORD=%d\n_%s; printf '%%s\\n' \"${COMPREPLY[@]}\"\n",
			strings.Join(words, "' '"), len(words)-1, words[0])
		cmd := exec.Command("bash")
		cmd.Stdin, cmd.Dir = strings.NewReader(script), dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		got, want := strings.Fields(string(out)), strings.Fields(c.want)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q are offered, want %q", c.words, got, want)
		}
	}
}

// stiled is the page of the node itself.
func stiled(t *testing.T) *page {
	t.Helper()
	var help strings.Builder
	if _, err := config.Parse([]string{"--help"}, &help); !errors.Is(err, config.ErrHelp) {
		t.Fatal(err)
	}
	p, _, err := parse(help.String())
	if err != nil {
		t.Fatal(err)
	}
	p.name = "stiled"
	p.choose()
	return p
}

// What is offered for a flag of stiled, stiled takes; and every choice is offered.
func TestChoices(t *testing.T) {
	seen := 0
	for _, f := range stiled(t).flags {
		for _, word := range f.choices() {
			seen++
			// In a cluster, as some of them are for no node alone.
			if _, err := config.Parse([]string{"--peers", "127.0.0.1:5625,127.0.0.2:5625", "--" + f.long, word}, io.Discard); err != nil {
				t.Errorf("--%s %s is offered: %v", f.long, word, err)
			}
		}
		if strings.Contains(f.value, `"`) {
			t.Errorf("--%s has the placeholder %s", f.long, f.value)
		}
	}
	if want := strings.Fields("async sync debug info warn error text json auto manual"); seen != len(want) {
		t.Errorf("%d choices are offered, want %q", seen, want)
	}
}

// The page of stiled says what no --help does.
func TestStiledPage(t *testing.T) {
	text := man(stiled(t), "v1.2.3", time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC))
	for _, part := range []string{`"stile v1.2.3"`, ".SH EXIT STATUS\n", ".SH SIGNALS\n", "SIGHUP", ".SH FILES\n", "stile(1)", `=\fIasync|sync\fR`} {
		if !strings.Contains(text, part) {
			t.Errorf("the page has no %q", part)
		}
	}
	for name := range more {
		if also[name] == "" {
			t.Errorf("%s sends nobody to another page", name)
		}
	}
}

func TestTitled(t *testing.T) {
	date := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	got, err := titled(".TH \"STILE\" \"1\" \"\"\n.SH NAME\n", "stile", "v1.2.3", date)
	if want := ".TH STILE 1 2026-12-01 \"stile v1.2.3\" Stile\n.SH NAME\n"; err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := titled("no page\n", "stile", "v1.2.3", date); err == nil {
		t.Error("what has no title was taken for a page")
	}
}
