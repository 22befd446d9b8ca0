package unusedtoken

import (
	"go/ast"
	"go/constant"
	"go/types"
	"regexp"
	"strings"

	"github.com/stile-lock/stile/tools/vet/internal/api"
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

var (
	writing = regexp.MustCompile(`(?i)^\s*(UPDATE|INSERT|DELETE|MERGE|REPLACE)\s`)
	// guarded is what a statement may guard itself by.
	guarded = regexp.MustCompile(`(?i)\bON\s+(CONFLICT|DUPLICATE)\b|\bINSERT\s+(OR|IGNORE)\b|\bNOT\s+EXISTS\b|fence|token|version|revision|generation|epoch`)
)

// isWrite reports whether a call certainly writes, and nothing in the statement
// may keep a late one out.
func isWrite(info *types.Info, f api.Func, call *ast.CallExpr) bool {
	i, ok := execs[f]
	if !ok || i >= len(call.Args) {
		return false
	}
	text := info.Types[call.Args[i]].Value
	if text == nil || text.Kind() != constant.String {
		return false
	}
	statement := constant.StringVal(text)
	return writing.MatchString(statement) && !guarded.MatchString(strings.ReplaceAll(statement, "\n", " "))
}
