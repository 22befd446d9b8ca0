package deafdo

import (
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/analysis"
)

// fix puts the function's own context in the place of others, which are all in
// one loop. Where it has no name it gets one, which then must mean nothing else
// in the function.
func (c *callback) fix(others []*ast.Ident) []analysis.SuggestedFix {
	params := c.lit.Type.Params.List
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
		ast.Inspect(c.lit, func(n ast.Node) bool {
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
