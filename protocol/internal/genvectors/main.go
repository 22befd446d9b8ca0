// Genvectors writes the language-neutral vectors in testdata/vectors. With
// -check it writes nothing and exits 1 if a file there is stale.
//
// What is expected of each vector is written down in the tables of this
// program by hand. It uses nothing of the codec, so that codec and vectors
// can disagree.
//
// Run it in the folder of the protocol module: go generate.
package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stile-lock/stile/protocol/internal/genfile"
)

const folder = "testdata/vectors"

func main() { genfile.Main("genvectors", run) }

func run(check bool) error {
	codes, err := os.ReadFile("codes.json")
	if err != nil {
		return err
	}
	files := map[string]any{
		"requests.json": requests(),
		"answers.json":  answers(),
		"lines.json":    streams(),
		"seconds.json":  durations(),
	}
	for name, vectors := range files {
		want, err := encode(vectors)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := genfile.Put(filepath.Join(folder, name), want, check); err != nil {
			return err
		}
	}
	return genfile.Put(filepath.Join(folder, "codes.json"), codes, check)
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	return b.Bytes(), err
}

// raw is bytes with a copy for people.
type raw struct {
	Readable string `json:"readable"`
	Hex      string `json:"hex"`
}

func bytesOf(s string) raw { return raw{readable(s), hex.EncodeToString([]byte(s))} }

// readable shows printable UTF-8 as it is, LF and CR as <LF> and <CR>, other
// bytes as <NN> in hex, and a run of more than 16 equal characters as one of
// them and {count}. It is for people and need not be unambiguous.
func readable(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		one := s[:size]
		n := 1
		for strings.HasPrefix(s[n*size:], one) {
			n++
		}
		shown := one
		switch {
		case one == "\n":
			shown = "<LF>"
		case one == "\r":
			shown = "<CR>"
		case r == utf8.RuneError && size == 1, !unicode.IsPrint(r) && !unicode.IsMark(r):
			shown = ""
			for i := range size {
				shown += fmt.Sprintf("<%02x>", one[i])
			}
		}
		if n > 16 {
			fmt.Fprintf(&b, "%s{%d}", shown, n)
		} else {
			b.WriteString(strings.Repeat(shown, n))
		}
		s = s[n*size:]
	}
	return b.String()
}

// text is a pair of JSON fields, of which one is set: the plain one for
// UTF-8, the other for what is not.
func text(s string) (plain, inHex *string) {
	if utf8.ValidString(s) {
		return &s, nil
	}
	h := hex.EncodeToString([]byte(s))
	return nil, &h
}

// named panics on a name that is used twice: names are how vectors are cited.
type named map[string]bool

func (n named) add(name string) {
	if n[name] {
		panic("two vectors are named " + name)
	}
	n[name] = true
}
