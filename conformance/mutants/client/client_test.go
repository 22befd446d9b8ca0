package client

import (
	"errors"
	"testing"

	"github.com/stile-lock/stile/conformance/mutants"
	steps "github.com/stile-lock/stile/conformance/steps/client"
	"github.com/stile-lock/stile/conformance/suite"
	"github.com/stile-lock/stile/features"
)

func matrix() *mutants.Matrix {
	x := &mutants.Matrix{
		Open: func(m *mutants.Mutant) (suite.Half, error) {
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
func TestDifferent(t *testing.T) {
	for _, m := range Different {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			open := func() (suite.Half, error) { return steps.Half(Program(m.Name, m.Faults)), nil }
			mutants.Right(t, open, 48, m.Fails...)
		})
	}
}
