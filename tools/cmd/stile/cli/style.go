package cli

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"charm.land/lipgloss/v2"
	"golang.org/x/term"
)

// styles colours what is printed, on a terminal.
type styles struct{ on bool }

// stylesFor: colour only on a terminal, and not if NO_COLOR is set.
func stylesFor(out io.Writer) styles {
	f := fileOf(out)
	return styles{f != nil && term.IsTerminal(int(f.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

func (s styles) paint(colour, text string) string {
	if !s.on {
		return text
	}
	return lipgloss.NewStyle().Foreground(lipgloss.Color(colour)).Render(text)
}

func (s styles) good(text string) string { return s.paint("2", text) }
func (s styles) bad(text string) string  { return s.paint("1", text) }

func (s styles) head(text string) string {
	if !s.on {
		return text
	}
	return lipgloss.NewStyle().Bold(true).Render(text)
}

// table writes rows whose cells stand below each other. Colours are put on
// whole lines, because a tabwriter would count them.
type table struct {
	b strings.Builder
	w *tabwriter.Writer
}

func newTable(columns ...string) *table {
	t := new(table)
	t.w = tabwriter.NewWriter(&t.b, 0, 0, 2, ' ', 0)
	t.row(columns)
	return t
}

func (t *table) row(cells []string) { fmt.Fprintln(t.w, strings.Join(cells, "\t")) }

func (t *table) lines() []string {
	t.w.Flush()
	lines := strings.Split(strings.TrimSuffix(t.b.String(), "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return lines
}

// printable is text of others as it can be shown on a terminal: in quotes if
// it has anything that could move a cursor, or be mistaken.
func printable(text string) string {
	for _, r := range text {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return strconv.Quote(text)
		}
	}
	return text
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return printable(text)
}

// short is a duration in at most two units.
func short(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
}
