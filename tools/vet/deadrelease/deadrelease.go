// Package deadrelease defines an analyzer that reports releases with a context
// that is cancelled by then.
package deadrelease

import (
	"fmt"
	"go/ast"
	"go/token"
	"reflect"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/ctrlflow"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/cfg"

	"github.com/stile-lock/stile/tools/vet/internal/api"
	"github.com/stile-lock/stile/tools/vet/internal/code"
)

const doc = `report releases with a context that is cancelled by then

Release writes the request at once, and then waits for the server's answer as
long as its context allows. With a context that is cancelled already it never
waits: its error is that of the context, a release that has to be tried again
goes on unseen, and a program that ends right then, or closes the client, may
leave the key held until the end of the lease.

	defer lock.Release(ctx)
	ctx, cancel := context.WithCancel(ctx)
	...
	<-ctx.Done()
	lock.Release(ctx) // has ended

Deferred calls run last in, first out: a "defer cancel()" below a "defer
lock.Release(ctx)" comes before it. The lock's own Context ends with Release in
any case. Only what is certain is reported: on the way to the Release each path
has cancelled the context, or one that it is derived from.

The remedy is context.WithoutCancel(ctx), which is the suggested fix: Release
has its own limit of five seconds. One that is meant as it is has a directive with
the reason, on its line or above it:

	//stile:meant the lease is short`

// Analyzer reports releases with a cancelled context.
var Analyzer = &analysis.Analyzer{
	Name:       "deadrelease",
	Doc:        doc,
	URL:        "https://github.com/stile-lock/stile/blob/main/tools/vet/README.md#deadrelease",
	Requires:   []*analysis.Analyzer{inspect.Analyzer, ctrlflow.Analyzer},
	ResultType: reflect.TypeFor[*code.Directives](),
	Run:        run,
}

func run(pass *analysis.Pass) (any, error) {
	in := pass.ResultOf[inspect.Analyzer].(*inspector.Inspector)
	graphs := pass.ResultOf[ctrlflow.Analyzer].(*ctrlflow.CFGs)
	// The functions that may have a Release to report, each once.
	functions := map[ast.Node]bool{}
	meant := code.FindDirectives(pass, code.Meant)
	var w *writes
	for cur := range in.Root().Preorder((*ast.CallExpr)(nil)) {
		if !api.Release[api.Called(pass.TypesInfo, cur.Node().(*ast.CallExpr))] || code.LeftOut(pass, cur.Node().Pos()) {
			continue
		}
		if w == nil {
			w = findWrites(pass, in)
		}
		// A deferred closure is part of the function around it.
		for fn := range cur.Enclosing((*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)) {
			if functions[fn.Node()] {
				continue
			}
			functions[fn.Node()] = true
			var g *cfg.CFG
			switch n := fn.Node().(type) {
			case *ast.FuncDecl:
				g = graphs.FuncDecl(n)
			case *ast.FuncLit:
				g = graphs.FuncLit(n)
			}
			if g != nil {
				(&flow{pass: pass, meant: meant, root: in.Root(), fn: fn.Node(), g: g, writes: w, values: map[valueKey]*value{}, reported: map[token.Pos]bool{}}).run()
			}
		}
	}
	return meant, nil
}

// report tells of a Release that gets a cancelled context. at is what cancels
// it, nil if that is the Release itself.
func (f *flow) report(call *ast.CallExpr, at ast.Node) {
	arg := call.Args[0]
	if f.quiet || f.reported[arg.Pos()] {
		return
	}
	f.reported[arg.Pos()] = true
	cur, ok := f.root.FindNode(call)
	if !ok || f.meant.Marks(cur) {
		return
	}
	d := analysis.Diagnostic{Pos: arg.Pos(), End: arg.End()}
	if at == nil {
		d.Message = "this context of the lock ends with Release itself, which then does not wait for the server's answer"
	} else {
		d.Message = fmt.Sprintf("this context is cancelled when Release runs, by line %d: Release does not wait for the server's answer",
			f.pass.Fset.Position(at.Pos()).Line)
		d.Related = []analysis.RelatedInformation{{Pos: at.Pos(), Message: "cancelled here"}}
	}
	d.Message += f.meant.HintAt(cur)
	if pkg := code.Package(f.pass, "context", arg.Pos()); pkg != "" {
		d.SuggestedFixes = []analysis.SuggestedFix{{
			Message: "Release without the context's cancellation",
			TextEdits: []analysis.TextEdit{
				{Pos: arg.Pos(), End: arg.Pos(), NewText: []byte(pkg + ".WithoutCancel(")},
				{Pos: arg.End(), End: arg.End(), NewText: []byte(")")},
			},
		}}
	}
	f.pass.Report(d)
}
