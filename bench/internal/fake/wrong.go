package fake

import "strings"

// Wrong is one way for a server to be wrong, for the tests that this is noticed.
type Wrong struct {
	Name string
	Says string // part of the error of whoever notices
	// OneKey says that it shows only where all connections want the same key and
	// hold it for a while.
	OneKey bool
	// Nonces says that it shows only where waits are cancelled.
	Nonces bool

	steal bool
	// op is that of the answers to spoil, and spoil is given the fields of one and
	// the first grant of the run. Nil: none is spoiled.
	op    string
	spoil func(f []string, first string) string
	// always: from the first answer on, not from the middle of the run.
	always bool
}

// Wrongs are all ways to be wrong that a load has to notice.
var Wrongs = []Wrong{
	{Name: "a token is given twice", Says: "is granted after token", OneKey: true,
		op: "A", spoil: func(f []string, first string) string {
			return "A " + f[1] + " " + strings.Fields(first)[2] + " 30"
		}},
	{Name: "a token is lower than that of another connection", Says: "is granted after token", OneKey: true,
		op: "A", spoil: func(f []string, _ string) string { return "A " + f[1] + " 7 30" }},
	{Name: "two holders", Says: "is granted", OneKey: true, steal: true},
	{Name: "the grant of another key", Says: "no request that it could answer",
		op: "A", spoil: func(f []string, _ string) string { return "A " + other(f[1]) + " " + f[2] + " 30" }},
	{Name: "the release of another key", Says: "no request that it could answer",
		op: "R", spoil: func(f []string, _ string) string { return "R " + other(f[1]) + " " + f[2] }},
	{Name: "a key that nobody has", Says: "it names no key of ours",
		op: "R", spoil: func(f []string, _ string) string { return "R door " + f[2] }},
	{Name: "the release of another token", Says: "the release was of token",
		op: "R", spoil: func(f []string, _ string) string { return "R " + f[1] + " 5" }},
	{Name: "another op", Says: "no request that it could answer",
		op: "A", spoil: func(f []string, _ string) string { return "R " + f[1] + " " + f[2] }},
	{Name: "an answer that was not asked for", Says: "no request that it could answer",
		op: "R", spoil: func(f []string, _ string) string {
			line := strings.Join(f, " ")
			return line + "\n" + line
		}},
	{Name: "no answer", Says: "had no answer", always: true,
		op: "R", spoil: func([]string, string) string { return "" }},
	{Name: "the end of a wait that has none", Says: "no limit on waiting",
		op: "A", spoil: func(f []string, _ string) string { return "T " + f[1] }},
	{Name: "a lease that ends early", Says: "cannot have ended",
		op: "R", spoil: func(f []string, _ string) string { return "E R " + f[1] + " not-held" }},
	{Name: "a lease that is longer than asked for", Says: "was asked for",
		op: "A", spoil: func(f []string, _ string) string { return "A " + f[1] + " " + f[2] + " 30.001" }},
	{Name: "a refusal of what is well-formed", Says: "nothing was asked that it could answer",
		op: "A", spoil: func(f []string, _ string) string { return "E A " + f[1] + " bad-request" }},
	{Name: "no line of the protocol", Says: "not an answer",
		op: "A", spoil: func([]string, string) string { return "OK" }},
	{Name: "the cancel of another acquire", Says: "no request that it could answer", OneKey: true, Nonces: true, always: true,
		op: "C", spoil: func(f []string, _ string) string { return "C " + f[1] + " " + f[2] + "0" }},
}

// Server returns a server that is wrong in this way.
func (w Wrong) Server() *Server {
	s := &Server{Steal: w.steal}
	if w.spoil == nil {
		return s
	}
	var first string
	spoiled := 0
	s.Spoil = func(_ int, _, answer string) string {
		f := strings.Fields(answer)
		if first == "" && f[0] == "A" {
			first = answer
		}
		if f[0] != w.op {
			return answer
		}
		// Enough that are right come first for it to be the middle of a run.
		if spoiled++; !w.always && spoiled < 50 {
			return answer
		}
		return w.spoil(f, first)
	}
	return s
}

// other changes the last digit, so that the key is another one of the space.
func other(key string) string {
	last := byte('b')
	if key[len(key)-1] == 'b' {
		last = 'c'
	}
	return key[:len(key)-1] + string(last)
}
