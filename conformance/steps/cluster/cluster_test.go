package cluster

import (
	"slices"
	"strings"
	"testing"

	"github.com/stile-lock/stile/conformance/suite"
	"github.com/stile-lock/stile/features"
)

// What the steps do is tested by package certify, with nodes that are right,
// and by mutants/cluster, with others.
func TestFeatureFiles(t *testing.T) {
	for _, p := range suite.Lint(features.Cluster()) {
		t.Error(p)
	}
}

func TestTemplate(t *testing.T) {
	for text, want := range map[string][]string{
		`node {listen} {peers}`:                          {"node", "{listen}", "{peers}"},
		`'my node' --at={listen} "--with {peers}" a\ b `: {"my node", "--at={listen}", "--with {peers}", "a b"},
		`node '' {listen}{peers} 'a\b' "a\"b"`:           {"node", "", "{listen}{peers}", `a\b`, `a"b`},
	} {
		got, err := ParseTemplate(text)
		if err != nil || !slices.Equal(got.words, want) {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"":                            "is empty",
		"node {listen}":               "lacks {peers}",
		"node {listen} {peers} {prt}": "{prt}, which is no placeholder",
		"node '{listen} {peers}":      "not closed",
		`node {listen} {peers} \`:     "backslash",
	} {
		if _, err := ParseTemplate(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
