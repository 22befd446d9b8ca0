package cluster

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stile-lock/stile/conformance/report"
	"github.com/stile-lock/stile/conformance/suite"
	"github.com/stile-lock/stile/features"
)

var (
	tags = flag.String("tags", "", "run only scenarios with these tags")
	page = flag.String("html", "", "write the report to this file")
	logs = flag.String("logs", "", "keep what the nodes write in this directory")
)

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

// TestReferenceNode certifies a cluster of stiled, as a user would.
func TestReferenceNode(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 40 s")
	}
	stiled := filepath.Join(t.TempDir(), "stiled")
	build := exec.Command("go", "build", "-o", stiled, "./cmd/stiled")
	build.Dir = filepath.Join("..", "..", "..", "server")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	template, err := ParseTemplate("'" + stiled + "' --listen {listen} --advertise {advertise} --peers {peers} --state-dir {state_dir} --admin=")
	if err != nil {
		t.Fatal(err)
	}
	run, err := suite.Run(t.Context(), Half(Options{Launch: template, Logs: *logs}), suite.Config{Tags: *tags})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range run.Scenarios {
		if s.Outcome == report.Passed {
			continue
		}
		t.Logf("%s: %s %s\n%s", s.Outcome, s.ID, s.Name, report.Transcript(s))
		// What a busy machine could not keep the time for is no fault; anything
		// else that was not judged is.
		if s.Outcome == report.Failed || len(s.Attempts) == 0 {
			t.Errorf("%s is %s: %v %s", s.ID, s.Outcome, s.Failure, s.Reason)
		}
	}
	t.Logf("%d scenarios, %d passed, in %v, seed %d", len(run.Scenarios), run.Count(report.Passed), run.Took.Round(time.Second), run.Seed)
	if *page != "" {
		f, err := os.Create(*page)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := report.HTML(f, run); err != nil {
			t.Error(err)
		}
	}
}
