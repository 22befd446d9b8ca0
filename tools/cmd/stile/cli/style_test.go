package cli

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestFit(t *testing.T) {
	const token = "259864247628988417"
	long, name := strings.Repeat("schlüssel/", 22), strings.Repeat("n", 64)
	fill := func() *table {
		t := newTable("KEY", "TOKEN", "HOLDER", "FOR")
		t.row([]string{long, token, name, "10s"})
		t.row([]string{"short", token, "ann", "10s"})
		t.row([]string{"", "waits", "bob"})
		return t
	}
	whole := fill().lines()
	for _, test := range []struct {
		width, longest int
		key, holder    string
	}{
		{0, 311, long, name},
		{400, 311, long, name},
		{310, 310, string([]rune(long)[:218]) + "…", name},
		// The holder is cut only when the key is no wider.
		{160, 160, string([]rune(long)[:68]) + "…", name},
		{120, 120, string([]rune(long)[:45]) + "…", name[:46] + "…"},
		// No column gets too narrow to be of use.
		{40, 75, string([]rune(long)[:23]) + "…", name[:23] + "…"},
	} {
		table := fill()
		table.fit(test.width)
		lines := table.lines()
		longest := 0
		for _, line := range lines {
			longest = max(longest, utf8.RuneCountInString(line))
		}
		f := strings.Fields(lines[1])
		if longest != test.longest || !slices.Equal(f, []string{test.key, token, test.holder, "10s"}) {
			t.Errorf("width %d: %d wide, %q", test.width, longest, f)
		}
		if !slices.Equal(strings.Fields(lines[3]), strings.Fields(whole[3])) || strings.Fields(lines[2])[0] != "short" {
			t.Errorf("width %d: what is short is not as it was: %q", test.width, lines)
		}
	}
}
