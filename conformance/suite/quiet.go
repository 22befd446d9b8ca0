package suite

import (
	"io"

	"github.com/cucumber/godog"
	messages "github.com/cucumber/messages/go/v34"
)

// quiet is the name of a godog formatter that writes nothing: the reports are
// ours, made from more than godog knows.
const quiet = "stile-quiet"

func init() {
	godog.Format(quiet, "nothing", func(string, io.Writer) godog.Formatter { return quietly{} })
}

type quietly struct{}

func (quietly) TestRunStarted()                                                                {}
func (quietly) Feature(*messages.GherkinDocument, string, []byte)                              {}
func (quietly) Pickle(*messages.Pickle)                                                        {}
func (quietly) Defined(*messages.Pickle, *messages.PickleStep, *godog.StepDefinition)          {}
func (quietly) Failed(*messages.Pickle, *messages.PickleStep, *godog.StepDefinition, error)    {}
func (quietly) Passed(*messages.Pickle, *messages.PickleStep, *godog.StepDefinition)           {}
func (quietly) Skipped(*messages.Pickle, *messages.PickleStep, *godog.StepDefinition)          {}
func (quietly) Undefined(*messages.Pickle, *messages.PickleStep, *godog.StepDefinition)        {}
func (quietly) Pending(*messages.Pickle, *messages.PickleStep, *godog.StepDefinition)          {}
func (quietly) Ambiguous(*messages.Pickle, *messages.PickleStep, *godog.StepDefinition, error) {}
func (quietly) Summary()                                                                       {}
