package lostlock

import (
	"fmt"
	"go/ast"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/edge"

	"github.com/stile-lock/stile/tools/vet/internal/code"
)

// fix releases the lock at the end of the function, where that is certainly
// meant: no path gives it back, and the acquire is followed by the check of
// its error. In a loop that would be too late.
func (q *acquisition) fix() []analysis.SuggestedFix {
	if !q.pairs.Fix || len(q.call.Args) == 0 {
		return nil
	}
	kind, _ := q.at.ParentEdge()
	if kind != edge.BlockStmt_List || q.at.Parent().Node() != q.body || q.lock.Parent() == nil {
		return nil
	}
	next, ok := q.at.NextSibling()
	if !ok {
		return nil
	}
	check, ok := next.Node().(*ast.IfStmt)
	if !ok || check.Init != nil || check.Else != nil || len(check.Body.List) == 0 {
		return nil
	}
	if _, ok := check.Body.List[len(check.Body.List)-1].(*ast.ReturnStmt); !ok {
		return nil
	}
	cond, ok := ast.Unparen(check.Cond).(*ast.BinaryExpr)
	if !ok || q.err == nil || code.Var(q.TypesInfo, cond.X) != q.err || cond.Op.String() != "!=" || !code.IsNil(q.TypesInfo, cond.Y) {
		return nil
	}
	ctx := code.Var(q.TypesInfo, q.call.Args[0])
	pkg := code.Package(q.Pass, "context", check.End())
	if ctx == nil || pkg == "" {
		return nil
	}
	end, ok := code.LineEnd(q.Pass, check.End())
	if !ok {
		return nil
	}
	text := fmt.Sprintf("\n%sdefer %s.Release(%s.WithoutCancel(%s))", code.Indent(q.Pass, check.Pos()), q.lock.Name(), pkg, ctx.Name())
	return []analysis.SuggestedFix{{
		Message:   "Release the lock when the function ends",
		TextEdits: []analysis.TextEdit{{Pos: end, End: end, NewText: []byte(text)}},
	}}
}
