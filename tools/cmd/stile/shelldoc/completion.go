package shelldoc

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// Completion is the completions of a program for bash, zsh or fish.
func Completion(shell string, app *kong.Application) string {
	switch shell {
	case "bash":
		return bash(app)
	case "zsh":
		return zsh(app)
	case "fish":
		return fish(app)
	}
	panic("shelldoc: no completions for " + shell)
}

func flagWords(list []*kong.Flag) string {
	var words []string
	for _, f := range list {
		words = append(words, names(f)...)
	}
	return strings.Join(words, " ")
}

// valueCases writes the branches of a shell's case over the flags that take a
// value.
func valueCases(b *strings.Builder, indent string, list []*kong.Flag) {
	for _, f := range list {
		if f.IsBool() {
			continue
		}
		what := ""
		if takesFile(f) {
			what = `compopt -o default; COMPREPLY=()`
		} else if c := choices(f.Value); c != nil {
			what = fmt.Sprintf(`COMPREPLY=($(compgen -W %s -- "$cur"))`, quote(strings.Join(c, " ")))
		} else {
			what = `COMPREPLY=()`
		}
		fmt.Fprintf(b, "%s%s) %s; return ;;\n", indent, strings.Join(names(f), "|"), what)
	}
}

func bash(app *kong.Application) string {
	var b strings.Builder
	var all []string
	for _, n := range commands(app) {
		all = append(all, n.Name)
	}
	fmt.Fprintf(&b, "# Completions of %s for bash.\n\n", app.Name)
	fmt.Fprintf(&b, "_%s() {\n", app.Name)
	b.WriteString(`    local cur=${COMP_WORDS[COMP_CWORD]} prev="" cmd="" i word skip=0 args=0
    COMPREPLY=()
    ((COMP_CWORD > 0)) && prev=${COMP_WORDS[COMP_CWORD-1]}
    # --flag=value is three words here.
    if [[ $cur == = ]]; then cur=""
    elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi
    # Which command it is, and how many arguments it has so far.
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ $word == = ]]; then skip=1; continue; fi
        if ((skip)); then skip=0; continue; fi
        case $word in
`)
	takes := map[string]bool{}
	var valued []string
	collect := func(list []*kong.Flag) {
		for _, f := range list {
			for _, n := range names(f) {
				if !f.IsBool() && !takes[n] {
					takes[n] = true
					valued = append(valued, n)
				}
			}
		}
	}
	collect(flags(app.Node))
	for _, n := range commands(app) {
		collect(flags(n))
	}
	fmt.Fprintf(&b, "        %s) skip=1 ;;\n", strings.Join(valued, "|"))
	b.WriteString("        --)\n")
	for _, n := range commands(app) {
		if passes(n) {
			fmt.Fprintf(&b, "            if [[ $cmd == %s ]]; then _%s_command $((i + 1)); return; fi ;;\n", n.Name, app.Name)
		}
	}
	b.WriteString(`            ;;
        -*) ;;
        *) if [[ -z $cmd ]]; then cmd=$word; else ((args++)); fi ;;
        esac
    done
    case $cmd in
`)
	// A ;; too many is an error in bash.
	text := strings.Replace(b.String(), "fi ;;\n            ;;\n", "fi ;;\n", 1)
	b.Reset()
	b.WriteString(text)
	for _, n := range commands(app) {
		fmt.Fprintf(&b, "    %s)\n        case $prev in\n", n.Name)
		valueCases(&b, "        ", flags(n))
		b.WriteString("        esac ;;\n")
	}
	b.WriteString("    esac\n    case $prev in\n")
	valueCases(&b, "    ", flags(app.Node))
	fmt.Fprintf(&b, "    esac\n    local global=%s\n    case $cmd in\n", quote(flagWords(flags(app.Node))))
	fmt.Fprintf(&b, "    '')\n        if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W \"$global\" -- \"$cur\"))\n        else COMPREPLY=($(compgen -W %s -- \"$cur\")); fi ;;\n", quote(strings.Join(all, " ")))
	for _, n := range commands(app) {
		fmt.Fprintf(&b, "    %s)\n        if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W %s\" $global\" -- \"$cur\"))\n", n.Name, quote(flagWords(flags(n))))
		for i, p := range n.Positional {
			if c := choices(p); c != nil {
				fmt.Fprintf(&b, "        elif ((args == %d)); then COMPREPLY=($(compgen -W %s -- \"$cur\"))\n", i, quote(strings.Join(c, " ")))
			}
		}
		b.WriteString("        fi ;;\n")
	}
	b.WriteString("    esac\n}\n\n")
	fmt.Fprintf(&b, `# A whole command line begins at the word $1.
_%s_command() {
    if declare -F _command_offset >/dev/null; then _command_offset "$1"; return; fi
    local cur=${COMP_WORDS[COMP_CWORD]}
    compopt -o default
    if ((COMP_CWORD == $1)); then COMPREPLY=($(compgen -c -- "$cur")); else COMPREPLY=(); fi
}

complete -F _%s %s
`, app.Name, app.Name, app.Name)
	return b.String()
}

func zsh(app *kong.Application) string {
	var b strings.Builder
	fmt.Fprintf(&b, "#compdef %s\n# Completions of %s for zsh.\n\n_%s() {\n    local context state state_descr line\n    typeset -A opt_args\n    local -a global verbs\n    global=(\n", app.Name, app.Name, app.Name)
	spec := func(indent, end string, f *kong.Flag) {
		text := zshText(f.Help)
		value := ""
		if !f.IsBool() {
			value = ":" + zshText(f.FormatPlaceHolder()) + ":"
			if takesFile(f) {
				value += "_files"
			} else if c := choices(f.Value); c != nil {
				value += "(" + strings.Join(c, " ") + ")"
			} else {
				value += " "
			}
		}
		eq := ""
		if value != "" {
			eq = "="
		}
		all := names(f)
		exclude := ""
		if len(all) > 1 {
			exclude = "(" + strings.Join(all, " ") + ")"
			fmt.Fprintf(&b, "%s%s%s\n", indent, quote(exclude+all[0]+map[bool]string{true: "+"}[value != ""]+"["+text+"]"+value), end)
		}
		fmt.Fprintf(&b, "%s%s%s\n", indent, quote(exclude+"--"+f.Name+eq+"["+text+"]"+value), end)
	}
	for _, f := range flags(app.Node) {
		spec("        ", "", f)
	}
	// Not commands: zsh itself has a parameter of that name.
	b.WriteString("    )\n    verbs=(\n")
	for _, n := range commands(app) {
		fmt.Fprintf(&b, "        %s\n", quote(n.Name+":"+strings.ReplaceAll(n.Help, ":", "\\:")))
	}
	b.WriteString("    )\n    _arguments -C $global '1: :->command' '*:: :->argument'\n    case $state in\n    command) _describe command verbs ;;\n    argument)\n        case $words[1] in\n")
	for _, n := range commands(app) {
		end := "" // of options, by --
		if passes(n) {
			end = "-S "
		}
		fmt.Fprintf(&b, "        %s)\n            _arguments %s$global \\\n", n.Name, end)
		for _, f := range flags(n) {
			spec("                ", " \\", f)
		}
		for i, p := range n.Positional {
			action := " "
			if c := choices(p); c != nil {
				action = "(" + strings.Join(c, " ") + ")"
			}
			if p.Passthrough {
				fmt.Fprintf(&b, "                '*:::%s:{ if [[ $words[1] == -- ]]; then shift words; (( CURRENT-- )); fi; _normal }' \\\n", p.Name)
				continue
			}
			fmt.Fprintf(&b, "                %s \\\n", quote(fmt.Sprintf("%d:%s:%s", i+1, zshText(p.Name), action)))
		}
		b.WriteString("                && return ;;\n")
	}
	fmt.Fprintf(&b, "        esac ;;\n    esac\n}\n\nif [[ $funcstack[1] == _%s ]]; then _%s \"$@\"; else compdef _%s %s; fi\n", app.Name, app.Name, app.Name, app.Name)
	return b.String()
}

// zshText is text that means nothing to _arguments.
func zshText(s string) string {
	return strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`, ":", `\:`).Replace(s)
}

func fish(app *kong.Application) string {
	var b strings.Builder
	var all []string
	for _, n := range commands(app) {
		all = append(all, n.Name)
	}
	fmt.Fprintf(&b, "# Completions of %s for fish.\n\n", app.Name)
	fmt.Fprintf(&b, "complete -c %s -f\n", app.Name)
	line := func(condition string, f *kong.Flag) {
		fmt.Fprintf(&b, "complete -c %s", app.Name)
		if condition != "" {
			fmt.Fprintf(&b, " -n %s", fishQuote(condition))
		}
		if f.Short != 0 {
			fmt.Fprintf(&b, " -s %c", f.Short)
		}
		fmt.Fprintf(&b, " -l %s", f.Name)
		if !f.IsBool() {
			switch c := choices(f.Value); {
			case takesFile(f):
				b.WriteString(" -r -F")
			case c != nil:
				fmt.Fprintf(&b, " -x -a %s", fishQuote(strings.Join(c, " ")))
			default:
				b.WriteString(" -x")
			}
		}
		fmt.Fprintf(&b, " -d %s\n", fishQuote(f.Help))
	}
	for _, f := range flags(app.Node) {
		line("", f)
	}
	fmt.Fprintf(&b, `# A whole command line begins behind the --.
function __%s_command
    set -l words (commandline -opc)
    set -l at (contains -i -- -- $words); or return
    set -e words[1..$at]
    set -l line (string join " " -- (string escape -- $words) (commandline -ct))
    complete -C $line
end
`, app.Name)
	none := "not __fish_seen_subcommand_from " + strings.Join(all, " ")
	for _, n := range commands(app) {
		fmt.Fprintf(&b, "complete -c %s -n %s -a %s -d %s\n", app.Name, fishQuote(none), n.Name, fishQuote(n.Help))
	}
	for _, n := range commands(app) {
		in := "__fish_seen_subcommand_from " + n.Name
		for _, f := range flags(n) {
			line(in, f)
		}
		for _, p := range n.Positional {
			if c := choices(p); c != nil {
				fmt.Fprintf(&b, "complete -c %s -n %s -a %s\n", app.Name, fishQuote(in), fishQuote(strings.Join(c, " ")))
			}
		}
		if passes(n) {
			fmt.Fprintf(&b, "complete -c %s -n %s -x -a '(__%s_command)'\n", app.Name, fishQuote("contains -- -- (commandline -opc); and "+in), app.Name)
		}
	}
	return b.String()
}

// quote is a word of sh.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func fishQuote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(s) + "'"
}
