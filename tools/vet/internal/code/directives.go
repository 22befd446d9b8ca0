package code

import (
	"bytes"
	"go/ast"
	"regexp"
	"strconv"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/edge"
	"golang.org/x/tools/go/ast/inspector"
)

// The names of directives.
const (
	Kept     = "kept"
	Unfenced = "unfenced"
	Meant    = "meant"
)

// DirectiveNames are all of them.
var DirectiveNames = []string{Kept, Meant, Unfenced}

// A Directive is a comment //stile:NAME REASON.
type Directive struct {
	Comment    *ast.Comment
	Name, Args string
	// At is the line that it stands for: its own, if it ends one, or else the
	// one below its comment.
	At Line
}

// EachDirective calls f for each comment //stile:NAME in the files that are
// not left out.
func EachDirective(pass *analysis.Pass, f func(Directive)) {
	for _, file := range pass.Files {
		if LeftOut(pass, file.FileStart) {
			continue
		}
		for _, group := range file.Comments {
			for _, c := range group.List {
				d, ok := ast.ParseDirective(c.Pos(), c.Text)
				if ok && d.Tool == "stile" {
					f(Directive{c, d.Name, d.Args, lineFor(pass, group, c)})
				}
			}
		}
	}
}

func lineFor(pass *analysis.Pass, group *ast.CommentGroup, c *ast.Comment) Line {
	at := LineOf(pass, c.Pos())
	src, offset := source(pass, c.Pos())
	before := src[:offset]
	if len(bytes.TrimSpace(before[bytes.LastIndexByte(before, '\n')+1:])) > 0 {
		return at
	}
	return Line{at.File, LineOf(pass, group.End()).Line + 1} // more of the comment may follow
}

// Directives are those of one name in a package. An analyzer that looks for
// them has them as its result, which tells those of use.
type Directives struct {
	Name  string
	Found []Directive
	Used  map[*ast.Comment]bool

	pass   *analysis.Pass
	spaced []Directive // comments that would be directives without a space
}

var spaced = regexp.MustCompile(`^//[ \t]+(stile:[a-z]+)\b`)

// FindDirectives finds the directives of that name.
func FindDirectives(pass *analysis.Pass, name string) *Directives {
	ds := &Directives{Name: name, Used: map[*ast.Comment]bool{}, pass: pass}
	EachDirective(pass, func(d Directive) {
		if d.Name == name {
			ds.Found = append(ds.Found, d)
		}
	})
	for _, file := range pass.Files {
		for _, group := range file.Comments {
			for _, c := range group.List {
				if m := spaced.FindStringSubmatch(c.Text); m != nil && m[1] == "stile:"+name {
					ds.spaced = append(ds.spaced, Directive{Comment: c, At: lineFor(pass, group, c)})
				}
			}
		}
	}
	return ds
}

// Marks reports whether a directive counts for what is at cur: it is on the
// first or the last line of the statement there, or above it, or on the line of
// cur itself. Of if, for and the like the head alone is the statement.
func (ds *Directives) Marks(cur inspector.Cursor) bool { return ds.marks(linesOf(ds.pass, cur)) }

// MarksNode is Marks for a node of a CFG.
func (ds *Directives) MarksNode(n ast.Node) bool { return ds.marks(ends(ds.pass, n)) }

func (ds *Directives) marks(lines []Line) bool {
	found := false
	for _, d := range ds.Found {
		for _, at := range lines {
			if d.At == at {
				ds.Used[d.Comment] = true
				found = true
			}
		}
	}
	return found
}

// UseWithin takes all directives within n for used: what they are good for
// could not be found out.
func (ds *Directives) UseWithin(n ast.Node) {
	first, last := LineOf(ds.pass, n.Pos()), LineOf(ds.pass, n.End())
	for _, d := range ds.Found {
		if d.At.File == first.File && first.Line <= d.At.Line && d.At.Line <= last.Line {
			ds.Used[d.Comment] = true
		}
	}
}

// Hint is what to add to a report about what is within n, if there is a comment
// that would be a directive.
func (ds *Directives) Hint(n ast.Node) string {
	first, last := LineOf(ds.pass, n.Pos()), LineOf(ds.pass, n.End())
	for _, d := range ds.spaced {
		if d.At.File == first.File && first.Line <= d.At.Line && d.At.Line <= last.Line {
			return "; the comment on line " + strconv.Itoa(ds.pass.Fset.Position(d.Comment.Pos()).Line) +
				" is no directive: the space before stile:" + ds.Name + " must go"
		}
	}
	return ""
}

// HintAt is Hint for the statement around cur.
func (ds *Directives) HintAt(cur inspector.Cursor) string { return ds.Hint(statement(cur).Node()) }

// statement is the innermost statement around cur, or cur outside of functions.
func statement(cur inspector.Cursor) inspector.Cursor {
	for at := cur; at.Node() != nil; at = at.Parent() {
		if _, ok := at.Node().(ast.Stmt); ok {
			return at
		}
	}
	return cur
}

func linesOf(pass *analysis.Pass, cur inspector.Cursor) []Line {
	stmt := statement(cur)
	lines := append(ends(pass, stmt.Node()), LineOf(pass, cur.Node().Pos()))
	switch stmt.ParentEdgeKind() {
	case edge.IfStmt_Init, edge.ForStmt_Init, edge.ForStmt_Post, edge.SwitchStmt_Init, edge.TypeSwitchStmt_Init,
		edge.TypeSwitchStmt_Assign, edge.CommClause_Comm, edge.LabeledStmt_Stmt:
		lines = append(lines, ends(pass, stmt.Parent().Node())...)
	}
	return lines
}

// ends are the first and the last line of a node, or of its head.
func ends(pass *analysis.Pass, n ast.Node) []Line {
	last := n.End() - 1
	switch n := n.(type) {
	case *ast.IfStmt:
		last = n.Body.Lbrace
	case *ast.ForStmt:
		last = n.Body.Lbrace
	case *ast.RangeStmt:
		last = n.Body.Lbrace
	case *ast.SwitchStmt:
		last = n.Body.Lbrace
	case *ast.TypeSwitchStmt:
		last = n.Body.Lbrace
	case *ast.SelectStmt:
		last = n.Body.Lbrace
	case *ast.CaseClause:
		last = n.Colon
	case *ast.CommClause:
		last = n.Colon
	case *ast.LabeledStmt:
		last = n.Colon
	case *ast.ReturnStmt:
		if len(n.Results) == 0 {
			last = n.Pos() // the end of a function has one without text
		}
	}
	return []Line{LineOf(pass, n.Pos()), LineOf(pass, last)}
}
