package vet_test

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis"

	"github.com/stile-lock/stile/tools/vet"
)

// TestPage looks for the section that the URL of each analyzer leads to.
func TestPage(t *testing.T) {
	const page = "https://github.com/stile-lock/stile/blob/main/tools/vet/README.md#"
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	all := vet.Analyzers()
	if len(all) == 0 {
		t.Fatal("no analyzers")
	}
	if err := analysis.Validate(all); err != nil {
		t.Error(err)
	}
	for _, a := range all {
		if a.URL != page+a.Name {
			t.Errorf("the URL of %s is %s", a.Name, a.URL)
		}
		if !strings.Contains(string(text), "\n## "+a.Name+"\n") {
			t.Errorf("README.md has no section %s", a.Name)
		}
		if !strings.Contains(string(text), "| ["+a.Name+"](#"+a.Name+") |") {
			t.Errorf("README.md does not list %s", a.Name)
		}
	}
}
