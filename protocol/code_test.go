package protocol

import (
	"encoding/json"
	"os"
	"regexp"
	"testing"
)

// appendOnly is every code that was ever released, in order. A code is added
// at its end, in the change that adds it to codes.json; nothing here is
// removed, renamed or moved (SPEC.md 14.2).
var appendOnly = []string{
	"bad-request",
	"bad-key",
	"unknown-op",
	"not-held",
	"superseded",
	"spent",
	"queue-full",
	"limit",
	"unauthorized",
	"version",
	"no-active",
	"stopping",
}

func TestRegistryOnlyGrows(t *testing.T) {
	var names []string
	for _, c := range Codes() {
		names = append(names, c.String())
	}
	for i, want := range appendOnly {
		if i >= len(names) || names[i] != want {
			t.Fatalf("code %d is %v, want %s: codes are never removed, renamed or moved", i+1, names[i:min(i+1, len(names))], want)
		}
	}
	if len(names) > len(appendOnly) {
		t.Errorf("append the new codes %v to the list in code_test.go: from now on they stay", names[len(appendOnly):])
	}
}

func TestRegistryIsThatOfTheJSON(t *testing.T) {
	raw, err := os.ReadFile("codes.json")
	if err != nil {
		t.Fatal(err)
	}
	var entries []struct {
		Code     string
		NoEffect bool `json:"no_effect"`
		Retry    string
		Meaning  string
	}
	if err := json.Unmarshal(raw, &entries); err != nil {
		t.Fatal(err)
	}
	if len(entries) != len(Codes()) {
		t.Fatalf("codes.json has %d codes, the package %d: run go generate", len(entries), len(Codes()))
	}
	for i, e := range entries {
		c := Codes()[i]
		if c.String() != e.Code || c.NoEffect() != e.NoEffect || c.Retry() != (e.Retry != "no") || c.Meaning() != e.Meaning {
			t.Errorf("%s: the package has %v, no effect %v, retry %v, %q", e.Code, c, c.NoEffect(), c.Retry(), c.Meaning())
		}
		if !regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`).MatchString(e.Code) {
			t.Errorf("%q: a code is lower-case letters and single -", e.Code)
		}
		if codeOf(e.Code) != c {
			t.Errorf("%s parses to %v", e.Code, codeOf(e.Code))
		}
	}
}

// What nobody knows is not known to have had no effect.
func TestUnknownCodes(t *testing.T) {
	for _, c := range []Code{0, codeEnd, CodeUnknown} {
		if c.NoEffect() || c.Retry() || c.String() != "unknown" {
			t.Errorf("%d: no effect %v, retry %v, %s", c, c.NoEffect(), c.Retry(), c)
		}
	}
	for _, name := range []string{"", "unknown", "NOT-HELD", "not-held ", "not-hel"} {
		if c := codeOf(name); c != CodeUnknown {
			t.Errorf("%q is %v", name, c)
		}
	}
}
