package droppederr

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"regexp"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/edge"
	"golang.org/x/tools/go/ast/inspector"

	"github.com/stile-lock/stile/tools/vet/internal/api"
	"github.com/stile-lock/stile/tools/vet/internal/code"
)

// returnsError reports whether a statement at cur can return an error and
// nothing else.
func returnsError(pass *analysis.Pass, cur inspector.Cursor) bool {
	_, _, sig := code.Function(pass.TypesInfo, cur)
	return sig != nil && sig.Results().Len() == 1 && types.Identical(sig.Results().At(0).Type(), types.Universe.Lookup("error").Type())
}

// cleans are names of what gives something back.
var cleans = regexp.MustCompile(`(?i)release|unlock|close|stop|cancel|done|finish|wait|roll_?back|commit|flush|sync|remove|delete|free|reset|restore|shut_?down|cleanup|drain|leave|put|end$`)

// skips reports whether a return at cur may skip what has to be done before the
// function ends: something below gives back without defer, a lock from above has
// no deferred release, or a loop has to go on. With the error that is returned
// there is nothing to give back in own, which may be nil.
func skips(pass *analysis.Pass, cur inspector.Cursor, own *types.Var) bool {
	for around := range cur.Enclosing((*ast.ForStmt)(nil), (*ast.RangeStmt)(nil), (*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)) {
		switch around.Node().(type) {
		case *ast.ForStmt, *ast.RangeStmt:
			return true
		}
		break
	}
	fn, body, _ := code.Function(pass.TypesInfo, cur)
	if body == nil {
		return true
	}
	deferred := map[*types.Var]bool{} // locks with a deferred release
	var before []*types.Var
	for c := range fn.Preorder((*ast.CallExpr)(nil), (*ast.BranchStmt)(nil)) {
		if branch, ok := c.Node().(*ast.BranchStmt); ok {
			if branch.Tok == token.GOTO {
				return true
			}
			continue
		}
		call := c.Node().(*ast.CallExpr)
		f := api.Called(pass.TypesInfo, call)
		inner, _, _ := code.Function(pass.TypesInfo, c)
		switch {
		case api.Acquire[f]:
			if inner != fn || call.Pos() >= cur.Node().Pos() {
				break
			}
			stmt, at := code.Outer(c)
			if at != edge.AssignStmt_Rhs {
				return true
			}
			lock := code.Var(pass.TypesInfo, stmt.Node().(*ast.AssignStmt).Lhs[0])
			if lock == nil {
				return true
			}
			before = append(before, lock)
		case cleans.MatchString(name(call)):
			recv := receiver(pass.TypesInfo, call)
			switch {
			case isDeferred(fn, c):
				if recv != nil && api.LockRelease[f] {
					deferred[recv] = true
				}
			case own != nil && recv == own:
			case call.Pos() > cur.Node().Pos() || inner != fn:
				return true
			}
		}
	}
	for _, lock := range before {
		if !deferred[lock] {
			return true
		}
	}
	return false
}

// isDeferred reports whether cur runs at the end of fn, or of a function in it.
func isDeferred(fn, cur inspector.Cursor) bool {
	for d := range cur.Enclosing((*ast.DeferStmt)(nil)) {
		return fn.Contains(d)
	}
	return false
}

func name(call *ast.CallExpr) string {
	switch fun := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		return fun.Name
	case *ast.SelectorExpr:
		return fun.Sel.Name
	}
	return ""
}

func receiver(info *types.Info, call *ast.CallExpr) *types.Var {
	if sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr); ok {
		return code.Var(info, sel.X)
	}
	return nil
}

// checked returns the error of a call that is a statement, where it is the
// call's only result and the function's only one.
func checked(pass *analysis.Pass, cur, stmt inspector.Cursor) []analysis.SuggestedFix {
	if kind := stmt.ParentEdgeKind(); kind != edge.BlockStmt_List || !returnsError(pass, cur) || skips(pass, cur, nil) {
		return nil
	}
	call := cur.Node().(*ast.CallExpr)
	if _, ok := pass.TypesInfo.TypeOf(call).(*types.Tuple); ok {
		return nil
	}
	composite := false // needs parentheses in the head of an if
	ast.Inspect(call.Fun, func(n ast.Node) bool {
		_, ok := n.(*ast.CompositeLit)
		composite = composite || ok
		return true
	})
	n := stmt.Node()
	end, ok := code.LineEnd(pass, n.End())
	if composite || !ok {
		return nil
	}
	tab := code.Indent(pass, n.Pos())
	return []analysis.SuggestedFix{{
		Message: "Return the error",
		TextEdits: []analysis.TextEdit{
			{Pos: n.Pos(), End: n.Pos(), NewText: []byte("if err := ")},
			{Pos: n.End(), End: n.End(), NewText: []byte("; err != nil {")},
			{Pos: end, End: end, NewText: fmt.Appendf(nil, "\n%s\treturn err\n%[1]s}", tab)},
		},
	}}
}

// named gives the error a name and returns it, where it is the function's only
// result and the name is free.
func named(pass *analysis.Pass, cur, stmt inspector.Cursor, lhs []ast.Expr) []analysis.SuggestedFix {
	assign, ok := stmt.Node().(*ast.AssignStmt)
	if kind := stmt.ParentEdgeKind(); !ok || assign.Tok != token.DEFINE || kind != edge.BlockStmt_List || !returnsError(pass, cur) ||
		skips(pass, cur, code.Var(pass.TypesInfo, lhs[0])) {
		return nil
	}
	scope := pass.TypesInfo.Scopes[code.FileOf(pass, assign.Pos())].Innermost(assign.Pos())
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
	end, ok := code.LineEnd(pass, assign.End())
	if !ok {
		return nil
	}
	tab := code.Indent(pass, assign.Pos())
	return []analysis.SuggestedFix{{
		Message: "Return the error",
		TextEdits: []analysis.TextEdit{
			{Pos: lhs[1].Pos(), End: lhs[1].End(), NewText: []byte("err")},
			{Pos: end, End: end, NewText: fmt.Appendf(nil, "\n%sif err != nil {\n%[1]s\treturn err\n%[1]s}", tab)},
		},
	}}
}
