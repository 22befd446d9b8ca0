package lines

import (
	"io"
	"strings"
	"testing"
)

func TestBounded(t *testing.T) {
	for _, c := range []struct {
		text, want string
		fails      bool
	}{
		{"", "", false}, {"12345", "12345", false}, {"123456", "12345", true}, {"1234567890", "12345", true},
	} {
		got, err := io.ReadAll(Bounded(strings.NewReader(c.text), 5))
		if string(got) != c.want || (err == nil) == c.fails {
			t.Errorf("%q: %q, %v", c.text, got, err)
		}
		if err != nil && !strings.Contains(err.Error(), "more than 5 bytes") {
			t.Error(err)
		}
	}
}
