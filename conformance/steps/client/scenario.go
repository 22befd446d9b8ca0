package client

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cucumber/godog"

	"github.com/stile-lock/stile/conformance/scripted"
	"github.com/stile-lock/stile/conformance/suite"
	"github.com/stile-lock/stile/conformance/testee"
)

type entry = scripted.Entry

// scenario is what the steps of one scenario share.
type scenario struct {
	w       *suite.World
	t       *target
	net     *scripted.Network
	session *testee.Session
	base    time.Time // when w.Now was 0

	dial    testee.Request
	given   []*scripted.Server // what the client was given
	started time.Duration      // when it was
	callers map[string]*caller
	many    []*testee.Call // the calls of "1100 callers"

	mark    time.Duration   // of what the next "at once" counts from
	batch   time.Duration   // when the last "different keys" began
	batched int             // how many there were
	seen    map[*entry]bool // lines that a step has told of
	cur     *entry          // the last of them: "that server", "that connection"
	prevA   *entry          // the A before it
	answer  time.Duration   // when "that answer" was sent
}

// caller is one of the users of the client, who has one thing going on.
type caller struct {
	name    string
	key     string
	calls   map[string]*testee.Call // by "acquire", "release", "keep"
	began   time.Duration           // the acquire
	lock    int                     // id of the acquire that has the lock
	token   string
	expires time.Duration // as the client says; 0 if it did not
	told    bool          // it did
}

func (s *scenario) caller(name string) *caller {
	c := s.callers[name]
	if c == nil {
		c = &caller{name: name, calls: map[string]*testee.Call{}}
		s.callers[name] = c
	}
	return c
}

// at is a moment as a time of the scenario.
func (s *scenario) at(t time.Time) time.Duration { return s.w.Now() - time.Since(t) }

// act begins a step that does something: what follows counts from now.
func (s *scenario) act() { s.mark = s.w.Now() }

// network is made with the first server.
func (s *scenario) network() *scripted.Network {
	if s.net == nil {
		s.net = scripted.New(s.w)
	}
	return s.net
}

// pick is the servers that a step is about.
func (s *scenario) pick(who string) ([]*scripted.Server, error) {
	switch {
	case strings.HasPrefix(who, "each server"):
		return s.network().Servers, nil
	case who == "that server":
		if s.cur == nil {
			return nil, errors.New("no step before has named a server")
		}
		return []*scripted.Server{s.cur.Conn.Server}, nil
	}
	var list []*scripted.Server
	for _, word := range strings.FieldsFunc(who, func(r rune) bool { return r < '0' || r > '9' }) {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || n > len(s.network().Servers) {
			return nil, fmt.Errorf("there is no server %s", word)
		}
		list = append(list, s.network().Servers[n-1])
	}
	return list, nil
}

// open starts the testee.
func (s *scenario) open() error {
	if s.session != nil {
		return nil
	}
	session, err := testee.Open(s.w.Context(), s.t.program, s.w)
	if err != nil {
		if s.w.Context().Err() != nil {
			return s.w.Stopped()
		}
		return s.w.NotJudged("%v", err)
	}
	s.session = session
	s.w.Cleanup(func(context.Context) { session.Close() })
	return nil
}

// sessionError is what it means that the session is over.
func (s *scenario) sessionError(err error) error {
	var died testee.Died
	if errors.As(err, &died) {
		return s.w.Fail("the client to go on", died.How)
	}
	return s.w.NotJudged("the testee does not keep to TESTEE.md: %v", err)
}

// send sends a request to the testee.
func (s *scenario) send(r testee.Request) (*testee.Call, error) {
	if s.session == nil {
		return nil, errors.New("the client was not given any servers")
	}
	c, err := s.session.Send(r)
	if err != nil {
		return nil, s.sessionError(err)
	}
	return c, nil
}

// errNoReply is the error of await when nothing came.
var errNoReply = errors.New("no reply")

// await waits for a reply for d at most. What the driver could not do, or does
// not support, can't be judged.
func (s *scenario) await(c *testee.Call, d time.Duration) (testee.Reply, time.Duration, error) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c.Done():
	case <-s.session.Ended():
		select {
		case <-c.Done():
		default:
			return testee.Reply{}, 0, s.sessionError(s.session.Err())
		}
	case <-timer.C:
		return testee.Reply{}, 0, errNoReply
	case <-s.w.Context().Done():
		return testee.Reply{}, 0, s.w.Stopped()
	}
	r, t := c.Reply()
	switch {
	case r.Failed != "":
		return r, 0, s.w.NotJudged("the testee could not do %s: %s", c.Request.Do, r.Failed)
	case r.Unsupported != "":
		return r, 0, s.w.NotJudged("the testee does not support %s: %s", c.Request.Do, r.Unsupported)
	}
	return r, s.at(t), nil
}

// step registers a step; SRV and OP in the expression stand for what names
// servers and requests.
func step(sc *godog.ScenarioContext, expression string, f any) {
	expression = strings.ReplaceAll(expression, "SRV", `(server \d|servers \d(?:, \d)*(?: and \d)?|each server|that server)`)
	expression = strings.ReplaceAll(expression, "WHEN", `(,? at once|,? (?:within )?[\d.]+ s(?: later)?|)`)
	sc.Step(compiled("^"+expression+"$"), f)
}

// expressions has each compiled once: a run registers its steps anew for each
// scenario, and would spend a third of its computing on them.
var expressions sync.Map

func compiled(expression string) *regexp.Regexp {
	if e, ok := expressions.Load(expression); ok {
		return e.(*regexp.Regexp)
	}
	e := regexp.MustCompile(expression)
	expressions.Store(expression, e)
	return e
}

// seconds parses a number of seconds of a feature file.
func seconds(text string) time.Duration {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic("not a number of seconds: " + text)
	}
	return time.Duration(f * float64(time.Second))
}

// when is what a step says about the moment of something, from the mark on.
type when struct {
	text        string
	least, most time.Duration
}

// moment parses what WHEN matched.
func moment(text string) when {
	text = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(text), ","))
	number := func(s string) time.Duration { return seconds(strings.Fields(s)[0]) }
	switch {
	case text == "":
		return when{"", 0, suite.Answer}
	case text == "at once":
		return when{" at once", -suite.Way, suite.AtOnce}
	case strings.HasPrefix(text, "within "):
		return when{" " + text, -suite.Way, number(text[7:]) + suite.Late}
	default:
		d := number(text)
		return when{fmt.Sprintf(" %s", text), d - suite.Way, d + suite.Late}
	}
}

// span writes a duration for people.
func span(d time.Duration) string {
	return strconv.FormatFloat(d.Round(time.Millisecond).Seconds(), 'f', -1, 64) + " s"
}
