package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

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

// widthOf is how wide a terminal is; 0: it is none, or does not say.
func widthOf(out io.Writer) int {
	f := fileOf(out)
	if f == nil || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// table writes rows whose cells stand below each other. Colours are put on
// whole lines, because a tabwriter would count them.
type table struct{ rows [][]string }

func newTable(columns ...string) *table { return &table{[][]string{columns}} }

func (t *table) row(cells []string) { t.rows = append(t.rows, cells) }

const (
	columnGap = 2
	// leastColumn is more than a token or a duration has: what people compare is
	// never cut.
	leastColumn = 24
)

// fit cuts the cells of the widest columns, so that the lines fit into a width;
// 0: that is not limited. No column gets narrower than leastColumn: where that
// is not enough, lines are longer.
func (t *table) fit(width int) {
	if width <= 0 {
		return
	}
	var columns []int
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(columns) {
				columns = append(columns, 0)
			}
			columns[i] = max(columns[i], utf8.RuneCountInString(cell))
		}
	}
	over := (len(columns)-1)*columnGap - width
	for _, c := range columns {
		over += c
	}
	for ; over > 0; over-- {
		widest := slices.Index(columns, slices.Max(columns))
		if columns[widest] <= leastColumn {
			break
		}
		columns[widest]--
	}
	for _, row := range t.rows {
		for i, cell := range row {
			if runes := []rune(cell); len(runes) > columns[i] {
				row[i] = string(runes[:columns[i]-1]) + "…"
			}
		}
	}
}

func (t *table) lines() []string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, columnGap, ' ', 0)
	for _, row := range t.rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	w.Flush()
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
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
