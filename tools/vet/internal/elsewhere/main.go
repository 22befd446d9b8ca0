// Elsewhere runs the analyzers over well-known modules that have nothing to do
// with Stile, and over Go's own packages: they must not report anything there.
//
// As they hardly find a call to look at there, lostlock runs a second time, with
// files, connections, transactions and the like in the place of locks. These
// modules give back what they take: each report is one to look at, and is a
// leak, or wrong. With -tests it prints what it finds in the tests of Go's own
// packages, which do leak.
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"

	"github.com/stile-lock/stile/tools/vet"
	"github.com/stile-lock/stile/tools/vet/internal/api"
	"github.com/stile-lock/stile/tools/vet/internal/code"
	"github.com/stile-lock/stile/tools/vet/lostlock"
)

// modules are those whose packages are looked at, as far as the module in
// testdata imports them, one way or the other. Go's own are the rest.
var modules = []string{
	"google.golang.org/grpc",
	"github.com/jackc/pgx/v5",
	"github.com/nats-io/nats.go",
	"go.etcd.io/etcd/client/v3",
}

// least is how many calls must be there that take a stand-in: with fewer, the
// names of the stand-ins are not what they were, and the check is none.
const least = 100

func main() {
	dir := flag.String("dir", "vet/internal/elsewhere/testdata/modules", "the module that requires them")
	tests := flag.Bool("tests", false, "print what the tests of Go's own packages leak")
	flag.Parse()
	if err := run(*dir, *tests); err != nil {
		fmt.Fprintln(os.Stderr, "elsewhere:", err)
		os.Exit(1)
	}
}

func run(dir string, tests bool) error {
	code.Tests, code.Generated = tests, true
	pkgs, counts, err := load(dir, tests)
	if err != nil {
		return err
	}
	plain, err := analyze(pkgs, vet.Analyzers()...)
	if err != nil {
		return err
	}
	if len(plain) > 0 {
		return fmt.Errorf("reports of code that does not know Stile:\n%s", strings.Join(plain, "\n"))
	}
	found, err := analyze(pkgs, lostlock.New(standIns))
	if err != nil {
		return err
	}
	taken := takes(pkgs)
	if tests {
		fmt.Println(strings.Join(found, "\n"))
	} else if len(found) > 0 {
		return fmt.Errorf("leaks, or wrong reports:\n%s", strings.Join(found, "\n"))
	} else if taken < least {
		return fmt.Errorf("only %d calls take a stand-in for a lock, want %d", taken, least)
	}
	fmt.Printf("packages %v: %d reports of Stile, and %d of %d calls that take a stand-in for a lock\n", counts, len(plain), len(found), taken)
	return nil
}

// load returns the packages, and how many there are of each module.
func load(dir string, tests bool) (pkgs []*packages.Package, counts map[string]int, err error) {
	roots, err := packages.Load(&packages.Config{
		Mode:  packages.LoadAllSyntax | packages.NeedModule,
		Dir:   dir,
		Tests: tests,
		Env:   append(os.Environ(), "GOWORK=off"),
	}, "./...", "std")
	if err != nil {
		return nil, nil, err
	}
	if n := packages.PrintErrors(roots); n > 0 {
		return nil, nil, fmt.Errorf("%d errors in the packages", n)
	}
	counts = map[string]int{}
	packages.Visit(roots, nil, func(pkg *packages.Package) {
		if m := moduleOf(pkg); m == "std" || slices.Contains(modules, m) {
			pkgs = append(pkgs, pkg)
			counts[m]++
		}
	})
	for _, m := range modules {
		if counts[m] == 0 {
			return nil, nil, fmt.Errorf("no package of %s", m)
		}
	}
	return pkgs, counts, nil
}

func moduleOf(pkg *packages.Package) string {
	if pkg.Module == nil {
		return "std"
	}
	return pkg.Module.Path
}

// takes counts the calls that take a stand-in.
func takes(pkgs []*packages.Package) (n int) {
	for _, pkg := range pkgs {
		for _, f := range pkg.Syntax {
			ast.Inspect(f, func(node ast.Node) bool {
				if call, ok := node.(*ast.CallExpr); ok && standIns.Acquire[api.Called(pkg.TypesInfo, call)] {
					n++
				}
				return true
			})
		}
	}
	return n
}

// analyze returns the reports, each as the module, the file within it, the line
// and the text.
func analyze(pkgs []*packages.Package, analyzers ...*analysis.Analyzer) ([]string, error) {
	graph, err := checker.Analyze(analyzers, pkgs, nil)
	if err != nil {
		return nil, err
	}
	var reports []string
	for _, act := range graph.Roots {
		if act.Err != nil {
			return nil, fmt.Errorf("%s: %w", act, act.Err)
		}
		for _, d := range act.Diagnostics {
			p := act.Package.Fset.Position(d.Pos)
			file := filepath.ToSlash(p.Filename)
			if m := act.Package.Module; m != nil {
				file = strings.TrimPrefix(file, filepath.ToSlash(m.Dir)+"/")
			} else if _, rel, ok := strings.Cut(file, "/src/"); ok {
				file = rel
			}
			reports = append(reports, fmt.Sprintf("%s %s:%d: %s", moduleOf(act.Package), file, p.Line, d.Message))
		}
	}
	slices.Sort(reports)
	return slices.Compact(reports), nil
}
