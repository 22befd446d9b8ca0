package deadrelease

import (
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/cfg"

	"github.com/stile-lock/stile/tools/vet/internal/api"
	"github.com/stile-lock/stile/tools/vet/internal/code"
)

// A value is a context: the one that a call at site made, or that a variable
// had at the beginning. A call that runs again makes another context, and yet
// the same value: what is certain at the call is so on the way that comes to
// it for the first time, too, and so says nothing of the value.
type value struct {
	valueKey
}

type valueKey struct {
	site   any        // the *ast.CallExpr, or the *types.Var
	parent *value     // it ends with this one; may be nil
	lock   *types.Var // it is this lock's own
	test   *types.Var // it is the Context of this test
}

// from reports whether the context ends with other.
func (v *value) from(other *value) bool {
	for ; v != nil; v = v.parent {
		if v == other {
			return true
		}
	}
	return false
}

// A deferred is a Release that will run at the end of the function.
type deferred struct {
	call *ast.CallExpr
	ctx  *value
	// The variable, if it is read only then, by a closure.
	late *types.Var
}

// A state is what is certain at a point of the function, by whatever path it
// was reached.
type state struct {
	vars    map[*types.Var]*value // nil for one that is not certain
	cancels map[types.Object]*value
	// asks are the variables with an error or a cause of a context, or the
	// channel of its end.
	asks   map[*types.Var]*value
	dead   map[*value]ast.Node // and what cancelled it
	defers []deferred
}

func (s *state) clone() *state {
	return &state{maps.Clone(s.vars), maps.Clone(s.cancels), maps.Clone(s.asks), maps.Clone(s.dead), slices.Clone(s.defers)}
}

// meet keeps of s what is certain in t, too, and reports whether s is less now.
func (s *state) meet(t *state) (less bool) {
	for v, x := range s.vars {
		if y, ok := t.vars[v]; x != nil && (!ok || x != y) {
			s.vars[v], less = nil, true
		}
	}
	for v := range t.vars {
		if _, ok := s.vars[v]; !ok {
			s.vars[v], less = nil, true
		}
	}
	for o, x := range s.cancels {
		if t.cancels[o] != x {
			delete(s.cancels, o)
			less = true
		}
	}
	for v, x := range s.asks {
		if t.asks[v] != x {
			delete(s.asks, v)
			less = true
		}
	}
	for v := range s.dead {
		if t.dead[v] == nil {
			delete(s.dead, v)
			less = true
		}
	}
	both := slices.DeleteFunc(slices.Clone(s.defers), func(d deferred) bool { return !slices.Contains(t.defers, d) })
	less = less || len(both) < len(s.defers)
	s.defers = both
	return less
}

// writes are the assignments to each variable of the package.
type writes struct {
	in map[*types.Var][]write
}

type write struct {
	fn      ast.Node
	pos     token.Pos
	defines bool
}

// A flow finds what is certain at each point of a function.
type flow struct {
	pass     *analysis.Pass
	meant    *code.Directives
	root     inspector.Cursor
	fn       ast.Node
	g        *cfg.CFG
	writes   *writes
	values   map[valueKey]*value
	comms    map[ast.Node]bool // the communications of select statements
	quiet    bool
	reported map[token.Pos]bool
}

func (f *flow) run() {
	f.comms = map[ast.Node]bool{}
	ast.Inspect(f.fn, func(n ast.Node) bool {
		if c, ok := n.(*ast.CommClause); ok && c.Comm != nil {
			f.comms[c.Comm] = true
		}
		return true
	})
	f.quiet = true
	in := map[*cfg.Block]*state{f.g.Blocks[0]: {
		vars: map[*types.Var]*value{}, cancels: map[types.Object]*value{}, asks: map[*types.Var]*value{}, dead: map[*value]ast.Node{},
	}}
	for work := []*cfg.Block{f.g.Blocks[0]}; len(work) > 0; {
		b := work[0]
		work = work[1:]
		out := in[b].clone()
		for _, n := range b.Nodes {
			f.step(n, out)
		}
		for i, next := range b.Succs {
			st := out.clone()
			f.edge(b, i == 0, next, st)
			if in[next] == nil {
				in[next] = st
			} else if !in[next].meet(st) {
				continue
			}
			work = append(work, next)
		}
	}
	f.quiet = false
	for _, b := range f.g.Blocks {
		if st := in[b]; st != nil {
			st = st.clone()
			for _, n := range b.Nodes {
				f.step(n, st)
			}
		}
	}
}

func (f *flow) intern(k valueKey) *value {
	if f.values[k] == nil {
		f.values[k] = &value{k}
	}
	return f.values[k]
}

// edge takes note of what the way from b to next tells.
func (f *flow) edge(b *cfg.Block, taken bool, next *cfg.Block, st *state) {
	if clause, ok := next.Stmt.(*ast.CommClause); ok && next.Kind == cfg.KindSelectCaseBody {
		f.kill(f.doneOf(clause.Comm, st), clause.Comm, st, false)
		return
	}
	if len(b.Succs) != 2 || len(b.Nodes) == 0 {
		return
	}
	cond, ok := b.Nodes[len(b.Nodes)-1].(ast.Expr)
	if !ok {
		return
	}
	e, ok := ast.Unparen(cond).(*ast.BinaryExpr)
	if !ok || !code.IsNil(f.pass.TypesInfo, e.Y) || !(e.Op == token.NEQ && taken || e.Op == token.EQL && !taken) {
		return
	}
	f.kill(f.asked(e.X, st), cond, st, false)
}

// asked is the context of which e has the error or the cause.
func (f *flow) asked(e ast.Expr, st *state) *value {
	if v := code.Var(f.pass.TypesInfo, e); v != nil && !code.IsChan(v.Type()) {
		return st.asks[v]
	}
	if ctx := f.method(e, "Err"); ctx != nil {
		return f.eval(ctx, st)
	}
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if ok && len(call.Args) == 1 && api.Called(f.pass.TypesInfo, call) == (api.Func{Pkg: contextPkg, Name: "Cause"}) {
		return f.eval(call.Args[0], st)
	}
	return nil
}

// end is the context of which e is the channel that is closed at its end.
func (f *flow) end(e ast.Expr, st *state) *value {
	if v := code.Var(f.pass.TypesInfo, e); v != nil && code.IsChan(v.Type()) {
		return st.asks[v]
	}
	if ctx := f.method(e, "Done"); ctx != nil {
		return f.eval(ctx, st)
	}
	return nil
}

// doneOf is the context of which a communication receives the end.
func (f *flow) doneOf(n ast.Node, st *state) *value {
	var e ast.Expr
	switch n := n.(type) {
	case *ast.ExprStmt:
		e = n.X
	case *ast.AssignStmt:
		e = n.Rhs[0]
	}
	if u, ok := ast.Unparen(e).(*ast.UnaryExpr); ok && u.Op == token.ARROW {
		return f.end(u.X, st)
	}
	return nil
}

// method is the context of which e calls the method.
func (f *flow) method(e ast.Expr, name string) ast.Expr {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok {
		return nil
	}
	sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name || !code.IsContext(f.pass.TypesInfo.TypeOf(sel.X)) {
		return nil
	}
	return sel.X
}

// kill takes note that a context is cancelled from here on. With it go the
// deferred releases that are registered already.
func (f *flow) kill(v *value, by ast.Node, st *state, deferredToo bool) {
	if v == nil {
		return
	}
	if st.dead[v] == nil {
		st.dead[v] = by
	}
	if !deferredToo {
		return
	}
	for _, d := range st.defers {
		if d.ctx.from(v) && f.still(d) {
			f.report(d.call, by)
		}
	}
}

// still reports whether a deferred Release gets the context that its variable
// had when it was deferred.
func (f *flow) still(d deferred) bool {
	return d.late == nil || f.unchanged(d.late, d.call.Pos())
}

// unchanged reports whether nothing behind pos gives the variable another value.
func (f *flow) unchanged(v *types.Var, pos token.Pos) bool {
	for _, w := range f.writes.in[v] {
		if w.fn != f.fn || w.pos > pos {
			return false
		}
	}
	return true
}

// deadBy is what has cancelled the context, nil if that is not certain.
func (st *state) deadBy(v *value) ast.Node {
	for ; v != nil; v = v.parent {
		if by := st.dead[v]; by != nil {
			return by
		}
	}
	return nil
}

// eval is the context that an expression has, nil if that is not certain.
func (f *flow) eval(e ast.Expr, st *state) *value {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		v := code.Var(f.pass.TypesInfo, e)
		if v == nil || !f.tracked(v) {
			return nil
		}
		if x, ok := st.vars[v]; ok {
			return x
		}
		return f.intern(valueKey{site: v})
	case *ast.CallExpr:
		fn := api.Called(f.pass.TypesInfo, e)
		switch {
		case derives[fn] && len(e.Args) > 0:
			return f.intern(valueKey{site: e, parent: f.eval(e.Args[0], st)})
		case fn == api.LockContext:
			sel, ok := ast.Unparen(e.Fun).(*ast.SelectorExpr)
			if !ok {
				return nil
			}
			if lock := code.Var(f.pass.TypesInfo, sel.X); lock != nil && f.once(lock) {
				return f.intern(valueKey{site: e, lock: lock})
			}
		case fn.Pkg == "testing" && fn.Name == "Context":
			if sel, ok := ast.Unparen(e.Fun).(*ast.SelectorExpr); ok {
				if test := code.Var(f.pass.TypesInfo, sel.X); test != nil && f.once(test) {
					return f.intern(valueKey{site: test, test: test})
				}
			}
		}
	}
	return nil
}

// tracked reports whether only this function changes the variable.
func (f *flow) tracked(v *types.Var) bool {
	if v.IsField() || v.Pkg() != nil && v.Parent() == v.Pkg().Scope() {
		return false
	}
	for _, w := range f.writes.in[v] {
		if w.fn != f.fn && !w.defines {
			return false
		}
	}
	return true
}

// once reports whether the variable has one value at all times.
func (f *flow) once(v *types.Var) bool {
	return f.tracked(v) && len(f.writes.in[v]) <= 1
}
