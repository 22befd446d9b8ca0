package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// raw is a bill as cyclonedx-gomod makes it of a program that is no release.
const raw = `{
  "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
  "metadata": {"timestamp": "2030-01-01T00:00:00Z", "component": {"bom-ref": "pkg:golang/github.com/stile-lock/stile/server@v0.3.0?type=module",
    "type": "application", "name": "github.com/stile-lock/stile/server", "version": "v0.3.0"}},
  "components": [
    {"bom-ref": "pkg:golang/../protocol@(devel)?type=module", "type": "library", "name": "../protocol", "version": "(devel)",
     "purl": "pkg:golang/../protocol@(devel)?type=module\u0026goos=linux", "externalReferences": [{"url": "https://../protocol", "type": "vcs"}]},
    {"bom-ref": "pkg:golang/example.com/x@v1.2.3?type=module", "type": "library", "name": "example.com/x", "version": "v1.2.3"}
  ],
  "dependencies": [{"ref": "pkg:golang/github.com/stile-lock/stile/server@v0.3.0?type=module",
    "dependsOn": ["pkg:golang/../protocol@(devel)?type=module", "pkg:golang/example.com/x@v1.2.3?type=module"]}]
}`

func replaced(path, by string) *debug.BuildInfo {
	return &debug.BuildInfo{Deps: []*debug.Module{
		{Path: path, Version: "v0.0.0", Replace: &debug.Module{Path: by, Version: "(devel)"}},
		{Path: "example.com/x", Version: "v1.2.3"},
	}}
}

func TestFinish(t *testing.T) {
	const when = "2026-12-01T00:00:00Z"
	asked := map[string]string{}
	licences := func(path, version string) ([]string, error) {
		asked[path] = version
		return []string{"MIT"}, nil
	}
	text, err := finish([]byte(raw), replaced(prefix+"protocol", "../protocol"), "v0.3.0", when, licences)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"../", "(devel)", "2030"} {
		if strings.Contains(string(text), part) {
			t.Errorf("it has %q still:\n%s", part, text)
		}
	}
	type component struct {
		Ref      string `json:"bom-ref"`
		Name     string
		Version  string
		PURL     string
		Licenses []struct{ License struct{ ID string } }
	}
	var bom struct {
		Metadata struct {
			Timestamp string
			Component component
		}
		Components   []component
		Dependencies []struct {
			Ref       string
			DependsOn []string
		}
	}
	if err := json.Unmarshal(text, &bom); err != nil {
		t.Fatal(err)
	}
	if bom.Metadata.Timestamp != when {
		t.Errorf("it is of %s", bom.Metadata.Timestamp)
	}
	const ref = "pkg:golang/github.com/stile-lock/stile/protocol@v0.3.0?type=module"
	own := bom.Components[0]
	if own.Name != prefix+"protocol" || own.Version != "v0.3.0" || own.Ref != ref || own.PURL != ref+"&goos=linux" {
		t.Errorf("our module is %+v", own)
	}
	if !slices.Contains(bom.Dependencies[0].DependsOn, ref) {
		t.Errorf("nobody depends on our module: %+v", bom.Dependencies)
	}
	for _, c := range append(bom.Components, bom.Metadata.Component) {
		if len(c.Licenses) != 1 || c.Licenses[0].License.ID != "MIT" || asked[c.Name] != c.Version {
			t.Errorf("the licence of %s %s is %v", c.Name, c.Version, c.Licenses)
		}
	}
}

func TestFinishRefuses(t *testing.T) {
	fine := func(string, string) ([]string, error) { return []string{"MIT"}, nil }
	none := func(string, string) ([]string, error) { return nil, errors.New("no licence here") }
	for name, try := range map[string]struct {
		text     string
		info     *debug.BuildInfo
		licences func(string, string) ([]string, error)
		want     string
	}{
		"another's module, replaced": {raw, replaced("example.com/y", "../y"), fine, "example.com/y is replaced"},
		"no licence":                 {raw, replaced(prefix+"protocol", "../protocol"), none, "no licence here"},
		"no bill":                    {"{", replaced(prefix+"protocol", "../protocol"), fine, ""},
		"an empty bill":              {"{}", replaced(prefix+"protocol", "../protocol"), fine, "names no program"},
	} {
		if _, err := finish([]byte(try.text), try.info, "v0.3.0", "2026-12-01T00:00:00Z", try.licences); err == nil || !strings.Contains(err.Error(), try.want) {
			t.Errorf("%s: %v, want an error with %q", name, err, try.want)
		}
	}
}

// The licences of our own modules, of Go and of a dependency are found where a
// build has them; what is no licence is an error.
func TestLicences(t *testing.T) {
	where, err := directories("../../..")
	if err != nil {
		t.Fatal(err)
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		t.Fatal("this test knows nothing of its build")
	}
	want := map[string]string{"std ": "BSD-3-Clause", prefix + "server ": "MIT"}
	for _, d := range info.Deps {
		if d.Path == "golang.org/x/mod" {
			want[d.Path+" "+d.Version] = "BSD-3-Clause"
		}
	}
	if len(want) != 3 {
		t.Fatalf("golang.org/x/mod is no dependency: %v", info.Deps)
	}
	for name, id := range want {
		path, version, _ := strings.Cut(name, " ")
		dir, err := where(path, version)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := detect(dir); err != nil || !slices.Equal(got, []string{id}) {
			t.Errorf("%s: %v, %v, want %s", name, got, err, id)
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "LICENSE"), []byte("Ask me first.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := detect(dir); err == nil {
		t.Errorf("a text that is no licence is %v", got)
	}
}
