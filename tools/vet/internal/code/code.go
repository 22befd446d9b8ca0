// Package code has what the analyzers need of syntax and types beyond what
// golang.org/x/tools offers.
package code

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/edge"
	"golang.org/x/tools/go/ast/inspector"
)

// Var is the variable that e names, nil if e is not just a variable's name.
func Var(info *types.Info, e ast.Expr) *types.Var {
	id, ok := ast.Unparen(e).(*ast.Ident)
	if !ok {
		return nil
	}
	v, _ := info.ObjectOf(id).(*types.Var)
	return v
}

// Mentions reports whether one of the variables is named within n.
func Mentions(info *types.Info, n ast.Node, is func(*types.Var) bool) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && !found {
			v, ok := info.ObjectOf(id).(*types.Var)
			found = ok && is(v)
		}
		return !found
	})
	return found
}

// Outer is cur's nearest ancestor that is no parenthesis, and where below it
// cur is.
func Outer(cur inspector.Cursor) (parent inspector.Cursor, at edge.Kind) {
	for at, _ = cur.ParentEdge(); at == edge.ParenExpr_X; at, _ = cur.ParentEdge() {
		cur = cur.Parent()
	}
	return cur.Parent(), at
}

// Function is the nearest function around cur, its body, and its signature;
// the body is nil outside of functions.
func Function(info *types.Info, cur inspector.Cursor) (fn inspector.Cursor, body *ast.BlockStmt, sig *types.Signature) {
	for fn = range cur.Enclosing((*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)) {
		switch n := fn.Node().(type) {
		case *ast.FuncDecl:
			if obj, ok := info.Defs[n.Name].(*types.Func); ok {
				return fn, n.Body, obj.Signature()
			}
		case *ast.FuncLit:
			if sig, ok := info.TypeOf(n).(*types.Signature); ok {
				return fn, n.Body, sig
			}
		}
		return fn, nil, nil
	}
	return cur, nil, nil
}

// Package is the name by which the package of that path can be used at pos, ""
// if there is none.
func Package(pass *analysis.Pass, path string, pos token.Pos) string {
	if f := FileOf(pass, pos); f != nil {
		for _, spec := range f.Imports {
			name := pass.TypesInfo.PkgNameOf(spec)
			if name == nil || name.Imported().Path() != path || name.Name() == "_" || name.Name() == "." {
				continue
			}
			if scope := pass.TypesInfo.Scopes[f].Innermost(pos); scope != nil {
				if _, found := scope.LookupParent(name.Name(), pos); found == name {
					return name.Name()
				}
			}
		}
	}
	return ""
}

// IsContext reports whether t is context.Context.
func IsContext(t types.Type) bool {
	named, ok := types.Unalias(t).(*types.Named)
	return ok && named.Obj().Name() == "Context" && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == "context"
}

// IsChan reports whether t is a channel.
func IsChan(t types.Type) bool {
	_, ok := t.Underlying().(*types.Chan)
	return ok
}

// IsNil reports whether e is the predeclared nil.
func IsNil(info *types.Info, e ast.Expr) bool { return info.Types[e].IsNil() }

// Within reports whether pos is in n.
func Within(n ast.Node, pos token.Pos) bool { return n.Pos() <= pos && pos < n.End() }
