// Package purity is for the tests of packages that do no I/O, read no clock
// and start nothing: it checks that they stay so.
package purity

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Check fails the test for every import of the package in the current
// directory that is not allowed, and wherever it starts a goroutine, uses a
// channel or prints. Its test files may do as they like.
//
// allowed has the import paths, each with the names that may be used of it;
// nil: all of them.
func Check(t *testing.T, allowed map[string][]string) {
	t.Helper()
	for _, fault := range check(t, ".", allowed) {
		t.Error(fault)
	}
}

func check(t *testing.T, dir string, allowed map[string][]string) (faults []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		src, err := os.ReadFile(path.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		faults = append(faults, impurities(t, e.Name(), string(src), allowed)...)
		checked++
	}
	if checked == 0 {
		faults = append(faults, "no file was found to check")
	}
	return faults
}

// impurities lists what a file has that it must not have.
func impurities(t *testing.T, name, src string, allowed map[string][]string) (faults []string) {
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
		local := nameOf(p)
		if spec.Name != nil {
			local = spec.Name.Name
		}
		if _, ok := allowed[p]; !ok {
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
			if names := allowed[p]; names != nil && !slices.Contains(names, n.Sel.Name) {
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

var version = regexp.MustCompile(`^v[0-9]+$`)

// nameOf is the name of the package with that import path.
func nameOf(importPath string) string {
	if base := path.Base(importPath); !version.MatchString(base) {
		return base
	}
	return path.Base(path.Dir(importPath))
}
