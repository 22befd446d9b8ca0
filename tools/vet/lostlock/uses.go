package lostlock

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/ast/edge"
	"golang.org/x/tools/go/ast/inspector"

	"github.com/stile-lock/stile/tools/vet/internal/api"
	"github.com/stile-lock/stile/tools/vet/internal/code"
)

// A use is what one mention of the lock does with it.
type use uint8

const (
	mere    use = iota // it still has to be given back
	away               // given back, handed on, or kept by who knows whom
	assigns            // overwritten
)

// uses is what each mention of a lock does.
type uses struct {
	of       map[*ast.Ident]use
	releases bool // the function gives it back by itself, somewhere
}

// uses returns nil if what becomes of the lock can't be known: its address is
// taken, or a closure has it that may be called at any time.
func (q *acquisition) uses() *uses {
	u := &uses{of: map[*ast.Ident]use{}}
	var tokens []inspector.Cursor // calls of Token
	for cur := range q.fn.Preorder((*ast.Ident)(nil)) {
		id := cur.Node().(*ast.Ident)
		if q.TypesInfo.ObjectOf(id) != q.lock {
			continue
		}
		if fn, _, _ := code.Function(q.TypesInfo, cur); fn != q.fn {
			if id.Pos() < q.stmt.Pos() {
				return nil
			}
			u.of[id] = away
			continue
		}
		parent, at := code.Outer(cur)
		if at == edge.UnaryExpr_X && parent.Node().(*ast.UnaryExpr).Op == token.AND {
			return nil
		}
		what, token := q.use(parent, at)
		u.of[id] = what
		switch {
		case token.Valid():
			tokens = append(tokens, token)
			u.of[id] = mere
		case what == away && q.released(parent):
			u.releases = true
		}
	}
	for _, token := range tokens {
		if q.handsOn(token, u.releases) {
			// The lock is the receiver of the call.
			for cur := range token.Preorder((*ast.Ident)(nil)) {
				if id := cur.Node().(*ast.Ident); q.TypesInfo.ObjectOf(id) == q.lock {
					u.of[id] = away
				}
			}
		}
	}
	return u
}

// use is what a mention below parent does. A call of Token is returned, too.
func (q *acquisition) use(parent inspector.Cursor, at edge.Kind) (what use, token inspector.Cursor) {
	switch at {
	case edge.SelectorExpr_X:
		call, at := code.Outer(parent)
		if at != edge.CallExpr_Fun {
			return away, token // a method value
		}
		f := api.Called(q.TypesInfo, call.Node().(*ast.CallExpr))
		switch {
		case q.pairs.Use(f):
			return mere, token
		case q.pairs.Token[f]:
			return mere, call
		}
	case edge.CallExpr_Args:
		if q.pairs.Borrow[api.Called(q.TypesInfo, parent.Node().(*ast.CallExpr))] {
			return mere, token
		}
	case edge.BinaryExpr_X, edge.BinaryExpr_Y:
		return mere, token // it is compared
	case edge.AssignStmt_Lhs, edge.ValueSpec_Names:
		return assigns, token
	}
	return away, token
}

// released reports whether the selector is that of a method that gives back.
func (q *acquisition) released(selector inspector.Cursor) bool {
	call, at := code.Outer(selector)
	return at == edge.CallExpr_Fun && q.pairs.Release[api.Called(q.TypesInfo, call.Node().(*ast.CallExpr))]
}

// handsOn reports whether the token that call returns may give the lock back
// elsewhere. A function that releases the lock by itself, on some path, passes
// the token to others for their checks; one that never does may pass on the
// lock that way. Where the token is printed, stored or returned nobody knows.
func (q *acquisition) handsOn(call inspector.Cursor, releases bool) bool {
	parent, at := code.Outer(call)
	for at == edge.CallExpr_Args && q.TypesInfo.Types[parent.Node().(*ast.CallExpr).Fun].IsType() {
		parent, at = code.Outer(parent) // a conversion
	}
	var to ast.Expr
	switch at {
	case edge.ExprStmt_X:
		return false
	case edge.BinaryExpr_X, edge.BinaryExpr_Y:
		return !comparison(parent.Node().(*ast.BinaryExpr).Op)
	case edge.CallExpr_Args:
		return q.passesOn(parent.Node().(*ast.CallExpr), releases)
	case edge.AssignStmt_Rhs:
		if stmt := parent.Node().(*ast.AssignStmt); len(stmt.Lhs) == 1 {
			to = stmt.Lhs[0]
		}
	case edge.ValueSpec_Values:
		if spec := parent.Node().(*ast.ValueSpec); len(spec.Names) == 1 {
			to = spec.Names[0]
		}
	}
	if id, ok := to.(*ast.Ident); ok && id.Name == "_" {
		return false
	}
	v := (*types.Var)(nil)
	if to != nil {
		v = code.Var(q.TypesInfo, to)
	}
	if v == nil || !within(q.fn.Node(), v.Pos()) {
		return true
	}
	for cur := range q.fn.Preorder((*ast.Ident)(nil)) {
		if q.TypesInfo.Uses[cur.Node().(*ast.Ident)] != v {
			continue
		}
		if fn, _, _ := code.Function(q.TypesInfo, cur); fn != q.fn {
			return true
		}
		switch parent, at := code.Outer(cur); at {
		case edge.AssignStmt_Lhs:
		case edge.BinaryExpr_X, edge.BinaryExpr_Y:
			if !comparison(parent.Node().(*ast.BinaryExpr).Op) {
				return true
			}
		case edge.CallExpr_Args:
			if q.passesOn(parent.Node().(*ast.CallExpr), releases) {
				return true
			}
		default:
			return true
		}
	}
	return false
}

// passesOn reports whether a call with the token as an argument may hand on
// the lock.
func (q *acquisition) passesOn(call *ast.CallExpr, releases bool) bool {
	f := api.Called(q.TypesInfo, call)
	switch {
	case q.pairs.Borrow[f], f.Pkg == "log", f.Pkg == "log/slog", f.Pkg == "testing":
		return false
	case q.pairs.ByToken[f]:
		return true
	case f.Pkg == "fmt":
		switch f.Name {
		case "Print", "Printf", "Println", "Fprint", "Fprintf", "Fprintln":
			return true
		}
	}
	return !releases
}

func comparison(op token.Token) bool {
	switch op {
	case token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ:
		return true
	}
	return false
}
