package lostlock

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strings"

	"golang.org/x/tools/go/ast/edge"
	"golang.org/x/tools/go/cfg"

	"github.com/stile-lock/stile/tools/vet/internal/code"
)

// most is what the searches in one function may cost, over all of its locks.
// Beyond it, after about two seconds, they give up, and report nothing more.
const most = 2_000_000

// A search looks for a path from the acquire, which is taken to have
// succeeded, to an end of the function.
type search struct {
	*acquisition
	uses    *uses
	g       *cfg.CFG
	derived map[*types.Var]bool // may tell whether the acquire succeeded
	tags    map[ast.Expr]*ast.SwitchStmt
	types   map[*ast.CaseClause]*ast.TypeSwitchStmt
	// around is the outermost statement that decides whether the acquire
	// happens at all while the lock's variable is there in any case, else nil.
	around ast.Node
	seen   map[string]bool
	// marks: a directive ends the path.
	marks bool
	// own are the variables with the lock's context, made those with one that
	// may end with it.
	own, made map[*types.Var]bool
	comms     map[ast.Node]bool // the communications of select statements
}

// A state is what is known at a point of a path.
type state struct {
	// over: err has been assigned again and tells nothing any more.
	over bool
	// murky: a branch was taken of which nobody knows whether it can be taken
	// after an acquire that succeeded.
	murky bool
	// shown: a call has got the token, and may have handed on the lock that way.
	// It is the name of the error by which that call failed, if it did, or
	// somewhere for one of which nobody knows.
	shown string
	// known is the value of boolean expressions, by their keys.
	known map[string]bool
}

func (s state) key(b *cfg.Block) string {
	var k strings.Builder
	fmt.Fprint(&k, b.Index, s.over, s.murky, s.shown)
	for _, name := range slices.Sorted(maps.Keys(s.known)) {
		fmt.Fprint(&k, " ", name, s.known[name])
	}
	return k.String()
}

// search returns where the lock gets lost, nil if it certainly does not, or if
// that would take too long. If marks is false it takes no notice of directives.
func (q *acquisition) search(u *uses, marks bool) ast.Node {
	s := &search{
		acquisition: q, uses: u, g: q.graph(), tags: map[ast.Expr]*ast.SwitchStmt{},
		types: map[*ast.CaseClause]*ast.TypeSwitchStmt{}, seen: map[string]bool{}, marks: marks,
	}
	if s.g == nil {
		return nil
	}
	s.derive()
	s.held()
	s.comms = map[ast.Node]bool{}
	ast.Inspect(q.body, func(n ast.Node) bool {
		if c, ok := n.(*ast.CommClause); ok && c.Comm != nil {
			s.comms[c.Comm] = true
		}
		return true
	})
	begin := state{known: map[string]bool{}}
	for cur := q.at; cur != q.fn; cur = cur.Parent() {
		kind, _ := cur.ParentEdge()
		switch n := cur.Parent().Node().(type) {
		case *ast.IfStmt:
			if kind == edge.IfStmt_Body || kind == edge.IfStmt_Else {
				s.learn(n.Cond, kind == edge.IfStmt_Body, begin.known)
				s.decides(n)
			}
		case *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt, *ast.RangeStmt:
			s.decides(n)
		case *ast.ForStmt:
			if n.Cond != nil && kind == edge.ForStmt_Body {
				s.decides(n)
			}
		}
	}
	for _, b := range s.g.Blocks {
		for i, n := range b.Nodes {
			if n == q.stmt && b.Live {
				return s.from(b, i+1, begin)
			}
		}
	}
	return nil
}

// decides takes note of a statement around the acquire.
func (s *search) decides(n ast.Node) {
	if !code.Within(n, s.lock.Pos()) {
		s.around = n
	}
}

// derive finds the variables that may tell whether the acquire succeeded: they
// get a value from err, or in a branch that depends on it.
func (s *search) derive() {
	s.derived = map[*types.Var]bool{}
	tells := func(n ast.Node) bool {
		return n != nil && (code.Mentions(s.TypesInfo, n, s.tells) || s.comparesLock(n))
	}
	add := func(e ast.Expr) bool {
		v := code.Var(s.TypesInfo, e)
		if v == nil || s.derived[v] || v == s.err || v == s.lock {
			return false
		}
		s.derived[v] = true
		return true
	}
	for again := true; again; {
		again = false
		outside := func(branch ast.Node, e ast.Expr) bool {
			v := code.Var(s.TypesInfo, e)
			return v != nil && !code.Within(branch, v.Pos())
		}
		inside := func(branches ...ast.Node) {
			for _, branch := range branches {
				ast.Inspect(branch, func(n ast.Node) bool {
					switch n := n.(type) {
					case *ast.AssignStmt:
						for _, l := range n.Lhs {
							again = outside(branch, l) && add(l) || again
						}
					case *ast.IncDecStmt:
						again = outside(branch, n.X) && add(n.X) || again
					}
					return true
				})
			}
		}
		ast.Inspect(s.body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				if n != s.stmt && slices.ContainsFunc(n.Rhs, func(e ast.Expr) bool { return tells(e) }) {
					for _, l := range n.Lhs {
						again = add(l) || again
					}
				}
			case *ast.ValueSpec:
				if n != s.stmt && slices.ContainsFunc(n.Values, func(e ast.Expr) bool { return tells(e) }) {
					for _, l := range n.Names {
						again = add(l) || again
					}
				}
			case *ast.CallExpr:
				// It may leave the answer behind a pointer, as errors.As does.
				if slices.ContainsFunc(n.Args, func(e ast.Expr) bool { return tells(e) }) {
					for _, arg := range n.Args {
						if u, ok := ast.Unparen(arg).(*ast.UnaryExpr); ok && u.Op == token.AND {
							again = add(u.X) || again
						}
					}
				}
			case *ast.IfStmt:
				if tells(n.Cond) {
					inside(n.Body)
					if n.Else != nil {
						inside(n.Else)
					}
				}
			case *ast.SwitchStmt:
				if n.Tag != nil && tells(n.Tag) {
					inside(n.Body)
				}
				for _, clause := range n.Body.List {
					for _, e := range clause.(*ast.CaseClause).List {
						s.tags[e] = n
						if tells(e) {
							inside(n.Body)
						}
					}
				}
			case *ast.TypeSwitchStmt:
				for _, clause := range n.Body.List {
					s.types[clause.(*ast.CaseClause)] = n
				}
				if tells(n.Assign) {
					inside(n.Body)
				}
			}
			return true
		})
	}
}

// tells reports whether the variable may tell if the acquire succeeded.
func (s *search) tells(v *types.Var) bool {
	return s.err != nil && v == s.err || s.derived[v]
}

// comparesLock reports whether the lock is compared with something in n: with
// nil, as nothing else makes sense.
func (s *search) comparesLock(n ast.Node) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		if e, ok := n.(*ast.BinaryExpr); ok {
			found = found || code.Var(s.TypesInfo, e.X) == s.lock || code.Var(s.TypesInfo, e.Y) == s.lock
		}
		return !found
	})
	return found
}

// from follows the path from node i of b on, and returns where the lock gets
// lost.
func (s *search) from(b *cfg.Block, i int, st state) ast.Node {
	for _, n := range b.Nodes[i:] {
		if s.marks && s.kept.MarksNode(n) {
			return nil
		}
		end, over := s.passes(n, &st)
		if over {
			return end
		}
	}
	switch len(b.Succs) {
	case 0:
		return nil
	case 1:
		if s.selects(b.Succs[0], &st) {
			return nil
		}
		return s.enter(b.Succs[0], st)
	}
	for i, next := range b.Succs {
		st := state{st.over, st.murky, st.shown, maps.Clone(st.known)}
		if !s.branch(b, i == 0, &st) || s.selects(next, &st) {
			continue
		}
		if end := s.enter(next, st); end != nil {
			return end
		}
	}
	return nil
}

func (s *search) enter(b *cfg.Block, st state) ast.Node {
	if s.spend(1 + len(st.known) + len(b.Nodes)) {
		return nil
	}
	k := st.key(b)
	if s.seen[k] {
		return nil
	}
	s.seen[k] = true
	return s.from(b, 0, st)
}

// spend adds to what the function has cost, and reports whether that is too
// much.
func (q *acquisition) spend(n int) (tooMuch bool) {
	fn := q.fn.Node()
	q.work[fn] += n
	if q.work[fn] <= most {
		return false
	}
	q.kept.UseWithin(fn) // nobody knows
	return true
}

// passes takes the path through a node. The path is over if the lock is gone,
// or if it is lost: then end is where.
func (s *search) passes(n ast.Node, st *state) (end ast.Node, over bool) {
	gone, assigned, shown := false, false, false
	ast.Inspect(n, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			switch what, ok := s.uses.of[id]; {
			case !ok:
			case what == away:
				gone = true
			case what == assigns:
				assigned = true
			case what == shows:
				shown = true
			}
		}
		return true
	})
	ret, returns := n.(*ast.ReturnStmt)
	switch {
	case gone, !s.comms[n] && s.news(n, st):
		return nil, true
	case returns && len(ret.Results) == 0 && s.isResult():
		return nil, true
	case (returns || assigned) && (st.murky || st.shown != "" || shown && returns):
		return nil, true
	case returns || assigned:
		return n, true
	}
	switch n := n.(type) {
	case *ast.AssignStmt:
		for i, l := range n.Lhs {
			var value ast.Expr
			if len(n.Rhs) == len(n.Lhs) {
				value = n.Rhs[i]
			}
			s.assign(l, value, source(n.Rhs, i), st)
		}
	case *ast.ValueSpec:
		for i, l := range n.Names {
			var value ast.Expr
			if len(n.Values) == len(n.Names) {
				value = n.Values[i]
			}
			s.assign(l, value, source(n.Values, i), st)
		}
	case *ast.IncDecStmt:
		s.assign(n.X, nil, nil, st)
	}
	if shown {
		s.shows(n, st)
	}
	return nil, false
}

// somewhere is the state of a token that a call has got which may not have
// failed.
const somewhere = "?"

// shows takes note of a statement that passes on the token.
func (s *search) shows(n ast.Node, st *state) {
	was := st.shown
	st.shown = somewhere
	if a, ok := n.(*ast.AssignStmt); ok && was == "" && len(a.Rhs) == 1 {
		err := code.Var(s.TypesInfo, a.Lhs[len(a.Lhs)-1])
		if _, call := ast.Unparen(a.Rhs[0]).(*ast.CallExpr); call && err != nil && isError(err.Type()) {
			st.shown = ident(err)
		}
	}
}

func isError(t types.Type) bool { return types.Identical(t, types.Universe.Lookup("error").Type()) }

// source is what variable i gets its value from.
func source(values []ast.Expr, i int) ast.Expr {
	switch {
	case len(values) == 1:
		return values[0]
	case i < len(values):
		return values[i]
	}
	return nil
}

// isResult reports whether the lock's variable is a named result.
func (s *search) isResult() bool {
	for v := range s.sig.Results().Variables() {
		if v == s.lock {
			return true
		}
	}
	return false
}

// assign forgets what was known of a variable, and takes note of a boolean
// constant.
//
// from is the call that the value is a result of, or the value itself.
func (s *search) assign(l, value, from ast.Expr, st *state) {
	v := code.Var(s.TypesInfo, l)
	if v == nil {
		return
	}
	if v == s.err {
		st.over = true
	}
	id := ident(v)
	if st.shown == id {
		st.shown = somewhere
	}
	for k := range st.known {
		if strings.Contains(k, id) {
			delete(st.known, k)
		}
	}
	if value != nil {
		if known := s.eval(value, st); known == yes || known == no {
			st.known[id] = known == yes
		}
	}
	if from != nil {
		s.answer(v, from, st.known)
	}
}
