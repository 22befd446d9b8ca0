package suite

import (
	"bufio"
	"fmt"
	"io"
	"path"
	"regexp"
	"strings"

	"github.com/stile-lock/stile/conformance/report"
)

// Ledger lists scenarios that are known to fail, and how: the same list
// serves work in progress and the suite's own mutants. One entry per line, an
// id or a pattern (as of path.Match), then # and a part of the failure's text:
//
//	S-6.2-fifo             # expected 2 to be granted door
//	S-5.2-refused/no-*     # seen nothing for …
//
// In the text, … stands for anything: for what differs from run to run. Empty lines and lines that begin with # are ignored.
type Ledger struct {
	entries []entry
}

type entry struct {
	where, pattern, text string
}

// mostMatches is how many scenarios one pattern may stand for. A pattern that
// excuses more is not a list of known failures any more.
const mostMatches = 20

// ParseLedger reads a ledger; name is for its complaints.
func ParseLedger(in io.Reader, name string) (*Ledger, error) {
	l := &Ledger{}
	lines := bufio.NewScanner(in)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		pattern, text, _ := strings.Cut(line, "#")
		e := entry{fmt.Sprintf("%s:%d", name, n), strings.TrimSpace(pattern), strings.TrimSpace(text)}
		if e.text == "" {
			return nil, fmt.Errorf("%s: %q needs # and a part of its failure's text", e.where, line)
		}
		if _, err := path.Match(e.pattern, ""); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", e.where, e.pattern, err)
		}
		l.entries = append(l.entries, e)
	}
	return l, lines.Err()
}

// IDs are the ids that the entries name, as tags: without the row of an
// outline, and a pattern as it stands.
func (l *Ledger) IDs() (ids []string) {
	for _, e := range l.entries {
		id, _, _ := strings.Cut(e.pattern, "/")
		ids = append(ids, id)
	}
	return ids
}

func (e entry) matches(id string) bool {
	ok, _ := path.Match(e.pattern, id) // ParseLedger saw to the pattern
	return ok
}

// Check returns an error if a pattern matches no scenario or too many.
func (l *Ledger) Check(all []*Scenario) error {
	for _, e := range l.entries {
		n := 0
		for _, s := range all {
			if e.matches(s.ID) {
				n++
			}
		}
		switch {
		case n == 0:
			return fmt.Errorf("%s: %s matches no scenario", e.where, e.pattern)
		case n > mostMatches:
			return fmt.Errorf("%s: %s matches %d scenarios, more than %d", e.where, e.pattern, n, mostMatches)
		}
	}
	return nil
}

// Apply turns listed failures into known ones, and complains about listed
// scenarios that passed or failed in another way. Nothing excuses a scenario
// that could not be judged.
func (l *Ledger) Apply(run *report.Run) {
	for _, s := range run.Scenarios {
		for _, e := range l.entries {
			if !e.matches(s.ID) {
				continue
			}
			switch {
			case s.Outcome == report.Passed:
				run.Ledger = append(run.Ledger, fmt.Sprintf("%s: %s passed; take it off the list", e.where, s.ID))
			case s.Outcome == report.Failed && fits(oneLine(s.Failure), e.text):
				s.Outcome = report.KnownFailure
			case s.Outcome == report.Failed:
				run.Ledger = append(run.Ledger, fmt.Sprintf("%s: %s failed in another way: %s", e.where, s.ID, oneLine(s.Failure)))
			}
			break
		}
	}
}

// oneLine is a failure as it stands in a ledger.
func oneLine(f *report.Failure) string { return strings.Join(strings.Fields(f.Error()), " ") }

// fits reports whether the text has all parts of the pattern, in order.
func fits(text, pattern string) bool {
	for _, part := range strings.Split(pattern, "…") {
		i := strings.Index(text, strings.TrimSpace(part))
		if i < 0 {
			return false
		}
		text = text[i+len(strings.TrimSpace(part)):]
	}
	return true
}

// varies is what differs between two runs in the text of a failure: tokens,
// moments, how late something was.
var varies = regexp.MustCompile(`\d{4,}|\d+\.\d+|\d+ ms`)

// Entry is the line of a ledger that lists a failed scenario.
func Entry(s *report.Scenario) string {
	text := varies.ReplaceAllString(oneLine(s.Failure), "…")
	if r := []rune(text); len(r) > 120 {
		text = string(r[:120])
	}
	return s.ID + " # " + text
}
