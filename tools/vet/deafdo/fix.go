package deafdo

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/edge"

	"github.com/stile-lock/stile/tools/vet/internal/code"
)

// fix puts the function's own context in the place of others, which are all in
// one loop. Where it has no name it gets one, which then must mean nothing else
// in the function.
func (c *callback) fix(others []*ast.Ident) []analysis.SuggestedFix {
	var params []*ast.Field
	switch fn := c.fn.Node().(type) {
	case *ast.FuncLit:
		params = fn.Type.Params.List
	case *ast.FuncDecl:
		params = fn.Type.Params.List
	}
	if len(params) == 0 || len(params[0].Names) == 0 {
		return nil
	}
	own := params[0].Names[0]
	name := own.Name
	var edits []analysis.TextEdit
	if name == "_" {
		name = "ctx"
		edits = append(edits, analysis.TextEdit{Pos: own.Pos(), End: own.End(), NewText: []byte(name)})
		taken := false
		ast.Inspect(c.fn.Node(), func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && id.Name == name && !isField(c.TypesInfo, id) && !contains(others, id) {
				taken = true
			}
			return true
		})
		if taken {
			return nil
		}
	}
	for _, id := range others {
		if !c.usedElsewhere(c.TypesInfo.Uses[id].(*types.Var)) {
			return nil // it would not compile without a use
		}
		if id.Name == name && own.Name == "_" {
			continue // means the function's own, with the parameter's new name
		}
		scope := c.Pkg.Scope().Innermost(id.Pos())
		if scope == nil {
			return nil
		}
		if _, found := scope.LookupParent(name, id.Pos()); own.Name != "_" && found != c.ctx {
			return nil // the name means something else there
		}
		edits = append(edits, analysis.TextEdit{Pos: id.Pos(), End: id.End(), NewText: []byte(name)})
	}
	return []analysis.SuggestedFix{{Message: "Use the function's own context", TextEdits: edits}}
}

// usedElsewhere reports whether nothing is missing if a callback of Do uses a
// variable no more: it is a parameter, or used outside of all callbacks.
func (c *callback) usedElsewhere(v *types.Var) bool {
	root := c.fn.Inspector().Root()
	def, ok := root.FindByPos(v.Pos(), v.Pos()+token.Pos(len(v.Name())))
	if !ok {
		return false
	}
	for range def.Enclosing((*ast.Field)(nil)) {
		return true
	}
	file := code.FileOf(c.Pass, v.Pos())
	whole, ok := root.FindNode(file)
	if !ok {
		return false
	}
uses:
	for cur := range whole.Preorder((*ast.Ident)(nil)) {
		if c.TypesInfo.Uses[cur.Node().(*ast.Ident)] != v {
			continue
		}
		if _, at := code.Outer(cur); at == edge.AssignStmt_Lhs {
			continue
		}
		for lit := range cur.Enclosing((*ast.FuncLit)(nil)) {
			if !lit.Contains(def) {
				continue uses // maybe a callback, which may be fixed, too
			}
		}
		return true
	}
	return false
}

func contains(ids []*ast.Ident, id *ast.Ident) bool {
	for _, other := range ids {
		if other == id {
			return true
		}
	}
	return false
}

func isField(info *types.Info, id *ast.Ident) bool {
	v, ok := info.ObjectOf(id).(*types.Var)
	return ok && v.IsField()
}
