package cli

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestFit(t *testing.T) {
	const token = "259864247628988417"
	long, name := strings.Repeat("schlüssel/", 22)+"ende", strings.Repeat("n", 60)+"ende"
	fill := func() *table {
		t := newTable("KEY", "TOKEN", "HOLDER", "FOR")
		t.wholeFirst = true
		t.row([]string{long, token, name, "10s"})
		t.row([]string{"short", token, "ann", "10s"})
		t.row([]string{"", "waits", "bob"})
		return t
	}
	for _, test := range []struct {
		width, longest int // without a line that is a key
		own            bool
		holder         string
	}{
		{0, 315, false, name},
		{400, 315, false, name},
		{314, 314, true, name},
		// The holder is cut only when the key has made all the room it can.
		{120, 120, true, name},
		{115, 115, true, name},
		{114, 114, true, name[:31] + "…" + name[33:]},
		// No column gets too narrow to be of use.
		{40, 75, true, "nnnnnnnnnnnn…nnnnnnnende"},
	} {
		table := fill()
		table.fit(test.width)
		lines := table.lines()
		first := []string{long, token, test.holder, "10s"}
		if test.own {
			if lines[1] != long {
				t.Errorf("width %d: the key is %q", test.width, lines[1])
				continue
			}
			lines, first = slices.Delete(lines, 1, 2), first[1:]
		}
		longest := 0
		for _, line := range lines {
			longest = max(longest, utf8.RuneCountInString(line))
		}
		if f := strings.Fields(lines[1]); longest != test.longest || !slices.Equal(f, first) {
			t.Errorf("width %d: %d wide, %q", test.width, longest, f)
		}
		if !slices.Equal(strings.Fields(lines[3]), []string{"waits", "bob"}) || strings.Fields(lines[2])[0] != "short" {
			t.Errorf("width %d: what is short is not as it was: %q", test.width, lines)
		}
		at := func(line, text string) int { return utf8.RuneCountInString(line[:strings.Index(line, text)]) }
		if at(lines[1], token) != at(lines[0], "TOKEN") || at(lines[2], token) != at(lines[0], "TOKEN") || at(lines[3], "waits") != at(lines[0], "TOKEN") {
			t.Errorf("width %d: the columns do not stand:\n%s", test.width, strings.Join(lines, "\n"))
		}
	}
}

// Rows may be of different lengths, and characters of different widths.
func TestColumnsStand(t *testing.T) {
	table := newTable("ADMIN", "ROLE", "EPOCH")
	table.row([]string{"a", "unreachable"})
	table.row([]string{"鍵鍵鍵鍵", "active", "60500000.0"})
	table.row([]string{"b", "standby", "60500000.1"})
	want := []string{
		"ADMIN     ROLE         EPOCH",
		"a         unreachable",
		"鍵鍵鍵鍵  active       60500000.0",
		"b         standby      60500000.1",
	}
	if got := table.lines(); !slices.Equal(got, want) {
		t.Errorf("\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
