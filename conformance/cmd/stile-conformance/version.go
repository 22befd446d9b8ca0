package main

import (
	"cmp"
	"fmt"
	"runtime/debug"

	"github.com/stile-lock/stile/conformance/suite"
)

// The linker sets these in what is not built as a module by go install.
var release, commit string

// version is of the build, and of the suite in it: certificates name the latter.
func version() string {
	v, rev := cmp.Or(release, "devel"), commit
	if info, ok := debug.ReadBuildInfo(); ok {
		if release == "" && info.Main.Version != "" && info.Main.Version != "(devel)" {
			v = info.Main.Version
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && rev == "" {
				rev = s.Value[:min(12, len(s.Value))]
			}
		}
	}
	if rev != "" {
		rev = ", commit " + rev
	}
	return fmt.Sprintf("stile-conformance %s (suite %s%s)", v, suite.Version, rev)
}
