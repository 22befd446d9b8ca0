package cluster

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/stile-lock/stile/conformance/cluster/rig"
)

// Placeholders are what a launch template may hold, with their meaning.
var Placeholders = []struct{ Name, Meaning string }{
	{"listen", "where the node has to listen: 127.0.1.I:PORT for node I"},
	{"advertise", "the address by which clients and the other nodes know it, which is a relay to the one above"},
	{"peers", "these addresses of all nodes, this one too, with commas between them, highest priority first"},
	{"index", "the node's place in that list, counted from 1"},
	{"state_dir", "a directory of the node's own, which it finds again after a restart; it may not exist yet"},
}

// Template is a command line for a node, cut into its words.
type Template struct {
	text  string
	words []string
}

var placeholder = regexp.MustCompile(`\{(\w+)\}`)

// ParseTemplate reads a command line. Words are parted by spaces; quotes of
// either kind and backslashes work as in a shell, and nothing else does.
func ParseTemplate(text string) (*Template, error) {
	words, err := split(text)
	if err != nil {
		return nil, fmt.Errorf("the launch template %q: %w", text, err)
	}
	if len(words) == 0 {
		return nil, errors.New("the launch template is empty: give the command that starts a node")
	}
	t := &Template{text, words}
	for _, m := range placeholder.FindAllStringSubmatch(text, -1) {
		if !slices.ContainsFunc(Placeholders, func(p struct{ Name, Meaning string }) bool { return p.Name == m[1] }) {
			return nil, fmt.Errorf("the launch template has %s, which is no placeholder; there are %s", m[0], names())
		}
	}
	for _, must := range []string{"{listen}", "{peers}"} {
		if !strings.Contains(text, must) {
			return nil, fmt.Errorf("the launch template %q lacks %s: a node has to be told where it listens, and who the others are", text, must)
		}
	}
	return t, nil
}

func names() string {
	var list []string
	for _, p := range Placeholders {
		list = append(list, "{"+p.Name+"}")
	}
	return strings.Join(list, ", ")
}

// split cuts a command line into words.
func split(text string) (words []string, err error) {
	var word strings.Builder
	var quote rune
	begun, escaped := false, false
	for _, r := range text {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			begun, escaped = true, true
		case quote != 0:
			if r == quote {
				quote = 0
			} else {
				word.WriteRune(r)
			}
		case r == '\'' || r == '"':
			begun, quote = true, r
		case r == ' ' || r == '\t' || r == '\n':
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		default:
			begun = true
			word.WriteRune(r)
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a quote (%c) is not closed", quote)
	}
	if escaped {
		return nil, errors.New("it ends with a backslash")
	}
	if begun {
		words = append(words, word.String())
	}
	return words, nil
}

// command is the command line of a node.
func (t *Template) command(n *rig.Node, peers string) []string {
	r := strings.NewReplacer(
		"{listen}", n.Listen, "{advertise}", n.Advertise, "{peers}", peers, "{index}", strconv.Itoa(n.ID), "{state_dir}", n.StateDir(),
	)
	words := make([]string, len(t.words))
	for i, w := range t.words {
		words[i] = r.Replace(w)
	}
	return words
}
