// Command stile-extras writes what a package has beside the programs: documents,
// man pages and shell completions, into doc/, man/ (man-gz/: compressed) and
// completions/ of a directory.
//
//	stile-extras -out DIR -version V -ref REF -date RFC3339 [-root DIR] [-own PROGRAM]... PROGRAM...
//
// A PROGRAM is the path of a binary. Its pages are made of its --help. One that
// is given with -own makes its own, by `PROGRAM man` and `PROGRAM completion
// SHELL`; where it can't, that is an error. Documents are those of the repository
// below -root; what they link to and no package has, they link to at REF, a tag
// or a commit.
package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// shells are those that completions are made for, with the names of the files
// as each looks for them.
var shells = []struct {
	name string
	file func(program string) string
	of   func(*page) string
}{
	{"bash", func(p string) string { return p }, bash},
	{"zsh", func(p string) string { return "_" + p }, zsh},
	{"fish", func(p string) string { return p + ".fish" }, fish},
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "stile-extras:", err)
		os.Exit(1)
	}
}

func run() error {
	out := flag.String("out", "", "directory to write to")
	version := flag.String("version", "devel", "version that the pages name")
	ref := flag.String("ref", "", "tag or commit that documents link to")
	root := flag.String("root", "..", "the repository")
	on := flag.String("date", "", "date of the pages, RFC 3339")
	var own []string
	flag.Func("own", "program that makes its own pages (more than once)", func(s string) error {
		own = append(own, s)
		return nil
	})
	flag.Parse()
	if *out == "" || *ref == "" || len(own)+flag.NArg() == 0 {
		return errors.New("want -out DIR, -ref REF and a program; see the head of main.go")
	}
	date, err := time.Parse(time.RFC3339, *on)
	if err != nil {
		return fmt.Errorf("-date: %w", err)
	}
	put := func(text string, name ...string) error {
		path := filepath.Join(append([]string{*out}, name...)...)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		return os.WriteFile(path, []byte(text), 0o644)
	}
	putMan := func(text, program string) error {
		if err := put(text, "man", program+".1"); err != nil {
			return err
		}
		packed, err := compressed(text)
		if err != nil {
			return err
		}
		return put(packed, "man-gz", program+".1.gz")
	}
	docs, err := documents(*root, *version, *ref)
	if err != nil {
		return err
	}
	for name, text := range docs {
		if err := put(text, "doc", filepath.FromSlash(name)); err != nil {
			return err
		}
	}
	for _, program := range flag.Args() {
		p, err := read(program)
		if err != nil {
			return err
		}
		if err := putMan(man(p, *version, date), p.name); err != nil {
			return err
		}
		for _, sh := range shells {
			if err := put(sh.of(p), "completions", sh.name, sh.file(p.name)); err != nil {
				return err
			}
		}
	}
	for _, program := range own {
		name := filepath.Base(program)
		text, err := output(program, "man")
		if err != nil {
			return err
		}
		if text, err = titled(text, name, *version, date); err != nil {
			return err
		}
		if err := putMan(text, name); err != nil {
			return err
		}
		for _, sh := range shells {
			text, err := output(program, "completion", sh.name)
			if err != nil {
				return err
			}
			if err := put(text, "completions", sh.name, sh.file(name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// compressed is text as gzip has it, the same each time.
func compressed(text string) (string, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return "", err
	}
	if _, err := z.Write([]byte(text)); err != nil {
		return "", err
	}
	if err := z.Close(); err != nil {
		return "", err
	}
	return b.String(), nil
}

// output is what the program prints. Nothing at all is an error.
func output(program string, args ...string) (string, error) {
	what := strings.Join(append([]string{program}, args...), " ")
	cmd := exec.Command(program, args...)
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	if len(text) == 0 {
		return "", fmt.Errorf("%s prints nothing", what)
	}
	return string(text), nil
}
