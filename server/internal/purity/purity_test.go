package purity

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var allowed = map[string][]string{
	"fmt":          {"Sprintf"},
	"math":         nil,
	"math/rand/v2": {"NewPCG"},
	"time":         {"Duration", "Second"},
}

func TestImpurities(t *testing.T) {
	tests := []struct{ name, src, want string }{
		{"clean", `import "time"; const d = time.Second; type T time.Duration`, ""},
		{"all names", `import "math"; const x = math.Pi`, ""},
		{"os", `import "os"; var x = os.Args`, "x.go:1: imports os"},
		{"math/rand", `import "math/rand"`, "x.go:1: imports math/rand"},
		{"allowed of a version", `import "math/rand/v2"; var x = rand.NewPCG(1, 2)`, ""},
		{"of a version", `import "math/rand/v2"; var x = rand.Int()`, "x.go:1: uses math/rand/v2.Int"},
		{"unsafe", `import _ "unsafe"`, "x.go:1: imports unsafe"},
		{"C", `import "C"`, "x.go:1: imports C"},
		{"now", `import "time"; var x = time.Now()`, "x.go:1: uses time.Now"},
		{"renamed", `import clock "time"; var x = clock.Since`, "x.go:1: uses time.Since"},
		{"dot", `import . "time"; var x = Now()`, "x.go:1: imports time under no name"},
		{"no name", `import _ "time"`, "x.go:1: imports time under no name"},
		{"method", `import "time"; type T time.Time`, "x.go:1: uses time.Time"},
		{"timer", `import "time"; func f() { time.AfterFunc(1, f) }`, "x.go:1: uses time.AfterFunc"},
		{"print", `import "fmt"; func f() { fmt.Println() }`, "x.go:1: uses fmt.Println"},
		{"println", `func f() { println() }`, "x.go:1: calls println"},
		{"line", "\n\nfunc f() { print() }", "x.go:3: calls print"},
		{"go", `func f() { go f() }`, "x.go:1: starts a goroutine"},
		{"channel", `var c chan int`, "x.go:1: uses a channel"},
		{"send", `func f[C ~chan int](c C) { c <- 1 }`, "x.go:1: uses a channel\nx.go:1: uses a channel"},
		{"receive", `func f(c C) { <-c }`, "x.go:1: uses a channel"},
		{"select", `func f() { select {} }`, "x.go:1: uses a channel"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := strings.Join(impurities(t, "x.go", "package x; "+tt.src, allowed), "\n")
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheckReadsAllFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, src string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(src), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, check(t, dir, allowed)); diff != "" {
			t.Errorf("faults (-want +got):\n%s", diff)
		}
	}
	write("a_test.go", `package a; import "os"`)
	write("a.txt", `package a; import "os"`)
	expect("no file was found to check")
	write("a.go", `package a`)
	expect()
	write("b.go", `package a; import "net"`)
	write("c_windows.go", `package a; import "os"`)
	expect("b.go:1: imports net", "c_windows.go:1: imports os")
}

// TestCheckIsOfThisDirectory: this package itself reads files.
func TestCheckIsOfThisDirectory(t *testing.T) {
	faults := check(t, ".", allowed)
	if len(faults) == 0 || faults[len(faults)-1] == "no file was found to check" {
		t.Errorf("faults: %q", faults)
	}
}
