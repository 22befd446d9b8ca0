package main

import (
	"strings"
	"testing"

	"github.com/stile-lock/stile/conformance/suite"
)

func TestVersion(t *testing.T) {
	was, of := release, commit
	t.Cleanup(func() { release, commit = was, of })
	release, commit = "v1.2.3", "abc"
	if got, want := version(), "stile-conformance v1.2.3 (suite "+suite.Version+", commit abc)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	release, commit = "", ""
	if got := version(); !strings.HasPrefix(got, "stile-conformance ") || !strings.Contains(got, "(suite "+suite.Version) {
		t.Errorf("a build of a checkout says %q", got)
	}
}
