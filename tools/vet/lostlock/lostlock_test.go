package lostlock_test

import (
	"path/filepath"
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/stile-lock/stile/tools/vet/lostlock"
)

func testdata(t *testing.T) string {
	dir, err := filepath.Abs("../testdata")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func Test(t *testing.T) {
	analysistest.RunWithSuggestedFixes(t, testdata(t), lostlock.Analyzer, "./lostlock")
}

// TestBound has a function of which the search must give up: without a bound of
// all its locks together it would not end, or report the last one.
func TestBound(t *testing.T) {
	analysistest.Run(t, testdata(t), lostlock.Analyzer, "./bound")
}
