package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

// page is what the --help of a program, or of a command of it, says.
type page struct {
	name     string   // of the program, or the words of the command
	usage    string   // without "Usage: "
	about    []string // paragraphs
	flags    []option
	commands []*page
}

type option struct {
	long  string // without dashes
	short string // one letter, or ""
	value string // the placeholder, "" for a switch
	help  string
}

var (
	flagLine    = regexp.MustCompile(`^ {2,6}(?:-(\w), )?--([a-z][a-z0-9-]*)(?:=(\S+))?(?: {2,}(.*))?$`)
	commandLine = regexp.MustCompile(`^ {2}([a-z][a-z0-9-]*(?: [a-z][a-z0-9-]*)*)(?: .*)?$`)
)

// read asks a program for its help, and for that of each of its commands.
func read(program string) (*page, error) {
	text, err := output(program, "--help")
	if err != nil {
		return nil, err
	}
	p, commands, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s --help: %w", program, err)
	}
	p.name = filepath.Base(program)
	p.choose()
	for _, name := range commands {
		text, err := output(program, append(strings.Fields(name), "--help")...)
		if err != nil {
			return nil, err
		}
		c, _, err := parse(text)
		if err != nil {
			return nil, fmt.Errorf("%s %s --help: %w", program, name, err)
		}
		c.name = name
		p.commands = append(p.commands, c)
	}
	return p, nil
}

// parse understands the help that kong prints: a line of usage, paragraphs, and
// the flags in two columns.
func parse(text string) (p *page, commands []string, err error) {
	first, rest, _ := strings.Cut(text, "\n")
	usage, ok := strings.CutPrefix(first, "Usage: ")
	if !ok {
		return nil, nil, fmt.Errorf("it begins with %q, not with \"Usage: \"", first)
	}
	p = &page{usage: usage}
	head, tail, ok := strings.Cut(rest, "\nFlags:\n")
	if !ok {
		return nil, nil, fmt.Errorf("it has no line \"Flags:\"")
	}
	head, _, _ = strings.Cut(head, "\nArguments:\n")
	for paragraph := range strings.SplitSeq(head, "\n\n") {
		if s := strings.Join(strings.Fields(paragraph), " "); s != "" {
			p.about = append(p.about, s)
		}
	}
	flags, list, _ := strings.Cut(tail, "\nCommands:\n")
	for line := range strings.Lines(flags) {
		line = strings.TrimRight(line, "\n")
		switch m := flagLine.FindStringSubmatch(line); {
		case m != nil:
			p.flags = append(p.flags, option{short: m[1], long: m[2], value: m[3], help: m[4]})
		case strings.TrimSpace(line) == "":
		case len(p.flags) == 0 || !strings.HasPrefix(line, "        "):
			return nil, nil, fmt.Errorf("the line %q is neither a flag nor the rest of one", line)
		default: // the text goes on, or begins below a long flag
			f := &p.flags[len(p.flags)-1]
			f.help = strings.TrimSpace(f.help + " " + strings.TrimSpace(line))
		}
	}
	for line := range strings.Lines(list) {
		if m := commandLine.FindStringSubmatch(strings.TrimRight(line, "\n")); m != nil {
			commands = append(commands, m[1])
		}
	}
	return p, commands, nil
}
