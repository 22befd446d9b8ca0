package unusedtoken

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/ctrlflow"
	"golang.org/x/tools/go/ast/edge"
	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/cfg"

	"github.com/stile-lock/stile/tools/vet/internal/api"
	"github.com/stile-lock/stile/tools/vet/internal/code"
)

// A holding is what is certain about the lock at a point of the function,
// whatever path led there. Of two that meet the lesser one is.
type holding uint8

const (
	unknown holding = iota
	pending         // held if the acquire's error is nil, which nobody has looked at
	held
)

// A span is where in a function a lock is certainly held.
type span struct {
	*analysis.Pass
	fn        inspector.Cursor
	lock, err *types.Var // may be nil
	acquire   *ast.AssignStmt
	nodes     map[ast.Node]holding // of the CFG
}

// newSpan finds where fn holds the lock that acquire takes, or, if that is nil,
// where it still holds the one that it was called with.
func newSpan(pass *analysis.Pass, fn inspector.Cursor, lock, err *types.Var, acquire *ast.AssignStmt) *span {
	s := &span{Pass: pass, fn: fn, lock: lock, err: err, acquire: acquire, nodes: map[ast.Node]holding{}}
	g := graph(pass, fn.Node())
	if g == nil {
		return s
	}
	begin := unknown
	if acquire == nil {
		begin = held
	}
	in := map[*cfg.Block]holding{g.Blocks[0]: begin}
	for work := []*cfg.Block{g.Blocks[0]}; len(work) > 0; {
		b := work[0]
		work = work[1:]
		h := in[b]
		for _, n := range b.Nodes {
			s.nodes[n] = h
			h = s.step(n, h)
		}
		for i, next := range b.Succs {
			then := s.edge(b, i == 0, h)
			if old, ok := in[next]; ok && old <= then {
				continue
			}
			in[next] = then
			work = append(work, next)
		}
	}
	return s
}

func graph(pass *analysis.Pass, fn ast.Node) *cfg.CFG {
	graphs := pass.ResultOf[ctrlflow.Analyzer].(*ctrlflow.CFGs)
	switch fn := fn.(type) {
	case *ast.FuncDecl:
		return graphs.FuncDecl(fn)
	case *ast.FuncLit:
		return graphs.FuncLit(fn)
	}
	return nil
}

// step is what is certain behind a node.
func (s *span) step(n ast.Node, h holding) holding {
	if n == s.acquire {
		return pending
	}
	if _, ok := n.(*ast.DeferStmt); ok {
		return h
	}
	if s.releases(n) {
		return unknown
	}
	for _, v := range assigned(s.TypesInfo, n) {
		if v == s.lock || v == s.err && h == pending {
			return unknown
		}
	}
	return h
}

// releases reports whether n gives the lock back, or may: a closure in it can be
// called at any time.
func (s *span) releases(n ast.Node) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && api.LockRelease[api.Called(s.TypesInfo, call)] {
			found = true
		}
		return !found
	})
	return found
}

// assigned are the variables that a node gives a value.
func assigned(info *types.Info, n ast.Node) (vars []*types.Var) {
	switch n := n.(type) {
	case *ast.AssignStmt:
		for _, l := range n.Lhs {
			vars = append(vars, code.Var(info, l))
		}
	case *ast.ValueSpec:
		for _, name := range n.Names {
			vars = append(vars, code.Var(info, name))
		}
	}
	return vars
}

// edge is what is certain behind b, on the way for a condition that is true, or
// false.
func (s *span) edge(b *cfg.Block, taken bool, h holding) holding {
	if h != pending || len(b.Succs) != 2 || len(b.Nodes) == 0 {
		return h
	}
	cond, ok := b.Nodes[len(b.Nodes)-1].(ast.Expr)
	if !ok || b.Succs[0].Kind == cfg.KindRangeBody || b.Succs[0].Kind == cfg.KindSelectCaseBody {
		return h
	}
	switch s.tells(cond, taken) {
	case yes:
		return held
	case no:
		return unknown
	}
	return h
}

type answer uint8

const (
	maybe answer = iota
	yes
	no
)

// tells is whether the acquire has succeeded, by a condition with that value.
func (s *span) tells(e ast.Expr, value bool) answer {
	e = ast.Unparen(e)
	if v := s.TypesInfo.Types[e].Value; v != nil && v.Kind() == constant.Bool {
		return maybe
	}
	switch e := e.(type) {
	case *ast.UnaryExpr:
		if e.Op == token.NOT {
			return s.tells(e.X, !value)
		}
	case *ast.BinaryExpr:
		switch e.Op {
		case token.LAND, token.LOR:
			x, y := s.tells(e.X, value), s.tells(e.Y, value)
			if (e.Op == token.LAND) != value {
				if x == y {
					return x
				}
				return maybe
			}
			if x == maybe {
				return y
			}
			return x
		case token.EQL, token.NEQ:
			x, y := e.X, e.Y
			if code.IsNil(s.TypesInfo, x) {
				x, y = y, x
			}
			v := code.Var(s.TypesInfo, x)
			if v == nil || !code.IsNil(s.TypesInfo, y) {
				return maybe
			}
			switch v {
			case s.err:
				if (e.Op == token.EQL) == value {
					return yes
				}
				return no
			case s.lock:
				if (e.Op == token.NEQ) == value {
					return yes
				}
				return no
			}
		}
	}
	return maybe
}

// has reports whether what is at cur certainly runs while the lock is held: it
// is in a node with the lock that does not release it, be it in a closure that
// is called right there, or passed to a call that hears of its error.
func (s *span) has(cur inspector.Cursor) bool {
	for at := cur; ; at = at.Parent() {
		// These are nodes, too, and yet run later.
		switch at.Node().(type) {
		case *ast.GoStmt:
			return false
		case *ast.DeferStmt:
			// Do releases when its function has ended, with all that it defers.
			if s.acquire != nil {
				return false
			}
		}
		if h, ok := s.nodes[at.Node()]; ok {
			return h == held && !s.releases(at.Node())
		}
		switch n := at.Node().(type) {
		case nil, *ast.FuncDecl:
			return false
		case *ast.FuncLit:
			if at == s.fn {
				return false
			}
			parent, kind := code.Outer(at)
			switch kind {
			case edge.CallExpr_Fun:
			case edge.CallExpr_Args:
				if !awaited(s.TypesInfo, parent.Node().(*ast.CallExpr), n) {
					return false
				}
			default:
				return false
			}
			// Within the closure nothing may release the lock either.
			if s.releases(n) {
				return false
			}
		}
	}
}

// awaited reports whether a call that gets a closure calls it before it returns:
// it hears of an error that the closure returns.
func awaited(info *types.Info, call *ast.CallExpr, lit *ast.FuncLit) bool {
	results := info.TypeOf(lit).(*types.Signature).Results()
	if results.Len() == 0 || !isError(results.At(results.Len()-1).Type()) {
		return false
	}
	switch t := info.TypeOf(call).(type) {
	case *types.Tuple:
		return t.Len() > 0 && isError(t.At(t.Len()-1).Type())
	default:
		return t != nil && isError(t)
	}
}

func isError(t types.Type) bool { return types.Identical(t, types.Universe.Lookup("error").Type()) }
