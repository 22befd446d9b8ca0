package server

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stile-lock/stile/conformance/lines"
	"github.com/stile-lock/stile/conformance/suite"
	"github.com/stile-lock/stile/protocol"
)

// client is a connection of the scenario that matches answers to requests as
// SPEC.md 3.2 has it: by op and key, and not by the order of lines.
type client struct {
	*lines.Conn
	s      *scenario
	unread []answer
	owed   int // answers to read below that had not come when it went on
}

// answer is a parsed answer line.
type answer struct {
	op, forOp protocol.Op
	key       string
	hasKey    bool
	token     uint64
	lease     time.Duration
	code      string
	text      string // the whole line
	at        time.Duration
}

// next takes the next line, whatever it is.
func (c *client) next(within time.Duration) (answer, error) {
	if len(c.unread) > 0 {
		a := c.unread[0]
		c.unread = c.unread[1:]
		return a, nil
	}
	return c.fresh(within)
}

// fresh takes the next line that was not looked at before.
func (c *client) fresh(within time.Duration) (answer, error) {
	deadline := c.s.w.Now() + within
	for {
		l, err := c.Next(max(deadline-c.s.w.Now(), 0))
		if err != nil {
			return answer{}, err
		}
		a, err := c.parse(l)
		if err != nil || c.owed == 0 || a.key != "settle" && a.key != c.s.w.Key("settle") {
			return a, err
		}
		c.owed--
	}
}

func (c *client) parse(l lines.Line) (answer, error) {
	var a protocol.Answer
	if len(l.Text) >= protocol.MaxLine {
		return answer{}, c.s.w.Fail("answers of at most 1,024 bytes, their LF included", fmt.Sprintf("one of %d bytes on %s", len(l.Text)+1, c.Name))
	}
	if err := protocol.ParseAnswer([]byte(strings.TrimSuffix(l.Text, "\r")), &a); err != nil {
		return answer{}, c.s.w.Fail("an answer in the form of SPEC.md 2.4", fmt.Sprintf("%q on %s", l.Text, c.Name))
	}
	return answer{
		op: a.Op, forOp: a.For, key: string(a.Key), hasKey: a.Key != nil, token: a.Token, lease: a.Lease,
		code: string(a.CodeName), text: l.Text, at: l.At,
	}, nil
}

// answer takes the oldest answer to the op and key, and leaves answers to
// others for later. `E ? ?` and `E op ?` are taken as well: whoever waits for
// an answer has to see that the connection is out of step.
func (c *client) answer(op protocol.Op, key string, within time.Duration) (answer, error) {
	for i, a := range c.unread {
		if a.fits(op, key) {
			c.unread = append(c.unread[:i:i], c.unread[i+1:]...)
			return a, nil
		}
	}
	deadline := c.s.w.Now() + within
	for {
		a, err := c.fresh(max(deadline-c.s.w.Now(), 0))
		if err != nil || a.fits(op, key) {
			return a, err
		}
		c.unread = append(c.unread, a)
	}
}

func (a answer) fits(op protocol.Op, key string) bool {
	return a.forOp == op && (!a.hasKey || a.key == key) || a.forOp == 0
}

// wrong makes the failure of an expected answer that did not come.
func (c *client) wrong(expected string, err error) error {
	var silent lines.Silent
	var closed lines.Closed
	if !errors.As(err, &silent) && !errors.As(err, &closed) {
		return err
	}
	seen := err.Error()
	if len(c.unread) > 0 {
		seen += ", besides "
		for i, a := range c.unread {
			if i > 0 {
				seen += ", "
			}
			seen += a.text
		}
	}
	if others := c.s.elsewhere(c); others != "" {
		seen += "; meanwhile " + others
	}
	return c.s.w.Fail(expected+" on "+c.Name, seen)
}

// elsewhere is what other connections have received and no step has looked at:
// who was granted a key out of turn, as a rule.
func (s *scenario) elsewhere(than *client) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(s.conns)) {
		c := s.conns[name]
		if c == than {
			continue
		}
		for {
			a, err := c.fresh(0)
			if err != nil {
				break
			}
			c.unread = append(c.unread, a)
		}
		for _, a := range c.unread {
			list = append(list, fmt.Sprintf("%s received %s at %s", name, a.text, clock(a.at)))
		}
	}
	return strings.Join(list, ", ")
}

// expect takes the answer that the pattern is about and compares it.
func (c *client) expect(pattern string, within time.Duration) (answer, error) {
	p, err := c.s.pattern(pattern)
	if err != nil {
		return answer{}, err
	}
	a, err := c.answer(p.op, p.key, within)
	if err != nil {
		return a, c.wrong(p.text, err)
	}
	if !p.matches(a) {
		return a, c.s.w.Fail(p.text+" on "+c.Name, a.text)
	}
	c.s.saw(c, a)
	return a, nil
}

// settle gives the server time to see the end of a connection.
func (s *scenario) settle() error { return s.w.Sleep(suite.Settle) }

// read returns when the server has read what was sent on the connection: it
// reads a connection's lines in their order, so it has answered a later one.
// A place in line depends on nothing else (SPEC.md 6.2). A server that does
// not answer is judged by what the scenario is about.
func (s *scenario) read(conn string) error {
	c, op, line := s.conns[conn], protocol.Op('R'), "R settle 1"
	key := s.w.Key("settle")
	if s.w.Target.Has["ping"] {
		op, line, key = 'P', "P settle", "settle"
	}
	line, err := s.line(line)
	if err != nil {
		return err
	}
	if _, err := c.Send(line); err != nil {
		return err
	}
	a, err := c.answer(op, key, suite.Quiet)
	var silent lines.Silent
	var closed lines.Closed
	switch {
	case errors.As(err, &silent):
		c.owed++
		return nil
	case errors.As(err, &closed):
		return nil
	case err == nil && a.forOp == 0:
		c.unread = slices.Insert(c.unread, 0, a)
	}
	return err
}
