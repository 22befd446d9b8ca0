package lockspace

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// allowedImports are the only packages this one may use, with the names it
// may use of those that could also do I/O or read a clock (nil: all names).
// What time it is comes in as an argument; that is what makes the table's
// behaviour a matter of its calls alone.
var allowedImports = map[string][]string{
	"bytes":   nil,
	"fmt":     {"Sprintf"},
	"math":    nil,
	"slices":  nil,
	"strconv": nil,
	"time":    {"Duration", "Nanosecond", "Microsecond", "Millisecond", "Second", "Minute", "Hour"},

	"github.com/stile-lock/stile/protocol":            nil,
	"github.com/stile-lock/stile/protocol/invariants": nil,
	"github.com/zeebo/xxh3":                           nil,
}

func TestImports(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		src, err := os.ReadFile(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, fault := range impurities(t, e.Name(), string(src)) {
			t.Error(fault)
		}
		checked++
	}
	if checked < 5 {
		t.Errorf("only %d files were found", checked)
	}
}

// TestImportsNotices proves that TestImports can fail.
func TestImportsNotices(t *testing.T) {
	tests := []struct{ name, src, want string }{
		{"clean", `import "time"; const d = time.Second; type T time.Duration`, ""},
		{"os", `import "os"; var x = os.Args`, "x.go:1: imports os"},
		{"math/rand", `import "math/rand"`, "x.go:1: imports math/rand"},
		{"now", `import "time"; var x = time.Now()`, "x.go:1: uses time.Now"},
		{"renamed", `import clock "time"; var x = clock.Since`, "x.go:1: uses time.Since"},
		{"dot", `import . "time"; var x = Now()`, "x.go:1: imports time under no name"},
		{"method", `import "time"; type T time.Time`, "x.go:1: uses time.Time"},
		{"timer", `import "time"; func f() { time.AfterFunc(1, f) }`, "x.go:1: uses time.AfterFunc"},
		{"print", `import "fmt"; func f() { fmt.Println() }`, "x.go:1: uses fmt.Println"},
		{"println", `func f() { println() }`, "x.go:1: calls println"},
		{"go", `func f() { go f() }`, "x.go:1: starts a goroutine"},
		{"channel", `var c chan int`, "x.go:1: uses a channel"},
		{"send", `func f[C ~chan int](c C) { c <- 1 }`, "x.go:1: uses a channel\nx.go:1: uses a channel"},
		{"receive", `func f(c C) { <-c }`, "x.go:1: uses a channel"},
		{"select", `func f() { select {} }`, "x.go:1: uses a channel"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := strings.Join(impurities(t, "x.go", "package lockspace; "+tt.src), "\n")
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

// impurities lists what a file has that this package must not have.
func impurities(t *testing.T, name, src string) (faults []string) {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	fault := func(at ast.Node, what string) {
		line := fset.Position(at.Pos()).Line
		faults = append(faults, name+":"+strconv.Itoa(line)+": "+what)
	}
	imported := map[string]string{} // the name in this file → the path
	for _, spec := range file.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		local := path.Base(p)
		if spec.Name != nil {
			local = spec.Name.Name
		}
		if _, ok := allowedImports[p]; !ok {
			fault(spec, "imports "+p)
		} else if local == "." || local == "_" {
			fault(spec, "imports "+p+" under no name")
		}
		imported[local] = p
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			if !ok {
				break
			}
			p := imported[x.Name]
			if names := allowedImports[p]; names != nil && !slices.Contains(names, n.Sel.Name) {
				fault(n, "uses "+p+"."+n.Sel.Name)
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.Ident); ok && (f.Name == "print" || f.Name == "println") {
				fault(n, "calls "+f.Name)
			}
		case *ast.GoStmt:
			fault(n, "starts a goroutine")
		case *ast.ChanType, *ast.SendStmt, *ast.SelectStmt:
			fault(n, "uses a channel")
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				fault(n, "uses a channel")
			}
		}
		return true
	})
	return faults
}
