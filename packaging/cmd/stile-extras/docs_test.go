package main

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../../.."

// Every link in a package leads to a file of the package, to a title of the same
// document, or out of it.
func TestDocuments(t *testing.T) {
	texts, err := documents(root, "v1.2.3", "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	outside := 0
	for name, text := range texts {
		if path.Ext(name) != ".md" {
			continue
		}
		for _, m := range regexp.MustCompile(`(?m)\]\(([^)]*)\)|^\[[^\]]+\]:\s*(\S+)`).FindAllStringSubmatch(text, -1) {
			target := m[1] + m[2]
			if rest, ok := strings.CutPrefix(target, "https://github.com/stile-lock/stile/blob/v1.2.3/"); ok {
				outside++
				file, _, _ := strings.Cut(rest, "#")
				if _, err := os.Stat(filepath.Join(root, file)); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				continue
			}
			if strings.HasPrefix(target, "https://") || strings.HasPrefix(target, "#") {
				continue
			}
			file, _, _ := strings.Cut(target, "#")
			if _, ok := texts[path.Join(path.Dir(name), file)]; !ok {
				t.Errorf("%s links to %s, which no package has", name, target)
			}
		}
	}
	if outside == 0 {
		t.Error("nothing leads to the repository: links are not understood")
	}
	for _, name := range []string{"README.md", "CHANGELOG.md", "SPEC.md", "CLUSTER.md", "METRICS.md", "SECURITY.md", "deploy/grafana/stile.json", "deploy/prometheus/alerts.yaml"} {
		if texts[name] == "" {
			t.Errorf("there is no %s", name)
		}
	}
	readme := texts["README.md"]
	if !strings.HasPrefix(readme, "# Stile 1.2.3\n") || strings.Contains(readme, "{VERSION}") || regexp.MustCompile(`(?m)^    (make|bin/)`).MatchString(readme) {
		t.Errorf("the README is that of the repository, or names no version: %.100q", readme)
	}
}

func TestRelink(t *testing.T) {
	for from, want := range map[string]string{
		"[a](METRICS.md#x)":                  "[a](METRICS.md#x)",
		"[a](../protocol/SPEC.md)":           "[a](SPEC.md)",
		"[a](../deploy/grafana/stile.json)":  "[a](deploy/grafana/stile.json)",
		"[a](#here) [b](https://x.example/)": "[a](#here) [b](https://x.example/)",
		"[a](../README.md#limits)":           "[a](https://github.com/stile-lock/stile/blob/abc/README.md#limits)",
		"[a](PERFORMANCE.md), [b](../deploy)": "[a](https://github.com/stile-lock/stile/blob/abc/server/PERFORMANCE.md), " +
			"[b](https://github.com/stile-lock/stile/blob/abc/deploy)",
	} {
		if got, err := relink(root, "server/CLUSTER.md", from, "abc"); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", from, got, err, want)
		}
	}
	if _, err := relink(root, "server/CLUSTER.md", "[a](NOWHERE.md)", "abc"); err == nil {
		t.Error("a link to a file that is nowhere was taken")
	}
}
