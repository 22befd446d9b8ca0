package shown

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for text, want := range map[string]string{"a/b": "a/b", "é": "é", "a\x1b[2J": `"a\x1b[2J"`, "\xff": `"\xff"`, "a\u202eb": `"a\u202eb"`, "a\ufffdb": `"a�b"`} {
		if got := Text(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestCut(t *testing.T) {
	for _, test := range []struct {
		text  string
		width int
		want  string
	}{
		{"abcdef", 6, "abcdef"},
		{"abcdef", 5, "ab…ef"},
		{"abcdef", 4, "ab…f"},
		{"abcdef", 2, "a…"},
		{"abcdef", 1, "…"},
		{"abcdef", 0, ""},
		{"abcdef", -3, ""},
		{"", 0, ""},
		{"orders/eu/2026/4711", 12, "orders…/4711"},
		{"orders/eu/2026/4712", 12, "orders…/4712"},
		// Two columns each: what does not go in whole stays out.
		{"鍵鍵鍵鍵", 7, "鍵…鍵鍵"},
		{"鍵鍵鍵鍵", 6, "鍵…鍵"},
		{"鍵鍵鍵鍵", 2, "…"},
		// One character of two runes, and one of many.
		{"e\u0301e\u0301e\u0301e\u0301", 3, "e\u0301…e\u0301"},
		{"👩‍👩‍👧a👩‍👩‍👧b👩‍👩‍👧", 6, "👩‍👩‍👧a…👩‍👩‍👧"},
		// Escapes, and what only looks like one.
		{Text("\xff\xff\xff\xff"), 11, `"\xff…\xff"`},
		{Text("\xff\xff\xff\xff"), 10, `"\xff…"`},
		{Text("a\u202eb\x00\n"), 9, `"a…\n"`},
		{`a\xff\xffb`, 6, `a\x…fb`},
	} {
		if got := Cut(test.text, test.width); got != test.want {
			t.Errorf("%q in %d columns: %q, want %q", test.text, test.width, got, test.want)
		}
	}
}

// Whatever the text, the result is valid, as wide as it may be and no wider, and
// begins and ends as the text does.
func FuzzCut(f *testing.F) {
	f.Add("orders/eu/2026/4711", 12)
	f.Add("\xff\x00鍵e\u0301", 5)
	f.Add("\u0301\u0301", 0)
	f.Fuzz(func(t *testing.T, text string, width int) {
		s := Text(text)
		width %= 300
		got := Cut(s, width)
		if !utf8.ValidString(got) || Width(got) > max(width, 0) {
			t.Fatalf("%q in %d columns: %q is %d wide", s, width, got, Width(got))
		}
		if Width(s) <= width {
			if got != s {
				t.Fatalf("%q fits into %d columns, and is %q", s, width, got)
			}
			return
		}
		if width < 1 {
			return
		}
		for i := range got {
			if strings.HasPrefix(got[i:], dots) && strings.HasPrefix(s, got[:i]) && strings.HasSuffix(s, got[i+len(dots):]) {
				return
			}
		}
		t.Fatalf("%q in %d columns: %q", s, width, got)
	})
}

func TestCutEnd(t *testing.T) {
	for _, test := range []struct {
		width int
		want  string
	}{{9, "no answer"}, {8, "no answ…"}, {1, "…"}, {0, ""}, {-1, ""}} {
		if got := CutEnd("no answer", test.width); got != test.want {
			t.Errorf("%d columns: %q, want %q", test.width, got, test.want)
		}
	}
}
