package server

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stile-lock/stile/conformance/lines"
	"github.com/stile-lock/stile/conformance/suite"
)

// scenario is all the state of one scenario.
type scenario struct {
	w     *suite.World
	t     *target
	conns map[string]*client

	asks   map[place]ask            // the newest acquire (or keep) of a key on a connection
	grants map[place]grant          // the newest grant
	freed  map[string]time.Duration // the earliest moment at which a key can have fallen free
	last   moment                   // the newest thing the suite did
}

// place is a key on a connection.
type place struct{ conn, key string }

// moment is when the suite did something: from just before to just after.
type moment struct{ before, after time.Duration }

type ask struct {
	moment
	wait time.Duration
}

// grant is one that the suite was told of. The server's clock for its lease
// started after earliest, and before read.
type grant struct {
	token          uint64
	lease          time.Duration
	earliest, read time.Duration
}

// send sends request lines on a connection, in one piece, and remembers what
// their answers will be judged by.
func (s *scenario) send(conn string, requests ...string) error {
	c, err := s.on(conn)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, r := range requests {
		line, err := s.line(r)
		if err != nil {
			return err
		}
		text.WriteString(line + "\n")
	}
	whole := strings.TrimSuffix(text.String(), "\n")
	before, err := c.Write([]byte(text.String()), strings.ReplaceAll(whole, "\n", " ⏎ "))
	if err != nil {
		return err
	}
	m := moment{before, s.w.Now()}
	s.last = m
	for _, line := range strings.Split(whole, "\n") {
		f := strings.Split(line, " ")
		if len(f) < 3 {
			continue
		}
		switch f[0] {
		case "A":
			s.asks[place{conn, f[1]}] = ask{m, seconds(f[2])}
		case "K":
			s.asks[place{conn, f[1]}] = ask{m, 0}
		case "R", "C":
			s.freed[f[1]] = m.before
		}
	}
	return nil
}

// saw remembers what an answer tells.
func (s *scenario) saw(c *client, a answer) {
	p := place{c.Name, a.key}
	switch a.op {
	case 'A':
		s.grants[p] = grant{a.token, a.lease, max(s.asks[p].before, s.freed[a.key]), a.at}
	case 'K':
		s.grants[p] = grant{a.token, a.lease, s.asks[p].before, a.at}
	}
}

// granted takes the answer to an acquire, which has to be a grant.
func (s *scenario) granted(conn, key string) (answer, error) {
	c, err := s.on(conn)
	if err != nil {
		return answer{}, err
	}
	return c.expect("A "+key+" TOKEN LEASE", suite.ServerAnswer)
}

func (s *scenario) grantOf(conn, key string) (grant, error) {
	g, ok := s.grants[place{conn, s.w.Key(key)}]
	if !ok {
		return g, fmt.Errorf("%s was not granted %s before", conn, key)
	}
	return g, nil
}

// notLater fails if something that was seen at is more than the tolerance
// after due.
func (s *scenario) notLater(what string, at, due, tolerance time.Duration) error {
	return s.w.Expect(at <= due+tolerance,
		fmt.Sprintf("%s at most %d ms after %s", what, tolerance.Milliseconds(), clock(due)),
		fmt.Sprintf("it at %s, %d ms after", clock(at), (at-due).Milliseconds()))
}

func (s *scenario) notEarlier(what string, at, due time.Duration) error {
	return s.w.Expect(at >= due-suite.Early,
		fmt.Sprintf("%s not before %s", what, clock(due)),
		fmt.Sprintf("it at %s, %d ms too early", clock(at), (due-at).Milliseconds()))
}

// clock is a moment as the transcript shows it.
func clock(at time.Duration) string { return fmt.Sprintf("%.3f s", at.Seconds()) }

// quiet fails if anything comes on the connection within the time.
func (s *scenario) quiet(conn string, within time.Duration) error {
	c, err := s.on(conn)
	if err != nil {
		return err
	}
	a, err := c.next(within)
	var silent lines.Silent
	switch {
	case err == nil:
		expected := fmt.Sprintf("nothing on %s for %v", conn, within)
		if within == 0 {
			expected = "nothing on " + conn + " until now"
		}
		return s.w.Fail(expected, fmt.Sprintf("%s at %s", a.text, clock(a.at)))
	case errors.As(err, &silent):
		return nil
	}
	return c.wrong("an open connection and no line", err)
}

// probe asks for a key over a fresh connection and without standing in line.
func (s *scenario) probe(key string) (answer, *client, error) {
	name := "probe"
	for n := 2; s.conns[name] != nil; n++ {
		name = fmt.Sprintf("probe%d", n)
	}
	if err := s.send(name, "A "+key+" -1 5"); err != nil {
		return answer{}, nil, err
	}
	c := s.conns[name]
	a, err := c.answer('A', s.w.Key(key), suite.ServerAnswer)
	if err != nil {
		return a, c, c.wrong("an answer to the acquire of "+key+" without a wait", err)
	}
	s.saw(c, a)
	return a, c, nil
}
