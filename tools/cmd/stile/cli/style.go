package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"golang.org/x/term"

	"github.com/stile-lock/stile/tools/cmd/stile/shown"
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
// whole lines.
type table struct {
	rows    [][]string
	columns []int // their widths, once fit was called

	// wholeFirst: the first cell of a row is never cut. One that is too wide
	// for its column has a line of its own, above its row.
	wholeFirst bool
}

func newTable(columns ...string) *table { return &table{rows: [][]string{columns}} }

func (t *table) row(cells []string) { t.rows = append(t.rows, cells) }

const (
	columnGap = 2
	// leastColumn is more than a token or a duration has: what people compare is
	// never cut.
	leastColumn = 24
)

// fit makes the widest columns narrower, so that the lines fit into a width; 0:
// that is not limited. No column gets narrower than leastColumn: where that is
// not enough, lines are longer.
func (t *table) fit(width int) {
	t.columns = nil
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(t.columns) {
				t.columns = append(t.columns, 0)
			}
			t.columns[i] = max(t.columns[i], shown.Width(cell))
		}
	}
	if width <= 0 {
		return
	}
	over := (len(t.columns)-1)*columnGap - width
	for _, c := range t.columns {
		over += c
	}
	if t.wholeFirst { // which loses nothing
		least := max(min(t.columns[0], leastColumn), t.columns[0]-max(over, 0))
		over -= t.columns[0] - least
		t.columns[0] = least
	}
	for ; over > 0; over-- {
		widest := slices.Index(t.columns, slices.Max(t.columns))
		if t.columns[widest] <= leastColumn {
			break
		}
		t.columns[widest]--
	}
}

func (t *table) lines() (lines []string) {
	if t.columns == nil {
		t.fit(0)
	}
	for _, row := range t.rows {
		var b strings.Builder
		for i, cell := range row {
			width := t.columns[i]
			if i == 0 && t.wholeFirst && shown.Width(cell) > width {
				lines = append(lines, cell)
				cell = ""
			}
			cell = shown.Cut(cell, width)
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", width-shown.Width(cell)+columnGap))
			}
		}
		lines = append(lines, strings.TrimRight(b.String(), " "))
	}
	return lines
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return shown.Text(text)
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
