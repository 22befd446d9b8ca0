package deafdo

import (
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/analysis/passes/ctrlflow"
	"golang.org/x/tools/go/cfg"

	"github.com/stile-lock/stile/tools/vet/internal/code"
)

// hearing are the variables that may tell of the end of the lease: the
// context, the lock, and all that is mentioned beside one of them, or beside
// one of those. It may be too many, never too few.
func hearing(info *types.Info, lit *ast.FuncLit, from ...*types.Var) map[*types.Var]bool {
	hears := map[*types.Var]bool{}
	for _, v := range from {
		hears[v] = true
	}
	is := func(v *types.Var) bool { return hears[v] }
	for again := true; again; {
		again = false
		all := func(n ast.Node) {
			ast.Inspect(n, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					if v, ok := info.ObjectOf(id).(*types.Var); ok && !hears[v] {
						hears[v], again = true, true
					}
				}
				return true
			})
		}
		ast.Inspect(lit.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt, *ast.ValueSpec, *ast.CallExpr, *ast.SendStmt, *ast.FuncLit:
				if code.Mentions(info, n, is) {
					all(n)
				}
			case *ast.RangeStmt:
				if code.Mentions(info, n.X, is) {
					for _, e := range []ast.Expr{n.Key, n.Value} {
						if e != nil {
							all(e)
						}
					}
				}
			}
			return true
		})
	}
	return hears
}

// leaves reports whether there is a way out of a loop without a condition.
func (c *callback) leaves(loop *ast.ForStmt) bool {
	g := c.ResultOf[ctrlflow.Analyzer].(*ctrlflow.CFGs).FuncLit(c.lit)
	var body *cfg.Block
	for _, b := range g.Blocks {
		if b.Kind == cfg.KindForBody && b.Stmt == loop {
			body = b
		}
	}
	if body == nil || !body.Live {
		return true
	}
	seen := map[*cfg.Block]bool{body: true}
	for work := []*cfg.Block{body}; len(work) > 0; {
		b := work[0]
		work = work[1:]
		// A block that nothing comes behind returns, or calls what never does.
		if len(b.Succs) == 0 || b.Kind == cfg.KindForDone && b.Stmt == loop {
			return true
		}
		for _, next := range b.Succs {
			if !seen[next] {
				seen[next] = true
				work = append(work, next)
			}
		}
	}
	return false
}
