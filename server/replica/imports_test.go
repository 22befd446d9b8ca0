package replica

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestImports keeps I/O, clocks and goroutines out: the stream is a matter of
// the calls alone.
func TestImports(t *testing.T) {
	allowed := []string{
		"cmp", "encoding/binary", "errors", "fmt", "math", "sync", "sync/atomic", "time",
		"github.com/stile-lock/stile/protocol",
		"github.com/stile-lock/stile/server/fencing",
		"github.com/stile-lock/stile/server/lockspace",
	}
	names := map[string][]string{
		"fmt":  {"Errorf", "Sprintf"},
		"sync": {"Mutex"},
		"time": {"Duration", "Microsecond", "Millisecond"},
	}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		checked++
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, e.Name(), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			if path, _ := strconv.Unquote(spec.Path.Value); !slices.Contains(allowed, path) || spec.Name != nil {
				t.Errorf("%v: imports %s", fset.Position(spec.Pos()), path)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && names[x.Name] != nil && !slices.Contains(names[x.Name], n.Sel.Name) {
					t.Errorf("%v: uses %s.%s", fset.Position(n.Pos()), x.Name, n.Sel.Name)
				}
			case *ast.GoStmt, *ast.ChanType, *ast.SelectStmt:
				t.Errorf("%v: has a goroutine or a channel", fset.Position(n.Pos()))
			}
			return true
		})
	}
	if checked < 5 {
		t.Errorf("only %d files were found", checked)
	}
}
