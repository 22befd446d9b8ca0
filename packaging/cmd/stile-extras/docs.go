package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// shipped are the documents of a package: where each is in the repository, and
// where it is beside the others in a package.
var shipped = map[string]string{
	"packaging/README-package.md":   "README.md",
	"CHANGELOG.md":                  "CHANGELOG.md",
	"protocol/SPEC.md":              "SPEC.md",
	"server/CLUSTER.md":             "CLUSTER.md",
	"server/METRICS.md":             "METRICS.md",
	"server/SECURITY.md":            "SECURITY.md",
	"deploy/grafana/stile.json":     "deploy/grafana/stile.json",
	"deploy/prometheus/alerts.yaml": "deploy/prometheus/alerts.yaml",
}

// repository is where its files are read, at a tag or a commit.
const repository = "https://github.com/stile-lock/stile/blob/"

// documents are the texts of all that is shipped, by their names in a package.
func documents(root, version, ref string) (map[string]string, error) {
	texts := map[string]string{}
	for from, to := range shipped {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(from)))
		if err != nil {
			return nil, err
		}
		texts[to] = string(text)
		if path.Ext(from) != ".md" {
			continue
		}
		if texts[to], err = relink(root, from, string(text), ref); err != nil {
			return nil, err
		}
		texts[to] = strings.ReplaceAll(texts[to], "{VERSION}", strings.TrimPrefix(version, "v"))
	}
	return texts, nil
}

// link is one of Markdown: `](target)`. Our documents have no other form.
var link = regexp.MustCompile(`\]\(([^()\s]+)\)`)

// relink has the links of a document lead to what is beside it in a package, or
// else to the repository. One to a file that is nowhere is an error.
func relink(root, from, text, ref string) (string, error) {
	var failed error
	text = link.ReplaceAllStringFunc(text, func(found string) string {
		target := link.FindStringSubmatch(found)[1]
		if strings.Contains(target, "://") || strings.HasPrefix(target, "#") {
			return found
		}
		name, fragment, ok := strings.Cut(target, "#")
		if ok {
			fragment = "#" + fragment
		}
		name = path.Join(path.Dir(from), name)
		if to, ok := shipped[name]; ok {
			rel, err := filepath.Rel(path.Dir(shipped[from]), to)
			if err != nil {
				failed = err
			}
			return "](" + filepath.ToSlash(rel) + fragment + ")"
		}
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(name))); err != nil {
			failed = fmt.Errorf("%s links to %s: %w", from, target, err)
		}
		return "](" + repository + ref + "/" + name + fragment + ")"
	})
	return text, failed
}
