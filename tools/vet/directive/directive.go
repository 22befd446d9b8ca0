// Package directive defines an analyzer that reports comments for the other
// analyzers which say nothing to them.
package directive

import (
	"go/ast"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"

	"github.com/stile-lock/stile/tools/vet/deadrelease"
	"github.com/stile-lock/stile/tools/vet/deafdo"
	"github.com/stile-lock/stile/tools/vet/droppederr"
	"github.com/stile-lock/stile/tools/vet/internal/code"
	"github.com/stile-lock/stile/tools/vet/lostlock"
	"github.com/stile-lock/stile/tools/vet/unusedtoken"
)

const doc = `report comments //stile:NAME that say nothing

The other analyzers have directives for what is meant as it is:

	//stile:kept REASON      lostlock
	//stile:unfenced REASON  unusedtoken
	//stile:meant REASON     deadrelease, deafdo and droppederr

One of another name is a misspelling, and one without a reason helps nobody. One
that silences nothing is reported, too: it is in the wrong place, or the code
has changed since.`

// Analyzer reports directives.
var Analyzer = &analysis.Analyzer{
	Name:     "directive",
	Doc:      doc,
	URL:      "https://github.com/stile-lock/stile/blob/main/tools/vet/README.md#directive",
	Requires: of,
	Run:      run,
}

// of are the analyzers that have directives.
var of = []*analysis.Analyzer{deadrelease.Analyzer, deafdo.Analyzer, droppederr.Analyzer, lostlock.Analyzer, unusedtoken.Analyzer}

func run(pass *analysis.Pass) (any, error) {
	used := map[*ast.Comment]bool{}
	readers := map[string][]string{}
	for _, a := range of {
		ds := pass.ResultOf[a].(*code.Directives)
		readers[ds.Name] = append(readers[ds.Name], a.Name)
		for c := range ds.Used {
			used[c] = true
		}
	}
	code.EachDirective(pass, func(d code.Directive) {
		switch {
		case !slices.Contains(code.DirectiveNames, d.Name):
			pass.ReportRangef(d.Comment, "there is no directive //stile:%s, only //stile:%s", d.Name, strings.Join(code.DirectiveNames, ", //stile:"))
		case d.Args == "":
			pass.ReportRangef(d.Comment, "//stile:%s needs a reason, on the same line", d.Name)
		case !used[d.Comment]:
			pass.ReportRangef(d.Comment, "this directive silences nothing: without it, %s would not report anything here either", strings.Join(readers[d.Name], " and "))
		}
	})
	return nil, nil
}
