package main

import (
	"reflect"
	"regexp"
	"strings"

	"github.com/stile-lock/stile/server/config"
)

// kind is what the value of a flag is, for who completes it.
type kind int

const (
	switched kind = iota // it has none
	free                 // nothing is known of it
	aFile
	aDirectory
	chosen // one of few
)

// kind tells by the placeholder, and by the choices.
func (o option) kind() kind {
	switch {
	case len(o.choices()) > 0:
		return chosen
	case o.value == "":
		return switched
	case o.value == "FILE":
		return aFile
	case o.value == "DIR":
		return aDirectory
	}
	return free
}

// choices are the words among the alternatives of the placeholder: of
// auto|manual|DURATION, the first two.
func (o option) choices() (words []string) {
	alternatives := strings.Split(o.value, "|")
	if len(alternatives) == 1 {
		return nil
	}
	for _, a := range alternatives {
		if a != "" && a == strings.ToLower(a) {
			words = append(words, a)
		}
	}
	return words
}

// valued are the flags of a program and of its commands that take a value, each
// once. A flag of two commands means the same in both.
func (p *page) valued() (list []option) {
	seen := map[string]bool{}
	for _, of := range append([]*page{p}, p.commands...) {
		for _, f := range of.flags {
			if f.value != "" && !seen[f.long] {
				seen[f.long] = true
				list = append(list, f)
			}
		}
	}
	return list
}

var camel = regexp.MustCompile(`([a-z])([A-Z])`)

// enums are the flags of stiled that take one of few values. Its help shows the
// default in their place.
func enums() map[string]string {
	all := map[string]string{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[config.Config]()) {
		if enum := f.Tag.Get("enum"); enum != "" {
			all[strings.ToLower(camel.ReplaceAllString(f.Name, "$1-$2"))] = strings.ReplaceAll(enum, ",", "|")
		}
	}
	return all
}

// choose puts the choices into the placeholders of stiled's flags.
func (p *page) choose() {
	if p.name != "stiled" {
		return
	}
	all := enums()
	for i := range p.flags {
		if values := all[p.flags[i].long]; values != "" {
			p.flags[i].value = values
		}
	}
}
