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
}

// readYAML is a kong.ConfigurationLoader.
func readYAML(r io.Reader) (kong.Resolver, error) {
	f := yamlFile{name: "the settings file"}
	if named, ok := r.(interface{ Name() string }); ok {
		f.name = named.Name()
	}
	dec := yaml.NewDecoder(r)
	err := dec.Decode(&f.settings)
	if errors.Is(err, io.EOF) {
		return f, nil // nothing but comments
	}
	if err != nil {
		return nil, fmt.Errorf("%s is not a YAML file of `setting: value` lines: %w", f.name, err)
	}
	// A second document would be ignored.
	var more yaml.Node
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s has more than one YAML document: settings after a line `---` would not count", f.name)
	}
	return f, nil
}

// Validate refuses what no flag would take.
func (f yamlFile) Validate(app *kong.Application) error {
	names := flagNames(app)
	keys := slices.SortedFunc(maps.Keys(f.settings), func(a, b string) int {
		return f.settings[a].Line - f.settings[b].Line
	})
	for _, key := range keys {
		node := f.settings[key]
		switch {
		case key == "config" || key == "version" || key == "help":
			return fmt.Errorf("%s, line %d: %q can't be set in a file", f.name, node.Line, key)
		case !slices.Contains(names, key):
			return fmt.Errorf("%s, line %d: there is no setting %q%s", f.name, node.Line, key, didYouMean(key, names))
		case key == "peers" && node.Kind == yaml.SequenceNode:
			for _, entry := range node.Content {
				if entry.Kind != yaml.ScalarNode || entry.Value == "" {
					return fmt.Errorf("%s, line %d: %q takes an address in each line of its list", f.name, entry.Line, key)
				}
			}
		case node.Kind != yaml.ScalarNode:
			return fmt.Errorf("%s, line %d: %q takes a single value", f.name, node.Line, key)
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
	if node.Kind == yaml.SequenceNode {
		var entries []string
		for _, entry := range node.Content {
			entries = append(entries, entry.Value)
		}
		return strings.Join(entries, ","), nil
	}
	return node.Value, nil
}

// ofClients are the variables that Stile's clients use.
// A secret is not among them: who sets one there means the node to ask for it.
var ofClients = []string{"STILE_ADDRS", "STILE_ADMIN_ADDRS", "STILE_KEY", "STILE_TOKEN", "STILE_NAME", "STILE_RETRY_FOR", "STILE_TLS"}

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
