package config

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

// yamlFile is a settings file.
type yamlFile struct {
	name     string
	settings map[string]yaml.Node // by flag name without the dashes
	lines    map[string]int       // of the names
}

// readYAML reads a settings file.
func readYAML(r io.Reader) (yamlFile, error) {
	f := yamlFile{name: "the settings file"}
	if named, ok := r.(interface{ Name() string }); ok {
		f.name = named.Name()
	}
	dec := yaml.NewDecoder(r)
	var doc yaml.Node
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return f, nil // nothing but comments
	}
	if err == nil {
		err = doc.Decode(&f.settings)
	}
	if err != nil {
		return f, fmt.Errorf("%s is not a YAML file of `setting: value` lines: %w", f.name, err)
	}
	// A second document would be ignored.
	var more yaml.Node
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return f, fmt.Errorf("%s has more than one YAML document: settings after a line `---` would not count", f.name)
	}
	f.lines = map[string]int{}
	for _, top := range doc.Content {
		for i := 0; top.Kind == yaml.MappingNode && i < len(top.Content); i += 2 {
			f.lines[top.Content[i].Value] = top.Content[i].Line
		}
	}
	return f, nil
}

// notInFile are flags that say what to do, not how.
var notInFile = []string{"config", "version", "help"}

// notNested names the settings that somebody put below their common beginning.
func notNested(key string, names []string) string {
	var below []string
	for _, name := range names {
		if strings.HasPrefix(name, key+"-") {
			below = append(below, name)
		}
	}
	if len(below) == 0 {
		return ": settings are lines `name: value`, not indented"
	}
	return ": write " + strings.Join(below, ", ") + " as lines of their own, not indented"
}

// Validate refuses what no flag would take.
func (f yamlFile) Validate(app *kong.Application) error {
	names := slices.DeleteFunc(flagNames(app), func(name string) bool { return slices.Contains(notInFile, name) })
	keys := slices.SortedFunc(maps.Keys(f.settings), func(a, b string) int { return f.lines[a] - f.lines[b] })
	for _, key := range keys {
		node, line := f.settings[key], f.lines[key]
		wrong := func(line int, format string, args ...any) error {
			return fmt.Errorf("%s, line %d: "+format, append([]any{f.name, line}, args...)...)
		}
		switch {
		case slices.Contains(notInFile, key):
			return wrong(line, "%q can't be set in a file", key)
		case !slices.Contains(names, key) && node.Kind == yaml.MappingNode:
			return wrong(line, "there is no setting %q with others in it%s", key, notNested(key, names))
		case !slices.Contains(names, key):
			return wrong(line, "there is no setting %q%s", key, didYouMean(key, names))
		case key == "peers" && node.Kind == yaml.SequenceNode:
			for _, entry := range node.Content {
				if entry.Kind != yaml.ScalarNode || entry.Value == "" {
					return wrong(entry.Line, "%q takes an address in each line of its list", key)
				}
			}
		case node.Kind != yaml.ScalarNode:
			return wrong(line, "%q takes a single value", key)
		}
	}
	return nil
}

// Resolve gives a flag the file's value, unless the environment has one.
func (f yamlFile) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	for _, env := range flag.Envs {
		if _, ok := os.LookupEnv(env); ok {
			return nil, nil
		}
	}
	node, ok := f.settings[flag.Name]
	if !ok {
		return nil, nil
	}
	return yamlValue(&node), nil
}

// yamlValue is a setting as a flag has it.
func yamlValue(node *yaml.Node) string {
	if node.Kind != yaml.SequenceNode {
		return node.Value
	}
	var entries []string
	for _, entry := range node.Content {
		entries = append(entries, entry.Value)
	}
	return strings.Join(entries, ",")
}

// ofClients are the variables that Stile's clients use.
// A secret is not among them: who sets one there means the node to ask for it.
var ofClients = []string{"STILE_ADDRS", "STILE_ADMIN_ADDRS", "STILE_KEY", "STILE_TOKEN", "STILE_NAME", "STILE_RETRY_FOR", "STILE_TLS"}

// sharedWithClients are variables that clients use, too.
var sharedWithClients = []string{"STILE_SECRET_FILE", "STILE_ADMIN_SECRET_FILE", "STILE_TLS_CERT", "STILE_TLS_KEY", "STILE_TLS_CA"}

// ofKubernetes matches what a cluster sets in every pod beside a service with
// the name stile.
var ofKubernetes = regexp.MustCompile(`^STILE(_[A-Z0-9_]+)?_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// checkEnviron refuses STILE_… variables that set nothing: a typo there
// would otherwise show at the worst moment.
func checkEnviron(app *kong.Application, environ []string) error {
	var known []string
	for _, flag := range app.Flags {
		known = append(known, flag.Envs...)
	}
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, "STILE_") || slices.Contains(known, name) ||
			slices.Contains(ofClients, name) || ofKubernetes.MatchString(name) {
			continue
		}
		return fmt.Errorf("the environment has %s, but there is no such setting%s", name, didYouMean(name, known))
	}
	return nil
}

func flagNames(app *kong.Application) (names []string) {
	for _, flag := range app.Flags {
		names = append(names, flag.Name)
	}
	return names
}

// didYouMean names the closest known name, if one is close.
func didYouMean(name string, known []string) string {
	best, at := "", 4
	for _, k := range known {
		if d := distance(name, k); d < at {
			best, at = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(": did you mean %s?", best)
}

// distance is the number of single-byte edits between a and b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
