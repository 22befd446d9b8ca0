package lostlock

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/cfg"

	"github.com/stile-lock/stile/tools/vet/internal/api"
	"github.com/stile-lock/stile/tools/vet/internal/code"
)

// A lock that is not held any more, as its lease was lost, needs no release. So
// a path that such news leads to is none on which the lock gets lost: it is
// taken for one that can't be while the lock is held.

// held finds the contexts of the lock, and those that may be made of them.
func (s *search) held() {
	s.own, s.made = map[*types.Var]bool{}, map[*types.Var]bool{}
	times := map[*types.Var]int{}
	s.assignments(func(v *types.Var, _ ast.Expr, _ bool) { times[v]++ })
	for again := true; again; {
		again = false
		s.assignments(func(v *types.Var, value ast.Expr, alone bool) {
			switch {
			case !code.IsContext(v.Type()) || s.own[v] || s.made[v]:
			case alone && s.isOwn(value) && times[v] == 1 && !s.isParam(v):
				s.own[v], again = true, true
			case s.ofContext(value):
				s.made[v], again = true, true
			}
		})
	}
}

// assignments calls f for each variable that is assigned in the function, with
// its value, or with the call that returns its value beside others.
func (s *search) assignments(f func(v *types.Var, value ast.Expr, alone bool)) {
	ast.Inspect(s.body, func(n ast.Node) bool {
		var lhs, rhs []ast.Expr
		switch n := n.(type) {
		case *ast.AssignStmt:
			lhs, rhs = n.Lhs, n.Rhs
		case *ast.ValueSpec:
			for _, name := range n.Names {
				lhs = append(lhs, name)
			}
			rhs = n.Values
		}
		for i, l := range lhs {
			v := code.Var(s.TypesInfo, l)
			switch {
			case v == nil:
			case len(rhs) == len(lhs):
				f(v, rhs[i], true)
			case len(rhs) == 1:
				f(v, rhs[0], false)
			}
		}
		return true
	})
}

func (s *search) isParam(v *types.Var) bool {
	for p := range s.sig.Params().Variables() {
		if p == v {
			return true
		}
	}
	return false
}

// isOwn reports whether e is the context of the lock.
func (s *search) isOwn(e ast.Expr) bool {
	if call, ok := ast.Unparen(e).(*ast.CallExpr); ok {
		sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
		return ok && code.Var(s.TypesInfo, sel.X) == s.lock && api.Called(s.TypesInfo, call) == api.LockContext
	}
	v := code.Var(s.TypesInfo, e)
	return v != nil && s.own[v]
}

// ofContext reports whether something in e is, or may be made of, the lock's
// context, or tells when its lease ends.
func (s *search) ofContext(n ast.Node) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if s.isOwn(n) {
				found = true
			}
			if sel, ok := ast.Unparen(n.Fun).(*ast.SelectorExpr); ok && code.Var(s.TypesInfo, sel.X) == s.lock {
				found = found || api.Called(s.TypesInfo, n) == api.LockExpires
			}
		case *ast.Ident:
			v := code.Var(s.TypesInfo, n)
			found = found || v != nil && (s.own[v] || s.made[v])
		}
		return !found
	})
	return found
}

// method is the receiver of a call of that method of a context.
func (s *search) method(e ast.Expr, name string) ast.Expr {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok {
		return nil
	}
	sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name || !code.IsContext(s.TypesInfo.TypeOf(sel.X)) {
		return nil
	}
	return sel.X
}

// asked is the context of which e asks the error or the cause, nil for any
// other expression.
func (s *search) asked(e ast.Expr) ast.Expr {
	if ctx := s.method(e, "Err"); ctx != nil {
		return ctx
	}
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if ok && len(call.Args) == 1 && api.Called(s.TypesInfo, call) == (api.Func{Pkg: "context", Name: "Cause"}) {
		return call.Args[0]
	}
	return nil
}

// A variable that has an answer about the lock's context, or the channel of its
// end, has an entry in what is known: one with ofOwn for the lock's own context,
// and with ofMade for one that may be made of it. It is forgotten as all others are
// when the variable is assigned.
const (
	ofOwn  = "own"
	ofMade = "made"
)

// answer takes note of a variable with an answer about the lock's context.
func (s *search) answer(v *types.Var, value ast.Expr, known map[string]bool) {
	ctx := s.asked(value)
	isErr := ctx != nil
	if !isErr {
		ctx = s.method(value, "Done")
	}
	from := code.Var(s.TypesInfo, value)
	switch {
	case ctx != nil && s.isOwn(ctx):
		known[ofOwn+ident(v)] = true
		if isErr {
			known["("+ident(v)+token.EQL.String()+"nil)"] = true
			known["("+ident(v)+token.NEQ.String()+"nil)"] = false
		}
	case ctx != nil && s.ofContext(ctx):
		known[ofMade+ident(v)] = true
	case from != nil && (known[ofOwn+ident(from)] || known[ofMade+ident(from)]):
		known[ofMade+ident(v)] = true
	case isSign(v.Type()) && s.ofContext(value):
		known[ofMade+ident(v)] = true
	}
}

// isSign reports whether a value of that type, from a call that gets the lock's
// context, may well be about its end. Of errors most tell something else.
func isSign(t types.Type) bool {
	switch t := types.Unalias(t).(type) {
	case *types.Basic:
		return t.Info()&types.IsBoolean != 0
	case *types.Chan:
		return true
	case *types.Named:
		return t.Obj().Pkg() != nil && t.Obj().Pkg().Path() == "time"
	}
	return false
}

// isAnswer reports whether e has a variable with an answer about the lock's
// context.
func (s *search) isAnswer(e ast.Expr, st *state) bool {
	return code.Mentions(s.TypesInfo, e, func(v *types.Var) bool { return st.known[ofOwn+ident(v)] || st.known[ofMade+ident(v)] })
}

// isEnd reports whether e is an error that a context which has ended leads to,
// in a function that uses the lock's.
func (s *search) isEnd(e ast.Expr) bool {
	sel, ok := ast.Unparen(e).(*ast.SelectorExpr)
	if !ok {
		return false
	}
	v, ok := s.TypesInfo.Uses[sel.Sel].(*types.Var)
	return ok && v.Pkg() != nil && v.Pkg().Path() == "context" && (v.Name() == "Canceled" || v.Name() == "DeadlineExceeded") && s.ofContext(s.body)
}

// received is the channel that a statement receives from.
func received(n ast.Node) ast.Expr {
	var e ast.Expr
	switch n := n.(type) {
	case *ast.ExprStmt:
		e = n.X
	case *ast.AssignStmt:
		e = n.Rhs[0]
	}
	if u, ok := ast.Unparen(e).(*ast.UnaryExpr); ok && u.Op == token.ARROW {
		return u.X
	}
	return nil
}

// news takes note of a received end of a context: the path is over if that was
// the lock's own.
func (s *search) news(n ast.Node, st *state) (over bool) {
	ch := received(n)
	if ch == nil {
		return false
	}
	if v := code.Var(s.TypesInfo, ch); v != nil && st.known[ofOwn+ident(v)] {
		return true
	}
	if ctx := s.method(ch, "Done"); ctx != nil && s.isOwn(ctx) {
		return true
	}
	st.murky = st.murky || s.ofContext(ch) || s.isAnswer(ch, st)
	return false
}

// selects is news for the case of a select that an edge leads into.
func (s *search) selects(to *cfg.Block, st *state) (over bool) {
	clause, ok := to.Stmt.(*ast.CommClause)
	return ok && to.Kind == cfg.KindSelectCaseBody && s.news(clause.Comm, st)
}

// lost are the errors of a lock that is not held any more.
var lost = map[string]bool{"ErrNotHeld": true, "ErrLeaseLost": true, "ErrReleased": true, "ErrClosed": true}

func (s *search) isLost(e ast.Expr) bool {
	var id *ast.Ident
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		id = e
	case *ast.SelectorExpr:
		id = e.Sel
	default:
		return false
	}
	v, ok := s.TypesInfo.Uses[id].(*types.Var)
	return ok && v.Pkg() != nil && v.Pkg().Path() == api.Client && v.Parent() == v.Pkg().Scope() && lost[v.Name()]
}
