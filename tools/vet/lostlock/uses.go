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
	shows              // somebody gets its token, and may give it back
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
		t := &tokenUse{q: q, releases: u.releases, seen: map[*types.Var]bool{}, of: u.of}
		what := t.value(token)
		// The lock is the receiver of the call.
		for cur := range token.Preorder((*ast.Ident)(nil)) {
			if id := cur.Node().(*ast.Ident); what != mere && q.TypesInfo.ObjectOf(id) == q.lock {
				u.of[id] = what
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
