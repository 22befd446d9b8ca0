package client

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stile-lock/stile/conformance/mutants"
	"github.com/stile-lock/stile/conformance/report"
	steps "github.com/stile-lock/stile/conformance/steps/client"
	"github.com/stile-lock/stile/conformance/suite"
	"github.com/stile-lock/stile/features"
)

func matrix() *mutants.Matrix {
	x := &mutants.Matrix{
		Open: func(_ *testing.T, m *mutants.Mutant) (suite.Half, error) {
			for _, c := range Mutants {
				if c.Name == m.Name {
					return steps.Half(Program(c.Name, c.Faults)), nil
				}
			}
			return suite.Half{}, errors.New("there is no " + m.Name)
		},
		Smoke: []string{
			"C-13.1-one-each", "C-13.4-cycle", "C-13.5-out-of-the-rotation", "C-13.6-fields", "C-13.7-moves-on", "C-13.7-all-refuse",
			"C-13.8-listed", "C-13.11-keep-again", "C-13.12-not-held", "C-13.12-each-its-own-answer", "C-3.2-other-order", "C-8.4-token",
		},
		Own: 2, At: 12, Concurrency: 24,
	}
	for _, c := range Mutants {
		x.Mutants = append(x.Mutants, mutants.Mutant{Name: c.Name, Clause: c.Clause, Fails: c.Fails})
	}
	return x
}

func TestMutants(t *testing.T) {
	t.Parallel()
	matrix().Run(t)
}

// uncaught are scenarios that must hold and that no mutant here fails.
var uncaught = map[string]string{}

func TestTable(t *testing.T) { matrix().Check(t, features.Client(), uncaught) }

// Clients that are other than the Go client, and right, pass every @must, and
// fail no advice but what they do not take.
//
// As with the mutants, a machine that others use must not change the verdict:
// what fails is judged once more, alone, and with the machine's time watched.
func TestDifferent(t *testing.T) {
	for _, m := range Different {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			run := func(config suite.Config) *report.Run {
				run, err := suite.Run(t.Context(), steps.Half(Program(m.Name, m.Faults)), config)
				if err != nil {
					t.Fatal(err)
				}
				return run
			}
			first := run(suite.Config{SleepOff: time.Hour, Concurrency: 48})
			var again, passed []string
			for _, s := range first.Scenarios {
				switch s.Outcome {
				case report.Failed:
					again = append(again, s.ID)
				case report.Passed:
					passed = append(passed, s.ID)
				case report.NotJudged:
					t.Errorf("%s could not be judged: %s", s.ID, s.Reason)
				}
			}
			if len(again) > 0 {
				for _, s := range run(suite.Config{Tags: mutants.Tags(again), Concurrency: 1, SleepOff: suite.Way}).Scenarios {
					switch {
					case s.Outcome == report.Passed:
						passed = append(passed, s.ID)
					case s.Outcome == report.NotJudged && len(s.Attempts) > 0:
						t.Logf("%s could not be judged: this machine does not keep the time", s.ID)
					case !slices.Contains(m.Fails, s.ID) || s.Must:
						t.Errorf("failed %s: %v %s\n%s", s.ID, s.Failure, s.Reason, report.Transcript(s))
					}
				}
			}
			for _, id := range m.Fails {
				if slices.Contains(passed, id) {
					t.Errorf("passed %s, which is advice that it does not take", id)
				}
			}
			t.Logf("%d scenarios, %d judged again, in %v", len(first.Scenarios), len(again), first.Took.Round(time.Second))
		})
	}
}
