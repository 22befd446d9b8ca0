// Package shelldoc makes man pages and completions from the model that kong
// has of a command line, so that they cannot miss a flag or a command.
package shelldoc

import (
	"strings"

	"github.com/alecthomas/kong"
)

// commands lists the visible commands of a program, those of one level.
func commands(app *kong.Application) (list []*kong.Node) {
	for _, n := range app.Children {
		if n.Type == kong.CommandNode && !n.Hidden {
			list = append(list, n)
		}
	}
	return list
}

// flags lists the visible flags of a node itself.
func flags(n *kong.Node) (list []*kong.Flag) {
	for _, f := range n.Flags {
		if !f.Hidden {
			list = append(list, f)
		}
	}
	return list
}

// takesFile reports whether a flag's value is the name of a file.
func takesFile(f *kong.Flag) bool { return f.PlaceHolder == "FILE" }

// choices are the values that a flag or argument can have, if they are few.
func choices(v *kong.Value) []string {
	if v.Enum == "" {
		return nil
	}
	return strings.Split(v.Enum, ",")
}

// passes reports whether a command's last argument is a command line.
func passes(n *kong.Node) bool {
	return len(n.Positional) > 0 && n.Positional[len(n.Positional)-1].Passthrough
}

// names are how a flag is written, the short form first.
func names(f *kong.Flag) []string {
	if f.Short != 0 {
		return []string{"-" + string(f.Short), "--" + f.Name}
	}
	return []string{"--" + f.Name}
}
