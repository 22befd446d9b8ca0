// Package deafdo defines an analyzer that reports functions given to Do which
// loop on without a look at their context.
package deafdo

import (
	"go/ast"
	"go/token"
	"go/types"
	"reflect"
	"regexp"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/ctrlflow"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/edge"
	"golang.org/x/tools/go/ast/inspector"

	"github.com/stile-lock/stile/tools/vet/internal/api"
	"github.com/stile-lock/stile/tools/vet/internal/code"
)

const doc = `report functions given to Do that loop without a look at their context

The context that Do gives to its function ends when the lease is lost: somebody
else may hold the lock from then on, and the function should return. A loop that
never looks at it goes on beside the new holder:

	c.Do(ctx, "leader", func(_ context.Context, lock *client.Lock) error {
		for {
			work()
			time.Sleep(time.Second)
		}
	})

Reported are loops in the function passed to Do that mention neither its context,
nor its lock, nor anything that was made with one of these, and that

  - have no end: "for" without a condition, and without a way out;
  - or wait: by time.Sleep, for time.After or a ticker, or for a channel from
    outside that they range over;
  - or pass on a context from outside, which does not end with the lease, and
    do so not just for logging.

A loop that certainly waits for no more than a second in all is left out, and so is
what closures do. The suggested fix of the last kind puts the function's own
context in its place. A loop that is meant to go on has a directive with the reason,
on its line or above it:

	//stile:meant three jobs at most, and each is idempotent`

// Analyzer reports loops that do not hear of the end of the lease.
var Analyzer = &analysis.Analyzer{
	Name:       "deafdo",
	Doc:        doc,
	URL:        "https://github.com/stile-lock/stile/blob/main/tools/vet/README.md#deafdo",
	Requires:   []*analysis.Analyzer{inspect.Analyzer, ctrlflow.Analyzer},
	ResultType: reflect.TypeFor[*code.Directives](),
	Run:        run,
}

func run(pass *analysis.Pass) (any, error) {
	meant := code.FindDirectives(pass, code.Meant)
	seen := map[ast.Node]bool{} // a function can be passed to Do twice
	for cur := range pass.ResultOf[inspect.Analyzer].(*inspector.Inspector).Root().Preorder((*ast.CallExpr)(nil)) {
		call := cur.Node().(*ast.CallExpr)
		if api.Called(pass.TypesInfo, call) != api.Do || len(call.Args) <= api.DoCallback || code.LeftOut(pass, call.Pos()) {
			continue
		}
		fn, body, sig := code.Callback(pass, cur, call.Args[api.DoCallback])
		if body == nil || sig.Params().Len() != 2 || seen[fn.Node()] {
			continue
		}
		seen[fn.Node()] = true
		c := &callback{Pass: pass, meant: meant, body: body, fn: fn, ctx: sig.Params().At(0), lock: sig.Params().At(1)}
		c.hears = hearing(pass.TypesInfo, body, c.ctx, c.lock)
		c.loops()
	}
	return meant, nil
}

// A callback is a function that is passed to Do.
type callback struct {
	*analysis.Pass
	meant     *code.Directives
	body      *ast.BlockStmt
	fn        inspector.Cursor
	ctx, lock *types.Var
	hears     map[*types.Var]bool // tell of the end of the lease, maybe
}

// loops reports the outermost loops of the function itself.
func (c *callback) loops() {
	c.fn.Inspect([]ast.Node{(*ast.ForStmt)(nil), (*ast.RangeStmt)(nil), (*ast.FuncLit)(nil)}, func(cur inspector.Cursor) bool {
		switch n := cur.Node().(type) {
		case *ast.FuncLit:
			return n == c.fn.Node()
		default:
			if code.Mentions(c.TypesInfo, n, func(v *types.Var) bool { return c.hears[v] }) {
				return true // a loop within may not
			}
			return !c.loop(cur)
		}
	})
}

// loop reports a loop that mentions nothing that hears, if it is one of those
// that matter.
func (c *callback) loop(cur inspector.Cursor) bool {
	n := cur.Node()
	if others := c.others(cur); len(others) > 0 {
		c.report(cur, analysis.Diagnostic{
			Pos: others[0].Pos(), End: others[0].End(),
			Message: "this loop in the function given to Do uses the context " + others[0].Name +
				" from outside, which does not end when the lease is lost, and not the function's own",
			Related:        []analysis.RelatedInformation{{Pos: n.Pos(), Message: "the loop"}},
			SuggestedFixes: c.fix(others),
		})
		return true
	}
	why := ""
	switch n := n.(type) {
	case *ast.ForStmt:
		if n.Cond == nil && !c.leaves(n) {
			why = "has no end"
		}
	case *ast.RangeStmt:
		if _, ok := c.TypesInfo.TypeOf(n.X).Underlying().(*types.Chan); ok && c.outside(n.X) {
			why = "waits for a channel"
		}
	}
	if why == "" && c.waits(cur) && !c.short(cur) {
		why = "waits"
	}
	if why == "" {
		return false
	}
	end := n.Pos() + token.Pos(len("for"))
	c.report(cur, analysis.Diagnostic{
		Pos: n.Pos(), End: end,
		Message: "this loop in the function given to Do " + why + ", and never looks at the function's context, which ends when the lease is lost",
	})
	return true
}

// report tells of a loop. A directive counts at the loop, and where the report is.
func (c *callback) report(loop inspector.Cursor, d analysis.Diagnostic) {
	at, ok := loop.FindByPos(d.Pos, d.End)
	if c.meant.Marks(loop) || ok && c.meant.Marks(at) {
		return
	}
	d.Message += c.meant.HintAt(loop)
	c.Report(d)
}

// outside reports whether every variable in e is from outside of the function.
func (c *callback) outside(e ast.Expr) bool {
	return !code.Mentions(c.TypesInfo, e, func(v *types.Var) bool { return !v.IsField() && code.Within(c.fn.Node(), v.Pos()) }) &&
		isPath(e)
}

// isPath reports whether e names something, and calls nothing.
func isPath(e ast.Expr) bool {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return true
	case *ast.SelectorExpr:
		return isPath(e.X)
	}
	return false
}

// waits reports whether the loop itself waits for time to pass.
func (c *callback) waits(loop inspector.Cursor) bool {
	for cur := range loop.Preorder((*ast.CallExpr)(nil), (*ast.UnaryExpr)(nil)) {
		if fn, _, _ := code.Function(c.TypesInfo, cur); fn != c.fn {
			continue // a closure may run elsewhere
		}
		switch n := cur.Node().(type) {
		case *ast.CallExpr:
			if api.Called(c.TypesInfo, n) == (api.Func{Pkg: "time", Name: "Sleep"}) {
				return true
			}
		case *ast.UnaryExpr:
			if n.Op == token.ARROW && c.isClock(n.X) {
				return true
			}
		}
	}
	return false
}

// isClock reports whether e is time.After(d), time.Tick(d), or the channel of a
// ticker or timer.
func (c *callback) isClock(e ast.Expr) bool {
	switch e := ast.Unparen(e).(type) {
	case *ast.CallExpr:
		f := api.Called(c.TypesInfo, e)
		return f.Pkg == "time" && (f.Name == "After" || f.Name == "Tick")
	case *ast.SelectorExpr:
		t := c.TypesInfo.TypeOf(e.X)
		return e.Sel.Name == "C" && t != nil && (api.Is(t, "time", "Ticker") || api.Is(t, "time", "Timer"))
	}
	return false
}

// logs are packages that take from a context what to log, and nothing else.
var logs = regexp.MustCompile(`(^|/)\w*(log|logr|logrus|zap|tracelog)(/|$)`)

// others are the mentions of contexts from outside which are passed to calls,
// or asked for their end.
func (c *callback) others(loop inspector.Cursor) (ids []*ast.Ident) {
	for cur := range loop.Preorder((*ast.Ident)(nil)) {
		id := cur.Node().(*ast.Ident)
		if fn, _, _ := code.Function(c.TypesInfo, cur); fn != c.fn {
			continue // a closure may run elsewhere
		}
		v, ok := c.TypesInfo.Uses[id].(*types.Var)
		if !ok || !code.IsContext(v.Type()) || v.IsField() || code.Within(c.fn.Node(), v.Pos()) || v.Parent() == c.Pkg.Scope() {
			continue
		}
		switch parent, at := code.Outer(cur); at {
		case edge.CallExpr_Args:
			if f := api.Called(c.TypesInfo, parent.Node().(*ast.CallExpr)); f.Pkg == "context" && f.Name == "WithoutCancel" || logs.MatchString(f.Pkg) {
				continue
			}
			ids = append(ids, id)
		case edge.SelectorExpr_X:
			if sel := parent.Node().(*ast.SelectorExpr).Sel.Name; sel == "Done" || sel == "Err" {
				ids = append(ids, id)
			}
		}
	}
	return ids
}
