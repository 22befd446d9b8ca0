package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
)

type junitSuites struct {
	XMLName xml.Name     `xml:"testsuites"`
	Suites  []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Errors   int         `xml:"errors,attr"`
	Time     string      `xml:"time,attr"`
	When     string      `xml:"timestamp,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	Time    string        `xml:"time,attr"`
	Failure *junitMessage `xml:"failure,omitempty"`
	Error   *junitMessage `xml:"error,omitempty"`
	Skipped *junitMessage `xml:"skipped,omitempty"`
	Out     string        `xml:"system-out,omitempty"`
}

type junitMessage struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// JUnit writes the run as JUnit XML, a suite for each feature file. JUnit has
// no "not judged": it is an error there, so that nothing takes it for a pass.
// Known failures and advice that is not followed are skipped.
func JUnit(w io.Writer, run *Run) error {
	var all junitSuites
	for _, s := range run.Scenarios {
		if n := len(all.Suites); n == 0 || all.Suites[n-1].Name != s.Feature {
			all.Suites = append(all.Suites, junitSuite{Name: s.Feature, When: run.Started.UTC().Format("2006-01-02T15:04:05")})
		}
		suite := &all.Suites[len(all.Suites)-1]
		c := junitCase{Name: s.ID + " " + s.Name, Class: run.Half + "." + s.Profile, Time: seconds(s.Took)}
		message := &junitMessage{Message: strings.ReplaceAll(why(s), "\n", " "), Text: why(s)}
		switch {
		case s.Outcome == NotJudged:
			c.Error = message
			suite.Errors++
		case s.Outcome == KnownFailure || s.Outcome == Failed && !s.Must:
			c.Skipped = message
			suite.Skipped++
		case s.Outcome == Failed:
			c.Failure = message
			suite.Failures++
		}
		if s.Outcome != Passed {
			c.Out = Transcript(s)
		}
		suite.Tests++
		suite.Cases = append(suite.Cases, c)
	}
	for i := range all.Suites {
		var sum time.Duration
		for _, s := range run.Scenarios {
			if s.Feature == all.Suites[i].Name {
				sum += s.Took
			}
		}
		all.Suites[i].Time = seconds(sum)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	out := xml.NewEncoder(w)
	out.Indent("", "  ")
	return out.Encode(all)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }

// Transcript is a scenario's transcript as text.
func Transcript(s *Scenario) string {
	var b strings.Builder
	for _, e := range s.Events {
		b.WriteString(s.entry(e) + "\n")
	}
	return b.String()
}

// entry is an entry of the transcript as text.
func (s *Scenario) entry(e Event) string {
	return fmt.Sprintf("%7.3f %s%s %s", e.At.Seconds(), e.Conn, e.Kind, s.short(e.Text))
}

// short is a line as reports show it.
func (s *Scenario) short(line string) string {
	if s.Prefix != "" {
		line = strings.ReplaceAll(line, s.Prefix, "")
	}
	if len(line) > 300 {
		line = fmt.Sprintf("%s… (%d bytes)", line[:200], len(line))
	}
	return Printable(line)
}
