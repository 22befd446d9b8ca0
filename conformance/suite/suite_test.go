package suite

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/cucumber/godog"
	"github.com/google/go-cmp/cmp"

	"github.com/stile-lock/stile/conformance/report"
	"github.com/stile-lock/stile/features"
)

func TestFeaturesAreInForm(t *testing.T) {
	spec, err := os.ReadFile("../../protocol/SPEC.md")
	if err != nil {
		t.Fatal(err)
	}
	clauses := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^### (\d+\.\d+) `).FindAllStringSubmatch(string(spec), -1) {
		clauses[m[1]] = true
	}
	for letter, files := range map[string]fs.FS{"S": features.Server(), "C": features.Client(), "N": features.Cluster()} {
		for _, p := range Lint(files) {
			t.Error(p)
		}
		list, err := Scenarios(files)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list {
			if !clauses[s.Clause] {
				t.Errorf("%s: SPEC.md has no clause %q", s.ID, s.Clause)
			}
			if !strings.HasPrefix(s.ID, letter+"-") {
				t.Errorf("%s: ids of its half begin with %s", s.ID, letter)
			}
		}
	}
}

func TestLint(t *testing.T) {
	files := fstest.MapFS{"x.feature": {Data: []byte(`Feature: x
  @S-1.1-outside @core @must
  Scenario: no rule
    Given nothing
  Rule: without a number
    @S-1.1-a @core @must
    Scenario: no clause
      Given nothing
  Rule: 1.1 One
    @S-1.2-b @core @must
    Scenario: other clause
      Given nothing
    @core @must
    Scenario: no id
      Given nothing
    @S-1.1-c @core @keep @must @should
    Scenario: too many
      Given nothing
    @S-1.1-c @core @must
    Scenario: twice
      Given nothing
    @S-1.1-d @core @must
    Scenario: twice
      Given nothing
    @S-1.1-e @core @must
    Scenario Outline: rows
      Given <x>
      Examples:
        | x |
        | y |
`)}}
	got := strings.Join(Lint(files), "\n")
	for _, want := range []string{
		"no rule: stands in no Rule", "no clause: its Rule", "@S-1.2-b is of another clause", "no id: has no id",
		"too many: has 2 profile tags", "too many: needs one of @must", "has the id of too many", "has the same name as S-1.1-c", "first column",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("Lint does not say %q:\n%s", want, got)
		}
	}
}

func TestSelected(t *testing.T) {
	for expression, want := range map[string]bool{
		"": true, "@core": true, "core": true, "@keep": false, "~@keep": true, "@core&&@timed": true, "@core && ~@timed": false,
		"@keep,@S-1.1-a": true, "@keep, ~@core": false,
	} {
		if got := Selected(expression, []string{"core", "timed", "S-1.1-a"}); got != want {
			t.Errorf("%q: %v", expression, got)
		}
	}
}

// small is a half of a few scenarios that do what their steps say.
func small(feature string, register func(*godog.ScenarioContext, *World)) Half {
	return Half{
		Name: "server", FS: fstest.MapFS{"x.feature": {Data: []byte(feature)}}, Register: register, Concurrency: 4, TimeLimit: time.Second,
		Prepare: func(context.Context) (Target, error) {
			return Target{Judged: []string{"core"}, Missing: map[string]string{"limits": "no limits were given"}, Has: map[string]bool{"hello": true}}, nil
		},
	}
}

const outcomes = `Feature: x
  Rule: 1.1 One
    @S-1.1-passes @core @must
    Scenario: passes
      Given nothing
    @S-1.1-fails @core @must
    Scenario: fails
      Given nothing
      Then it fails
      And nothing
    @S-1.1-unknown @core @must
    Scenario: unknown
      Then nobody can say
    @S-1.1-undefined @core @must
    Scenario: undefined
      Then there is no such step
    @S-1.1-panics @core @must
    Scenario: panics
      Then it panics
    @S-1.1-trouble @core @must
    Scenario: trouble
      Then the suite has trouble
    @S-1.1-hangs @core @must
    Scenario: hangs
      Then it hangs
    @S-1.1-beside @core @must
    Scenario: beside
      Then it fails beside the steps
      And nothing
    @S-1.1-needs @core @must @needs-limits
    Scenario: needs
      Given nothing
    @S-1.1-without @core @must @without-hello
    Scenario: without
      Given nothing
    @S-1.1-keep @keep @must
    Scenario: other profile
      Given nothing
    @S-1.1-rows @core @must
    Scenario Outline: rows
      Then row <name>
      Examples:
        | name |
        | good |
        | bad  |
`

func register(sc *godog.ScenarioContext, w *World) {
	sc.Step(`^nothing$`, func() {})
	sc.Step(`^it fails$`, func() error { return w.Fail("this", "that") })
	sc.Step(`^nobody can say$`, func() error { return w.NotJudged("nobody can") })
	sc.Step(`^it panics$`, func() { panic("oh") })
	sc.Step(`^the suite has trouble$`, func() error { return errors.New("no disk") })
	sc.Step(`^it hangs$`, func() error { return w.Sleep(time.Minute) })
	sc.Step(`^it fails beside the steps$`, func() { w.Fault(w.Fail("peace", "war")) })
	sc.Step(`^row (.*)$`, func(name string) error { return w.Expect(name == "good", "good", name) })
}

func outcomesOf(run *report.Run) map[string]string {
	got := map[string]string{}
	for _, s := range run.Scenarios {
		got[s.ID] = string(s.Outcome)
		if s.Failure != nil {
			got[s.ID] += ": " + oneLine(s.Failure)
		} else if s.Reason != "" {
			got[s.ID] += ": " + strings.SplitN(s.Reason, "\n", 2)[0]
		}
	}
	return got
}

func TestOutcomes(t *testing.T) {
	run, err := Run(t.Context(), small(outcomes, register), Config{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"S-1.1-passes":    "passed",
		"S-1.1-fails":     "failed: expected this seen that",
		"S-1.1-unknown":   "not judged: nobody can",
		"S-1.1-undefined": "not judged: trouble in the suite itself: step is undefined: there is no such step",
		"S-1.1-panics":    "not judged: trouble in the suite itself: oh",
		"S-1.1-trouble":   "not judged: trouble in the suite itself: no disk",
		"S-1.1-hangs":     "failed: expected the scenario to end seen it was stopped when its time was over",
		"S-1.1-beside":    "failed: expected peace seen war",
		"S-1.1-needs":     "not judged: no limits were given",
		"S-1.1-rows/good": "passed",
		"S-1.1-rows/bad":  "failed: expected good seen bad",
	}
	if diff := cmp.Diff(want, outcomesOf(run)); diff != "" {
		t.Error(diff)
	}
	if run.LeftOut["S-1.1-without"] == "" || run.Verdict() != report.NotConformant {
		t.Errorf("left out: %v, verdict: %v", run.LeftOut, run.Verdict())
	}
	for _, s := range run.Scenarios {
		if s.ID == "S-1.1-fails" {
			if got := []string{s.Steps[0].Outcome, s.Steps[1].Outcome, s.Steps[2].Outcome}; !cmp.Equal(got, []string{"passed", "failed", "skipped"}) {
				t.Errorf("its steps: %v", got)
			}
		}
	}
}

func TestVerdicts(t *testing.T) {
	for tags, want := range map[string]report.Verdict{
		"@S-1.1-passes": report.Conformant, "@S-1.1-fails,@S-1.1-needs": report.NotConformant,
		"@S-1.1-passes,@S-1.1-needs": report.CouldNotJudge, "@S-1.1-panics": report.CouldNotJudge,
	} {
		run, err := Run(t.Context(), small(outcomes, register), Config{Tags: tags})
		if err != nil {
			t.Fatal(err)
		}
		if got := run.Verdict(); got != want {
			t.Errorf("%s: %v, want %v", tags, got, want)
		}
		if names := report.NewCertificate(run).Passed(); names != nil {
			t.Errorf("%s: a chosen part certifies %v", tags, names)
		}
	}
}

func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var cleaned atomic.Int32
	half := small(outcomes, register)
	half.FS = fstest.MapFS{"x.feature": {Data: []byte(`Feature: x
  Rule: 1.1 One
    @S-1.1-a @core @must
    Scenario: a
      Given it waits
    @S-1.1-b @core @must
    Scenario: b
      Given it waits
`)}}
	half.Concurrency, half.TimeLimit = 1, time.Minute
	half.Register = func(sc *godog.ScenarioContext, w *World) {
		sc.Step(`^it waits$`, func() error {
			w.Cleanup(func(ctx context.Context) {
				if ctx.Err() == nil {
					cleaned.Add(1)
				}
			})
			cancel()
			return w.Sleep(time.Minute)
		})
	}
	run, err := Run(ctx, half, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if cleaned.Load() != 1 || !run.Interrupted || run.Verdict() != report.CouldNotJudge || run.Count(report.NotJudged) != 2 {
		t.Errorf("cleaned up %d times; %v, %v", cleaned.Load(), outcomesOf(run), run.Verdict())
	}
}

// A @timed scenario beside which the suite's own sleeps were late runs again,
// alone, and counts only when they were not.
func TestTimedAgain(t *testing.T) {
	feature := `Feature: x
  Rule: 1.1 One
    @S-1.1-never @core @must @timed
    Scenario: never
      Given late times 9
    @S-1.1-twice @core @must @timed
    Scenario: twice
      Given late times 2
    @S-1.1-untimed @core @must
    Scenario: untimed
      Given late times 9
`
	runs := map[string]*atomic.Int32{"S-1.1-never": {}, "S-1.1-twice": {}, "S-1.1-untimed": {}}
	half := small(feature, func(sc *godog.ScenarioContext, w *World) {
		sc.Step(`^late times (\d+)$`, func(n int) error {
			if int(runs[w.Scenario.ID].Add(1)) <= n {
				w.late(2 * SleepOff)
			}
			return nil
		})
	})
	run, err := Run(t.Context(), half, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if n := runs["S-1.1-never"].Load(); n != 1+attempts {
		t.Errorf("never: %d runs", n)
	}
	got := outcomesOf(run)
	if !strings.HasPrefix(got["S-1.1-never"], "not judged: this machine") || got["S-1.1-untimed"] != "passed" {
		t.Error(got)
	}
	// This machine may be late by itself now and then.
	if got["S-1.1-twice"] != "passed" && runs["S-1.1-twice"].Load() < 3 {
		t.Error(got)
	}
}

// One failure of a @timed scenario may be that of a target that did not get its
// turn: the best of three counts.
func TestTimedFails(t *testing.T) {
	feature := `Feature: x
  Rule: 1.1 One
    @S-1.1-once @core @must @timed
    Scenario: once
      Given wrong in FPP
    @S-1.1-twice @core @must @timed
    Scenario: twice
      Given wrong in FF
    @S-1.1-now-and-then @core @must @timed
    Scenario: now and then
      Given wrong in FPF
    @S-1.1-undecided @core @must @timed
    Scenario: undecided
      Given wrong in LLFP
    @S-1.1-untimed @core @must
    Scenario: untimed
      Given wrong in F
`
	runs := map[string]int{}
	half := small(feature, func(sc *godog.ScenarioContext, w *World) {
		sc.Step(`^wrong in (\w+)$`, func(fails string) error {
			n := runs[w.Scenario.ID]
			runs[w.Scenario.ID]++
			if n < len(fails) && fails[n] == 'L' {
				w.late(2 * time.Hour)
			}
			return w.Expect(n < len(fails) && fails[n] != 'F', "right", "wrong")
		})
	})
	run, err := Run(t.Context(), half, Config{SleepOff: time.Hour, Concurrency: 1})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"S-1.1-once": "passed", "S-1.1-twice": "failed: expected right seen wrong",
		"S-1.1-now-and-then": "failed: expected right seen wrong", "S-1.1-untimed": "failed: expected right seen wrong",
		"S-1.1-undecided": "not judged: it failed and passed, and this machine could not keep the time for a third attempt",
	}
	if diff := cmp.Diff(want, outcomesOf(run)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]int{"S-1.1-once": 3, "S-1.1-twice": 2, "S-1.1-now-and-then": 3, "S-1.1-undecided": 4, "S-1.1-untimed": 1}, runs); diff != "" {
		t.Error(diff)
	}
}

// Tags that choose nothing are a mistake, and no verdict.
func TestNothingChosen(t *testing.T) {
	_, err := Run(t.Context(), small(outcomes, register), Config{Tags: "@no-such"})
	if err == nil || !strings.Contains(err.Error(), "@no-such") {
		t.Error(err)
	}
}

func TestLedger(t *testing.T) {
	run := func(text string) *report.Run {
		t.Helper()
		l, err := ParseLedger(strings.NewReader(text), "list")
		if err != nil {
			t.Fatal(err)
		}
		run, err := Run(t.Context(), small(outcomes, register), Config{Ledger: l, Tags: "@S-1.1-passes,@S-1.1-fails,@S-1.1-rows"})
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	r := run("# known\n\nS-1.1-fails # expected this\nS-1.1-rows/b*  # expected … seen bad\n")
	if len(r.Ledger) != 0 || r.Count(report.KnownFailure) != 2 || r.Verdict() != report.Conformant {
		t.Error(r.Ledger, outcomesOf(r))
	}
	r = run("S-1.1-fails # expected that\nS-1.1-rows/* # expected good\n")
	want := []string{"list:1: S-1.1-fails failed in another way: expected this seen that", "list:2: S-1.1-rows/good passed; take it off the list"}
	if diff := cmp.Diff(want, r.Ledger); diff != "" || r.Verdict() != report.NotConformant {
		t.Error(diff, r.Verdict())
	}
	for _, s := range r.Scenarios {
		if s.ID == "S-1.1-rows/bad" {
			if e := Entry(s); e != "S-1.1-rows/bad # expected good seen bad" {
				t.Error(e)
			}
		}
	}
	if _, err := ParseLedger(strings.NewReader("S-1.1-fails"), "list"); err == nil {
		t.Error("an entry without a text was taken")
	}
	l, _ := ParseLedger(strings.NewReader("S-1.1-gone # x"), "list")
	if _, err := Run(t.Context(), small(outcomes, register), Config{Ledger: l}); err == nil || !strings.Contains(err.Error(), "matches no scenario") {
		t.Error(err)
	}
}
