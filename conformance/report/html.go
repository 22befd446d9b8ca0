package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"label":     label,
	"class":     func(s *Scenario) string { return strings.ReplaceAll(label(s), " ", "-") },
	"printable": Printable,
	"seconds":   func(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) },
	"join":      func(list []string) string { return strings.Join(list, ", ") },
	"parts":     parts,
	"text":      func(s *Scenario, t string) string { return s.short(t) },
}).Parse(pageText))

// part is a step and what was sent and received in it.
type part struct {
	Step
	Events []Event
}

// parts deals a scenario's transcript out to its steps. What was received
// between two steps is the earlier one's; what came before the first or after
// the last is in a part without text.
func parts(s *Scenario) []part {
	var list []part
	rest := s.Events
	for i, st := range s.Steps {
		p := part{Step: st}
		if p.Outcome == "" {
			p.Outcome = "skipped"
		}
		end := st.At + st.Took
		if i+1 < len(s.Steps) && s.Steps[i+1].Outcome == "passed" {
			end = s.Steps[i+1].At
		}
		for len(rest) > 0 && rest[0].At <= end && p.Outcome != "skipped" {
			p.Events, rest = append(p.Events, rest[0]), rest[1:]
		}
		list = append(list, p)
	}
	if len(rest) > 0 {
		list = append(list, part{Step: Step{Keyword: "After the last step", Outcome: "skipped"}, Events: rest})
	}
	return list
}

// group is what a heading stands over.
type group struct {
	Feature string
	Rules   []rule
}

type rule struct {
	Name      string
	Scenarios []*Scenario
}

// HTML writes the run as one page that needs nothing else.
func HTML(w io.Writer, run *Run) error {
	var groups []group
	for _, s := range run.Scenarios {
		if n := len(groups); n == 0 || groups[n-1].Feature != s.Feature {
			groups = append(groups, group{Feature: s.Feature})
		}
		g := &groups[len(groups)-1]
		if n := len(g.Rules); n == 0 || g.Rules[n-1].Name != s.Rule {
			g.Rules = append(g.Rules, rule{Name: s.Rule})
		}
		r := &g.Rules[len(g.Rules)-1]
		r.Scenarios = append(r.Scenarios, s)
	}
	return page.Execute(w, map[string]any{
		"Run": run, "NotRun": notRun(run), "Groups": groups, "Profiles": NewCertificate(run).Profiles, "Verdict": run.Verdict().String(),
		"Command": strings.Join([]string{"stile-conformance", run.Half, "--seed", fmt.Sprint(run.Seed)}, " "),
	})
}
