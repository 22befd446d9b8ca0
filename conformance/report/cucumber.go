package report

import (
	"encoding/json"
	"io"
	"strings"
)

type cucumberFeature struct {
	URI      string            `json:"uri"`
	ID       string            `json:"id"`
	Keyword  string            `json:"keyword"`
	Name     string            `json:"name"`
	Line     int64             `json:"line"`
	Elements []cucumberElement `json:"elements"`
}

type cucumberElement struct {
	ID      string         `json:"id"`
	Keyword string         `json:"keyword"`
	Type    string         `json:"type"`
	Name    string         `json:"name"`
	Text    string         `json:"description"`
	Line    int64          `json:"line"`
	Tags    []cucumberTag  `json:"tags"`
	Steps   []cucumberStep `json:"steps"`
}

type cucumberTag struct {
	Name string `json:"name"`
}

type cucumberStep struct {
	Keyword string         `json:"keyword"`
	Name    string         `json:"name"`
	Line    int64          `json:"line"`
	Result  cucumberResult `json:"result"`
}

type cucumberResult struct {
	Status   string `json:"status"`
	Duration int64  `json:"duration"` // nanoseconds
	Error    string `json:"error_message,omitempty"`
}

// CucumberJSON writes the run in the form that Cucumber's tools read. It has
// no "not judged" either: such a step is pending there.
func CucumberJSON(w io.Writer, run *Run) error {
	features := []cucumberFeature{}
	for _, s := range run.Scenarios {
		if n := len(features); n == 0 || features[n-1].URI != s.File {
			features = append(features, cucumberFeature{URI: s.File, ID: strings.TrimSuffix(s.File, ".feature"), Keyword: "Feature", Name: s.Feature, Line: 1})
		}
		e := cucumberElement{ID: s.ID, Keyword: "Scenario", Type: "scenario", Name: s.Name, Text: s.Rule + "\n\n" + s.Story, Line: s.Line}
		for _, t := range s.Tags {
			e.Tags = append(e.Tags, cucumberTag{"@" + t})
		}
		for _, st := range s.Steps {
			r := cucumberResult{Status: st.Outcome, Duration: st.Took.Nanoseconds(), Error: Printable(st.Error)}
			if r.Status == "" {
				r.Status = "skipped"
			}
			if s.Outcome == NotJudged && r.Status != "skipped" {
				r.Status, r.Error = "pending", s.Reason
			}
			e.Steps = append(e.Steps, cucumberStep{st.Keyword + " ", st.Text, st.Line, r})
		}
		f := &features[len(features)-1]
		f.Elements = append(f.Elements, e)
	}
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(features)
}
