package server

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stile-lock/stile/conformance/mutants"
	steps "github.com/stile-lock/stile/conformance/steps/server"
	"github.com/stile-lock/stile/conformance/suite"
	"github.com/stile-lock/stile/features"
)

// open starts a server, and tells the suite what an operator of it would.
func open(c Config) (suite.Half, error) {
	s, err := Start(c)
	if err != nil {
		return suite.Half{}, err
	}
	o := steps.Options{Addr: s.Addr(), Secret: c.Secret}
	if c.Connections > 0 {
		o.Limits = map[string]int{
			"connections": c.Connections, "unanswered": c.Unanswered, "waiters-per-key": c.Waiters,
			"default-lease": int(c.Default / time.Second), "max-lease": int(c.Longest / time.Second),
		}
	}
	half := steps.Half(o)
	half.Close = func() error { s.Close(); return nil }
	return half, nil
}

func matrix() *mutants.Matrix {
	x := &mutants.Matrix{
		Open: func(m *mutants.Mutant) (suite.Half, error) {
			for _, c := range Mutants {
				if c.Name == m.Name {
					on := c.On
					on.Bug = c.Name
					return open(on)
				}
			}
			return suite.Half{}, errors.New("there is no " + m.Name)
		},
		Smoke: []string{
			"S-2.2-several", "S-3.4-acquire-then-acquire", "S-4.1-free", "S-4.2-wrong-token", "S-4.3-any-connection", "S-4.5-no-word", "S-6.2-fifo",
			"S-6.5-holder-keeps", "S-7.2-free-again", "S-8.1-other-key", "S-9.5-same-token", "S-10.3-try-another", "S-11.4-before-it",
		},
		Own: 2, At: 32, Concurrency: 8, Unjudged: true,
	}
	for _, c := range Mutants {
		x.Mutants = append(x.Mutants, mutants.Mutant{Name: c.Name, Clause: c.Clause, Fails: c.Fails, Sometimes: c.Sometimes})
	}
	return x
}

func TestMutants(t *testing.T) { matrix().Run(t) }

// uncaught are scenarios that must hold and that no mutant here fails.
var uncaught = map[string]string{}

func TestTable(t *testing.T) { matrix().Check(t, features.Server(), uncaught) }

// Servers that are other than the reference node, and right, pass every @must.
// They mostly wait, so all run at once, whatever the test runner would allow.
func TestDifferent(t *testing.T) {
	var running sync.WaitGroup
	for _, d := range Different {
		running.Go(func() {
			t.Run(d.Name, func(t *testing.T) {
				mutants.Right(t, func() (suite.Half, error) { return open(d.On) }, 0, d.Fails...)
			})
		})
	}
	running.Wait()
}
