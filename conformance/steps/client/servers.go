package client

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cucumber/godog"

	"github.com/stile-lock/stile/conformance/scripted"
	"github.com/stile-lock/stile/conformance/suite"
)

func (s *scenario) registerServers(sc *godog.ScenarioContext) {
	step(sc, `(\d+) servers?`, s.servers)
	step(sc, `SRV (?:lists?|list) the profiles "(.*)"`, s.profiles)
	step(sc, `SRV speaks? core only`, s.each(func(v *scripted.Server) { v.Core() }))
	step(sc, `SRV answers? (each|the next \d+) ([ARKCPH]) with "(.*)"`, s.answers)
	step(sc, `SRV answers? (each|the next \d+) ([ARKCPH]) with "(.*)" after ([\d.]+) s`, s.answersAfter)
	step(sc, `SRV leaves? each ([ARKCPH]) unanswered`, s.leaves)
	step(sc, `SRV serves? each ([ARKCPH])`, s.serves)
	step(sc, `SRV resets? the connection on each ([ARKCPH])`, s.resetsOn)
	step(sc, `SRV goes? down on each ([ARKCPH])`, s.downOn)
	step(sc, `the first server to receive an? ([ARKCPH]) (leaves it unanswered|resets the connection|goes down|goes silent|answers "(.*)")`, s.first)
	step(sc, `SRV (?:is|are|goes|go) down`, s.each(func(v *scripted.Server) { v.Down() }))
	step(sc, `SRV is up again`, s.up)
	step(sc, `SRV accepts? connections and says? nothing`, s.each(func(v *scripted.Server) { v.Silence() }))
	step(sc, `SRV goes? silent`, s.each(func(v *scripted.Server) { v.Silence() }))
	step(sc, `SRV resets? every new connection, and those it has`, s.each(func(v *scripted.Server) { v.HangUp(true); v.ResetAll() }))
	step(sc, `SRV resets? its connections`, s.each(func(v *scripted.Server) { v.ResetAll() }))
	step(sc, `all that each server sends takes ([\d.]+) s on its way`, s.delay)
	step(sc, `that connection is lost`, s.lose)
	step(sc, `the server of the first A goes down`, s.loseFirst)
	step(sc, `the ([ARKC]) of "(.*)" is answered "(.*)"(, byte by byte|)`, s.answered)
	step(sc, `"(.*)" is sent on that connection`, s.sent)
	step(sc, `"(.*)" is sent on that connection every ([\d.]+) s for ([\d.]+) s`, s.sentEvery)
	step(sc, `a line of (\d+) bytes is sent on that connection`, s.longLine)
	step(sc, `each A is answered`, s.allAnswered)
	step(sc, `([\d.]+) s pass(?:es)?`, s.pass)
}

func (s *scenario) servers(n int) error {
	for range n {
		if _, err := s.network().NewServer(); err != nil {
			return err
		}
	}
	return nil
}

// each makes a step that does one thing to each of the servers it names.
func (s *scenario) each(f func(*scripted.Server)) func(string) error {
	return func(who string) error {
		list, err := s.pick(who)
		s.act()
		for _, v := range list {
			f(v)
		}
		return err
	}
}

func (s *scenario) on(who, op string, times int, a scripted.Action) error {
	return s.each(func(v *scripted.Server) { v.On(op, times, a) })(who)
}

func (s *scenario) profiles(who, list string) error {
	return s.each(func(v *scripted.Server) { v.Profiles(list) })(who)
}

func (s *scenario) answers(who, which, op, template string) error {
	return s.answersAfter(who, which, op, template, "0")
}

func (s *scenario) answersAfter(who, which, op, template, delay string) error {
	times := 0
	if n, ok := strings.CutPrefix(which, "the next "); ok {
		times, _ = strconv.Atoi(n)
	}
	return s.on(who, op, times, scripted.Say(template, seconds(delay)))
}

func (s *scenario) leaves(who, op string) error { return s.on(who, op, 0, scripted.Nothing) }

func (s *scenario) serves(who, op string) error { return s.on(who, op, 0, scripted.Serve) }

func (s *scenario) resetsOn(who, op string) error { return s.on(who, op, 0, scripted.ResetOn) }

func (s *scenario) downOn(who, op string) error { return s.on(who, op, 0, scripted.DownOn) }

// first sets a rule for whichever server gets such a line first. The others,
// and that one from then on, do what they were told before.
func (s *scenario) first(op, what, template string) error {
	var do scripted.Action
	switch {
	case what == "leaves it unanswered":
		do = scripted.Nothing
	case what == "resets the connection":
		do = scripted.ResetOn
	case what == "goes down":
		do = scripted.DownOn
	case what == "goes silent":
		do = func(c *scripted.Conn, _ *entry) { c.Server.Silence() }
	default:
		do = scripted.Say(template, 0)
	}
	var used atomic.Bool
	for _, v := range s.network().Servers {
		v.OnIf(op, func() bool { return used.CompareAndSwap(false, true) }, do)
	}
	return nil
}

func (s *scenario) up(who string) error {
	list, err := s.pick(who)
	s.act()
	for _, v := range list {
		if err := v.Up(); err != nil {
			return s.w.NotJudged("the port of %s could not be opened again: %v", v.Name, err)
		}
	}
	return err
}

func (s *scenario) delay(d string) error {
	s.w.Note("", "from now on, what servers send arrives %s s later", d)
	return s.each(func(v *scripted.Server) { v.Delay(seconds(d)) })("each server")
}

func (s *scenario) conn() (*scripted.Conn, error) {
	if s.cur == nil {
		return nil, fmt.Errorf("no step before has named a connection")
	}
	return s.cur.Conn, nil
}

func (s *scenario) lose() error {
	c, err := s.conn()
	if err != nil {
		return err
	}
	s.act()
	c.Reset()
	return nil
}

// firstA is the first acquire of the scenario.
func (s *scenario) firstA() (*entry, error) {
	list := s.net.Lines(func(e *entry) bool { return e.Op() == "A" })
	if len(list) == 0 {
		return nil, s.w.Fail("an A", "none")
	}
	return list[0], nil
}

func (s *scenario) loseFirst() error {
	a, err := s.firstA()
	if err != nil {
		return err
	}
	s.act()
	a.Conn.Server.Down()
	return nil
}

// answered answers the oldest unanswered request of its kind.
func (s *scenario) answered(op, key, template, how string) error {
	find := func() *entry {
		list := s.net.Lines(func(e *entry) bool {
			return e.Op() == op && e.Key() == key && !s.net.Answered(e) && e.Conn.Open()
		})
		if len(list) == 0 {
			return nil
		}
		return list[0]
	}
	ok, err := s.net.Wait(suite.Answer, func() bool { return find() != nil })
	if err != nil {
		return err
	}
	if !ok {
		return s.w.Fail("an unanswered "+op+" of "+key+" on a connection that lives", "none"+s.received())
	}
	line := find()
	s.act()
	s.answer, s.cur = s.mark, line
	if how == "" {
		line.Conn.Answer(line, template)
		return nil
	}
	line.Conn.Answer(line, "") // counts as answered; an empty line is none
	for i := range len(template) {
		if err := s.w.Sleep(5 * time.Millisecond); err != nil {
			return err
		}
		line.Conn.SendBytes([]byte{template[i]}, template[i:i+1])
	}
	line.Conn.Send("")
	return nil
}

func (s *scenario) sent(text string) error {
	c, err := s.conn()
	if err != nil {
		return err
	}
	if text, err = strconv.Unquote(`"` + text + `"`); err != nil {
		return err
	}
	s.act()
	s.answer = s.mark
	c.Send(text)
	return nil
}

func (s *scenario) sentEvery(text, every, long string) error {
	for end := s.w.Now() + seconds(long); s.w.Now() < end; {
		if err := s.sent(text); err != nil {
			return err
		}
		if err := s.w.Sleep(seconds(every)); err != nil {
			return err
		}
	}
	return nil
}

func (s *scenario) longLine(n int) error {
	c, err := s.conn()
	if err != nil {
		return err
	}
	s.act()
	c.SendBytes([]byte("E A door queue-full "+strings.Repeat("x", n-21)+"\n"), fmt.Sprintf("(a line of %d bytes)", n))
	return nil
}

func (s *scenario) allAnswered() error {
	s.act()
	for _, v := range s.net.Servers {
		v.On("A", 0, scripted.Serve)
	}
	for _, e := range s.net.Lines(func(e *entry) bool { return e.Op() == "A" && !s.net.Answered(e) && e.Conn.Open() }) {
		scripted.Serve(e.Conn, e)
	}
	return nil
}

func (s *scenario) pass(d string) error {
	err := s.w.Sleep(seconds(d))
	s.act()
	return err
}
