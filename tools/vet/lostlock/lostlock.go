// Package lostlock defines an analyzer that reports locks which are not given
// back on some path.
package lostlock

import (
	"fmt"
	"go/ast"
	"go/types"
	"reflect"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/ctrlflow"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/edge"
	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/cfg"

	"github.com/stile-lock/stile/tools/vet/internal/api"
	"github.com/stile-lock/stile/tools/vet/internal/code"
)

const doc = `report locks that are not released on some path

A lock that nobody releases is held until the end of its lease: everybody else
waits for that long. lostlock follows each lock of Acquire, TryAcquire and Adopt
from the call to the ends of the function, and reports one from which the lock
was neither released nor handed on:

	lock, err := c.Acquire(ctx, "orders/42")
	if err != nil {
		return err
	}
	if err := work(lock.Context()); err != nil {
		return err // here it is still held
	}
	return lock.Release(ctx)

"defer lock.Release(ctx)" right after the check of err is the remedy, or Do. A
lock that is kept on purpose has a directive with the reason, on the line of the
acquire or of the last statement that it passes, or above it:

	//stile:kept until the lease ends, so that no other machine runs the job again
	if err := lock.Keep(ctx, time.Hour); err != nil {
`

// Analyzer reports locks of Stile's client.
var Analyzer = New(Stile)

// Pairs is what is taken and has to be given back.
type Pairs struct {
	// Thing is what it is called.
	Thing string
	// Acquire returns it as the first result, and an error as the second.
	Acquire api.Set
	// Release are methods that give it back.
	Release api.Set
	// Use tells methods after which it still has to be given back.
	Use func(api.Func) bool
	// Token are methods of which the result can give it back elsewhere,
	// and ByToken those functions that do so here.
	Token, ByToken api.Set
	// Borrow are functions that get it as an argument and do not keep it.
	Borrow api.Set
	// Fix: "defer VALUE.Release(context.WithoutCancel(ctx))" gives it back.
	Fix bool
}

// Stile is a lock of the client.
var Stile = Pairs{
	Thing:   "lock",
	Acquire: api.Acquire,
	Release: api.LockRelease,
	Use:     func(f api.Func) bool { return api.LockUse[f] },
	Token:   api.Set{api.LockToken: true},
	ByToken: api.ByToken,
	Borrow:  api.Guards,
	Fix:     true,
}

// New returns an analyzer for other things that are taken and given back.
func New(p Pairs) *analysis.Analyzer {
	a := &analysis.Analyzer{
		Name:       "lostlock",
		Doc:        doc,
		URL:        "https://github.com/stile-lock/stile/blob/main/tools/vet/README.md#lostlock",
		Requires:   []*analysis.Analyzer{inspect.Analyzer, ctrlflow.Analyzer},
		ResultType: reflect.TypeFor[*code.Directives](),
	}
	a.Run = func(pass *analysis.Pass) (any, error) {
		c := &checker{Pass: pass, pairs: p, kept: code.FindDirectives(pass, code.Kept), work: map[ast.Node]int{}}
		c.run()
		return c.kept, nil
	}
	return a
}

type checker struct {
	*analysis.Pass
	pairs Pairs
	kept  *code.Directives
	work  map[ast.Node]int // what the searches in each function have cost
}

func (c *checker) run() {
	for cur := range c.ResultOf[inspect.Analyzer].(*inspector.Inspector).Root().Preorder((*ast.CallExpr)(nil)) {
		call := cur.Node().(*ast.CallExpr)
		if f := api.Called(c.TypesInfo, call); c.pairs.Acquire[f] && !code.LeftOut(c.Pass, call.Pos()) {
			c.acquired(cur, f)
		}
	}
}

// An acquisition is a call that took something, and the variables that hold
// its results.
type acquisition struct {
	*checker
	f         api.Func
	call      *ast.CallExpr
	stmt      ast.Node         // the statement, a node of the CFG
	at        inspector.Cursor // the statement
	fn        inspector.Cursor // the function around it
	body      *ast.BlockStmt
	sig       *types.Signature
	lock, err *types.Var // err is nil if it is dropped
}

func (c *checker) acquired(cur inspector.Cursor, f api.Func) {
	parent, at := code.Outer(cur)
	var lhs []ast.Expr
	switch stmt := parent.Node().(type) {
	case *ast.AssignStmt:
		if at == edge.AssignStmt_Rhs {
			lhs = stmt.Lhs
		}
	case *ast.ValueSpec:
		for _, name := range stmt.Names {
			lhs = append(lhs, name)
		}
	}
	if len(lhs) != 2 {
		return // handed on, or dropped: droppederr reports that
	}
	fn, body, sig := code.Function(c.TypesInfo, cur)
	if body == nil {
		return
	}
	if id, ok := lhs[0].(*ast.Ident); ok && id.Name == "_" {
		if !c.kept.Marks(parent) {
			c.ReportRangef(id, "the %s that %s returns is dropped: nobody can release it, and it is held until its lease ends%s",
				c.pairs.Thing, f, c.kept.HintAt(parent))
		}
		return
	}
	q := &acquisition{
		checker: c, f: f, call: cur.Node().(*ast.CallExpr), stmt: parent.Node(), at: parent, fn: fn, body: body, sig: sig,
		lock: code.Var(c.TypesInfo, lhs[0]), err: code.Var(c.TypesInfo, lhs[1]),
	}
	if q.lock == nil || !code.Within(fn.Node(), q.lock.Pos()) {
		return // it lives longer than this function
	}
	if q.err != nil && !code.Within(fn.Node(), q.err.Pos()) {
		return // others know what became of it
	}
	q.follow()
}

func (q *acquisition) graph() *cfg.CFG {
	graphs := q.ResultOf[ctrlflow.Analyzer].(*ctrlflow.CFGs)
	if decl, ok := q.fn.Node().(*ast.FuncDecl); ok {
		return graphs.FuncDecl(decl)
	}
	return graphs.FuncLit(q.fn.Node().(*ast.FuncLit))
}

// follow looks for a path from the call on which the lock gets lost.
func (q *acquisition) follow() {
	if q.spend(0) {
		return
	}
	uses := q.uses()
	if uses == nil {
		return
	}
	// Directives are of use only where there is something to report.
	end := q.search(uses, false)
	if end == nil || q.kept.Marks(q.at) {
		return
	}
	if end = q.search(uses, true); end == nil {
		return
	}
	q.kept.UseWithin(q.fn.Node()) // those behind the end were not looked at
	d := analysis.Diagnostic{Pos: q.stmt.Pos(), End: q.stmt.End()}
	line := q.Fset.Position(end.Pos()).Line
	how := ""
	switch _, returns := end.(*ast.ReturnStmt); {
	case returns:
		how = fmt.Sprintf("it is still held at the return on line %d", line)
		d.Related = []analysis.RelatedInformation{{Pos: end.Pos(), Message: "still held here"}}
	case end == q.stmt:
		how = "it is still held when the loop comes here again"
	default:
		how = fmt.Sprintf("it is still held when line %d overwrites it", line)
	}
	d.Message = fmt.Sprintf("the %s in %s is not released on every path: %s%s", q.pairs.Thing, q.lock.Name(), how, q.kept.Hint(q.fn.Node()))
	if !uses.releases {
		d.SuggestedFixes = q.fix()
	}
	q.Report(d)
}
