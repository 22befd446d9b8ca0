package config

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// origins tells where the settings came from.
type origins struct {
	args []string
	app  *kong.Application
	file yamlFile
}

var flagName = regexp.MustCompile(`--[a-z][a-z-]*`)

// explain adds to an error where the settings came from that it names: who reads
// it may have given none of them on the command line.
func (o *origins) explain(err error) error {
	text := err.Error()
	if _, arg, ok := strings.Cut(text, "unexpected argument "); ok && fileLike(arg) {
		return fmt.Errorf("unexpected argument %s: for a settings file say --config %s", arg, arg)
	}
	var from []string
	for _, name := range flagName.FindAllString(text, -1) {
		_, where := o.of(strings.TrimPrefix(name, "--"))
		if says := name + " is from " + where; where != "" && !slices.Contains(from, says) && !strings.Contains(text, where) {
			from = append(from, says)
		}
	}
	if len(from) == 0 {
		return err
	}
	return fmt.Errorf("%w (%s)", err, strings.Join(from, ", "))
}

// of is the value of a flag and where it is from; where is empty for one of the
// command line, and for a default.
func (o *origins) of(name string) (value, where string) {
	i := slices.IndexFunc(o.app.Flags, func(f *kong.Flag) bool { return f.Name == name })
	if i < 0 || o.onCommandLine(name) {
		return "", ""
	}
	for _, env := range o.app.Flags[i].Envs {
		if value, ok := os.LookupEnv(env); ok {
			return value, env
		}
	}
	return o.inFile(name)
}

func (o *origins) onCommandLine(name string) bool {
	return slices.ContainsFunc(o.args, func(arg string) bool {
		return arg == "--"+name || strings.HasPrefix(arg, "--"+name+"=")
	})
}

func (o *origins) inFile(name string) (value, where string) {
	node, ok := o.file.settings[name]
	if !ok {
		return "", ""
	}
	return yamlValue(&node), fmt.Sprintf("%s, line %d", o.file.name, o.file.lines[name])
}

// environment returns the variables that count, and warnings about those that
// may not be meant.
func (o *origins) environment() (counts, warnings []string) {
	var shared []string
	for _, flag := range o.app.Flags {
		value, env := o.of(flag.Name)
		if !slices.Contains(flag.Envs, env) {
			continue
		}
		counts = append(counts, env)
		if slices.Contains(sharedWithClients, env) {
			shared = append(shared, env)
		}
		if other, where := o.inFile(flag.Name); where != "" && other != value {
			warnings = append(warnings, fmt.Sprintf("%s=%s in the environment beats %s: %s (%s)", env, value, flag.Name, other, where))
		}
	}
	for _, env := range ofClients {
		if _, ok := os.LookupEnv(env); ok && len(shared) > 0 {
			warnings = append(warnings, fmt.Sprintf("this node uses %s of the environment, which also has %s, a variable of clients: if they are a client's, unset them, or give this node's own as flags", strings.Join(shared, ", "), env))
			break
		}
	}
	return counts, warnings
}

// fileLike tells an argument that is meant as a settings file.
func fileLike(arg string) bool {
	if strings.HasSuffix(arg, ".yaml") || strings.HasSuffix(arg, ".yml") {
		return true
	}
	info, err := os.Stat(arg)
	return err == nil && info.Mode().IsRegular()
}
