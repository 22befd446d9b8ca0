package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Terminal prints a run as it goes.
type Terminal struct {
	w       io.Writer
	verbose bool
	mu      sync.Mutex
	total   int
	done    int
	dots    int
}

func NewTerminal(w io.Writer, verbose bool) *Terminal { return &Terminal{w: w, verbose: verbose} }

// Begin prints what is about to be judged.
func (t *Terminal) Begin(run *Run) {
	t.total = len(run.Scenarios)
	fmt.Fprintf(t.w, "%s: %s\n", run.Title, run.Target.Name)
	if run.Target.Software != "" {
		fmt.Fprintf(t.w, "software: %s\n", Printable(run.Target.Software))
	}
	if run.Target.Hello != "" {
		fmt.Fprintf(t.w, "hello: %s\n", Printable(run.Target.Hello))
	}
	if run.Target.Note != "" {
		fmt.Fprintf(t.w, "note: %s\n", Printable(run.Target.Note))
	}
	fmt.Fprintf(t.w, "profiles: %s; %d scenarios; suite %s; --seed %d\n\n", strings.Join(run.Profiles, ", "), t.total, run.Suite, run.Seed)
}

// Done prints a scenario's outcome: a dot if it passed.
func (t *Terminal) Done(s *Scenario) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done++
	if s.Outcome == Passed && !t.verbose {
		fmt.Fprint(t.w, ".")
		if t.dots++; t.dots == 60 {
			t.newline()
		}
		return
	}
	if t.dots > 0 {
		t.newline()
	}
	fmt.Fprintf(t.w, "%-10s %s  %s", label(s), s.ID, s.Name)
	if t.verbose {
		fmt.Fprintf(t.w, "  (%.2f s)", s.Took.Seconds())
	}
	fmt.Fprintln(t.w)
	const by = "           "
	if s.Outcome != Passed {
		fmt.Fprintln(t.w, by+"rule "+s.Rule)
		for _, st := range s.Steps {
			if st.Outcome == "failed" {
				fmt.Fprintf(t.w, "%sat   %s %s (%s:%d)\n", by, st.Keyword, st.Text, s.File, st.Line)
			}
		}
	}
	if text := why(s); text != "" {
		fmt.Fprintln(t.w, indent(text, by))
	}
	if !t.verbose {
		return
	}
	for _, a := range s.Attempts {
		fmt.Fprintln(t.w, indent("an earlier attempt: "+Printable(a), by))
	}
	for _, p := range parts(s) {
		fmt.Fprintf(t.w, "    %s %s\n", p.Keyword, p.Text)
		for _, e := range p.Events {
			fmt.Fprintln(t.w, "      "+s.entry(e))
		}
	}
}

func (t *Terminal) newline() {
	fmt.Fprintf(t.w, " %d/%d\n", t.done, t.total)
	t.dots = 0
}

// End prints the sums and the verdict.
func (t *Terminal) End(run *Run) {
	if t.dots > 0 {
		t.newline()
	}
	fmt.Fprintln(t.w)
	for _, p := range NewCertificate(run).Profiles {
		word := "not passed"
		switch {
		case p.Passed:
			word = "passed"
		case !run.Complete && p.Must == (Counts{}) && p.Should == (Counts{}):
			continue
		case !run.Complete:
			word = "in part"
		}
		fmt.Fprintf(t.w, "%-8s %-10s  must: %s", p.Name, word, p.Must)
		if p.Should != (Counts{}) {
			fmt.Fprintf(t.w, "; should: %s", p.Should)
		}
		fmt.Fprintln(t.w)
	}
	for _, line := range notRun(run) {
		fmt.Fprintln(t.w, line)
	}
	if !run.Complete {
		fmt.Fprintf(t.w, "Only %s was run: this certifies no profile.\n", run.Selected)
	}
	for _, l := range run.Ledger {
		fmt.Fprintln(t.w, "known failures:", Printable(l))
	}
	if n := run.Count(KnownFailure); n > 0 {
		fmt.Fprintf(t.w, "%d failed as the list of known failures says.\n", n)
	}
	if failed := run.failed(); !t.verbose && len(failed) > 0 {
		fmt.Fprintf(t.w, "\nfailed: %s\n", strings.Join(failed, ", "))
	}
	verdict := run.Verdict().String()
	if n := run.Count(KnownFailure); n > 0 && run.Verdict() == Conformant {
		verdict = "as expected: not conformant, as the list of known failures says"
	}
	if !run.Complete {
		verdict = "what was run: " + verdict
	}
	fmt.Fprintf(t.w, "\n%s, in %v\n", verdict, run.Took.Round(100*time.Millisecond))
}

// failed are the ids of what must hold and did not.
func (r *Run) failed() (ids []string) {
	for _, s := range r.Scenarios {
		if s.Must && s.Outcome == Failed {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// notRun says what a run did not try, and why: a reader must not take it for
// passed.
func notRun(run *Run) (list []string) {
	total := 0
	for _, p := range slices.Sorted(maps.Keys(run.NotTried)) {
		list = append(list, fmt.Sprintf("  %d of the profile %s, which is not judged", run.NotTried[p], p))
		total += run.NotTried[p]
	}
	why := map[string][]string{}
	for id, reason := range run.LeftOut {
		why[reason] = append(why[reason], id)
	}
	for _, reason := range slices.Sorted(maps.Keys(why)) {
		slices.Sort(why[reason])
		list = append(list, fmt.Sprintf("  %d: %s: %s", len(why[reason]), reason, strings.Join(why[reason], ", ")))
		total += len(why[reason])
	}
	if total > 0 {
		list = slices.Insert(list, 0, fmt.Sprintf("%d scenarios of this half were left out:", total))
	}
	return list
}

func (c Counts) String() string {
	text := fmt.Sprintf("%d passed", c.Passed)
	if c.Failed > 0 {
		text += fmt.Sprintf(", %d failed", c.Failed)
	}
	if c.NotJudged > 0 {
		text += fmt.Sprintf(", %d not judged", c.NotJudged)
	}
	return text
}

// label is the outcome in a word; failed advice is not called a failure.
func label(s *Scenario) string {
	if s.Outcome == Failed && !s.Must {
		return "advice"
	}
	return string(s.Outcome)
}

func why(s *Scenario) string {
	text := s.Reason
	if s.Failure != nil {
		text = s.Failure.Error()
	}
	return Printable(text)
}

func indent(text, by string) string {
	return by + strings.ReplaceAll(text, "\n", "\n"+by)
}

// Printable escapes what a terminal or a page must not get from a target:
// control bytes, and bytes that are no UTF-8.
func Printable(text string) string {
	var b strings.Builder
	for i, r := range text {
		switch {
		case r == '\n':
			b.WriteRune(r)
		case r < 0x20 || r >= 0x7F && r < 0xA0:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r == 0xFFFD && !strings.HasPrefix(text[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, text[i])
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
