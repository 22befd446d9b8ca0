package client_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// What a program gets with the client, its guards included, is the standard
// library and the protocol.
func TestDependencies(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./...")
	list.Env = append(os.Environ(), "GOWORK=off")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	const root = "github.com/stile-lock/stile/"
	found := map[string]bool{}
	for _, path := range strings.Fields(string(out)) {
		found[path] = true
		if !strings.HasPrefix(path, root+"client") && !strings.HasPrefix(path, root+"protocol") {
			t.Errorf("the client depends on %s", path)
		}
	}
	for _, path := range []string{"client", "client/fence", "client/fence/fencesql", "client/fence/fencehttp", "client/fence/fenceredis"} {
		if !found[root+path] {
			t.Errorf("go list found no %s", path)
		}
	}
}
