// Package droppederr defines an analyzer that reports errors of Stile's client
// which are dropped.
package droppederr

import (
	"fmt"
	"go/ast"
	"reflect"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/edge"
	"golang.org/x/tools/go/ast/inspector"

	"github.com/stile-lock/stile/tools/vet/internal/api"
	"github.com/stile-lock/stile/tools/vet/internal/code"
)

const doc = `report errors of the Stile client that are dropped

Whoever does not look at the error of an acquire does not know whether it holds
the lock, and the error of Do alone tells that its function never ran. The same
goes for a Keep, and for the guards of package fence, whose error is the
refusal:

	lock, _ := c.Acquire(ctx, "orders/42") // lock is nil if that failed
	c.Do(ctx, "orders/42", ship)           // did it?
	guard.Check(ctx, lock)                 // checks nothing

A lock that is compared with nil needs no error, nor does a Keep beside the
lock's Context, which ends if the lock is lost. An error that is assigned to the
blank identifier alone, "_ = lock.Keep(ctx, 0)", says that this is meant. A
Release without a look at its error is plain Go, deferred or not: the lease ends
the lock in any case.

One that is dropped on purpose in another way has a directive with the reason, on
its line or above it:

	//stile:meant the next one sees it`

// Analyzer reports dropped errors.
var Analyzer = &analysis.Analyzer{
	Name:       "droppederr",
	Doc:        doc,
	URL:        "https://github.com/stile-lock/stile/blob/main/tools/vet/README.md#droppederr",
	Requires:   []*analysis.Analyzer{inspect.Analyzer},
	ResultType: reflect.TypeFor[*code.Directives](),
	Run:        run,
}

// why says what nobody knows without the error.
var why = func() map[api.Func]string {
	why := map[api.Func]string{
		api.Do:                          "nobody knows whether its function ran under the lock, or at all",
		api.LockKeep:                    "nobody knows whether the lock is still held",
		{Pkg: api.Client, Name: "Dial"}: "there may be no client",
	}
	for f := range api.Acquire {
		why[f] = "nobody knows whether the lock is held"
	}
	for f := range api.Guards {
		why[f] = "a refused grant goes unnoticed"
	}
	return why
}()

func run(pass *analysis.Pass) (any, error) {
	meant := code.FindDirectives(pass, code.Meant)
	for cur := range pass.ResultOf[inspect.Analyzer].(*inspector.Inspector).Root().Preorder((*ast.CallExpr)(nil)) {
		call := cur.Node().(*ast.CallExpr)
		f := api.Called(pass.TypesInfo, call)
		if why[f] == "" || code.LeftOut(pass, call.Pos()) {
			continue
		}
		parent, at := code.Outer(cur)
		d := analysis.Diagnostic{Pos: call.Pos(), End: call.End(), Message: fmt.Sprintf("the error of %s is dropped: %s", f, why[f])}
		var lhs []ast.Expr
		switch n := parent.Node().(type) {
		case *ast.ExprStmt:
			d.SuggestedFixes = checked(pass, cur, parent)
		case *ast.GoStmt, *ast.DeferStmt:
		case *ast.AssignStmt:
			lhs = n.Lhs
		case *ast.ValueSpec:
			for _, name := range n.Names {
				lhs = append(lhs, name)
			}
		default:
			continue
		}
		switch {
		case lhs == nil:
			if (at != edge.ExprStmt_X && at != edge.GoStmt_Call && at != edge.DeferStmt_Call) || f == api.LockKeep && watched(pass, cur, call) {
				continue
			}
		case len(lhs) < 2 || !blank(lhs[len(lhs)-1]) || blank(lhs[0]):
			continue // looked at, or dropped on purpose
		default:
			if api.Acquire[f] && compared(pass, cur, lhs[0]) {
				continue
			}
			d.Pos, d.End = lhs[len(lhs)-1].Pos(), lhs[len(lhs)-1].End()
			d.SuggestedFixes = named(pass, cur, parent, lhs)
		}
		if !meant.Marks(cur) {
			d.Message += meant.HintAt(cur)
			pass.Report(d)
		}
	}
	return meant, nil
}

func blank(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == "_"
}

// compared reports whether the lock is compared with nil anywhere near, or is
// where it can't be seen whether it is.
func compared(pass *analysis.Pass, cur inspector.Cursor, lock ast.Expr) bool {
	v := code.Var(pass.TypesInfo, lock)
	if v == nil || v.Parent() == pass.Pkg.Scope() {
		return true
	}
	for cur := range outermost(cur).Preorder((*ast.Ident)(nil)) {
		if pass.TypesInfo.Uses[cur.Node().(*ast.Ident)] != v {
			continue
		}
		switch parent, at := code.Outer(cur); at {
		case edge.BinaryExpr_X, edge.BinaryExpr_Y, edge.SwitchStmt_Tag:
			return true
		case edge.SelectorExpr_X, edge.AssignStmt_Lhs:
		case edge.CallExpr_Args:
			if !api.Guards[api.Called(pass.TypesInfo, parent.Node().(*ast.CallExpr))] {
				return true // whoever gets it may compare it
			}
		default:
			return true
		}
	}
	return false
}

// watched reports whether somebody near looks at the context of the lock that
// is kept, or at its end.
func watched(pass *analysis.Pass, cur inspector.Cursor, keep *ast.CallExpr) bool {
	sel, ok := ast.Unparen(keep.Fun).(*ast.SelectorExpr)
	if !ok {
		return true
	}
	v := code.Var(pass.TypesInfo, sel.X)
	if v == nil {
		return true
	}
	for cur := range outermost(cur).Preorder((*ast.CallExpr)(nil)) {
		call := cur.Node().(*ast.CallExpr)
		if sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr); ok && code.Var(pass.TypesInfo, sel.X) == v {
			if f := api.Called(pass.TypesInfo, call); f == api.LockContext || f == api.LockExpires {
				return true
			}
		}
	}
	return false
}

// outermost is the function that cur is in, with all that is around it.
func outermost(cur inspector.Cursor) inspector.Cursor {
	outer := cur
	for fn := range cur.Enclosing((*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)) {
		outer = fn
	}
	return outer
}
