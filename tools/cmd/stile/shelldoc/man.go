package shelldoc

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Page is what a man page has beyond the model of the program.
type Page struct {
	Section int
	Summary string
	More    []Part // after the options
}

// Part is a part of a man page.
type Part struct {
	Title string
	Text  string
	Items []Item
}

// Item is explained in a part.
type Item struct{ Name, Text string }

// Man is the man page of a program, as roff.
func Man(app *kong.Application, p Page) string {
	m := new(man)
	m.macro("TH", strings.ToUpper(app.Name), fmt.Sprint(p.Section), "", "Stile", "")
	m.macro("SH", "NAME")
	m.line(app.Name + ` \- ` + escape(p.Summary))
	m.macro("SH", "SYNOPSIS")
	for i, n := range commands(app) {
		if i > 0 {
			m.macro("br")
		}
		m.line(`\fB` + escape(app.Name+" "+n.Name) + `\fR` + synopsis(n))
	}
	m.macro("SH", "DESCRIPTION")
	m.text(app.Help)
	m.macro("SH", "COMMANDS")
	for _, n := range commands(app) {
		m.macro("SS", app.Name+" "+n.Name+plainSynopsis(n))
		m.text(n.Help)
		m.text(n.Detail)
		for _, v := range n.Positional {
			m.item(`\fI`+escape(argument(v))+`\fR`, v.Help)
		}
		m.flags(flags(n))
	}
	m.macro("SH", "OPTIONS OF ALL COMMANDS")
	m.flags(flags(app.Node))
	m.macro("SH", "ENVIRONMENT")
	m.text("Each of these stands for a flag, which wins:")
	for _, e := range environment(app) {
		m.item(`\fB`+escape(e.Name)+`\fR`, e.Text)
	}
	for _, part := range p.More {
		m.macro("SH", part.Title)
		m.text(part.Text)
		for _, i := range part.Items {
			m.item(`\fB`+escape(i.Name)+`\fR`, i.Text)
		}
	}
	return m.b.String()
}

// environment lists the variables, each once, with the flag that it stands for
// and the commands that have this.
func environment(app *kong.Application) (list []Item) {
	var of [][]string // commands, none for a flag of all
	for _, n := range append([]*kong.Node{app.Node}, commands(app)...) {
		for _, f := range flags(n) {
			for _, env := range f.Envs {
				at := slices.IndexFunc(list, func(i Item) bool { return i.Name == env })
				if at < 0 {
					at = len(list)
					list, of = append(list, Item{env, "--" + f.Name}), append(of, nil)
				}
				if n != app.Node {
					of[at] = append(of[at], n.Name)
				}
			}
		}
	}
	for i := range list {
		if len(of[i]) > 0 {
			list[i].Text += " of " + strings.Join(of[i], " and ")
		}
	}
	return list
}

type man struct {
	b     strings.Builder
	fresh bool // nothing is below the last title yet
}

func (m *man) line(s string) { m.b.WriteString(s + "\n") }

func (m *man) macro(name string, args ...string) {
	m.fresh = name == "SH" || name == "SS"
	m.b.WriteString("." + name)
	for _, a := range args {
		m.b.WriteString(` "` + strings.ReplaceAll(escape(a), `"`, `\(dq`) + `"`)
	}
	m.b.WriteByte('\n')
}

// text writes paragraphs; indented ones are examples.
func (m *man) text(s string) {
	for i, p := range strings.Split(strings.TrimSpace(strings.ReplaceAll(s, "\n    ", "\n\x00")), "\n\n") {
		if p == "" {
			continue
		}
		if i > 0 || !m.fresh {
			m.macro("PP")
		}
		m.fresh = false
		if strings.HasPrefix(p, "\x00") {
			m.macro("RS", "4")
			m.macro("nf")
			for _, l := range strings.Split(p, "\n") {
				m.line(escape(strings.TrimPrefix(l, "\x00")))
			}
			m.macro("fi")
			m.macro("RE")
			continue
		}
		for _, l := range strings.Split(p, "\n") {
			m.line(escape(strings.TrimPrefix(l, "\x00")))
		}
	}
}

func (m *man) item(name, text string) {
	m.macro("TP")
	m.line(name)
	m.line(escape(text))
}

func (m *man) flags(list []*kong.Flag) {
	for _, f := range list {
		var forms []string
		for _, n := range names(f) {
			forms = append(forms, `\fB`+escape(n)+`\fR`)
		}
		name := strings.Join(forms, ", ")
		if !f.IsBool() {
			name += ` \fI` + escape(placeholder(f)) + `\fR`
		}
		text := f.Help
		if f.Required && len(f.Envs) == 0 {
			text += " Must be given."
		}
		m.item(name, text)
	}
}

// placeholder is what stands for a flag's value.
func placeholder(f *kong.Flag) string {
	if f.PlaceHolder != "" {
		return f.PlaceHolder
	}
	if c := choices(f.Value); c != nil {
		return strings.Join(c, "|")
	}
	switch f.Target.Type().String() {
	case "time.Duration":
		return "DURATION"
	case "int", "uint64":
		return "N"
	}
	return strings.ToUpper(f.Name)
}

func argument(v *kong.Value) string {
	name := strings.ToUpper(v.Name)
	if v.Passthrough {
		return "COMMAND…"
	}
	return name
}

func plainSynopsis(n *kong.Node) string {
	s := ""
	for _, v := range n.Positional {
		switch name := argument(v); {
		case v.Passthrough:
			s += " [flags] -- " + name
		case !v.Required:
			s += " [" + name + "]"
		default:
			s += " " + name
		}
	}
	return s
}

func synopsis(n *kong.Node) string {
	s := ""
	for _, v := range n.Positional {
		switch name := `\fI` + escape(argument(v)) + `\fR`; {
		case v.Passthrough:
			s += ` [\fIflags\fR] \-\- ` + name
		case !v.Required:
			s += " [" + name + "]"
		default:
			s += " " + name
		}
	}
	return s
}

// escape is text as roff takes it.
func escape(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", "...", "'", `\(aq`).Replace(s)
	if strings.HasPrefix(s, ".") {
		s = `\&` + s
	}
	return s
}
