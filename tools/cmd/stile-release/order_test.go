package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/modfile"
)

// modules writes go.mod files, by directory, each with the lines that follow its
// module line.
func modules(t *testing.T, mods map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for dir, lines := range mods {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		text := "module " + prefix + dir + "\n\ngo 1.26\n\n" + lines
		if err := os.WriteFile(filepath.Join(root, dir, "go.mod"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func requires(dirs ...string) (text string) {
	for _, dir := range dirs {
		text += "require " + prefix + dir + " v0.0.0\n"
	}
	return text
}

func TestOrder(t *testing.T) {
	root := modules(t, map[string]string{
		"protocol": "", "features": "", "client": requires("protocol"), "server": requires("protocol"),
		"client/fence/sql": requires("client"),
		"conformance":      requires("client", "features", "protocol"),
		"tools":            requires("conformance"),
		"a":                requires("b"), "b": requires("a"),
	})
	for _, test := range []struct {
		name     string
		released []string
		want     []string
		err      string
	}{
		{name: "what is required comes first, and once", released: []string{"tools", "server", "client/"},
			want: []string{"protocol", "client", "features", "conformance", "tools", "server"}},
		{name: "what nobody asks for is left out", released: []string{"client"}, want: []string{"protocol", "client"}},
		{name: "a module in a module", released: []string{"client/fence/sql"}, want: []string{"protocol", "client", "client/fence/sql"}},
		{name: "a ring", released: []string{"a"}, err: "modules require each other: a, b, a"},
		{name: "no such module", released: []string{"serve"}, err: "no such file"},
		{name: "nothing", err: "no module"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := order(root, test.released)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("%v, %v: want an error with %q", got, err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestPin(t *testing.T) {
	parse := func(lines string) *modfile.File {
		mod, err := modfile.Parse("go.mod", []byte("module "+prefix+"client\n\ngo 1.26\n\n"+lines), nil)
		if err != nil {
			t.Fatal(err)
		}
		return mod
	}
	got, err := pin(parse("require (\n\texample.com/x v1.2.3\n\t"+prefix+"protocol v0.0.0\n)\n\nreplace "+prefix+"protocol => ../protocol\n"), "v0.3.0")
	if err != nil {
		t.Fatal(err)
	}
	want := "module " + prefix + "client\n\ngo 1.26\n\nrequire (\n\texample.com/x v1.2.3\n\t" + prefix + "protocol v0.3.0\n)\n"
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if _, err := pin(parse("require example.com/x v1.2.3\n\nreplace example.com/x => ../x\n"), "v0.3.0"); err == nil || !strings.Contains(err.Error(), "replaces example.com/x") {
		t.Errorf("a replace of another's module: %v", err)
	}
}

// What release-check runs is the README's example, so it must be found there.
func TestReadmeExample(t *testing.T) {
	readme, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	code, err := readmeExample(string(readme))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"client.Dial", "c.Do", "lock.Token()"} {
		if !strings.Contains(code, part) {
			t.Errorf("the example has no %s:\n%s", part, code)
		}
	}
}
