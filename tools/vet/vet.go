// Package vet has the analyzers of stilevet, which report misuse of Stile's Go
// client. README.md beside it says what each of them reports and what not.
package vet

import (
	"flag"

	"golang.org/x/tools/go/analysis"

	"github.com/stile-lock/stile/tools/vet/deadrelease"
	"github.com/stile-lock/stile/tools/vet/deafdo"
	"github.com/stile-lock/stile/tools/vet/directive"
	"github.com/stile-lock/stile/tools/vet/droppederr"
	"github.com/stile-lock/stile/tools/vet/internal/code"
	"github.com/stile-lock/stile/tools/vet/lostlock"
	"github.com/stile-lock/stile/tools/vet/unusedtoken"
)

// Analyzers are all of them.
func Analyzers() []*analysis.Analyzer {
	return []*analysis.Analyzer{
		deadrelease.Analyzer,
		deafdo.Analyzer,
		directive.Analyzer,
		droppederr.Analyzer,
		lostlock.Analyzer,
		unusedtoken.Analyzer,
	}
}

// Flags registers the flags that all analyzers share.
func Flags(flags *flag.FlagSet) {
	flags.BoolVar(&code.Tests, "tests", false, "look at files of tests, too")
	flags.BoolVar(&code.Generated, "generated", false, "look at generated files, too")
}
