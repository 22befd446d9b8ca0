// Package code has what the analyzers need of syntax and types beyond what
// golang.org/x/tools offers.
package code

import (
	"bytes"
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/edge"
	"golang.org/x/tools/go/ast/inspector"
)

// IsTest reports whether pos is in a file of tests.
func IsTest(pass *analysis.Pass, pos token.Pos) bool {
	return strings.HasSuffix(pass.Fset.File(pos).Name(), "_test.go")
}

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
	for _, f := range pass.Files {
		if f.FileStart > pos || pos >= f.FileEnd {
			continue
		}
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

// IsNil reports whether e is the predeclared nil.
func IsNil(info *types.Info, e ast.Expr) bool { return info.Types[e].IsNil() }

// Directives are the lines that comments //stile:NAME REASON stand for: the
// one that such a comment ends, or the one below it. A comment without a reason
// is reported, and counts as well.
func Directives(pass *analysis.Pass, name string) map[Line]bool {
	lines := map[Line]bool{}
	for _, f := range pass.Files {
		for _, group := range f.Comments {
			for _, c := range group.List {
				d, ok := ast.ParseDirective(c.Pos(), c.Text)
				if !ok || d.Tool != "stile" || d.Name != name {
					continue
				}
				if d.Args == "" {
					pass.ReportRangef(c, "//stile:%s needs a reason, on the same line", name)
				}
				at := LineOf(pass, c.Pos())
				if !alone(pass, c) {
					lines[at] = true
					continue
				}
				// More of the comment may follow.
				lines[Line{at.File, LineOf(pass, group.End()).Line + 1}] = true
			}
		}
	}
	return lines
}

// alone reports whether nothing but space is before c on its line.
func alone(pass *analysis.Pass, c *ast.Comment) bool {
	file := pass.Fset.File(c.Pos())
	src, err := pass.ReadFile(file.Name())
	at := file.Offset(c.Pos())
	if err != nil || at > len(src) {
		return true
	}
	before := src[:at]
	return len(bytes.TrimSpace(before[bytes.LastIndexByte(before, '\n')+1:])) == 0
}

// Line is a line of a file.
type Line struct {
	File *token.File
	Line int
}

// LineOf is the line that pos is on.
func LineOf(pass *analysis.Pass, pos token.Pos) Line {
	f := pass.Fset.File(pos)
	return Line{f, f.Line(pos)}
}
