package suite

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	gherkin "github.com/cucumber/gherkin/go/v42"
	messages "github.com/cucumber/messages/go/v34"

	"github.com/stile-lock/stile/conformance/report"
)

// Profiles are the profile tags. The first six are those of SPEC.md 10.1;
// secret and limits are certified on their own, because a target may well be
// without them, and because judging them takes options of the run.
var Profiles = []string{"core", "cluster", "keep", "ping", "hello", "resume", "secret", "limits"}

// Scenario is one scenario as its feature file has it: a row of an outline is
// one, too.
type Scenario struct {
	ID       string // without the @
	Name     string
	File     string
	Line     int64 // of the scenario, or of its row in an outline
	Feature  string
	Rule     string
	Clause   string // "3.2"
	Story    string
	Tags     []string // all, without the @
	Profile  string
	Must     bool
	Steps    []report.Step
	problems []string // what Lint has to say
}

// Has reports whether the scenario has the tag, given without the @.
func (s *Scenario) Has(tag string) bool { return slices.Contains(s.Tags, tag) }

// Needs lists the X of its tags @needs-X.
func (s *Scenario) Needs() []string { return s.with("needs-") }

// Conditional reports whether it applies to some targets only, and may be left
// out for others.
func (s *Scenario) Conditional() bool { return len(s.with("needs-"))+len(s.with("without-")) > 0 }

func (s *Scenario) with(prefix string) (list []string) {
	for _, t := range s.Tags {
		if x, ok := strings.CutPrefix(t, prefix); ok {
			list = append(list, x)
		}
	}
	return list
}

var (
	idTag      = regexp.MustCompile(`^[SCN]-(\d+\.\d+)-[a-z0-9]+(-[a-z0-9]+)*$`)
	ruleClause = regexp.MustCompile(`^(\d+\.\d+) \S`)
	kebab      = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
)

// Scenarios reads all feature files, in the order of their names.
func Scenarios(files fs.FS) ([]*Scenario, error) {
	names, err := fs.Glob(files, "*.feature")
	if err != nil {
		return nil, err
	}
	var all []*Scenario
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		ids := &messages.Incrementing{}
		doc, err := gherkin.ParseGherkinDocument(bytes.NewReader(text), ids.NewId)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		doc.Uri = name
		all = append(all, scenarios(doc, gherkin.Pickles(*doc, name, ids.NewId))...)
	}
	return all, nil
}

// origin is where a pickle's scenario stands in its file.
type origin struct {
	scenario *messages.Scenario
	rule     *messages.Rule
	row      *messages.TableRow // of an outline
	header   *messages.TableRow
}

func scenarios(doc *messages.GherkinDocument, pickles []*messages.Pickle) []*Scenario {
	origins, steps := map[string]origin{}, map[string]*messages.Step{}
	note := func(list []*messages.Step) {
		for _, s := range list {
			steps[s.Id] = s
		}
	}
	add := func(s *messages.Scenario, rule *messages.Rule) {
		if s == nil {
			return
		}
		note(s.Steps)
		origins[s.Id] = origin{scenario: s, rule: rule}
		for _, e := range s.Examples {
			for _, row := range e.TableBody {
				origins[row.Id] = origin{s, rule, row, e.TableHeader}
			}
		}
	}
	for _, c := range doc.Feature.Children {
		if c.Background != nil {
			note(c.Background.Steps)
		}
		add(c.Scenario, nil)
		if c.Rule == nil {
			continue
		}
		for _, rc := range c.Rule.Children {
			if rc.Background != nil {
				note(rc.Background.Steps)
			}
			add(rc.Scenario, c.Rule)
		}
	}
	var list []*Scenario
	for _, p := range pickles {
		o := origins[p.AstNodeIds[len(p.AstNodeIds)-1]]
		list = append(list, scenario(doc, p, o, steps))
	}
	return list
}

func scenario(doc *messages.GherkinDocument, p *messages.Pickle, o origin, steps map[string]*messages.Step) *Scenario {
	s := &Scenario{Name: p.Name, File: doc.Uri, Line: p.Location.Line, Feature: doc.Feature.Name, Story: outdent(o.scenario.Description)}
	complain := func(format string, args ...any) { s.problems = append(s.problems, fmt.Sprintf(format, args...)) }
	for _, t := range p.Tags {
		s.Tags = append(s.Tags, strings.TrimPrefix(t.Name, "@"))
	}
	if o.rule == nil {
		complain("stands in no Rule")
	} else if m := ruleClause.FindStringSubmatch(o.rule.Name); m == nil {
		complain("its Rule %q does not begin with a clause of SPEC.md", o.rule.Name)
	} else {
		s.Rule, s.Clause = o.rule.Name, m[1]
	}
	var profiles []string
	for _, t := range s.Tags {
		if m := idTag.FindStringSubmatch(t); m != nil {
			if s.ID != "" {
				complain("has two ids, @%s and @%s", s.ID, t)
			}
			if m[1] != s.Clause {
				complain("its id @%s is of another clause than its Rule %q", t, s.Rule)
			}
			s.ID = t
		}
		if slices.Contains(Profiles, t) {
			profiles = append(profiles, t)
		}
	}
	if s.ID == "" {
		complain("has no id tag like @S-3.2-fifo")
	}
	if len(profiles) != 1 {
		complain("has %d profile tags, and needs one of %v", len(profiles), Profiles)
	} else {
		s.Profile = profiles[0]
	}
	s.Must = s.Has("must")
	if s.Must == s.Has("should") {
		complain("needs one of @must and @should")
	}
	if o.row != nil {
		if o.header.Cells[0].Value != "name" || !kebab.MatchString(o.row.Cells[0].Value) {
			complain("the first column of its Examples must be \"name\", with a kebab-case name in each row")
		}
		s.ID += "/" + o.row.Cells[0].Value
		s.Name += ": " + o.row.Cells[0].Value
	}
	if len(p.Steps) == 0 {
		complain("has no steps")
	}
	for _, ps := range p.Steps {
		step := steps[ps.AstNodeIds[0]]
		s.Steps = append(s.Steps, report.Step{
			Keyword: strings.TrimSpace(step.Keyword), Text: ps.Text, Line: step.Location.Line, Argument: argument(ps.Argument),
		})
	}
	return s
}

// outdent joins a description's lines, which are indented as the file is.
func outdent(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, "\n")
}

func argument(a *messages.PickleStepArgument) string {
	switch {
	case a == nil:
		return ""
	case a.DocString != nil:
		return a.DocString.Content
	}
	var b strings.Builder
	for _, row := range a.DataTable.Rows {
		b.WriteString("|")
		for _, c := range row.Cells {
			b.WriteString(" " + c.Value + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// Lint returns what is wrong with the form of feature files: each scenario
// stands under a Rule that begins with its clause of SPEC.md, and has an id of
// that clause, one profile, @must or @should, and a name; ids and names are
// unique.
func Lint(files fs.FS) (problems []string) {
	list, err := Scenarios(files)
	if err != nil {
		return []string{err.Error()}
	}
	ids, names := map[string]*Scenario{}, map[string]*Scenario{}
	for _, s := range list {
		complain := func(text string) {
			problems = append(problems, fmt.Sprintf("%s:%d: %s: %s", s.File, s.Line, s.Name, text))
		}
		for _, p := range s.problems {
			complain(p)
		}
		if other := ids[s.ID]; other != nil && s.ID != "" {
			complain("has the id of " + other.Name)
		}
		if other := names[s.Name]; other != nil {
			complain("has the same name as " + other.ID)
		}
		ids[s.ID], names[s.Name] = s, s
	}
	return problems
}

// Digest is the SHA-256 of all feature files and their names.
func Digest(files fs.FS) (string, error) {
	names, err := fs.Glob(files, "*.feature")
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\n%s", name, len(text), text)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}
