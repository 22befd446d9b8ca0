package report

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// Certificate says which profiles a target passed, and by what.
type Certificate struct {
	Format   int       `json:"certificate"` // 1
	Suite    string    `json:"suite"`
	Half     string    `json:"half"`
	Target   Certified `json:"target"`
	Date     time.Time `json:"date"`
	Seed     int64     `json:"seed"`
	Features string    `json:"features"` // digest of the feature files
	Profiles []Profile `json:"profiles"`
	Results  []Result  `json:"results"`
	// LeftOut are scenarios of these profiles that do not apply.
	LeftOut map[string]string `json:"left_out,omitempty"`
	// NotTried are the profiles that were not judged, with the numbers of their
	// scenarios.
	NotTried map[string]int `json:"not_tried,omitempty"`
}

// Certified is the target, as it presented itself; but for its software, which
// no server tells, and which is what the user called it.
type Certified struct {
	Name     string   `json:"name"`
	Software string   `json:"software,omitempty"`
	Hello    string   `json:"hello,omitempty"`
	Profiles []string `json:"profiles,omitempty"` // those it says it has
}

// String is the target in a line.
func (c Certified) String() string {
	text := c.Name
	if c.Software != "" {
		text = c.Software + " at " + c.Name
	}
	if c.Hello != "" {
		text += ", " + c.Hello
	}
	return Printable(text)
}

// Profile sums up the scenarios of one profile. It passed only if all its
// @must passed: one that failed, known or not, and one that could not be
// judged, are in its way. Advice (@should) is not.
type Profile struct {
	Name   string `json:"name"`
	Passed bool   `json:"passed"`
	Must   Counts `json:"must"`
	Should Counts `json:"should"`
}

// Counts is how many scenarios have which outcome.
type Counts struct {
	Passed    int `json:"passed"`
	Failed    int `json:"failed"`
	NotJudged int `json:"not_judged"`
}

// Result is that of one scenario.
type Result struct {
	ID      string  `json:"id"`
	Profile string  `json:"profile"`
	Must    bool    `json:"must"`
	Outcome Outcome `json:"outcome"`
	Text    string  `json:"text,omitempty"` // why it did not pass
}

// NewCertificate makes the certificate of a run. A run of chosen scenarios
// certifies nothing: all its profiles are then not passed.
func NewCertificate(run *Run) *Certificate {
	c := &Certificate{
		Format: 1, Suite: run.Suite, Half: run.Half, Target: Certified{run.Target.Name, run.Target.Software, run.Target.Hello, run.Target.Profiles},
		Date: run.Started.UTC().Truncate(time.Second), Seed: run.Seed, Features: run.Digest, LeftOut: run.LeftOut, NotTried: run.NotTried,
	}
	for _, s := range run.Scenarios {
		r := Result{ID: s.ID, Profile: s.Profile, Must: s.Must, Outcome: s.Outcome, Text: s.Reason}
		if s.Failure != nil {
			r.Text = s.Failure.Error()
		}
		c.Results = append(c.Results, r)
	}
	for _, name := range run.Profiles {
		p := sum(name, c.Results)
		p.Passed = p.Passed && run.Complete && !run.Interrupted
		c.Profiles = append(c.Profiles, p)
	}
	return c
}

func sum(name string, results []Result) Profile {
	p := Profile{Name: name}
	for _, r := range results {
		if r.Profile != name {
			continue
		}
		counts := &p.Should
		if r.Must {
			counts = &p.Must
		}
		switch r.Outcome {
		case Passed:
			counts.Passed++
		case NotJudged:
			counts.NotJudged++
		default:
			counts.Failed++
		}
	}
	p.Passed = p.Must.Passed > 0 && p.Must.Failed == 0 && p.Must.NotJudged == 0
	return p
}

// Passed lists the profiles that passed.
func (c *Certificate) Passed() (names []string) {
	for _, p := range c.Profiles {
		if p.Passed {
			names = append(names, p.Name)
		}
	}
	return names
}

// WriteCertificate writes the certificate of a run as JSON.
func WriteCertificate(w io.Writer, run *Run) error {
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	out.SetEscapeHTML(false)
	return out.Encode(NewCertificate(run))
}

// ParseCertificate reads one.
func ParseCertificate(text []byte) (*Certificate, error) {
	c := &Certificate{}
	if err := json.Unmarshal(text, c); err != nil {
		return nil, fmt.Errorf("this is no certificate: %w", err)
	}
	if c.Format != 1 {
		return nil, fmt.Errorf("this is no certificate of a form that is known here: \"certificate\" is %d", c.Format)
	}
	return c, nil
}

// Known is what the suite knows of one of its scenarios.
type Known struct {
	Profile string
	Must    bool
	// Optional: it does not apply to every target, and may be left out.
	Optional bool
}

// Verify returns what does not fit: the digest of the feature files, a result
// of a scenario that is not in them or is another's, a scenario left out that
// applies to every target, a profile whose sum is not that of its results, or
// one said to have passed without all its scenarios.
func (c *Certificate) Verify(digest string, known map[string]Known) (problems []string) {
	complain := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if c.Features != digest {
		complain("the feature files are others: the certificate names %s, this suite has %s", c.Features, digest)
	}
	seen := map[string]bool{}
	for _, r := range c.Results {
		k, ok := known[r.ID]
		switch {
		case !ok:
			complain("%s: there is no such scenario", r.ID)
		case k.Profile != r.Profile || k.Must != r.Must:
			complain("%s: it is not of the profile or the weight that the certificate says", r.ID)
		case seen[r.ID]:
			complain("%s: it has two results", r.ID)
		}
		seen[r.ID] = true
	}
	for _, id := range slices.Sorted(maps.Keys(c.LeftOut)) {
		if !known[id].Optional {
			complain("%s: it is said not to apply, but there is no such scenario, or it applies to every target", id)
		}
	}
	for _, p := range c.Profiles {
		s := sum(p.Name, c.Results)
		if p.Must != s.Must || p.Should != s.Should {
			complain("profile %s: its counts are not those of the results", p.Name)
		}
		if !p.Passed {
			continue
		}
		if !s.Passed {
			complain("profile %s is said to have passed; by the results it has not", p.Name)
		}
		for _, id := range slices.Sorted(maps.Keys(known)) {
			if known[id].Profile == p.Name && !seen[id] && c.LeftOut[id] == "" {
				complain("profile %s is said to have passed, and has no result of %s", p.Name, id)
			}
		}
	}
	return problems
}

// Badge writes a small picture for a README: what was certified, and the
// profiles that passed.
func Badge(w io.Writer, run *Run) error {
	left, right, colour := "stile "+run.Half, strings.Join(NewCertificate(run).Passed(), " · "), "#2e7d32"
	if right == "" {
		right, colour = "not certified", "#b3261e"
	}
	software := ""
	if run.Target.Software != "" {
		software = html.EscapeString(Printable(run.Target.Software)) + ", "
	}
	// 6.6 pixels are wider than the mean letter of these fonts at 11.
	lw, rw := int(6.6*float64(len(left)))+14, int(6.6*float64(len([]rune(right))))+14
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="20" role="img" aria-label="%[2]s: %[3]s">
<title>%[2]s: %[3]s (%[11]ssuite %[8]s, %[9]s)</title>
<clipPath id="r"><rect width="%[1]d" height="20" rx="3"/></clipPath>
<g clip-path="url(#r)"><rect width="%[4]d" height="20" fill="#444"/><rect x="%[4]d" width="%[5]d" height="20" fill="%[6]s"/></g>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">
<text x="%[7]d" y="14">%[2]s</text><text x="%[10]d" y="14">%[3]s</text></g>
</svg>
`, lw+rw, left, right, lw, rw, colour, lw/2, run.Suite, run.Started.UTC().Format("2006-01-02"), lw+rw/2, software)
	return err
}
