// Package unusedtoken defines an analyzer that reports writes under a lock of
// which the token is never used.
package unusedtoken

import (
	"go/ast"
	"go/types"
	"reflect"
	"strconv"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/ctrlflow"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/edge"
	"golang.org/x/tools/go/ast/inspector"

	"github.com/stile-lock/stile/tools/vet/internal/api"
	"github.com/stile-lock/stile/tools/vet/internal/code"
)

const doc = `report writes under a lock whose token is never used

A holder that was paused for longer than its lease writes as if it still had the
lock. Only its token keeps such a write out, if what it writes to refuses a
lower one:

	c.Do(ctx, "orders/42", func(ctx context.Context, _ *client.Lock) error {
		_, err := db.ExecContext(ctx, "UPDATE orders SET state = 'sent' WHERE id = 42")
		return err // nobody has seen the token
	})

Reported is an Exec or ExecContext of database/sql with a constant statement
that begins with UPDATE, INSERT, DELETE, MERGE or REPLACE, in the function passed
to Do, or where the lock of an acquire is certainly held, if the lock is used for
nothing but Release, Keep, Renew, Expires, Lease and Context, and nothing there or
around it is a guard or another lock. A statement that may guard itself is left
out: one with ON CONFLICT and the like, with a name that has fence, token, version
or the like in it, or an UPDATE that sets a column which it compares, too.

Reported, too, is a grant made of one lock's key and another one's token, or a
constant:

	fence.NewGrant(a.Key(), b.Token())

A write that may come late, as it does no harm, has a directive with the reason,
on its line or above it, or with the acquire or Do:

	//stile:unfenced the row is written again by the next run anyway`

// Analyzer reports unfenced writes.
var Analyzer = &analysis.Analyzer{
	Name:       "unusedtoken",
	Doc:        doc,
	URL:        "https://github.com/stile-lock/stile/blob/main/tools/vet/README.md#unusedtoken",
	Requires:   []*analysis.Analyzer{inspect.Analyzer, ctrlflow.Analyzer},
	ResultType: reflect.TypeFor[*code.Directives](),
	Run:        run,
}

type checker struct {
	*analysis.Pass
	unfenced *code.Directives
	reported map[ast.Node]bool // writes, as a function can be passed to Do twice
}

func run(pass *analysis.Pass) (any, error) {
	c := &checker{pass, code.FindDirectives(pass, code.Unfenced), map[ast.Node]bool{}}
	for cur := range pass.ResultOf[inspect.Analyzer].(*inspector.Inspector).Root().Preorder((*ast.CallExpr)(nil)) {
		call := cur.Node().(*ast.CallExpr)
		if code.LeftOut(pass, call.Pos()) {
			continue
		}
		switch f := api.Called(pass.TypesInfo, call); {
		case f == api.Do && len(call.Args) > api.DoCallback:
			c.callback(cur)
		case api.Acquire[f]:
			c.acquire(cur)
		case f == api.NewGrant && len(call.Args) == 2:
			c.grant(call)
		}
	}
	return c.unfenced, nil
}

// callback looks at the function that is passed to Do.
func (c *checker) callback(do inspector.Cursor) {
	call := do.Node().(*ast.CallExpr)
	fn, body, sig := code.Callback(c.Pass, do, call.Args[api.DoCallback])
	if body == nil {
		return
	}
	var lock *types.Var
	if sig.Params().Len() == 2 {
		lock = sig.Params().At(1)
	}
	c.writes(fn, body, lock, do, "Do", newSpan(c.Pass, fn, lock, nil, nil))
}

// acquire looks at what a function does while it certainly has the lock.
func (c *checker) acquire(cur inspector.Cursor) {
	parent, at := code.Outer(cur)
	stmt, ok := parent.Node().(*ast.AssignStmt)
	if !ok || at != edge.AssignStmt_Rhs || len(stmt.Lhs) != 2 {
		return
	}
	fn, body, _ := code.Function(c.TypesInfo, cur)
	lock, err := code.Var(c.TypesInfo, stmt.Lhs[0]), code.Var(c.TypesInfo, stmt.Lhs[1])
	if body == nil || lock == nil || !code.Within(fn.Node(), lock.Pos()) {
		return
	}
	if id, ok := stmt.Lhs[0].(*ast.Ident); ok && id.Name == "_" {
		return
	}
	c.writes(fn, body, lock, cur, api.Called(c.TypesInfo, cur.Node().(*ast.CallExpr)).Name, newSpan(c.Pass, fn, lock, err, stmt))
}

// writes reports the first write in fn while the lock is held, if nothing in it
// can have shown the token of lock to anybody. The lock is nil if it has no name.
func (c *checker) writes(fn inspector.Cursor, body *ast.BlockStmt, lock *types.Var, taken inspector.Cursor, how string, held *span) {
	if c.guardedAround(taken, fn) {
		return
	}
	whole, ok := fn.FindNode(body)
	if !ok {
		return
	}
	var all []inspector.Cursor
	for cur := range whole.Preorder((*ast.CallExpr)(nil), (*ast.Ident)(nil)) {
		switch n := cur.Node().(type) {
		case *ast.CallExpr:
			f := api.Called(c.TypesInfo, n)
			if api.Guards[f] || f == api.NewGrant {
				return
			}
			if !c.reported[n] && c.isWrite(f, n) && held.has(cur) {
				all = append(all, cur)
			}
		case *ast.Ident:
			v, ok := c.TypesInfo.ObjectOf(n).(*types.Var)
			if !ok {
				continue
			}
			if v == lock && !c.harmless(cur) {
				return // it goes somewhere
			}
			if v != lock && (api.IsLock(v.Type()) || api.Is(v.Type(), api.Fence, "Grant")) {
				return // fenced by another one, maybe
			}
		}
	}
	if len(all) == 0 || c.unfenced.Marks(taken) {
		return
	}
	var first ast.Node
	for _, cur := range all {
		if !c.unfenced.Marks(cur) && first == nil {
			first = cur.Node()
			c.reported[cur.Node()] = true
			c.Report(analysis.Diagnostic{
				Pos: first.Pos(), End: first.End(),
				Message: "this write is not fenced: nothing uses the token of the lock that " + how + " takes on line " +
					strconv.Itoa(c.Fset.Position(taken.Node().Pos()).Line) + ", so a holder that lost its lease can still write" + c.unfenced.HintAt(cur),
				Related: []analysis.RelatedInformation{{Pos: taken.Node().Pos(), End: taken.Node().End(), Message: "the lock is taken here"}},
			})
		}
	}
}

// guardedAround reports whether a guard stands somewhere in the functions around
// the call that takes the lock: it may be one for what fn writes.
func (c *checker) guardedAround(taken, fn inspector.Cursor) bool {
	outer := taken
	for around := range taken.Enclosing((*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)) {
		outer = around
	}
	for cur := range outer.Preorder((*ast.CallExpr)(nil)) {
		if f := api.Called(c.TypesInfo, cur.Node().(*ast.CallExpr)); api.Guards[f] && !c.inOtherCallback(cur, fn) {
			return true
		}
	}
	return false
}

// inOtherCallback reports whether cur is in a function literal that is passed to
// Do, and fn is not in it.
func (c *checker) inOtherCallback(cur, fn inspector.Cursor) bool {
	for lit := range cur.Enclosing((*ast.FuncLit)(nil)) {
		if lit.Contains(fn) {
			return false
		}
		if parent, at := code.Outer(lit); at == edge.CallExpr_Args && api.Called(c.TypesInfo, parent.Node().(*ast.CallExpr)) == api.Do {
			return true
		}
	}
	return false
}

// harmless reports whether a mention of the lock keeps its token in it.
func (c *checker) harmless(cur inspector.Cursor) bool {
	parent, at := code.Outer(cur)
	switch at {
	case edge.AssignStmt_Lhs, edge.ValueSpec_Names, edge.BinaryExpr_X, edge.BinaryExpr_Y:
		return true
	case edge.SelectorExpr_X:
		call, at := code.Outer(parent)
		if at != edge.CallExpr_Fun {
			return false
		}
		f := api.Called(c.TypesInfo, call.Node().(*ast.CallExpr))
		return api.LockRelease[f] || api.LockUse[f] && f != api.LockKey
	}
	return false
}

// grant reports a grant whose halves do not belong together.
func (c *checker) grant(call *ast.CallExpr) {
	key := c.receiver(call.Args[0], api.LockKey)
	if key == nil {
		return
	}
	arg := call.Args[1]
	if c.TypesInfo.Types[arg].Value != nil {
		sel := ast.Unparen(ast.Unparen(call.Args[0]).(*ast.CallExpr).Fun).(*ast.SelectorExpr)
		_, direct := ast.Unparen(sel.X).(*ast.Ident)
		d := analysis.Diagnostic{
			Pos: arg.Pos(), End: arg.End(),
			Message: "this grant has the key of the lock in " + key.Name() + " and a constant for its token: no guard can tell who is late",
		}
		if direct {
			d.SuggestedFixes = []analysis.SuggestedFix{{
				Message:   "Use the lock's token",
				TextEdits: []analysis.TextEdit{{Pos: arg.Pos(), End: arg.End(), NewText: []byte(key.Name() + ".Token()")}},
			}}
		}
		c.Report(d)
		return
	}
	if other := c.receiver(arg, api.LockToken); other != nil && other != key {
		c.ReportRangef(call, "this grant has the key of the lock in %s and the token of the one in %s: both must come from the same lock", key.Name(), other.Name())
	}
}

// receiver is the variable of which e calls the method.
func (c *checker) receiver(e ast.Expr, method api.Func) *types.Var {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok || api.Called(c.TypesInfo, call) != method {
		return nil
	}
	sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok {
		return nil
	}
	return code.Var(c.TypesInfo, sel.X)
}
