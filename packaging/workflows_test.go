package packaging

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// makeTargets are the targets of the Makefile.
func makeTargets(t *testing.T) map[string]bool {
	t.Helper()
	targets := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z][a-z-]*):(?:[^=]|$)`).FindAllStringSubmatch(read(t, "../Makefile"), -1) {
		targets[m[1]] = true
	}
	if !targets["build"] || !targets["test"] {
		t.Fatalf("the targets of the Makefile are not understood: %v", targets)
	}
	return targets
}

// What CI does anybody can do: its steps run make targets, and nothing else.
func TestWorkflows(t *testing.T) {
	targets := makeTargets(t)
	names, err := filepath.Glob("../.github/workflows/*.yml")
	if err != nil || len(names) == 0 {
		t.Fatalf("no workflows: %v", err)
	}
	called := map[string]bool{}
	for _, name := range names {
		var workflow struct {
			Permissions map[string]string
			Jobs        map[string]struct {
				Steps []struct{ Uses, Run string }
			}
		}
		if err := yaml.Unmarshal([]byte(read(t, name)), &workflow); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(workflow.Jobs) == 0 || len(workflow.Permissions) == 0 {
			t.Errorf("%s has no jobs, or says nothing of permissions", name)
		}
		for id, job := range workflow.Jobs {
			if len(job.Steps) == 0 {
				t.Errorf("%s: the job %s does nothing", name, id)
			}
			for _, step := range job.Steps {
				if step.Uses != "" {
					if !regexp.MustCompile(`^[\w-]+/[\w-]+@v\d+$`).MatchString(step.Uses) {
						t.Errorf("%s, %s: %q does not name a version", name, id, step.Uses)
					}
					continue
				}
				words := strings.Fields(step.Run)
				if len(words) < 2 || words[0] != "make" || strings.ContainsAny(step.Run, ";&|\n") {
					t.Errorf("%s, %s: %q is not one call of make", name, id, step.Run)
					continue
				}
				for _, w := range words[1:] {
					switch {
					case strings.Contains(w, "="): // a variable
					case !targets[w]:
						t.Errorf("%s, %s: make %s: there is no such target", name, id, w)
					default:
						called[w] = true
					}
				}
			}
		}
	}
	for _, must := range []string{"verify", "test", "race", "snapshot-test", "release-check", "release"} {
		if !called[must] {
			t.Errorf("no workflow calls make %s", must)
		}
	}
}
