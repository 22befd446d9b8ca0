package top

import (
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/stile-lock/stile/tools/cmd/stile/shown"
)

// column is one of a grid.
type column struct {
	name  string
	right bool // its cells end below each other, as numbers do

	// flexible: its cells may be cut, down to flexLeast, once everything that
	// is spare has gone.
	flexible bool
	// What does not fit goes: the spare ones first, then the others that have
	// a rank, in each case the highest rank first. Rank 0 stays.
	spare bool
	rank  int
}

// flexLeast is what a column that was cut has at least.
const flexLeast = 10

const gap = "  "

// cell is a text, and an end that stays when it is cut, which is in the middle
// of the text.
type cell struct{ text, end string }

func cells(texts ...string) (list []cell) {
	for _, t := range texts {
		list = append(list, cell{text: t})
	}
	return list
}

func (c cell) width() int { return shown.Width(c.text) + shown.Width(c.end) }

func (c cell) fit(width int) string {
	return shown.Cut(c.text, width-shown.Width(c.end)) + c.end
}

// row is the cells of a line, and a style. A tail stands in place of the
// cells that are missing at its end.
type row struct {
	style lipgloss.Style
	cells []cell
	tail  string
}

// grid is a table that is as wide as its content, and no wider than the
// terminal.
type grid struct {
	columns []column
	rows    []row
}

// layout is the width of each column, -1 for one that is left out.
func (g *grid) layout(width int) []int {
	widths := make([]int, len(g.columns))
	for i, c := range g.columns {
		widths[i] = shown.Width(c.name)
		for _, r := range g.rows {
			if i < len(r.cells) {
				widths[i] = max(widths[i], r.cells[i].width())
			}
		}
	}
	// over is by how much it is too wide, with all flexible ones cut or with none.
	over := func(cut bool) int {
		sum := -len(gap)
		for i, w := range widths {
			switch {
			case w < 0:
				continue
			case cut && g.columns[i].flexible:
				w = min(w, flexLeast)
			}
			sum += w + len(gap)
		}
		return sum - width
	}
	leaveOut := func(spare bool) bool {
		worst := -1
		for i, c := range g.columns {
			if widths[i] >= 0 && c.rank > 0 && (c.spare || !spare) && (worst < 0 || c.rank > g.columns[worst].rank) {
				worst = i
			}
		}
		if worst < 0 {
			return false
		}
		widths[worst] = -1
		return true
	}
	for over(false) > 0 && leaveOut(true) {
	}
	for over(true) > 0 && leaveOut(false) {
	}
	// The widest is cut first.
	for n := over(false); n > 0; n-- {
		widest := -1
		for i, c := range g.columns {
			if c.flexible && widths[i] > flexLeast && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break // narrower than anything; the lines are cut as a whole
		}
		widths[widest]--
	}
	return widths
}

// draw calls line with the head and then with each row, from the nth on.
func (g *grid) draw(width, from int, line func(style lipgloss.Style, text string)) {
	widths := g.layout(width)
	names := make([]string, len(g.columns))
	for i, c := range g.columns {
		names[i] = c.name
	}
	line(bold, g.text(widths, row{cells: cells(names...)}))
	for _, r := range g.rows[min(from, len(g.rows)):] {
		line(r.style, g.text(widths, r))
	}
}

func (g *grid) text(widths []int, r row) string {
	var parts []string
	for i, c := range r.cells {
		w := widths[i]
		if w < 0 {
			continue
		}
		text := c.fit(w)
		fill := strings.Repeat(" ", w-shown.Width(text))
		if g.columns[i].right {
			text = fill + text
		} else {
			text += fill
		}
		parts = append(parts, text)
	}
	return strings.TrimRight(strings.Join(append(parts, r.tail), gap), " ")
}
