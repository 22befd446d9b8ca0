package deafdo

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"time"

	"golang.org/x/tools/go/ast/edge"
	"golang.org/x/tools/go/ast/inspector"

	"github.com/stile-lock/stile/tools/vet/internal/api"
	"github.com/stile-lock/stile/tools/vet/internal/code"
)

// longest is how long a loop may wait in all without a look at its context.
const longest = time.Second

// short reports whether the loop certainly waits for no longer than that: its
// turns are counted, and so is what each of them waits for.
func (c *callback) short(loop inspector.Cursor) bool {
	turns, ok := c.turns(loop.Node())
	if !ok {
		return false
	}
	total := time.Duration(0)
	for cur := range loop.Preorder((*ast.CallExpr)(nil), (*ast.UnaryExpr)(nil), (*ast.ForStmt)(nil), (*ast.RangeStmt)(nil), (*ast.BranchStmt)(nil)) {
		if fn, _, _ := code.Function(c.TypesInfo, cur); fn != c.fn {
			continue
		}
		switch n := cur.Node().(type) {
		case *ast.ForStmt, *ast.RangeStmt:
			if cur != loop {
				return false
			}
		case *ast.BranchStmt:
			if n.Tok == token.GOTO {
				return false
			}
		case *ast.CallExpr:
			if f := api.Called(c.TypesInfo, n); f.Pkg != "time" || f.Name != "Sleep" && f.Name != "After" && f.Name != "Tick" {
				continue
			}
			d, ok := c.constant(n.Args[0])
			if !ok || d < 0 || d > int64(longest) {
				return false
			}
			total += time.Duration(d)
		case *ast.UnaryExpr:
			if _, call := ast.Unparen(n.X).(*ast.CallExpr); n.Op == token.ARROW && c.isClock(n.X) && !call {
				return false // of a ticker
			}
		}
	}
	return turns <= 1000 && total*time.Duration(turns) <= longest
}

// turns is how many turns a loop makes at most: that of a range over a constant
// or an array, or of for i := 0; i < 3; i++ with an i that nothing else changes.
func (c *callback) turns(loop ast.Node) (n int64, ok bool) {
	switch loop := loop.(type) {
	case *ast.RangeStmt:
		if n, ok := c.constant(loop.X); ok {
			return n, true
		}
		if lit, ok := ast.Unparen(loop.X).(*ast.CompositeLit); ok {
			for _, e := range lit.Elts {
				if _, keyed := e.(*ast.KeyValueExpr); keyed {
					return 0, false
				}
			}
			return int64(len(lit.Elts)), true
		}
		t := c.TypesInfo.TypeOf(loop.X)
		if p, ok := t.Underlying().(*types.Pointer); ok {
			t = p.Elem()
		}
		if array, ok := t.Underlying().(*types.Array); ok {
			return array.Len(), true
		}
	case *ast.ForStmt:
		init, ok := loop.Init.(*ast.AssignStmt)
		if !ok || init.Tok != token.DEFINE || len(init.Lhs) != 1 || len(init.Rhs) != 1 {
			return 0, false
		}
		i := code.Var(c.TypesInfo, init.Lhs[0])
		from, known := c.constant(init.Rhs[0])
		cond, ok := loop.Cond.(*ast.BinaryExpr)
		post, incs := loop.Post.(*ast.IncDecStmt)
		if i == nil || !known || !ok || !incs || post.Tok != token.INC || code.Var(c.TypesInfo, post.X) != i || code.Var(c.TypesInfo, cond.X) != i {
			return 0, false
		}
		to, known := c.constant(cond.Y)
		if !known || cond.Op != token.LSS && cond.Op != token.LEQ || c.changes(loop.Body, i) {
			return 0, false
		}
		if cond.Op == token.LEQ {
			to++
		}
		return max(0, to-from), true
	}
	return 0, false
}

// changes reports whether body may give i another value.
func (c *callback) changes(body *ast.BlockStmt, i *types.Var) bool {
	whole, ok := c.fn.FindNode(body)
	if !ok {
		return true
	}
	for cur := range whole.Preorder((*ast.Ident)(nil)) {
		if c.TypesInfo.Uses[cur.Node().(*ast.Ident)] != i {
			continue
		}
		switch parent, at := code.Outer(cur); at {
		case edge.AssignStmt_Lhs, edge.IncDecStmt_X, edge.RangeStmt_Key, edge.RangeStmt_Value:
			return true
		case edge.UnaryExpr_X:
			if parent.Node().(*ast.UnaryExpr).Op == token.AND {
				return true
			}
		}
	}
	return false
}

func (c *callback) constant(e ast.Expr) (int64, bool) {
	v := c.TypesInfo.Types[e].Value
	if v == nil || v.Kind() != constant.Int {
		return 0, false
	}
	return constant.Int64Val(v)
}
