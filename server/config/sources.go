package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

// yamlFile is a settings file. Its keys are flag names without the dashes.
type yamlFile map[string]yaml.Node

// readYAML is a kong.ConfigurationLoader.
func readYAML(r io.Reader) (kong.Resolver, error) {
	var f yamlFile
	if err := yaml.NewDecoder(r).Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("not a YAML file of `setting: value` lines: %w", err)
	}
	return f, nil
}

// Validate refuses what no flag would take.
func (f yamlFile) Validate(app *kong.Application) error {
	names := flagNames(app)
	for key, node := range f {
		switch {
		case key == "config" || key == "version" || key == "help":
			return fmt.Errorf("line %d: %q can't be set in a file", node.Line, key)
		case !slices.Contains(names, key):
			return fmt.Errorf("line %d: there is no setting %q%s", node.Line, key, didYouMean(key, names))
		case node.Kind != yaml.ScalarNode:
			return fmt.Errorf("line %d: %q takes a single value", node.Line, key)
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
	node, ok := f[flag.Name]
	if !ok {
		return nil, nil
	}
	return node.Value, nil
}

// ofClients are the variables that Stile's clients use.
var ofClients = []string{"STILE_ADDRS", "STILE_KEY", "STILE_TOKEN", "STILE_SECRET"}

// ofKubernetes matches what a cluster sets in every pod beside a service with
// the name stile.
var ofKubernetes = regexp.MustCompile(`^STILE(_[A-Z0-9_]+)?_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_[0-9]+_(TCP|UDP)(_(PROTO|PORT|ADDR))?)?)$`)

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
