package client

import (
	"testing"

	"github.com/stile-lock/stile/conformance/suite"
	"github.com/stile-lock/stile/features"
)

// What the steps do is tested by package certify, with clients that are right,
// and by mutants/client, with others.
func TestFeatureFiles(t *testing.T) {
	for _, p := range suite.Lint(features.Client()) {
		t.Error(p)
	}
}
