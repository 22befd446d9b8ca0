package shelldoc_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/stile-lock/stile/tools/cmd/stile/cli"
	"github.com/stile-lock/stile/tools/cmd/stile/shelldoc"
)

// application is the model of stile itself.
func application(t *testing.T) *kong.Application {
	t.Helper()
	k, err := cli.New(new(cli.CLI))
	if err != nil {
		t.Fatal(err)
	}
	return k.Model
}

// every lists the names of all commands and all flags.
func every(app *kong.Application) (commands, flags []string) {
	for _, f := range app.Flags {
		flags = append(flags, f.Name)
	}
	for _, n := range app.Children {
		commands = append(commands, n.Name)
		for _, f := range n.Flags {
			flags = append(flags, f.Name)
		}
	}
	return commands, flags
}

// shell runs a script in a shell, if there is one.
func shell(t *testing.T, name, script string) string {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("there is no %s here to try it with", name)
	}
	cmd := exec.Command(name)
	cmd.Stdin = strings.NewReader(script)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

func TestCompletionsAreWhole(t *testing.T) {
	app := application(t)
	commands, flags := every(app)
	for _, sh := range []string{"bash", "zsh", "fish"} {
		t.Run(sh, func(t *testing.T) {
			text := shelldoc.Completion(sh, app)
			dashes := "--"
			if sh == "fish" {
				dashes = "-l "
			}
			for _, f := range flags {
				if !strings.Contains(text, dashes+f) {
					t.Errorf("no flag %s", f)
				}
			}
			for _, c := range commands {
				if !strings.Contains(text, c) {
					t.Errorf("no command %s", c)
				}
			}
			if sh == "zsh" && !strings.HasPrefix(text, "#compdef stile\n") {
				t.Error("zsh would not find it")
			}
			if strings.Count(text, "'")%2 != 0 {
				t.Error("a quote is left open")
			}
			if _, err := exec.LookPath(sh); err != nil {
				t.Logf("there is no %s here to read it", sh)
				return
			}
			file := filepath.Join(t.TempDir(), "completion")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command(sh, "-n", file).CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// lines are what is completed, and words that must be offered: all of them if
// they begin with =.
var lines = []struct{ line, want string }{
	{"stile lo", "=lock"},
	{"stile ", "lock acquire keep release status keys break top bench completion man"},
	{"stile --addrs x:1 br", "=break"},
	{"stile lock --left", "=--leftover"},
	{"stile lock --leftover ", "=end wait leave"},
	{"stile completion ", "=bash zsh fish"},
	{"stile keys --js", "=--json"},
	{"stile bench --driver ", "=client raw nonce"},
	{"stile lock k -- whoam", "whoami"},
}

// For bash, --flag=value is three words.
var bashLines = append([]struct{ line, want string }{
	{"stile lock --leftover =", "=end wait leave"},
	{"stile lock --leftover = l", "=leave"},
	{"stile --addrs = x:1 br", "=break"},
	{"stile bench --driver = raw --js", "=--json"},
}, lines...)

// offered compares, without regard to the order.
func offered(t *testing.T, line, want string, got []string) {
	t.Helper()
	all := want != strings.TrimPrefix(want, "=")
	words := strings.Fields(strings.TrimPrefix(want, "="))
	have := map[string]bool{}
	for _, g := range got {
		have[g] = true
	}
	for _, w := range words {
		if !have[w] {
			t.Errorf("%q: %q is not offered: %q", line, w, got)
		}
	}
	if all && len(have) != len(words) {
		t.Errorf("%q: %q are offered, want %q", line, got, words)
	}
}

func TestBashCompletes(t *testing.T) {
	app := application(t)
	for _, l := range bashLines {
		words := strings.Split(l.line, " ")
		var quoted []string
		for _, w := range words {
			quoted = append(quoted, "'"+w+"'")
		}
		script := shelldoc.Completion("bash", app) + fmt.Sprintf(
			"compopt() { :; }\nCOMP_WORDS=(%s); COMP_CWORD=%d; _stile; printf '%%s\\n' \"${COMPREPLY[@]}\"\n", strings.Join(quoted, " "), len(words)-1)
		offered(t, l.line, l.want, strings.Fields(shell(t, "bash", script)))
	}
}

func TestFishCompletes(t *testing.T) {
	app := application(t)
	for _, l := range lines {
		var got []string
		for line := range strings.Lines(shell(t, "fish", shelldoc.Completion("fish", app)+"\ncomplete -C '"+l.line+"'\n")) {
			word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
			got = append(got, word)
		}
		offered(t, l.line, l.want, got)
	}
}

func TestManPage(t *testing.T) {
	app := application(t)
	commands, flags := every(app)
	var page strings.Builder
	if status := cli.Run([]string{"man"}, cli.Streams{Out: &page, Err: io.Discard}); status != 0 {
		t.Fatalf("status %d", status)
	}
	text := page.String()
	if !strings.HasPrefix(text, ".TH \"STILE\" \"1\"") {
		t.Errorf("it begins with %.60q", text)
	}
	for _, c := range commands {
		if !strings.Contains(text, ".SS \"stile "+c) {
			t.Errorf("no command %s", c)
		}
	}
	for _, f := range flags {
		if !strings.Contains(text, `\-\-`+strings.ReplaceAll(f, "-", `\-`)+`\fR`) {
			t.Errorf("no flag %s", f)
		}
	}
	_, environment, _ := strings.Cut(text, ".SH \"ENVIRONMENT\"")
	seen := map[string]bool{}
	for line := range strings.Lines(environment) {
		if name, is := strings.CutPrefix(strings.TrimSpace(line), `\fBSTILE_`); is {
			if seen[name] {
				t.Errorf("STILE_%s is there twice", name)
			}
			seen[name] = true
		}
	}
	if !seen[`TOKEN\fR`] || !strings.Contains(environment, `\-\-token of keep and release`) {
		t.Errorf("no STILE_TOKEN of keep and release in %s", environment)
	}
	for _, part := range []string{"EXIT STATUS", "ENVIRONMENT", "STILE_ADDRS", "\n122", "stile lock backup"} {
		if !strings.Contains(strings.ReplaceAll(text, `\fB`, "\n"), part) {
			t.Errorf("no %q", part)
		}
	}
	for _, tool := range [][]string{{"groff", "-ww", "-man", "-Tutf8", "-z"}, {"mandoc", "-T", "lint", "-W", "error"}} {
		if _, err := exec.LookPath(tool[0]); err != nil {
			t.Logf("there is no %s here to read it", tool[0])
			continue
		}
		cmd := exec.Command(tool[0], tool[1:]...)
		cmd.Stdin = strings.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v\n%s", tool[0], err, out)
		}
	}
}
