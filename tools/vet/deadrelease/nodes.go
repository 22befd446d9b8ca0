package deadrelease

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"

	"github.com/stile-lock/stile/tools/vet/internal/api"
	"github.com/stile-lock/stile/tools/vet/internal/code"
)

const (
	contextPkg = "context"
	signalPkg  = "os/signal"
	groupPkg   = "golang.org/x/sync/errgroup"
)

// derives are functions that return a context which ends with their first
// argument, at the latest.
var derives = api.Set{
	{Pkg: contextPkg, Name: "WithCancel"}:        true,
	{Pkg: contextPkg, Name: "WithCancelCause"}:   true,
	{Pkg: contextPkg, Name: "WithDeadline"}:      true,
	{Pkg: contextPkg, Name: "WithDeadlineCause"}: true,
	{Pkg: contextPkg, Name: "WithTimeout"}:       true,
	{Pkg: contextPkg, Name: "WithTimeoutCause"}:  true,
	{Pkg: contextPkg, Name: "WithValue"}:         true,
	{Pkg: signalPkg, Name: "NotifyContext"}:      true,
	{Pkg: groupPkg, Name: "WithContext"}:         true,
}

// findWrites collects the assignments to variables.
func findWrites(pass *analysis.Pass, in *inspector.Inspector) *writes {
	w := &writes{in: map[*types.Var][]write{}}
	for cur := range in.Root().Preorder((*ast.AssignStmt)(nil), (*ast.ValueSpec)(nil), (*ast.RangeStmt)(nil), (*ast.UnaryExpr)(nil)) {
		var lhs []ast.Expr
		switch n := cur.Node().(type) {
		case *ast.AssignStmt:
			lhs = n.Lhs
		case *ast.ValueSpec:
			if len(n.Values) == 0 {
				continue
			}
			for _, name := range n.Names {
				lhs = append(lhs, name)
			}
		case *ast.RangeStmt:
			lhs = []ast.Expr{n.Key, n.Value}
		case *ast.UnaryExpr:
			if n.Op == token.AND { // somebody else may assign
				if v := code.Var(pass.TypesInfo, n.X); v != nil {
					w.in[v] = append(w.in[v], write{nil, n.Pos(), false})
				}
			}
			continue
		}
		fn, _, _ := code.Function(pass.TypesInfo, cur)
		for _, e := range lhs {
			id, ok := e.(*ast.Ident)
			if !ok {
				continue
			}
			if v, ok := pass.TypesInfo.ObjectOf(id).(*types.Var); ok {
				w.in[v] = append(w.in[v], write{fn.Node(), id.Pos(), pass.TypesInfo.Defs[id] != nil})
			}
		}
	}
	return w
}

// step goes on over a node of the graph.
func (f *flow) step(n ast.Node, st *state) {
	if f.comms[n] {
		return // which of them happens is known behind the select only
	}
	switch n := n.(type) {
	case *ast.DeferStmt:
		f.deferred(n, st)
		return
	case *ast.GoStmt:
		return
	}
	f.releases(n, st)
	switch n := n.(type) {
	case *ast.ExprStmt:
		f.calls(n.X, n, st)
		f.kill(f.doneOf(n, st), n, st, true)
	case *ast.AssignStmt:
		for _, e := range n.Rhs {
			f.calls(e, n, st)
		}
		f.assign(n.Lhs, n.Rhs, st)
	case *ast.ValueSpec:
		lhs := make([]ast.Expr, len(n.Names))
		for i, name := range n.Names {
			lhs[i] = name
		}
		f.assign(lhs, n.Values, st)
	case *ast.Ident:
		f.forget([]ast.Expr{n}, st) // a range or a case of a select gives it a value
	}
}

// releases reports the releases within n, which runs now.
func (f *flow) releases(n ast.Node, st *state) {
	ast.Inspect(n, func(n ast.Node) bool {
		if _, ok := n.(*ast.FuncLit); ok {
			return false
		}
		if call, ok := n.(*ast.CallExpr); ok {
			if ctx := f.released(call, st); ctx != nil {
				if by := st.deadBy(ctx); by != nil {
					f.report(call, by)
				}
			}
			f.after(call, st)
		}
		return true
	})
}

// after reports the releases in a closure that runs when a context has ended:
// by context.AfterFunc, or by the Cleanup of a test, whose Context ends before.
func (f *flow) after(call *ast.CallExpr, st *state) {
	var lit *ast.FuncLit
	var ended func(v *value) bool
	switch fn := api.Called(f.pass.TypesInfo, call); {
	case fn == (api.Func{Pkg: contextPkg, Name: "AfterFunc"}) && len(call.Args) == 2:
		lit, _ = ast.Unparen(call.Args[1]).(*ast.FuncLit)
		ctx := f.eval(call.Args[0], st)
		ended = func(v *value) bool { return ctx != nil && v.from(ctx) }
	case fn.Pkg == "testing" && fn.Name == "Cleanup" && len(call.Args) == 1:
		lit, _ = ast.Unparen(call.Args[0]).(*ast.FuncLit)
		sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
		if !ok {
			return
		}
		test := code.Var(f.pass.TypesInfo, sel.X)
		ended = func(v *value) bool {
			for ; v != nil; v = v.parent {
				if v.test != nil && v.test == test {
					return true
				}
			}
			return false
		}
	}
	if lit == nil {
		return
	}
	ast.Inspect(lit.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.CallExpr:
			ctx := f.released(n, st)
			if ctx == nil || !ended(ctx) {
				return true
			}
			if v := code.Var(f.pass.TypesInfo, n.Args[0]); v == nil || f.unchanged(v, call.Pos()) {
				f.report(n, call)
			}
		}
		return true
	})
}

// released is the context of a call, if it is a Release. One with a context of
// the lock itself is reported right here.
func (f *flow) released(call *ast.CallExpr, st *state) *value {
	fn := api.Called(f.pass.TypesInfo, call)
	if !api.Release[fn] || len(call.Args) == 0 {
		return nil
	}
	sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok || !code.IsContext(f.pass.TypesInfo.TypeOf(call.Args[0])) {
		return nil // a method expression: the context is elsewhere
	}
	ctx := f.eval(call.Args[0], st)
	if lock := code.Var(f.pass.TypesInfo, sel.X); lock != nil && api.LockRelease[fn] {
		for v := ctx; v != nil; v = v.parent {
			if v.lock == lock {
				f.report(call, nil)
			}
		}
	}
	return ctx
}

// calls takes note of e if it cancels a context.
func (f *flow) calls(e ast.Expr, by ast.Node, st *state) {
	if v := f.cancelled(e, st); v != nil {
		f.kill(v, by, st, true)
	}
}

// cancelled is the context that a call certainly cancels.
func (f *flow) cancelled(e ast.Expr, st *state) *value {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok {
		return nil
	}
	if v := code.Var(f.pass.TypesInfo, call.Fun); v != nil {
		return st.cancels[v]
	}
	if fn := api.Called(f.pass.TypesInfo, call); fn == (api.Func{Pkg: groupPkg, Recv: "Group", Name: "Wait"}) {
		if sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr); ok {
			if v := code.Var(f.pass.TypesInfo, sel.X); v != nil {
				return st.cancels[v]
			}
		}
	}
	return nil
}

// deferred takes note of a deferred release, and reports those that a deferred
// cancel comes before.
func (f *flow) deferred(n *ast.DeferStmt, st *state) {
	register := func(call *ast.CallExpr, late bool) {
		ctx := f.released(call, st)
		if ctx == nil {
			return
		}
		if by := st.deadBy(ctx); by != nil {
			f.report(call, by)
			return
		}
		d := deferred{call: call, ctx: ctx}
		if late {
			if d.late = code.Var(f.pass.TypesInfo, call.Args[0]); d.late == nil {
				return
			}
		}
		st.defers = append(st.defers, d)
	}
	lit, ok := ast.Unparen(n.Call.Fun).(*ast.FuncLit)
	if !ok {
		register(n.Call, false)
		f.cancelsLater(n.Call, n, st)
		return
	}
	if len(n.Call.Args) > 0 {
		return
	}
	// Of a closure only plain statements are certain to run.
	var before []*value // cancelled in it
	for _, stmt := range lit.Body.List {
		var call *ast.CallExpr
		switch stmt := stmt.(type) {
		case *ast.ExprStmt:
			call, _ = ast.Unparen(stmt.X).(*ast.CallExpr)
		case *ast.AssignStmt:
			if len(stmt.Rhs) == 1 {
				call, _ = ast.Unparen(stmt.Rhs[0]).(*ast.CallExpr)
			}
		case *ast.IfStmt:
			if init, ok := stmt.Init.(*ast.AssignStmt); ok && len(init.Rhs) == 1 {
				call, _ = ast.Unparen(init.Rhs[0]).(*ast.CallExpr)
			}
		}
		if call == nil {
			return
		}
		if ctx := f.released(call, st); ctx != nil {
			if v := code.Var(f.pass.TypesInfo, call.Args[0]); v == nil || f.unchanged(v, call.Pos()) {
				for _, v := range before {
					if ctx.from(v) {
						f.report(call, n)
					}
				}
			}
		}
		register(call, true)
		f.cancelsLater(call, n, st)
		if v := f.cancelled(call, st); v != nil && f.cancelUnchanged(call) {
			before = append(before, v)
		}
	}
}

// cancelUnchanged reports whether a call in a closure that runs later cancels
// what it would cancel now.
func (f *flow) cancelUnchanged(call *ast.CallExpr) bool {
	fun := ast.Unparen(call.Fun)
	if sel, ok := fun.(*ast.SelectorExpr); ok {
		fun = sel.X // a group
	}
	v := code.Var(f.pass.TypesInfo, fun)
	return v != nil && f.unchanged(v, call.Pos())
}

// cancelsLater reports the deferred releases that run after a deferred call.
func (f *flow) cancelsLater(call *ast.CallExpr, by *ast.DeferStmt, st *state) {
	v := f.cancelled(call, st)
	if v == nil {
		return
	}
	for _, d := range st.defers {
		if d.ctx.from(v) && f.still(d) && !code.Within(by, d.call.Pos()) {
			f.report(d.call, by)
		}
	}
}

// assign takes note of new contexts and of the functions that cancel them.
func (f *flow) assign(lhs, rhs []ast.Expr, st *state) {
	if len(rhs) == 1 && len(lhs) == 2 {
		call, ok := ast.Unparen(rhs[0]).(*ast.CallExpr)
		if !ok {
			f.forget(lhs, st)
			return
		}
		fn := api.Called(f.pass.TypesInfo, call)
		if !derives[fn] || len(call.Args) == 0 {
			f.forget(lhs, st)
			return
		}
		v := f.eval(call, st)
		ctx, cancel := lhs[0], lhs[1]
		if fn.Pkg == groupPkg {
			ctx, cancel = cancel, ctx
		}
		f.forget(lhs, st)
		f.set(ctx, v, st)
		if c := code.Var(f.pass.TypesInfo, cancel); c != nil && f.tracked(c) && v != nil {
			st.cancels[c] = v
		}
		return
	}
	if len(lhs) != len(rhs) {
		f.forget(lhs, st)
		return
	}
	values, asks := make([]*value, len(rhs)), make([]*value, len(rhs))
	for i, e := range rhs {
		if t := f.pass.TypesInfo.TypeOf(e); t != nil && code.IsContext(t) {
			values[i] = f.eval(e, st)
			if call, ok := ast.Unparen(e).(*ast.CallExpr); ok && values[i] == nil {
				values[i] = f.intern(valueKey{site: call}) // whatever it is
			}
		} else if asks[i] = f.asked(e, st); asks[i] == nil {
			asks[i] = f.end(e, st)
		}
	}
	f.forget(lhs, st)
	for i, e := range lhs {
		f.set(e, values[i], st)
		if v := code.Var(f.pass.TypesInfo, e); v != nil && asks[i] != nil && f.tracked(v) {
			st.asks[v] = asks[i]
		}
	}
}

func (f *flow) forget(lhs []ast.Expr, st *state) {
	for _, e := range lhs {
		if v := code.Var(f.pass.TypesInfo, e); v != nil {
			st.vars[v] = nil
			delete(st.cancels, v)
			delete(st.asks, v)
		}
	}
}

func (f *flow) set(e ast.Expr, v *value, st *state) {
	if x := code.Var(f.pass.TypesInfo, e); x != nil && f.tracked(x) {
		st.vars[x] = v
	}
}
