package main

import (
	"fmt"
	"strings"
	"time"
)

// roff keeps text from being read as a request or an escape.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, `-`, `\-`, `…`, `...`).Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}

// man is the page in the language of man(7).
func man(p *page, version string, date time.Time) string {
	var b strings.Builder
	summary := ""
	if len(p.about) > 0 {
		summary, _, _ = strings.Cut(strings.TrimSuffix(p.about[0], "."), ". ")
	}
	fmt.Fprintf(&b, "%s\n", title(p.name, version, date))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(p.name), roff(summary))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(p.usage))
	b.WriteString(".SH DESCRIPTION\n")
	paragraphs(&b, p.about)
	b.WriteString(".SH OPTIONS\n")
	options(&b, p.flags)
	if len(p.commands) > 0 {
		b.WriteString(".SH COMMANDS\n")
	}
	for _, c := range p.commands {
		fmt.Fprintf(&b, ".SS %s\n.B %s\n", roff(c.name), roff(c.usage))
		paragraphs(&b, c.about)
		options(&b, c.own(p))
	}
	for _, part := range more[p.name] {
		fmt.Fprintf(&b, ".SH %s\n", part.title)
		for _, i := range part.items {
			fmt.Fprintf(&b, ".TP\n\\fB%s\\fR\n%s\n", roff(i.name), roff(i.text))
		}
	}
	b.WriteString(".SH SEE ALSO\n")
	if pages := also[p.name]; pages != "" {
		fmt.Fprintf(&b, "%s,\n", roff(pages))
	}
	b.WriteString("https://github.com/stile\\-lock/stile\n")
	return b.String()
}

// title is the first line of a page.
func title(program, version string, date time.Time) string {
	return fmt.Sprintf(".TH %s 1 %s %q Stile", strings.ToUpper(program), date.UTC().Format(time.DateOnly), "stile "+version)
}

// titled is a page that a program made of itself, with the title of the others:
// a program does not know when it was released.
func titled(text, program, version string, date time.Time) (string, error) {
	first, rest, ok := strings.Cut(text, "\n")
	if !ok || !strings.HasPrefix(first, ".TH ") {
		return "", fmt.Errorf("the man page of %s begins with %q, not with its title", program, first)
	}
	return title(program, version, date) + "\n" + rest, nil
}

// own are the flags of a command that are not those of the whole program.
func (p *page) own(program *page) (own []option) {
	for _, f := range p.flags {
		known := false
		for _, g := range program.flags {
			known = known || f.long == g.long
		}
		if !known {
			own = append(own, f)
		}
	}
	return own
}

func paragraphs(b *strings.Builder, text []string) {
	for _, s := range text {
		fmt.Fprintf(b, ".PP\n%s\n", roff(s))
	}
}

func options(b *strings.Builder, flags []option) {
	for _, f := range flags {
		name := `\fB\-\-` + roff(f.long) + `\fR`
		if f.short != "" {
			name = `\fB\-` + f.short + `\fR, ` + name
		}
		if f.value != "" {
			name += `=\fI` + roff(f.value) + `\fR`
		}
		fmt.Fprintf(b, ".TP\n%s\n%s\n", name, roff(f.help))
	}
}

// words are the flags of p as a shell's words.
func words(p *page) string {
	var all []string
	for _, f := range p.flags {
		all = append(all, "--"+f.long)
	}
	return strings.Join(all, " ")
}

// bash completes commands, flags, and the values of flags, of which some are
// files; so is what stands by itself. For bash `--flag=value` is three words.
func bash(p *page) string {
	var b strings.Builder
	fn := "_" + strings.ReplaceAll(p.name, "-", "_")
	fmt.Fprintf(&b, "# bash completion for %s\n%s() {\n", p.name, fn)
	b.WriteString(`	local IFS=$'\n' cur=${COMP_WORDS[COMP_CWORD]} flag=${COMP_WORDS[COMP_CWORD-1]} words
	COMPREPLY=()
	if [[ $cur == = ]]; then
		cur=""
	elif [[ $flag == = ]]; then
		flag=${COMP_WORDS[COMP_CWORD-2]}
	fi
	case $flag in
`)
	byKind := map[kind][]string{}
	for _, f := range p.valued() {
		if k := f.kind(); k != chosen {
			byKind[k] = append(byKind[k], "--"+f.long)
			continue
		}
		fmt.Fprintf(&b, "\t--%s) compopt +o default; COMPREPLY=($(compgen -W $'%s' -- \"$cur\")); return ;;\n", f.long, strings.Join(f.choices(), `\n`))
	}
	for k, how := range []string{
		aFile:      `compopt -o filenames; COMPREPLY=($(compgen -f -- "$cur"))`,
		aDirectory: `compopt -o filenames; COMPREPLY=($(compgen -d -- "$cur"))`,
		free:       `compopt +o default`,
	} {
		if flags := byKind[kind(k)]; len(flags) > 0 {
			fmt.Fprintf(&b, "\t%s) %s; return ;;\n", strings.Join(flags, "|"), how)
		}
	}
	b.WriteString("\tesac\n\tcase ${COMP_WORDS[1]} in\n")
	var names []string
	for _, c := range p.commands {
		names = append(names, c.name)
		fmt.Fprintf(&b, "\t%s) words='%s' ;;\n", c.name, words(c))
	}
	fmt.Fprintf(&b, "\t*) words='%s' ;;\n\tesac\n", words(p))
	if len(names) > 0 {
		fmt.Fprintf(&b, "\tif ((COMP_CWORD == 1)) && [[ $cur != -* ]]; then words='%s'\n", strings.Join(names, " "))
		b.WriteString("\telif [[ $cur != -* ]]; then return; fi\n")
	}
	b.WriteString("\tCOMPREPLY=($(compgen -W \"${words// /$IFS}\" -- \"$cur\"))\n")
	fmt.Fprintf(&b, "}\ncomplete -o default -F %s %s\n", fn, p.name)
	return b.String()
}

// zsh has the flags with their help.
func zsh(p *page) string {
	quote := strings.NewReplacer(`'`, `'\''`, `[`, `\[`, `]`, `\]`, `:`, `\:`, `\`, `\\`)
	spec := func(f option) string {
		text := quote.Replace(f.help)
		switch value := quote.Replace(f.value); f.kind() {
		case switched:
			return fmt.Sprintf("'--%s[%s]'", f.long, text)
		case aFile:
			return fmt.Sprintf("'--%s=[%s]:%s:_files'", f.long, text, value)
		case aDirectory:
			return fmt.Sprintf("'--%s=[%s]:%s:_files -/'", f.long, text, value)
		case chosen:
			return fmt.Sprintf("'--%s=[%s]:%s:(%s)'", f.long, text, value, strings.Join(f.choices(), " "))
		default:
			return fmt.Sprintf("'--%s=[%s]:%s: '", f.long, text, value)
		}
	}
	arguments := func(b *strings.Builder, indent string, flags []option) {
		for _, f := range flags {
			fmt.Fprintf(b, " \\\n%s\t%s", indent, spec(f))
		}
		b.WriteString("\n")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "#compdef %s\n\n", p.name)
	if len(p.commands) == 0 {
		b.WriteString("_arguments -s")
		arguments(&b, "", p.flags)
		return b.String()
	}
	b.WriteString("if (( CURRENT == 2 )); then\n\t_values command")
	for _, c := range p.commands {
		about := ""
		if len(c.about) > 0 {
			about = c.about[0]
		}
		fmt.Fprintf(&b, " \\\n\t\t'%s[%s]'", c.name, quote.Replace(about))
	}
	b.WriteString("\n\treturn\nfi\ncase $words[2] in\n")
	for _, c := range p.commands {
		fmt.Fprintf(&b, "%s)\n\t_arguments -s '1: :' '*:file:_files'", c.name)
		arguments(&b, "\t", c.flags)
		b.WriteString("\t;;\n")
	}
	b.WriteString("esac\n")
	return b.String()
}

// fish has the flags with their help.
func fish(p *page) string {
	quote := strings.NewReplacer(`\`, `\\`, `'`, `\'`)
	var b strings.Builder
	line := func(condition string, f option) {
		fmt.Fprintf(&b, "complete -c %s%s -l %s", p.name, condition, f.long)
		if f.short != "" {
			fmt.Fprintf(&b, " -s %s", f.short)
		}
		switch f.kind() {
		case switched:
		case aFile:
			b.WriteString(" -r -F")
		case aDirectory:
			b.WriteString(" -x -a '(__fish_complete_directories)'")
		case chosen:
			fmt.Fprintf(&b, " -x -a '%s'", strings.Join(f.choices(), " "))
		default:
			b.WriteString(" -x")
		}
		fmt.Fprintf(&b, " -d '%s'\n", quote.Replace(f.help))
	}
	for _, f := range p.flags {
		line("", f)
	}
	for _, c := range p.commands {
		about := ""
		if len(c.about) > 0 {
			about = c.about[0]
		}
		fmt.Fprintf(&b, "complete -c %s -n __fish_use_subcommand -f -a %s -d '%s'\n", p.name, c.name, quote.Replace(about))
		for _, f := range c.own(p) {
			line(fmt.Sprintf(" -n '__fish_seen_subcommand_from %s'", c.name), f)
		}
	}
	return b.String()
}
