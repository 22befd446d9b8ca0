package lostlock

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/cfg"

	"github.com/stile-lock/stile/tools/vet/internal/api"
	"github.com/stile-lock/stile/tools/vet/internal/code"
)

// A truth is the value that a condition has after an acquire that succeeded.
type truth uint8

const (
	free  truth = iota // either, for all that is known
	yes                // certainly true
	no                 // certainly false
	murky              // depends on whether it succeeded, nobody knows how
)

func truthOf(b bool) truth {
	if b {
		return yes
	}
	return no
}

func (t truth) not() truth {
	switch t {
	case yes:
		return no
	case no:
		return yes
	}
	return t
}

// branch reports whether the path can take the edge out of b for a condition
// that is true, or false, and takes note of what that tells.
func (s *search) branch(b *cfg.Block, taken bool, st *state) bool {
	s.turn(b, taken, st)
	cond, t := s.condition(b, st)
	switch t {
	case murky:
		st.murky = true
		return true
	case yes, no:
		if taken != (t == yes) {
			return false
		}
		if cond == nil || code.Mentions(s.TypesInfo, cond, func(v *types.Var) bool { return v == s.lock || v == s.err && !st.over }) {
			st.murky = false // whoever comes here has the lock
		}
		return true
	}
	if cond != nil {
		// A branch elsewhere, which may well ask the same as the one that
		// decided on the acquire.
		if s.around != nil && !code.Within(s.around, cond.Pos()) {
			st.murky = true
		}
		if b.Succs[0].Kind != cfg.KindForBody { // there it changes by the turn
			s.learn(cond, taken, st.known)
		}
		if st.shown != "" && (st.known["("+st.shown+"!=nil)"] || isFalse(st.known, "("+st.shown+"==nil)")) {
			st.shown = "" // the call that got the token has failed
		}
	}
	return true
}

func isFalse(known map[string]bool, key string) bool {
	value, ok := known[key]
	return ok && !value
}

// turn takes note of a loop that is entered, or left. Nobody knows whether one
// can be passed by without a turn: if each turn hands the lock on, that is no
// path on which it is certainly lost.
func (s *search) turn(b *cfg.Block, taken bool, st *state) {
	loop := b.Succs[0]
	if loop.Kind != cfg.KindForBody && loop.Kind != cfg.KindRangeBody {
		return
	}
	entered := fmt.Sprintf("<loop@%d>", loop.Stmt.Pos())
	switch {
	case taken:
		st.known[entered] = true
	case !st.known[entered] && s.awayWithin(loop.Stmt):
		st.murky = true
	}
}

// awayWithin reports whether the lock is given back or handed on within n.
func (s *search) awayWithin(n ast.Node) bool {
	for id, what := range s.uses.of {
		if what == away && code.Within(n, id.Pos()) {
			return true
		}
	}
	return false
}

// condition is what decides about the branch at the end of b, and its value.
// The condition is nil where the CFG has none.
func (s *search) condition(b *cfg.Block, st *state) (ast.Expr, truth) {
	clause, _ := b.Succs[0].Stmt.(*ast.CaseClause)
	if sw := s.types[clause]; clause != nil && sw != nil {
		return nil, s.evalType(sw, clause, st)
	}
	if len(b.Nodes) == 0 {
		return nil, free // of a range or select
	}
	cond, ok := b.Nodes[len(b.Nodes)-1].(ast.Expr)
	if !ok || b.Succs[0].Kind == cfg.KindRangeBody || b.Succs[0].Kind == cfg.KindSelectCaseBody {
		return nil, free
	}
	if sw := s.tags[cond]; sw != nil && sw.Tag != nil {
		compared := &ast.BinaryExpr{X: sw.Tag, OpPos: cond.Pos(), Op: token.EQL, Y: cond}
		t := s.eval(compared, st)
		if t == murky && s.isErr(sw.Tag, st) && !code.Mentions(s.TypesInfo, cond, s.tells) {
			t = no // err is nil, and that is some error
		}
		return compared, t
	}
	return cond, s.eval(cond, st)
}

func (s *search) isErr(e ast.Expr, st *state) bool {
	return s.err != nil && !st.over && code.Var(s.TypesInfo, e) == s.err
}

// evalType is whether a clause of a type switch is for a nil error.
func (s *search) evalType(sw *ast.TypeSwitchStmt, clause *ast.CaseClause, st *state) truth {
	if !code.Mentions(s.TypesInfo, sw.Assign, s.tells) {
		return free
	}
	x := sw.Assign
	var asserted ast.Expr
	switch x := x.(type) {
	case *ast.ExprStmt:
		asserted = x.X
	case *ast.AssignStmt:
		asserted = x.Rhs[0]
	}
	assertion, ok := ast.Unparen(asserted).(*ast.TypeAssertExpr)
	if !ok || !s.isErr(assertion.X, st) {
		return murky
	}
	for _, e := range clause.List {
		if code.IsNil(s.TypesInfo, e) {
			if len(clause.List) == 1 {
				return yes
			}
			return murky
		}
	}
	return no
}

// eval is the value of a condition after an acquire that succeeded.
func (s *search) eval(e ast.Expr, st *state) truth {
	e = ast.Unparen(e)
	if tv := s.TypesInfo.Types[e]; tv.Value != nil && tv.Value.Kind() == constant.Bool {
		return truthOf(constant.BoolVal(tv.Value))
	}
	if known, ok := st.known[s.key(e)]; ok {
		return truthOf(known)
	}
	switch e := e.(type) {
	case *ast.UnaryExpr:
		if e.Op == token.NOT {
			return s.eval(e.X, st).not()
		}
	case *ast.BinaryExpr:
		switch e.Op {
		case token.LAND:
			return and(s.eval(e.X, st), s.eval(e.Y, st))
		case token.LOR:
			return and(s.eval(e.X, st).not(), s.eval(e.Y, st).not()).not()
		case token.EQL, token.NEQ:
			x, y := e.X, e.Y
			if code.IsNil(s.TypesInfo, x) {
				x, y = y, x
			}
			if s.isLost(x) || s.isLost(y) {
				return truthOf(e.Op == token.NEQ)
			}
			if s.isEnd(x) || s.isEnd(y) {
				return murky
			}
			if !code.IsNil(s.TypesInfo, y) {
				break
			}
			if ctx := s.asked(x); ctx != nil && s.isOwn(ctx) {
				return truthOf(e.Op == token.EQL)
			}
			switch v := code.Var(s.TypesInfo, x); {
			case v == nil:
			case v == s.lock:
				return truthOf(e.Op == token.NEQ)
			case s.isErr(x, st):
				return truthOf(e.Op == token.EQL)
			}
		}
	case *ast.CallExpr:
		f := api.Called(s.TypesInfo, e)
		if f == (api.Func{Pkg: "errors", Name: "Is"}) && len(e.Args) == 2 && s.isLost(e.Args[1]) {
			return no
		}
		if f == (api.Func{Pkg: "errors", Name: "Is"}) && len(e.Args) == 2 && s.isEnd(e.Args[1]) {
			return murky
		}
		if f.Pkg == "errors" && (f.Name == "Is" || f.Name == "As") && len(e.Args) == 2 && s.isErr(e.Args[0], st) &&
			!code.IsNil(s.TypesInfo, e.Args[1]) && !code.Mentions(s.TypesInfo, e.Args[1], func(v *types.Var) bool { return v == s.err }) {
			return no
		}
	}
	if code.Mentions(s.TypesInfo, e, func(v *types.Var) bool {
		return s.err != nil && v == s.err && !st.over || s.derived[v]
	}) || s.ofContext(e) || s.isAnswer(e, st) {
		return murky
	}
	return free
}

func and(x, y truth) truth {
	switch {
	case x == no || y == no:
		return no
	case x == murky || y == murky:
		return murky
	case x == yes && y == yes:
		return yes
	}
	return free
}

// learn takes note of the conditions of which the value is known now.
func (s *search) learn(e ast.Expr, value bool, known map[string]bool) {
	e = ast.Unparen(e)
	switch n := e.(type) {
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			s.learn(n.X, !value, known)
			return
		}
	case *ast.BinaryExpr:
		if n.Op == token.LAND && value || n.Op == token.LOR && !value {
			s.learn(n.X, value, known)
			s.learn(n.Y, value, known)
			return
		}
	}
	if k := s.key(e); k != "" {
		known[k] = value
	}
}

// key names an expression so that two have the same name only if they have the
// same value, as long as none of their variables is assigned. It is "" for
// what may change otherwise.
func (s *search) key(e ast.Expr) string {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		switch obj := s.TypesInfo.ObjectOf(e).(type) {
		case *types.Var:
			return ident(obj)
		case *types.Const, *types.Nil:
			return obj.Name()
		}
	case *ast.BasicLit:
		return e.Value
	case *ast.SelectorExpr:
		if x := s.key(e.X); x != "" {
			return x + "." + e.Sel.Name
		}
		if id, ok := e.X.(*ast.Ident); ok {
			if _, ok := s.TypesInfo.Uses[id].(*types.PkgName); ok {
				return id.Name + "." + e.Sel.Name
			}
		}
	case *ast.StarExpr:
		if x := s.key(e.X); x != "" {
			return "*" + x
		}
	case *ast.BinaryExpr:
		x, y := s.key(e.X), s.key(e.Y)
		if x != "" && y != "" {
			return "(" + x + e.Op.String() + y + ")"
		}
	}
	return ""
}

// ident names a variable so that nothing else has a name which contains it.
func ident(v *types.Var) string { return fmt.Sprintf("<%s@%d>", v.Name(), v.Pos()) }
