package code

import (
	"bytes"
	"go/ast"
	"go/token"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// Tests and Generated make all analyzers look at files that they leave out by
// default: those of tests, in which locks end with their servers and errors are
// known, and those that nobody writes by hand.
var Tests, Generated bool

// LeftOut reports whether pos is in a file that the analyzers leave out.
func LeftOut(pass *analysis.Pass, pos token.Pos) bool {
	name := pass.Fset.File(pos).Name()
	if strings.HasSuffix(name, "_test.go") && !Tests {
		return true
	}
	// What cgo makes of a file is still what somebody wrote.
	if Generated || strings.HasSuffix(name, ".cgo1.go") {
		return false
	}
	f := FileOf(pass, pos)
	return f != nil && ast.IsGenerated(f)
}

// FileOf is the file that has pos.
func FileOf(pass *analysis.Pass, pos token.Pos) *ast.File {
	for _, f := range pass.Files {
		if f.FileStart <= pos && pos < f.FileEnd {
			return f
		}
	}
	return nil
}

// Line is a line of a file as it is written, whatever //line comments say.
type Line struct {
	File *token.File
	Line int
}

// LineOf is the line that pos is on.
func LineOf(pass *analysis.Pass, pos token.Pos) Line {
	f := pass.Fset.File(pos)
	return Line{f, f.PositionFor(pos, false).Line}
}

// Indent is the space that the line of pos begins with.
func Indent(pass *analysis.Pass, pos token.Pos) string {
	src, at := source(pass, pos)
	line := src[bytes.LastIndexByte(src[:at], '\n')+1:]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// LineEnd is where the line of pos ends, if nothing but a comment is behind
// pos. What is put there leaves the comment with what it is about.
func LineEnd(pass *analysis.Pass, pos token.Pos) (end token.Pos, ok bool) {
	src, at := source(pass, pos)
	rest := src[at:]
	if i := bytes.IndexByte(rest, '\n'); i >= 0 {
		rest = rest[:i]
	}
	rest = bytes.TrimRight(rest, " \t\r")
	comment := bytes.TrimLeft(rest, " \t")
	if len(comment) > 0 && !bytes.HasPrefix(comment, []byte("//")) {
		return token.NoPos, false
	}
	return pos + token.Pos(len(rest)), true
}

// source is the text of the file that has pos, and the offset of pos in it. It
// is empty if it can't be read.
func source(pass *analysis.Pass, pos token.Pos) (src []byte, at int) {
	file := pass.Fset.File(pos)
	src, err := pass.ReadFile(file.Name())
	at = file.Offset(pos)
	if err != nil || at > len(src) {
		return nil, 0
	}
	return src, at
}
