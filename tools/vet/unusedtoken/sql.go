package unusedtoken

import (
	"go/ast"
	"go/constant"
	"regexp"

	"github.com/stile-lock/stile/tools/vet/internal/api"
	"github.com/stile-lock/stile/tools/vet/internal/code"
)

// execs are the methods that run a statement, with the index of its text.
var execs = func() map[api.Func]int {
	execs := map[api.Func]int{}
	for _, recv := range []string{"DB", "Tx", "Conn"} {
		execs[api.Func{Pkg: "database/sql", Recv: recv, Name: "Exec"}] = 0
		execs[api.Func{Pkg: "database/sql", Recv: recv, Name: "ExecContext"}] = 1
	}
	return execs
}()

// prepares are the methods that return a prepared statement, with the index of
// its text.
var prepares = func() map[api.Func]int {
	prepares := map[api.Func]int{}
	for _, recv := range []string{"DB", "Tx", "Conn"} {
		prepares[api.Func{Pkg: "database/sql", Recv: recv, Name: "Prepare"}] = 0
		prepares[api.Func{Pkg: "database/sql", Recv: recv, Name: "PrepareContext"}] = 1
	}
	return prepares
}()

var (
	comments = regexp.MustCompile(`^(\s+|--[^\n]*(\n|$)|(?s:/\*.*?\*/))+`)
	writing  = regexp.MustCompile(`(?i)^(UPDATE|INSERT|DELETE|MERGE|REPLACE)\s`)
	// guarded is what a statement may guard itself by.
	guarded = regexp.MustCompile(`(?i)\bON\s+(CONFLICT|DUPLICATE)\b|\bINSERT\s+(OR|IGNORE)\b|\bNOT\s+EXISTS\b|\bMATCHED\s+AND\b` +
		`|fence|token|version|revision|generation|epoch|etag|\bxmin\b|\brow_?ver|\b(ver|rev|seq|lsn)\b|_(ver|rev|seq)\b`)
	// changed are columns that say nothing if they are only set.
	changed = regexp.MustCompile(`(?i)updated|modified|changed|timestamp`)
	update  = regexp.MustCompile(`(?is)^UPDATE\s.*?\sSET\s(.*?)\sWHERE\s(.*)$`)
	set     = regexp.MustCompile("(?i)([a-z_][a-z0-9_]*)[\"`\\]]?\\s*=")
)

// mayGuardItself reports whether something in the statement may keep a late write
// out.
func mayGuardItself(statement string) bool {
	if guarded.MatchString(statement) {
		return true
	}
	m := update.FindStringSubmatch(statement)
	if m == nil {
		return false
	}
	// Of a column that is set and compared, too, a late write finds the new
	// value. So it does of one that is new with each write.
	where := m[2]
	if changed.MatchString(where) {
		return true
	}
	for _, column := range set.FindAllStringSubmatch(m[1], -1) {
		if regexp.MustCompile(`(?i)\b` + regexp.QuoteMeta(column[1]) + `\b`).MatchString(where) {
			return true
		}
	}
	return false
}

// isWrite reports whether a call certainly writes, and nothing in the
// statement may keep a late one out.
func (c *checker) isWrite(f api.Func, call *ast.CallExpr) bool {
	text := c.text(f, call)
	if text == nil || c.TypesInfo.Types[text].Value == nil || c.TypesInfo.Types[text].Value.Kind() != constant.String {
		return false
	}
	statement := comments.ReplaceAllString(constant.StringVal(c.TypesInfo.Types[text].Value), "")
	return writing.MatchString(statement) && !mayGuardItself(statement)
}

// text is the statement that a call runs, nil if that can't be seen.
func (c *checker) text(f api.Func, call *ast.CallExpr) ast.Expr {
	if i, ok := execs[f]; ok && i < len(call.Args) {
		return call.Args[i]
	}
	if f.Pkg != "database/sql" || f.Recv != "Stmt" || f.Name != "Exec" && f.Name != "ExecContext" {
		return nil
	}
	sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok {
		return nil
	}
	prepare, ok := ast.Unparen(code.Once(c.Pass, code.Var(c.TypesInfo, sel.X))).(*ast.CallExpr)
	if !ok {
		return nil
	}
	if i, ok := prepares[api.Called(c.TypesInfo, prepare)]; ok && i < len(prepare.Args) {
		return prepare.Args[i]
	}
	return nil
}
