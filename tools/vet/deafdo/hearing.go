package deafdo

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/analysis/passes/ctrlflow"
	"golang.org/x/tools/go/cfg"

	"github.com/stile-lock/stile/tools/vet/internal/api"
	"github.com/stile-lock/stile/tools/vet/internal/code"
)

// hearing are the variables that may tell of the end of the lease: the
// context, the lock, and all that is mentioned beside one of them, or beside
// one of those. It may be too many, never too few. A logger or a database tells
// nothing, nor does an error, a number or the like that only the function itself
// changes: the loop that does so mentions what tells it.
func hearing(info *types.Info, body *ast.BlockStmt, from ...*types.Var) map[*types.Var]bool {
	hears := map[*types.Var]bool{}
	for _, v := range from {
		hears[v] = true
	}
	shared := shared(info, body)
	is := func(v *types.Var) bool { return hears[v] }
	for again := true; again; {
		again = false
		all := func(n ast.Node) {
			ast.Inspect(n, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					if v, ok := info.ObjectOf(id).(*types.Var); ok && !hears[v] && !mute(v.Type()) && (!plain(v.Type()) || shared[v]) {
						hears[v], again = true, true
					}
				}
				return true
			})
		}
		ast.Inspect(body, func(n ast.Node) bool {
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

// mute reports whether a value of that type can't tell of an end.
func mute(t types.Type) bool {
	return api.Is(t, "log/slog", "Logger") || api.Is(t, "log", "Logger") || api.Is(t, "database/sql", "DB")
}

// plain reports whether a value of that type only changes by an assignment.
func plain(t types.Type) bool {
	_, basic := t.Underlying().(*types.Basic)
	return basic || types.Identical(t, types.Universe.Lookup("error").Type())
}

// shared are the variables that may change at any time: they are fields, from
// outside of the function, assigned in closures, or have an address that somebody
// takes.
func shared(info *types.Info, body *ast.BlockStmt) map[*types.Var]bool {
	all := map[*types.Var]bool{}
	var visit func(n ast.Node, closure bool)
	visit = func(root ast.Node, closure bool) {
		ast.Inspect(root, func(n ast.Node) bool {
			if n == root {
				return true
			}
			switch n := n.(type) {
			case *ast.FuncLit:
				visit(n, true)
				return false
			case *ast.UnaryExpr:
				if v := code.Var(info, n.X); n.Op == token.AND && v != nil {
					all[v] = true
				}
			case *ast.AssignStmt:
				for _, l := range n.Lhs {
					if v := code.Var(info, l); v != nil && closure {
						all[v] = true
					}
				}
			case *ast.IncDecStmt:
				if v := code.Var(info, n.X); v != nil && closure {
					all[v] = true
				}
			case *ast.Ident:
				if v, ok := info.ObjectOf(n).(*types.Var); ok && (v.IsField() || !code.Within(body, v.Pos())) {
					all[v] = true
				}
			}
			return true
		})
	}
	visit(body, false)
	return all
}

// leaves reports whether there is a way out of a loop without a condition.
func (c *callback) leaves(loop *ast.ForStmt) bool {
	graphs := c.ResultOf[ctrlflow.Analyzer].(*ctrlflow.CFGs)
	var g *cfg.CFG
	switch fn := c.fn.Node().(type) {
	case *ast.FuncLit:
		g = graphs.FuncLit(fn)
	case *ast.FuncDecl:
		g = graphs.FuncDecl(fn)
	}
	if g == nil {
		return true
	}
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
