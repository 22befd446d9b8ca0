// Package report holds what a run of the conformance suite found, and writes
// it down: for the terminal, as JUnit and Cucumber JSON, as a page to read,
// and as a certificate with its badge.
package report

import "time"

// Outcome is what became of one scenario.
type Outcome string

const (
	Passed Outcome = "passed"
	Failed Outcome = "failed"
	// NotJudged is for a scenario about which nothing can be said: an option
	// that it needs is absent, this machine could not keep the time, or the run
	// was interrupted. It is never a pass.
	NotJudged Outcome = "not judged"
	// KnownFailure is a failure that the ledger of known failures lists, with
	// the text that it lists.
	KnownFailure Outcome = "known failure"
)

// Run is one run of the suite against one target.
type Run struct {
	Suite    string // the version of the suite
	Half     string // server, client or cluster
	Title    string // what is certified, in words
	Target   Target
	Seed     int64
	Started  time.Time
	Took     time.Duration
	Digest   string // of the half's feature files
	Selected string // which scenarios were asked for, if not all
	Complete bool   // every scenario of the profiles below was asked for
	Profiles []string
	// Scenarios are in the order of the feature files.
	Scenarios []*Scenario
	// LeftOut are the scenarios of the profiles that do not apply to such a
	// target, by id, with the reason.
	LeftOut map[string]string
	// NotTried is how many scenarios each profile has that was not judged.
	NotTried map[string]int
	// Ledger says what the ledger of known failures gets wrong.
	Ledger      []string
	Interrupted bool
}

// Target is who was judged, in its own words.
type Target struct {
	Name     string   // how it was reached
	Software string   // name and version, as the user gave it
	Hello    string   // what it says of itself, "" if nothing
	Note     string   // what a reader of the result should know first
	Profiles []string // those it says it has
}

// Scenario is one scenario and what became of it.
type Scenario struct {
	ID      string // "S-3.2-fifo", and "S-5.2-refused/no-key" for a row of an outline
	Name    string
	Feature string
	File    string
	Line    int64
	Rule    string
	Clause  string // of SPEC.md
	Tags    []string
	Profile string
	Must    bool
	Story   string // the scenario's description

	Outcome  Outcome
	Failure  *Failure // Failed and KnownFailure
	Reason   string   // NotJudged
	Attempts []string // why earlier attempts did not count
	Started  time.Time
	Took     time.Duration
	Steps    []Step
	Events   []Event
	// Prefix begins every key of this scenario. Reports leave it out.
	Prefix string
}

// Failure is the difference that failed a scenario.
type Failure struct {
	Expected, Seen string
}

func (f *Failure) Error() string {
	if f.Expected == "" {
		return f.Seen
	}
	return "expected " + f.Expected + "\n    seen " + f.Seen
}

// Step is one step of a scenario.
type Step struct {
	Keyword, Text string
	Argument      string // a table or text below it
	Line          int64
	At            time.Duration
	Took          time.Duration
	Outcome       string // passed, failed, skipped
	Error         string
}

// Event is one entry of a scenario's transcript.
type Event struct {
	At   time.Duration // since the scenario began
	Conn string        // "" for a note
	Kind Kind
	Text string
}

// Kind tells the entries of a transcript apart.
type Kind string

const (
	Sent     Kind = ">"
	Received Kind = "<"
	Note     Kind = "#"
)

// Count returns how many scenarios have the outcome.
func (r *Run) Count(o Outcome) int {
	n := 0
	for _, s := range r.Scenarios {
		if s.Outcome == o {
			n++
		}
	}
	return n
}

// Verdict is the result of a run, and the exit code of the program.
type Verdict int

const (
	Conformant Verdict = iota
	NotConformant
	CouldNotJudge
)

// Verdict sums the run up. A scenario that is only advice (@should) never
// makes a target non-conformant, and one that could not be judged never makes
// it conformant.
func (r *Run) Verdict() Verdict {
	v := Conformant
	for _, s := range r.Scenarios {
		switch {
		case s.Must && s.Outcome == Failed:
			return NotConformant
		case s.Must && s.Outcome == NotJudged:
			v = CouldNotJudge
		}
	}
	if len(r.Ledger) > 0 {
		return NotConformant
	}
	if r.Interrupted || len(r.Scenarios) == 0 {
		return CouldNotJudge
	}
	return v
}

func (v Verdict) String() string {
	return [...]string{"conformant", "not conformant", "could not judge"}[v]
}
