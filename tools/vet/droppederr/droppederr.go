// Package droppederr defines an analyzer that reports errors of Stile's client
// which are dropped.
package droppederr

import (
	"fmt"
	"go/ast"
	"go/types"
	"strings"

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

Tests are left out, as they may know what an error would be; -droppederr.tests
looks at them, too.`

// Analyzer reports dropped errors.
var Analyzer = &analysis.Analyzer{
	Name:     "droppederr",
	Doc:      doc,
	URL:      "https://github.com/stile-lock/stile/blob/main/tools/vet/README.md#droppederr",
	Requires: []*analysis.Analyzer{inspect.Analyzer},
	Run:      run,
}

func init() { Analyzer.Flags.BoolVar(&tests, "tests", false, "look at files of tests, too") }

var tests bool

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
	for cur := range pass.ResultOf[inspect.Analyzer].(*inspector.Inspector).Root().Preorder((*ast.CallExpr)(nil)) {
		call := cur.Node().(*ast.CallExpr)
		f := api.Called(pass.TypesInfo, call)
		if why[f] == "" || !tests && code.IsTest(pass, call.Pos()) {
			continue
		}
		parent, at := code.Outer(cur)
		d := analysis.Diagnostic{Pos: call.Pos(), End: call.End(), Message: fmt.Sprintf("the error of %s is dropped: %s", f, why[f])}
		var lhs []ast.Expr
		switch n := parent.Node().(type) {
		case *ast.ExprStmt:
			d.SuggestedFixes = checked(pass, cur, parent, f)
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
		pass.Report(d)
	}
	return nil, nil
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

// returnsError reports whether a statement at cur can return an error and
// nothing else.
func returnsError(pass *analysis.Pass, cur inspector.Cursor) bool {
	_, _, sig := code.Function(pass.TypesInfo, cur)
	return sig != nil && sig.Results().Len() == 1 && types.Identical(sig.Results().At(0).Type(), types.Universe.Lookup("error").Type())
}

func indent(pass *analysis.Pass, n ast.Node) string {
	return strings.Repeat("\t", pass.Fset.Position(n.Pos()).Column-1)
}

// checked returns the error of a call that is a statement, where it is the
// call's only result and the function's only one.
func checked(pass *analysis.Pass, cur, stmt inspector.Cursor, f api.Func) []analysis.SuggestedFix {
	if kind, _ := stmt.ParentEdge(); kind != edge.BlockStmt_List || !returnsError(pass, cur) {
		return nil
	}
	if _, ok := pass.TypesInfo.TypeOf(cur.Node().(*ast.CallExpr)).(*types.Tuple); ok {
		return nil
	}
	n := stmt.Node()
	tab := indent(pass, n)
	return []analysis.SuggestedFix{{
		Message: "Return the error",
		TextEdits: []analysis.TextEdit{
			{Pos: n.Pos(), End: n.Pos(), NewText: []byte("if err := ")},
			{Pos: n.End(), End: n.End(), NewText: fmt.Appendf(nil, "; err != nil {\n%s\treturn err\n%[1]s}", tab)},
		},
	}}
}

// named gives the error a name and returns it, where it is the function's only
// result and the name is free.
func named(pass *analysis.Pass, cur, stmt inspector.Cursor, lhs []ast.Expr) []analysis.SuggestedFix {
	assign, ok := stmt.Node().(*ast.AssignStmt)
	if kind, _ := stmt.ParentEdge(); !ok || assign.Tok.String() != ":=" || kind != edge.BlockStmt_List || !returnsError(pass, cur) {
		return nil
	}
	scope := pass.TypesInfo.Scopes[fileOf(pass, assign)].Innermost(assign.Pos())
	if scope == nil {
		return nil
	}
	if old := scope.Lookup("err"); old != nil {
		if old.Pos() > assign.Pos() || !types.Identical(old.Type(), types.Universe.Lookup("error").Type()) {
			return nil
		}
	}
	// With another name the meaning of what follows could change.
	if _, outer := scope.LookupParent("err", assign.Pos()); outer != nil && outer.Parent() != scope {
		return nil
	}
	tab := indent(pass, assign)
	return []analysis.SuggestedFix{{
		Message: "Return the error",
		TextEdits: []analysis.TextEdit{
			{Pos: lhs[1].Pos(), End: lhs[1].End(), NewText: []byte("err")},
			{Pos: assign.End(), End: assign.End(), NewText: fmt.Appendf(nil, "\n%sif err != nil {\n%[1]s\treturn err\n%[1]s}", tab)},
		},
	}}
}

func fileOf(pass *analysis.Pass, n ast.Node) *ast.File {
	for _, f := range pass.Files {
		if f.FileStart <= n.Pos() && n.Pos() < f.FileEnd {
			return f
		}
	}
	return nil
}
