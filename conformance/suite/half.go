package suite

import (
	"context"
	"io/fs"
	"time"

	"github.com/cucumber/godog"

	"github.com/stile-lock/stile/conformance/report"
)

// Half is one part of the suite: its feature files, the steps they are made
// of, and the target they judge.
type Half struct {
	Name  string // server, client or cluster
	Title string // what is certified: "a live server"
	FS    fs.FS  // with *.feature files

	// Prepare is called once, before the scenarios, with a context that ends
	// when the run is interrupted. An error means that nothing can be judged.
	Prepare func(context.Context) (Target, error)

	// Register adds the steps of one scenario that is about to run. Whatever
	// state they share is made here: nothing is shared between scenarios.
	Register func(*godog.ScenarioContext, *World)

	// Close is called once, after the last scenario.
	Close func() error

	// TimeLimit is how long a scenario may take before it is stopped and
	// fails; a minute if 0.
	TimeLimit time.Duration

	// Concurrency is how many scenarios run at once unless the user says
	// otherwise; 1 if 0.
	Concurrency int
}

// Target is what Prepare found.
type Target struct {
	report.Target

	// Judged lists the profiles that are judged unless the user chooses: as a
	// rule those that the target says it has.
	Judged []string

	// Missing maps the X of a tag @needs-X to the reason why it can't be
	// judged in this run: "secret" to "no --secret-file was given". What is not
	// in it is there.
	Missing map[string]string

	// Absent is like Missing for what a target may well not have: the scenario
	// is left out, and in nobody's way.
	Absent map[string]string

	// Has maps the X of a tag @without-X to true if the target does have X: a
	// scenario of targets without X does not apply then, and is left out.
	Has map[string]bool
}
