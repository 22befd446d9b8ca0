package code

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"
)

// Once is what a local variable gets its only value from: an expression, or the
// call of which it is one result. It is nil if there may be another value.
func Once(pass *analysis.Pass, v *types.Var) ast.Expr {
	if v == nil || v.IsField() || v.Parent() == nil || v.Parent() == pass.Pkg.Scope() {
		return nil
	}
	var from ast.Expr
	times := 0
	is := func(e ast.Expr) bool { return e != nil && Var(pass.TypesInfo, e) == v }
	file := FileOf(pass, v.Pos())
	if file == nil {
		return nil
	}
	root, ok := pass.ResultOf[inspect.Analyzer].(*inspector.Inspector).Root().FindNode(file)
	if !ok {
		return nil
	}
	defined := false
	for cur := range root.Preorder((*ast.AssignStmt)(nil), (*ast.ValueSpec)(nil), (*ast.RangeStmt)(nil), (*ast.UnaryExpr)(nil), (*ast.IncDecStmt)(nil)) {
		var lhs, rhs []ast.Expr
		switch n := cur.Node().(type) {
		case *ast.AssignStmt:
			lhs, rhs = n.Lhs, n.Rhs
		case *ast.ValueSpec:
			for _, name := range n.Names {
				lhs = append(lhs, name)
			}
			rhs = n.Values
		case *ast.RangeStmt:
			if is(n.Key) || is(n.Value) {
				return nil
			}
		case *ast.UnaryExpr:
			if n.Op == token.AND && is(n.X) {
				return nil // somebody else may give it one
			}
		case *ast.IncDecStmt:
			if is(n.X) {
				return nil
			}
		}
		for i, l := range lhs {
			if !is(l) {
				continue
			}
			id := ast.Unparen(l).(*ast.Ident)
			defined = defined || pass.TypesInfo.Defs[id] != nil
			times++
			switch {
			case len(rhs) == len(lhs):
				from = rhs[i]
			case len(rhs) == 1:
				from = rhs[0]
			}
		}
	}
	if times != 1 || !defined {
		return nil // a parameter has a value of its own
	}
	return from
}

// Callback is the function that e certainly is, its body and its signature: a
// literal, one in a variable that has no other value, or one that the package
// declares. The body is nil for any other. at is somewhere in the package.
func Callback(pass *analysis.Pass, at inspector.Cursor, e ast.Expr) (fn inspector.Cursor, body *ast.BlockStmt, sig *types.Signature) {
	e = ast.Unparen(e)
	if v := Var(pass.TypesInfo, e); v != nil {
		if e = Once(pass, v); e == nil {
			return at, nil, nil
		}
		e = ast.Unparen(e)
	}
	root := at.Inspector().Root()
	var id *ast.Ident
	switch n := e.(type) {
	case *ast.FuncLit:
		sig, ok := pass.TypesInfo.TypeOf(n).(*types.Signature)
		if fn, found := root.FindNode(n); found && ok {
			return fn, n.Body, sig
		}
	case *ast.Ident:
		id = n
	case *ast.SelectorExpr:
		if s := pass.TypesInfo.Selections[n]; s != nil && s.Kind() != types.MethodVal {
			return at, nil, nil
		}
		id = n.Sel
	}
	if id == nil {
		return at, nil, nil
	}
	obj, ok := pass.TypesInfo.Uses[id].(*types.Func)
	if !ok {
		return at, nil, nil
	}
	obj = obj.Origin()
	for decl := range root.Preorder((*ast.FuncDecl)(nil)) {
		n := decl.Node().(*ast.FuncDecl)
		if pass.TypesInfo.Defs[n.Name] == obj && n.Body != nil && !LeftOut(pass, n.Pos()) {
			return decl, n.Body, obj.Signature()
		}
	}
	return at, nil, nil
}
