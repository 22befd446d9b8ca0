package main

import (
	"strings"
	"testing"
)

func TestRunErrors(t *testing.T) {
	for plan, says := range map[string]string{
		"{":              "the plan cannot be read",
		`{"depth": -1}`:  "a depth of -1",
		`{"rate": "no"}`: "the plan cannot be read",
	} {
		if err := run(t.Context(), "127.0.0.1:1", plan); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: the error is %v, want one that says %q", plan, err, says)
		}
	}
}
