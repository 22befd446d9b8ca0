package client

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stile-lock/stile/conformance/report"
	"github.com/stile-lock/stile/conformance/suite"
	"github.com/stile-lock/stile/conformance/testee"
	"github.com/stile-lock/stile/features"
)

var (
	tags = flag.String("tags", "", "run only scenarios with these tags")
	page = flag.String("html", "", "write the report to this file")
)

func TestFeatureFiles(t *testing.T) {
	for _, p := range suite.Lint(features.Client()) {
		t.Error(p)
	}
}

// TestGoClient certifies the Go client, as a user of it would.
func TestGoClient(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 40 s")
	}
	bin := filepath.Join(t.TempDir(), "stile-testee-go")
	build := exec.Command("go", "build", "-o", bin, "../../cmd/stile-testee-go")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run, err := suite.Run(t.Context(), Half(testee.Command(bin)), suite.Config{Tags: *tags})
	if err != nil {
		t.Fatal(err)
	}
	Report(t, run, *page)
	if v := run.Verdict(); v == report.NotConformant {
		t.Errorf("verdict: %v", v)
	}
}

// Report tells of each scenario that did not pass, with its transcript.
func Report(t *testing.T, run *report.Run, page string) {
	t.Helper()
	for _, s := range run.Scenarios {
		if len(s.Attempts) > 0 || s.Took > 6*time.Second {
			t.Logf("%s took %v; attempts that did not count: %q", s.ID, s.Took.Round(time.Millisecond), s.Attempts)
		}
		if s.Outcome == report.Passed {
			continue
		}
		t.Logf("%s: %s %s\n%v %s", s.Outcome, s.ID, s.Name, s.Failure, s.Reason)
		// What a busy machine could not keep the time for is no fault; anything
		// else that was not judged is.
		if s.Outcome == report.Failed || len(s.Attempts) == 0 {
			t.Errorf("%s is %s", s.ID, s.Outcome)
		}
		for _, e := range s.Events {
			t.Logf("  %8.3f %-14s %s %s", e.At.Seconds(), e.Conn, e.Kind, e.Text)
		}
	}
	t.Logf("%d scenarios, %d passed, in %v, seed %d", len(run.Scenarios), run.Count(report.Passed), run.Took, run.Seed)
	if page != "" {
		f, err := os.Create(page)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := report.HTML(f, run); err != nil {
			t.Error(err)
		}
	}
}
