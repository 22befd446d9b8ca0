// Package mutants shows that the suite can fail: it runs scenarios against
// servers, nodes and clients that break one rule each, and compares what they
// fail with what they should. The mutants are in the packages below.
package mutants

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stile-lock/stile/conformance/report"
	"github.com/stile-lock/stile/conformance/suite"
)

var (
	matrix = flag.Bool("matrix", false, "run every scenario against every mutant, not only its own and the smoke set")
	table  = flag.String("table", "", "write what each mutant fails to this file")
	only   = flag.String("mutants", "", "run only these, separated by commas")
)

// Mutant is a target that is wrong in one rule.
type Mutant struct {
	Name   string
	Clause string // of SPEC.md, that it breaks
	// Fails are the ids of all scenarios that it fails, @must and @should. An
	// id stands for some row or all rows of its outline unless it names one.
	// The first ones are those that were made for the rule.
	Fails []string
	// Sometimes are ids of those that it fails or passes by chance: by who of
	// several nodes is asked first, where a read ends, or which of two moments
	// comes first.
	Sometimes []string
}

// expects reports whether the mutant is to fail a scenario, or may.
func (m *Mutant) expects(id string) bool {
	is := func(want string) bool { return stands(want, id) }
	return slices.ContainsFunc(m.Fails, is) || slices.ContainsFunc(m.Sometimes, is)
}

func stands(want, id string) bool { return id == want || outline(id) == want }

func outline(id string) string {
	o, _, _ := strings.Cut(id, "/")
	return o
}

// Matrix is mutants, and how they are run.
type Matrix struct {
	Mutants []Mutant
	// Open makes the half that judges a mutant.
	Open func(m *Mutant) (suite.Half, error)
	// Smoke is run against each mutant besides its own scenarios: quick, with
	// no tight times, and going through most of a target. A mutant that fails
	// one of these that is not its own is wrong in more than its rule.
	Smoke []string
	// Own is how many of a mutant's own scenarios are run, the first ones; 0
	// for all.
	Own int
	// At is how many mutants run at once, and Concurrency how many scenarios
	// of each.
	At, Concurrency int
	// Unjudged: scenarios may be left out for want of something else than
	// time, such as an option.
	Unjudged bool
}

// Run runs each mutant against its own scenarios and the smoke set, or with
// -matrix against all: it fails exactly those that its entry lists.
func (x *Matrix) Run(t *testing.T) {
	var chosen []*Mutant
	for i := range x.Mutants {
		if *only == "" || slices.Contains(strings.Split(*only, ","), x.Mutants[i].Name) {
			chosen = append(chosen, &x.Mutants[i])
		}
	}
	firsts := make([]judged, len(chosen))
	x.each(x.At, len(chosen), func(i int) {
		tags := ""
		if !*matrix {
			tags = Tags(slices.Concat(x.own(chosen[i]), x.Smoke))
		}
		firsts[i] = x.judge(t, chosen[i], tags, false)
	})
	// Many at once keep a machine busy, and what is late then may be no fault
	// of the mutant: what is not as expected is judged once more, with the
	// machine's time watched.
	seconds := make([]judged, len(chosen))
	x.each(4, len(chosen), func(i int) {
		if again := x.unexpected(chosen[i], firsts[i]); len(again) > 0 {
			seconds[i] = x.judge(t, chosen[i], Tags(again), true)
		}
	})

	failed := map[string][]string{}
	for i, m := range chosen {
		t.Run(m.Name, func(t *testing.T) {
			failed[m.Name] = x.compare(t, m, firsts[i], seconds[i])
			if len(failed[m.Name]) == 0 {
				t.Error("it was not caught")
			}
		})
	}
	if *table != "" {
		var rows []string
		for _, m := range chosen {
			slices.Sort(failed[m.Name])
			rows = append(rows, fmt.Sprintf("| %s | %s | %s |", m.Name, m.Clause, strings.Join(slices.Compact(failed[m.Name]), ", ")))
		}
		text := "| mutant | breaks | fails |\n| --- | --- | --- |\n" + strings.Join(rows, "\n") + "\n"
		if err := os.WriteFile(*table, []byte(text), 0o644); err != nil {
			t.Error(err)
		}
	}
}

// own are the scenarios of the mutant that are run.
func (x *Matrix) own(m *Mutant) []string {
	if *matrix || x.Own == 0 {
		return m.Fails
	}
	return m.Fails[:min(x.Own, len(m.Fails))]
}

// each runs what mostly waits: far more at once than there are cores, and than
// the test runner would allow.
func (x *Matrix) each(at, n int, do func(i int)) {
	var running sync.WaitGroup
	slots := make(chan struct{}, at)
	for i := range n {
		running.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			do(i)
		})
	}
	running.Wait()
}

// unexpected are the scenarios that a mutant failed and should not have, or
// passed and should not have.
func (x *Matrix) unexpected(m *Mutant, got judged) (ids []string) {
	for id := range got.failed {
		if !m.expects(id) {
			ids = append(ids, id)
		}
	}
	for _, want := range x.own(m) {
		if !contains(got.failed, want) {
			ids = append(ids, want)
		}
	}
	return ids
}

// compare reports what a mutant failed and should not have, or passed and
// should not have, at a second look, too; it returns what it failed.
func (x *Matrix) compare(t *testing.T, m *Mutant, first, second judged) (failed []string) {
	t.Helper()
	for id := range first.failed {
		if m.expects(id) {
			failed = append(failed, id)
		}
	}
	for id, why := range second.failed {
		failed = append(failed, id)
		if !m.expects(id) {
			t.Errorf("it breaks %s, and also failed %s: %s", m.Clause, id, why)
		}
	}
	for _, want := range x.unexpected(m, first) {
		switch {
		case !m.expects(want) || contains(second.failed, want):
		case slices.ContainsFunc(second.unclear, func(id string) bool { return stands(want, id) }):
			t.Logf("%s could not be judged: this machine does not keep the time", want)
		default:
			t.Errorf("it breaks %s, and passed %s", m.Clause, want)
		}
	}
	for _, p := range slices.Concat(first.problems, second.problems) {
		t.Error(p)
	}
	return failed
}

func contains(got map[string]string, want string) bool {
	for id := range got {
		if stands(want, id) {
			return true
		}
	}
	return false
}

// Tags chooses the scenarios with the ids, with all rows of their outlines.
func Tags(ids []string) string {
	var tags []string
	for _, id := range ids {
		tags = append(tags, "@"+outline(id))
	}
	slices.Sort(tags)
	return strings.Join(slices.Compact(tags), ",")
}

// judged is what became of the scenarios that were run against a mutant.
type judged struct {
	failed   map[string]string // with the reasons
	unclear  []string          // not judged for want of time
	problems []string
}

func (x *Matrix) judge(t *testing.T, m *Mutant, tags string, alone bool) (j judged) {
	half, err := x.Open(m)
	if err != nil {
		j.problems = append(j.problems, err.Error())
		return j
	}
	config := suite.Config{Tags: tags, Concurrency: x.Concurrency}
	if alone {
		config.Concurrency = 1
	} else if half.FS, err = relaxed(half.FS); err != nil {
		j.problems = append(j.problems, err.Error())
		return j
	}
	run, err := suite.Run(t.Context(), half, config)
	if err != nil {
		j.problems = append(j.problems, err.Error())
		return j
	}
	j.failed = map[string]string{}
	for _, s := range run.Scenarios {
		switch {
		case s.Outcome == report.Failed:
			j.failed[s.ID] = s.Failure.Error() + "\n" + report.Transcript(s)
		case s.Outcome == report.NotJudged && len(s.Attempts) > 0:
			j.unclear = append(j.unclear, s.ID)
		case s.Outcome == report.NotJudged && !x.Unjudged:
			j.problems = append(j.problems, fmt.Sprintf("%s could not be judged: %s", s.ID, s.Reason))
		}
	}
	return j
}

// relaxed are the feature files without @timed: nothing is run again for want
// of time. A mutant is expected to fail, and fails on a slow machine, too.
func relaxed(files fs.FS) (fs.FS, error) {
	out := fstest.MapFS{}
	names, err := fs.Glob(files, "*.feature")
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		text, err := fs.ReadFile(files, n)
		if err != nil {
			return nil, err
		}
		out[n] = &fstest.MapFile{Data: bytes.ReplaceAll(text, []byte(" @timed"), nil)}
	}
	return out, nil
}

// Check finds entries for scenarios that there are not, and scenarios that
// must hold and that no mutant fails; uncaught lists those for which that is
// all right, with the reason.
func (x *Matrix) Check(t *testing.T, files fs.FS, uncaught map[string]string) {
	t.Helper()
	all, err := suite.Scenarios(files)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range x.Mutants {
		for _, want := range slices.Concat(m.Fails, m.Sometimes) {
			if !slices.ContainsFunc(all, func(s *suite.Scenario) bool { return stands(want, s.ID) }) {
				t.Errorf("%s: there is no scenario %s", m.Name, want)
			}
		}
		if len(m.Fails) == 0 {
			t.Errorf("%s fails nothing", m.Name)
		}
	}
	seen := map[string]bool{}
	for _, s := range all {
		id := outline(s.ID)
		if !s.Must || seen[id] {
			continue
		}
		seen[id] = true
		caught := slices.ContainsFunc(x.Mutants, func(m Mutant) bool {
			return slices.ContainsFunc(m.Fails, func(want string) bool { return outline(want) == id })
		})
		switch _, listed := uncaught[id]; {
		case !caught && !listed:
			t.Errorf("no mutant fails %s (%s)", id, s.Name)
		case caught && listed:
			t.Errorf("%s is listed as failed by no mutant, but one fails it", id)
		}
	}
}

// Right checks that a target that is right, though other than ours, passes
// every @must, and fails no advice but what it does not take. So many scenarios
// run at once; 0 for what the half suggests.
//
// As with the mutants, a machine that others use must not change the verdict:
// what fails is judged once more, alone, and with the machine's time watched.
func Right(t *testing.T, open func() (suite.Half, error), concurrency int, not ...string) {
	t.Helper()
	run := func(config suite.Config) []*report.Scenario {
		half, err := open()
		if err != nil {
			t.Fatal(err)
		}
		run, err := suite.Run(t.Context(), half, config)
		if err != nil {
			t.Fatal(err)
		}
		return run.Scenarios
	}
	start := time.Now()
	var again, passed []string
	for _, s := range run(suite.Config{SleepOff: time.Hour, Concurrency: concurrency}) {
		switch s.Outcome {
		case report.Passed:
			passed = append(passed, s.ID)
		case report.Failed:
			again = append(again, s.ID)
		default:
			t.Errorf("%s could not be judged: %s", s.ID, s.Reason)
		}
	}
	if len(again) > 0 {
		for _, s := range run(suite.Config{Tags: Tags(again), Concurrency: 1}) {
			switch {
			case s.Outcome == report.Passed:
				passed = append(passed, s.ID)
			case s.Outcome == report.NotJudged:
				t.Logf("%s could not be judged: %s", s.ID, s.Reason)
			case s.Must || !slices.ContainsFunc(not, func(want string) bool { return stands(want, s.ID) }):
				t.Errorf("failed %s: %v\n%s", s.ID, s.Failure, report.Transcript(s))
			}
		}
	}
	for _, id := range not {
		if slices.Contains(passed, id) {
			t.Errorf("passed %s, which is advice that it does not take", id)
		}
	}
	t.Logf("%d passed, %d judged again, in %v", len(passed), len(again), time.Since(start).Round(time.Second))
}
