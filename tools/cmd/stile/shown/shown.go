// Package shown makes text of others, such as keys and names of clients, fit to
// be shown on a terminal.
package shown

import (
	"strconv"
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

// Text is the text: in quotes, with escapes, if it has anything that could move a
// cursor, or be mistaken.
func Text(s string) string {
	for _, r := range s {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return strconv.Quote(s)
		}
	}
	return s
}

// Width is how many columns a text takes.
func Width(s string) int { return ansi.StringWidth(s) }

const dots = "…"

// Cut is a text that is no wider than so many columns: what is too much is left
// out in the middle, as names often differ at their end only. What stands for
// one character, as an escape of Text does, is left out or kept as a whole.
func Cut(s string, width int) string {
	if Width(s) <= width {
		return s
	}
	if width < Width(dots) {
		return ""
	}
	all := pieces(s)
	room := width - Width(dots)
	from, to := 0, len(all)
	for left := (room + 1) / 2; from < to && all[from].width <= left; from++ {
		left, room = left-all[from].width, room-all[from].width
	}
	for ; to > from && all[to-1].width <= room; to-- {
		room -= all[to-1].width
	}
	var b strings.Builder
	for _, p := range all[:from] {
		b.WriteString(p.text)
	}
	b.WriteString(dots)
	for _, p := range all[to:] {
		b.WriteString(p.text)
	}
	return b.String()
}

// CutEnd is Cut for sentences: what is too much is left out at the end.
func CutEnd(s string, width int) string {
	if width < Width(dots) {
		return ansi.Truncate(s, max(width, 0), "")
	}
	return ansi.Truncate(s, width, dots)
}

// piece is what stands for one character.
type piece struct {
	text  string
	width int
}

func pieces(s string) (all []piece) {
	quoted := strings.HasPrefix(s, `"`)
	for s != "" {
		text, width := ansi.FirstGraphemeCluster(s, ansi.GraphemeWidth)
		if quoted && text == `\` {
			if _, _, rest, err := strconv.UnquoteChar(s, '"'); err == nil {
				text = s[:len(s)-len(rest)]
				width = Width(text)
			}
		}
		all, s = append(all, piece{text, width}), s[len(text):]
	}
	return all
}
