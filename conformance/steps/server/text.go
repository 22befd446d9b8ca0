package server

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/stile-lock/stile/protocol"
)

// Lines in feature files are as in SPEC.md, with a few signs in them:
//
//	door         keys stand without the prefix that keeps them apart
//	{1:door}     the token of the newest grant of door to connection 1
//	{1^40:door}  the same with its bit 40 turned over
//	{key:255}    a key of so many bytes in all
//	{x:64}       so many times x
//	\x01 \r \\   bytes that can't stand in a feature file
//	TOKEN LEASE  in answers: any token, any lease

var (
	sign   = regexp.MustCompile(`\{(\w+)(?:\^(\d+))?:([^}]+)\}`)
	escape = regexp.MustCompile(`\\(x[0-9a-f]{2}|r|\\)`)
)

// line makes the bytes of a request line.
func (s *scenario) line(text string) (string, error) { return s.expand(text, 1) }

// expand fills in the signs; field is which of the fields is the key.
func (s *scenario) expand(text string, field int) (string, error) {
	f := strings.Split(text, " ")
	if len(f) > field && isOp(f[0]) && isOp(f[field-1]) && f[field] != "" && f[field] != "?" && !strings.HasPrefix(f[field], "{key:") {
		f[field] = s.w.Key(f[field])
	}
	var bad error
	out := sign.ReplaceAllStringFunc(strings.Join(f, " "), func(m string) string {
		p := sign.FindStringSubmatch(m)
		n, _ := strconv.Atoi(p[3])
		switch {
		case p[1] == "key":
			return s.w.Prefix + strings.Repeat("k", n-len(s.w.Prefix))
		case p[1] == "x":
			return strings.Repeat("x", n)
		}
		g, ok := s.grants[place{p[1], s.w.Key(p[3])}]
		if !ok {
			bad = fmt.Errorf("%s: %s was not granted %s before", m, p[1], p[3])
		}
		if bit, err := strconv.Atoi(p[2]); err == nil {
			g.token ^= 1 << bit
		}
		return strconv.FormatUint(g.token, 10)
	})
	return escape.ReplaceAllStringFunc(out, func(m string) string {
		switch m[1] {
		case 'x':
			b, _ := strconv.ParseUint(m[2:], 16, 8)
			return string([]byte{byte(b)})
		case 'r':
			return "\r"
		}
		return `\`
	}), bad
}

// isOp reports whether a key stands behind the field: the words of P and the
// version of H are no keys.
func isOp(field string) bool {
	return len(field) == 1 && field[0] >= 'A' && field[0] <= 'Z' && field != "P" && field != "H"
}

// expected is what an answer has to be like. Extra fields at the end of an
// answer, and the text of an error, are ignored (SPEC.md 14.2).
type expected struct {
	op     protocol.Op
	key    string
	fields []string
	text   string
}

// pattern reads an expected answer.
func (s *scenario) pattern(text string) (expected, error) {
	field := 1
	if text[0] == 'E' || text[0] == 'M' {
		field = 2
	}
	line, err := s.expand(text, field)
	if err != nil {
		return expected{}, err
	}
	p := expected{fields: strings.Split(line, " "), text: line}
	switch {
	case len(p.fields) <= field:
		return p, fmt.Errorf("%q is no answer", text)
	case field == 2:
		p.op, p.key = op(p.fields[1]), p.fields[2]
	case p.fields[0] == "T":
		p.op, p.key = 'A', p.fields[1]
	default:
		p.op, p.key = op(p.fields[0]), p.fields[1]
	}
	if p.key == "?" {
		p.key = ""
	}
	return p, nil
}

func op(field string) protocol.Op {
	if field == "?" {
		return 0
	}
	return protocol.Op(field[0])
}

func (p expected) matches(a answer) bool {
	f := strings.Split(strings.TrimSuffix(a.text, "\r"), " ")
	if len(f) < len(p.fields) {
		return false
	}
	for i, want := range p.fields {
		if want != "TOKEN" && want != "LEASE" && want != f[i] {
			return false
		}
	}
	return true
}

// seconds reads a duration as it stands in a feature file.
func seconds(text string) time.Duration {
	f, _ := strconv.ParseFloat(text, 64) // the steps' expressions let only numbers in
	return time.Duration(f * float64(time.Second)).Round(time.Millisecond)
}
