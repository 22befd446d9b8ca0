package server

import (
	"testing"

	"github.com/stile-lock/stile/conformance/mutants"
	steps "github.com/stile-lock/stile/conformance/steps/server"
	"github.com/stile-lock/stile/conformance/suite"
	"github.com/stile-lock/stile/features"
)

func open(t *testing.T, bug string) (suite.Half, error) {
	s, err := Start(bug)
	if err != nil {
		return suite.Half{}, err
	}
	t.Cleanup(s.Close)
	return steps.Half(steps.Options{Addr: s.Addr()}), nil
}

func matrix() *mutants.Matrix {
	return &mutants.Matrix{
		Mutants: Mutants,
		Open:    func(t *testing.T, m *mutants.Mutant) (suite.Half, error) { return open(t, m.Name) },
		Smoke: []string{
			"S-2.2-several", "S-2.3-any-bytes", "S-3.1-one-each", "S-4.1-free", "S-4.2-release", "S-4.2-wrong-token", "S-5.2-strangers", "S-6.2-fifo",
			"S-6.5-waiter-leaves", "S-7.2-free-again", "S-8.1-other-key", "S-4.3-any-connection", "S-4.5-no-word", "S-9.5-same-token", "S-10.3-try-another",
		},
		Own: 3, At: 24, Concurrency: 8, Unjudged: true,
	}
}

func TestMutants(t *testing.T) {
	t.Parallel()
	matrix().Run(t)
}

// uncaught are scenarios that must hold and that no mutant here fails.
var uncaught = map[string]string{
	// These are judged where a server is asked for a secret, for limits, or
	// lacks a profile. The plain server does none of that.
	"S-3.6-beyond": limits, "S-6.4-queue-full": limits, "S-7.1-default": limits, "S-7.1-maximum": limits, "S-7.1-sixty": limits, "S-11.5-limit": limits,
	"S-4.5-without-secret": secret, "S-10.4-unauthorized": secret, "S-10.4-unauthorized-keep": secret, "S-10.4-unauthorized-cancel": secret,
	"S-10.4-form-comes-first": secret, "S-10.4-accepted": secret, "S-10.4-none-is-not-wrong": secret, "S-10.4-third-wrong": secret,
	"S-10.4-two-wrong": secret, "S-10.4-stays-in-force": secret, "S-10.4-each-connection": secret,
	"S-4.1-no-nonces": lacks, "S-4.6-no-hello": lacks, "S-10.1-no-keep": lacks, "S-10.1-no-ping": lacks, "S-10.1-no-cancel": lacks,
	// What breaks these breaks nearly everything, or they are the other half of
	// a rule whose breach another scenario shows.
	"S-2.2-pieces": broad, "S-2.2-several": broad, "S-2.5-good-wait": broad, "S-4.1-do-not-queue-free": broad, "S-4.6-hello": broad,
	"S-4.6-secret-not-asked-for": broad, "S-11.6-slow-reader": "a server that blocks there depends on the sizes of the kernel's buffers",
	"S-11.7-half-a-line": broad,
}

const (
	limits = "the plain server has no limits to be named"
	secret = "the plain server asks for no secret"
	lacks  = "the plain server has all profiles"
	broad  = "whoever breaks it fails nearly everything"
)

func TestTable(t *testing.T) { matrix().Check(t, features.Server(), uncaught) }

// The server without a bug is right.
func TestServerWithoutABug(t *testing.T) {
	t.Parallel()
	half, err := open(t, "")
	if err != nil {
		t.Fatal(err)
	}
	mutants.Right(t, half)
}
