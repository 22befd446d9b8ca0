package report

import (
	"fmt"
	"io"
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
	if run.Target.Hello != "" {
		fmt.Fprintf(t.w, "hello: %s\n", Printable(run.Target.Hello))
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
	if text := why(s); text != "" {
		fmt.Fprintln(t.w, indent(text, "           "))
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
	if !run.Complete {
		fmt.Fprintf(t.w, "Only %s was run: this certifies no profile.\n", run.Selected)
	}
	for _, l := range run.Ledger {
		fmt.Fprintln(t.w, "known failures:", Printable(l))
	}
	if n := run.Count(KnownFailure); n > 0 {
		fmt.Fprintf(t.w, "%d failed as the list of known failures says.\n", n)
	}
	verdict := run.Verdict().String()
	if !run.Complete {
		verdict = "what was run: " + verdict
	}
	fmt.Fprintf(t.w, "\n%s, in %v\n", verdict, run.Took.Round(100*time.Millisecond))
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
