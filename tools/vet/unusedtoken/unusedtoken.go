// Package unusedtoken defines an analyzer that reports writes under a lock of
// which the token is never used.
package unusedtoken

import (
	"go/ast"
	"go/token"
	"go/types"
	"strconv"

	"golang.org/x/tools/go/analysis"
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
that begins with UPDATE, INSERT, DELETE, MERGE or REPLACE, in a function literal
passed to Do, or between an acquire and its release, if the lock is used for
nothing but Release, Keep, Renew, Expires, Lease and Context, and nothing there is a
guard or another lock. A statement that may guard itself is left out: one with
ON CONFLICT and the like, or with a name that has fence, token, version,
revision, generation or epoch in it.

Reported, too, is a grant made of one lock's key and another one's token, or a
constant:

	fence.NewGrant(a.Key(), b.Token())

A write that may come late, as it does no harm, has a directive with the reason,
on its line or above it, or with the acquire or Do:

	//stile:unfenced the row is written again by the next run anyway`

// Analyzer reports unfenced writes.
var Analyzer = &analysis.Analyzer{
	Name:     "unusedtoken",
	Doc:      doc,
	URL:      "https://github.com/stile-lock/stile/blob/main/tools/vet/README.md#unusedtoken",
	Requires: []*analysis.Analyzer{inspect.Analyzer},
	Run:      run,
}

type checker struct {
	*analysis.Pass
	unfenced map[code.Line]bool
}

func run(pass *analysis.Pass) (any, error) {
	c := &checker{pass, code.Directives(pass, "unfenced")}
	for cur := range pass.ResultOf[inspect.Analyzer].(*inspector.Inspector).Root().Preorder((*ast.CallExpr)(nil)) {
		call := cur.Node().(*ast.CallExpr)
		switch f := api.Called(pass.TypesInfo, call); {
		case f == api.Do && len(call.Args) > api.DoCallback:
			c.callback(cur)
		case api.Acquire[f]:
			c.acquire(cur)
		case f == api.NewGrant && len(call.Args) == 2:
			c.grant(call)
		}
	}
	return nil, nil
}

// callback looks at a function literal that is passed to Do.
func (c *checker) callback(do inspector.Cursor) {
	call := do.Node().(*ast.CallExpr)
	lit, ok := ast.Unparen(call.Args[api.DoCallback]).(*ast.FuncLit)
	if !ok {
		return
	}
	body, ok := do.FindNode(lit.Body)
	if !ok {
		return
	}
	var lock *types.Var
	sig := c.TypesInfo.TypeOf(lit).(*types.Signature)
	if sig.Params().Len() == 2 {
		lock = sig.Params().At(1)
	}
	c.writes(body, lock, call, "Do", lit.Body.Pos(), lit.Body.End())
}

// acquire looks at what a function does between an acquire and its release.
func (c *checker) acquire(cur inspector.Cursor) {
	parent, at := code.Outer(cur)
	stmt, ok := parent.Node().(*ast.AssignStmt)
	if !ok || at != edge.AssignStmt_Rhs || len(stmt.Lhs) != 2 {
		return
	}
	fn, body, _ := code.Function(c.TypesInfo, cur)
	lock := code.Var(c.TypesInfo, stmt.Lhs[0])
	if body == nil || lock == nil || lock.Pos() < fn.Node().Pos() || lock.Pos() >= fn.Node().End() {
		return
	}
	if id, ok := stmt.Lhs[0].(*ast.Ident); ok && id.Name == "_" {
		return
	}
	whole, ok := fn.FindNode(body)
	if !ok {
		return
	}
	// From the acquire to the last release, or to the end with a deferred one.
	end, deferred := token.NoPos, false
	for cur := range whole.Preorder((*ast.CallExpr)(nil)) {
		call := cur.Node().(*ast.CallExpr)
		sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
		if !ok || code.Var(c.TypesInfo, sel.X) != lock || !api.LockRelease[api.Called(c.TypesInfo, call)] {
			continue
		}
		end = max(end, call.Pos())
		for range cur.Enclosing((*ast.DeferStmt)(nil)) {
			deferred = true
		}
	}
	if deferred {
		end = body.End()
	}
	c.writes(whole, lock, cur.Node(), api.Called(c.TypesInfo, cur.Node().(*ast.CallExpr)).Name, stmt.End(), end)
}

// writes reports the first write from begin to end within body, if nothing in
// body can have shown the token of lock to anybody. The lock is nil if it has
// no name.
func (c *checker) writes(body inspector.Cursor, lock *types.Var, taken ast.Node, how string, begin, end token.Pos) {
	if c.unfenced[code.LineOf(c.Pass, taken.Pos())] {
		return
	}
	var first *ast.CallExpr
	for cur := range body.Preorder((*ast.CallExpr)(nil), (*ast.Ident)(nil)) {
		switch n := cur.Node().(type) {
		case *ast.CallExpr:
			f := api.Called(c.TypesInfo, n)
			if api.Guards[f] || f == api.NewGrant {
				return
			}
			if first == nil && begin <= n.Pos() && n.Pos() < end && isWrite(c.TypesInfo, f, n) &&
				!c.unfenced[code.LineOf(c.Pass, n.Pos())] && !c.marked(cur) {
				first = n
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
	if first != nil {
		c.Report(analysis.Diagnostic{
			Pos: first.Pos(), End: first.End(),
			Message: "this write is not fenced: nothing uses the token of the lock that " + how + " takes on line " +
				strconv.Itoa(c.Fset.Position(taken.Pos()).Line) + ", so a holder that lost its lease can still write",
			Related: []analysis.RelatedInformation{{Pos: taken.Pos(), End: taken.End(), Message: "the lock is taken here"}},
		})
	}
}

// marked reports whether the statement around cur has a directive.
func (c *checker) marked(cur inspector.Cursor) bool {
	for cur.Valid() {
		if stmt, ok := cur.Node().(ast.Stmt); ok {
			return c.unfenced[code.LineOf(c.Pass, stmt.Pos())]
		}
		cur = cur.Parent()
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
