package lostlock

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"

	"golang.org/x/tools/go/ast/edge"
	"golang.org/x/tools/go/ast/inspector"

	"github.com/stile-lock/stile/tools/vet/internal/api"
	"github.com/stile-lock/stile/tools/vet/internal/code"
)

// Whoever has the token of a lock can release it. So a path on which a call
// gets the token may be one that hands the lock on, unless that call certainly
// keeps nothing, or fails.

// A tokenUse finds what becomes of a token.
type tokenUse struct {
	q        *acquisition
	releases bool // the function gives the lock back by itself, somewhere
	seen     map[*types.Var]bool
	of       map[*ast.Ident]use // of the variables with the token
}

// value is what becomes of the token that is the value of cur, or is in it: mere
// if nothing does, shows if a call gets it, and away if it is stored or returned,
// or a call gets it in a function that never releases the lock by itself.
func (t *tokenUse) value(cur inspector.Cursor) use {
	info := t.q.TypesInfo
	parent, at := code.Outer(cur)
	var to ast.Expr
	switch at {
	case edge.ExprStmt_X, edge.IncDecStmt_X:
		return mere
	case edge.BinaryExpr_X, edge.BinaryExpr_Y:
		if comparison(parent.Node().(*ast.BinaryExpr).Op) {
			return mere
		}
		return t.value(parent)
	case edge.CallExpr_Args:
		call := parent.Node().(*ast.CallExpr)
		if info.Types[call.Fun].IsType() || formats(api.Called(info, call)) {
			return t.value(parent)
		}
		return t.call(call)
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
		return mere
	}
	v := (*types.Var)(nil)
	if to != nil {
		v = code.Var(info, to)
	}
	if v == nil || !code.Within(t.q.fn.Node(), v.Pos()) {
		return away
	}
	return t.variable(v)
}

// variable is what becomes of a token in a variable. If it is shown that is where
// the variable is mentioned.
func (t *tokenUse) variable(v *types.Var) use {
	if t.seen[v] {
		return mere
	}
	t.seen[v] = true
	for r := range t.q.sig.Results().Variables() {
		if r == v {
			return away
		}
	}
	for cur := range t.q.fn.Preorder((*ast.Ident)(nil)) {
		id := cur.Node().(*ast.Ident)
		if t.q.TypesInfo.Uses[id] != v {
			continue
		}
		if fn, _, _ := code.Function(t.q.TypesInfo, cur); fn != t.q.fn {
			return away
		}
		if _, at := code.Outer(cur); at == edge.AssignStmt_Lhs {
			continue
		}
		switch what := t.value(cur); what {
		case away:
			return away
		case shows:
			t.of[id] = shows
		}
	}
	return mere
}

// formats are functions of which the result has the token in it, and that do
// nothing else with it.
func formats(f api.Func) bool {
	switch f.Pkg {
	case "strconv":
		return true
	case "fmt":
		switch f.Name {
		case "Sprint", "Sprintf", "Sprintln", "Append", "Appendf", "Appendln":
			return true
		}
	}
	return false
}

// compares is a statement of SQL that changes what is there, if the token is
// not too old. An INSERT could be one into a queue.
var compares = regexp.MustCompile(`(?is)^\s*(UPDATE|DELETE)\s.*\sWHERE\s.*[<>]`)

// call is what a call does that gets the token as an argument.
func (t *tokenUse) call(call *ast.CallExpr) use {
	f := api.Called(t.q.TypesInfo, call)
	switch {
	case t.q.pairs.Borrow[f], f.Pkg == "log", f.Pkg == "log/slog", f.Pkg == "testing", f == (api.Func{Pkg: "fmt", Name: "Errorf"}):
		return mere
	case t.q.pairs.ByToken[f]:
		return away
	case f.Pkg == "database/sql":
		for _, arg := range call.Args {
			if text := t.q.TypesInfo.Types[arg].Value; text != nil && text.Kind() == constant.String && compares.MatchString(constant.StringVal(text)) {
				return mere
			}
		}
	case f.Pkg == "fmt":
		return away // printed, for whoever reads that
	}
	if t.releases {
		return shows
	}
	return away
}

func comparison(op token.Token) bool {
	switch op {
	case token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ:
		return true
	}
	return false
}
