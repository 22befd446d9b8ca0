package client

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cucumber/godog"

	"github.com/stile-lock/stile/conformance/scripted"
	"github.com/stile-lock/stile/conformance/suite"
)

func (s *scenario) registerSeen(sc *godog.ScenarioContext) {
	const line = `receives "([^"]*)"WHEN`
	step(sc, `(one of the servers|another server|another connection|the same connection|server \d) `+line, s.receives)
	step(sc, `the same connection receives "([^"]*)", no later than ([\d.]+) s after the A was read`, s.receivesBy)
	step(sc, `server 1 receives "([^"]*)", ([\d.]+) s after the H or later`, s.receivesAfterHello)
	step(sc, `server 1 receives "P \*", 15 s after the last line to it`, s.idlePing)
	step(sc, `one of the servers receives an A of that key`, s.receivesKey)
	step(sc, `no server receives "([^"]*)" for ([\d.]+) s`, s.receivesNot)
	step(sc, `no server has received "([^"]*)"`, s.hasNotReceived)
	step(sc, `no server has received a line besides H and P`, func() error { return s.only("H", "P") })
	step(sc, `no server has received a line`, func() error { return s.only() })
	step(sc, `it had received "([^"]*)" before that`, s.receivedBefore)
	step(sc, `server (\d) has received "([^"]*)"`, func(n int, word string) error { return s.word(n, word, true) })
	step(sc, `server (\d) has not received "([^"]*)"`, func(n int, word string) error { return s.word(n, word, false) })
	step(sc, `its nonce is that of the A(?: before)?`, s.sameNonce)
	step(sc, `its nonce is that of the first A`, s.nonceOfFirst)
	step(sc, `no A after the second has the nonce of the first`, s.noFurtherNonce)
	step(sc, `its nonce is not that of the A before`, s.otherNonce)
	step(sc, `its wait is what is left of ([\d.]+) s`, s.waitLeft)
	step(sc, `each A has a nonce, and no two have the same`, s.nonces)
	step(sc, `no A has a nonce, and there is no K and no C`, s.coreOnly)
	step(sc, `the first line of each connection is an H of version 1`, s.helloFirst)

	step(sc, `each server is connected to within ([\d.]+) s`, s.connectedWithin)
	step(sc, `each server has had exactly (\d) connections? at all times since 1 s after the start`, s.exactly)
	step(sc, `server (\d) has had at most (\d) connections? at all times`, s.atMost)
	step(sc, `server (\d) has been connected to (\d) times?`, s.connectedTimes)
	step(sc, `server (\d) has an open connection`, s.hasOpen)
	step(sc, `server (\d) has at most (\d) open connections?`, s.hasAtMostOpen)
	step(sc, `that connection is open`, s.isOpen)
	step(sc, `that connection is given upWHEN`, s.givenUp)
	step(sc, `that connection is given up with a reset`, s.givenUpReset)
	step(sc, `server (\d) is connected to (\d) times, 3 s after each loss`, s.beats)
	step(sc, `server (\d) is connected to, 3 s (after the start|later)`, s.beat)
	step(sc, `the connection to server (\d) is given up 30 s after its last M`, s.dropped)

	step(sc, `their A went round (servers [\d, and]+|\d connections) in an exact cycle`, s.cycle)
	step(sc, `each ([RK]) came on the connection of its A`, s.cameHome)
	step(sc, `server (\d) has granted them all`, s.grantedAll)
	step(sc, `SRV (?:has|have) received (exactly|at most) (\d+) ([ARP])(?: each| of these|)`, s.count)
	step(sc, `that connection has received at most (\d+) P`, s.pings)
	step(sc, `each connection to server (\d) has received at most 1 A`, s.onceEach)
	step(sc, `each connection is owed less than (\d+) answers`, s.owed)
	step(sc, `that was not without a redirect`, s.redirected)
	step(sc, `the pauses before its redirects were ([\d., and]+) s`, s.pauses)
	step(sc, `copies of "([^"]*)" come every 0.2 s for 5 s, and none after`, s.copies)
}

// matches reports whether a line fits a pattern: its fields, where * stands for
// any one. A nonce at the end of an A may be there or not.
func matches(pattern string, e *entry) bool {
	want := strings.Split(pattern, " ")
	if len(want) != len(e.Fields) && !(want[0] == "A" && len(want) == 4 && len(e.Fields) == 5) {
		return false
	}
	for i, f := range want {
		if f != "*" && f != e.Fields[i] {
			return false
		}
	}
	return true
}

// received says what came since the mark, for a failure.
func (s *scenario) received() string {
	list := s.net.Lines(func(e *entry) bool { return e.At >= s.mark && e.Op() != "P" && e.Op() != "H" })
	if len(list) == 0 {
		return "; no server received anything since " + span(s.mark)
	}
	var text []string
	for i, e := range list {
		if i == 8 {
			text = append(text, fmt.Sprintf("and %d more", len(list)-i))
			break
		}
		text = append(text, fmt.Sprintf("%s %q after %s", e.Conn.Name, e.Text, span(e.At-s.mark)))
	}
	return "; received since " + span(s.mark) + ": " + strings.Join(text, ", ")
}

// tell makes e the line that the scenario tells of.
func (s *scenario) tell(e *entry) {
	s.seen[e] = true
	if s.cur != nil && s.cur.Op() == "A" {
		s.prevA = s.cur
	}
	s.cur = e
	s.mark = e.At
}

// expect waits for a line that passes, which no step has told of yet.
func (s *scenario) expect(expected string, m when, pass func(*entry) bool) error {
	var found *entry
	_, err := s.net.Wait(s.mark+m.most-s.w.Now(), func() bool {
		for _, e := range s.net.Lines(pass) {
			if !s.seen[e] {
				found = e
				return true
			}
		}
		return false
	})
	if err != nil {
		return err
	}
	if found == nil {
		return s.w.Fail(expected, "nothing of that kind"+s.received())
	}
	if err := s.inTime(m, found.At, expected, "it came"); err != nil {
		return err
	}
	s.tell(found)
	return nil
}

func (s *scenario) receives(who, pattern, text string) error {
	m := moment(text)
	cur := s.cur
	var from func(*entry) bool
	switch {
	case who == "one of the servers":
		from = func(*entry) bool { return true }
	case cur == nil && !strings.HasPrefix(who, "server "):
		return errors.New("no step before has named a server")
	case who == "another server":
		from = func(e *entry) bool { return e.Conn.Server != cur.Conn.Server }
	case who == "another connection":
		from = func(e *entry) bool { return e.Conn != cur.Conn }
	case who == "the same connection":
		from = func(e *entry) bool { return e.Conn == cur.Conn }
	default:
		from = func(e *entry) bool { return e.Conn.Server.Name == who }
	}
	return s.expect(who+" to receive "+pattern+m.text, m, func(e *entry) bool { return matches(pattern, e) && from(e) })
}

func (s *scenario) receivedBefore(pattern string) error {
	for _, e := range s.net.Lines(func(e *entry) bool { return e.Conn.Server == s.cur.Conn.Server }) {
		if e == s.cur {
			break
		}
		if matches(pattern, e) {
			return nil
		}
	}
	return s.w.Fail(pattern+" before "+s.cur.Text, "not before it"+s.received())
}

func (s *scenario) receivesBy(pattern, d string) error {
	a := s.cur
	if a == nil {
		return errors.New("no step before has named a connection")
	}
	limit := seconds(d)
	m := when{fmt.Sprintf(" no later than %s s after its A was read, when the server's lease ends", d), 0, limit}
	return s.expect("a line "+pattern+" on "+a.Conn.Name+m.text, m, func(e *entry) bool { return e.Conn == a.Conn && matches(pattern, e) })
}

func (s *scenario) receivesAfterHello(pattern, d string) error {
	var hello time.Duration
	if list := s.net.Lines(func(e *entry) bool { return e.Op() == "H" }); len(list) > 0 {
		hello = list[len(list)-1].At
	}
	if err := s.expect("server 1 to receive "+pattern, moment(""), func(e *entry) bool { return matches(pattern, e) }); err != nil {
		return err
	}
	since := s.cur.At - hello
	return s.w.Expect(since >= seconds(d), "nothing before the hello was answered, "+d+" s after it was read", fmt.Sprintf("%s after %s", s.cur.Text, span(since)))
}

func (s *scenario) idlePing() error {
	last := s.net.Entries(func(e *entry) bool { return e.Kind == scripted.Answer && e.Conn.Server.Name == "server 1" })
	if len(last) == 0 {
		// A client without a hello: from the opening on.
		last = s.net.Entries(func(e *entry) bool { return e.Conn.Server.Name == "server 1" })
	}
	s.mark = last[len(last)-1].At
	m := when{" 15 s after the last line to it", 15*time.Second - suite.Idle, 15*time.Second + suite.Idle}
	return s.expect("server 1 to receive a ping"+m.text, m, func(e *entry) bool { return e.Op() == "P" && e.Conn.Server.Name == "server 1" })
}

func (s *scenario) receivesKey() error {
	key := s.caller("Ann").key
	return s.expect(fmt.Sprintf("an A of the key %q", key), moment(""), func(e *entry) bool { return e.Op() == "A" && e.Key() == key })
}

func (s *scenario) receivesNot(pattern, d string) error {
	// From the last step that did something: what a client does upon it may come
	// before this step begins.
	from := s.mark
	if s.cur != nil && matches(pattern, s.cur) {
		from = max(from, s.cur.At+1)
	}
	found := func() []*entry {
		return s.net.Lines(func(e *entry) bool { return e.At >= from && matches(pattern, e) })
	}
	some, err := s.net.Wait(seconds(d), func() bool { return len(found()) > 0 })
	if err != nil {
		return err
	}
	if some {
		e := found()[0]
		return s.w.Fail("no "+pattern+" for "+d+" s", fmt.Sprintf("%s received %q after %s", e.Conn.Name, e.Text, span(e.At-from)))
	}
	return nil
}

func (s *scenario) hasNotReceived(pattern string) error {
	list := s.net.Lines(func(e *entry) bool { return matches(pattern, e) })
	if len(list) > 0 {
		return s.w.Fail("no server to receive "+pattern, list[0].Text)
	}
	return nil
}

// only waits for a moment, and wants to see no line of any other op.
func (s *scenario) only(ops ...string) error {
	if err := s.w.Sleep(suite.AtOnce); err != nil {
		return err
	}
	list := s.net.Lines(func(e *entry) bool { return !slices.Contains(ops, e.Op()) })
	if len(list) > 0 {
		return s.w.Fail("nothing to be sent", fmt.Sprintf("%s received %q", list[0].Conn.Name, list[0].Text))
	}
	return nil
}

func (s *scenario) word(n int, word string, want bool) error {
	name := fmt.Sprintf("server %d", n)
	has := len(s.net.Lines(func(e *entry) bool { return e.Conn.Server.Name == name && slices.Contains(e.Fields, word) })) > 0
	if want {
		return s.w.Expect(has, name+" to be sent "+word, "it was not")
	}
	return s.w.Expect(!has, name+" not to be sent "+word, "it was")
}

func nonce(e *entry) string {
	switch {
	case e == nil:
		return ""
	case e.Op() == "A":
		return e.Field(4)
	}
	return e.Field(2)
}

func (s *scenario) sameNonce() error {
	a, b := nonce(s.prevA), nonce(s.cur)
	return s.w.Expect(a != "" && a == b, fmt.Sprintf("%s with the nonce %q of the A before", s.cur.Op(), a), fmt.Sprintf("the nonce %q", b))
}

func (s *scenario) nonceOfFirst() error {
	a, err := s.firstA()
	if err != nil {
		return err
	}
	return s.w.Expect(nonce(a) != "" && nonce(a) == nonce(s.cur), fmt.Sprintf("%s with the nonce %q of the first A", s.cur.Op(), nonce(a)), s.cur.Text)
}

func (s *scenario) noFurtherNonce() error {
	a, err := s.firstA()
	if err != nil {
		return err
	}
	if err := s.w.Sleep(suite.AtOnce); err != nil {
		return err
	}
	list := s.net.Lines(func(e *entry) bool { return e.Op() == "A" })
	for _, e := range list[min(2, len(list)):] {
		if nonce(e) == nonce(a) {
			return s.w.Fail(fmt.Sprintf("the nonce %q not to be repeated behind a younger acquire", nonce(a)), fmt.Sprintf("%s received %q", e.Conn.Name, e.Text))
		}
	}
	return nil
}

func (s *scenario) otherNonce() error {
	a, b := nonce(s.prevA), nonce(s.cur)
	return s.w.Expect(b != "" && a != b, fmt.Sprintf("a fresh nonce instead of %q, which is spent", a), fmt.Sprintf("the nonce %q", b))
}

func (s *scenario) waitLeft(total string) error {
	if s.prevA == nil || s.cur.Op() != "A" {
		return errors.New("this step needs two A before it")
	}
	var began time.Duration
	for _, c := range s.callers {
		if c.key == s.cur.Key() {
			began = c.began
		}
	}
	f, err := strconv.ParseFloat(s.cur.Field(2), 64)
	if err != nil {
		return s.w.Fail("a wait", s.cur.Text)
	}
	wait := time.Duration(f * float64(time.Second))
	least, most := seconds(total)-(s.cur.At-began)-time.Millisecond, seconds(total)-(s.cur.At-s.prevA.At)+suite.Way
	return s.w.Expect(wait >= least && wait <= most,
		fmt.Sprintf("a wait of %s: %s s less the %s since the call", span((least+most)/2), total, span(s.cur.At-s.prevA.At)), s.cur.Text)
}

func (s *scenario) nonces() error {
	had := map[string]bool{}
	for _, e := range s.net.Lines(func(e *entry) bool { return e.Op() == "A" }) {
		if n := nonce(e); n == "" || had[n] {
			return s.w.Fail("a nonce of its own for each acquire", fmt.Sprintf("%s received %q", e.Conn.Name, e.Text))
		}
		had[nonce(e)] = true
	}
	return nil
}

func (s *scenario) coreOnly() error {
	bad := s.net.Lines(func(e *entry) bool { return e.Op() == "A" && nonce(e) != "" || e.Op() == "K" || e.Op() == "C" })
	if len(bad) > 0 {
		return s.w.Fail("nothing that the server did not list", fmt.Sprintf("%s received %q", bad[0].Conn.Name, bad[0].Text))
	}
	return nil
}

func (s *scenario) helloFirst() error {
	first := map[*scripted.Conn]bool{}
	for _, e := range s.net.Lines(func(*entry) bool { return true }) {
		if !first[e.Conn] && (e.Op() != "H" || e.Field(1) != "1") {
			return s.w.Fail("H 1 … as the first line of "+e.Conn.Name, e.Text)
		}
		first[e.Conn] = true
	}
	return nil
}

func (s *scenario) connectedWithin(d string) error {
	ok, err := s.net.Wait(s.started+seconds(d)-s.w.Now(), func() bool {
		for _, v := range s.given {
			if len(v.Conns()) == 0 {
				return false
			}
		}
		return true
	})
	if err != nil {
		return err
	}
	return s.w.Expect(ok, "a connection to each address within "+d+" s of the start", "none to some of them")
}

// open follows how many connections a server had, from a moment on: it calls f
// with the number then, and at each change.
func (s *scenario) openCount(v *scripted.Server, from time.Duration, f func(at time.Duration, n int) error) error {
	n, begun := 0, false
	gone := map[*scripted.Conn]bool{}
	log, _ := s.net.Log()
	for _, e := range log {
		if e.Conn.Server != v {
			continue
		}
		if !begun && e.At > from {
			begun = true
			if err := f(from, n); err != nil {
				return err
			}
		}
		switch {
		case e.Kind == scripted.Accept:
			n++
		case (e.Kind == scripted.End || e.Kind == scripted.Cut) && !gone[e.Conn]:
			gone[e.Conn] = true
			n--
		default:
			continue
		}
		if begun {
			if err := f(e.At, n); err != nil {
				return err
			}
		}
	}
	if !begun {
		return f(from, n)
	}
	return nil
}

func (s *scenario) exactly(want int) error {
	from := s.started + time.Second
	if d := from - s.w.Now(); d > 0 {
		if err := s.w.Sleep(d + suite.Way); err != nil {
			return err
		}
	}
	for _, v := range s.given {
		err := s.openCount(v, from, func(at time.Duration, n int) error {
			return s.w.Expect(n == want, fmt.Sprintf("exactly %d open connection(s) to %s", want, v.Name), fmt.Sprintf("%d at %s", n, span(at)))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *scenario) server(n int) *scripted.Server { return s.net.Servers[n-1] }

func (s *scenario) atMost(server, most int) error {
	v := s.server(server)
	return s.openCount(v, 0, func(at time.Duration, n int) error {
		return s.w.Expect(n <= most, fmt.Sprintf("at most %d open connection(s) to %s", most, v.Name), fmt.Sprintf("%d at %s", n, span(at)))
	})
}

func (s *scenario) accepts(server int) []*entry {
	v := s.server(server)
	return s.net.Entries(func(e *entry) bool { return e.Kind == scripted.Accept && e.Conn.Server == v })
}

func (s *scenario) connectedTimes(server, want int) error {
	n := len(s.accepts(server))
	return s.w.Expect(n == want, fmt.Sprintf("server %d to be connected to %d time(s)", server, want), fmt.Sprintf("%d times", n))
}

func (s *scenario) hasOpen(server int) error {
	return s.w.Expect(len(s.server(server).Conns()) > 0, fmt.Sprintf("an open connection to server %d", server), "none")
}

func (s *scenario) hasAtMostOpen(server, most int) error {
	n := len(s.server(server).Conns())
	return s.w.Expect(n <= most, fmt.Sprintf("at most %d open connection(s) to server %d", most, server), fmt.Sprint(n))
}

// ends are how the client ended a connection.
func (s *scenario) ends(c *scripted.Conn) []*entry {
	return s.net.Entries(func(e *entry) bool { return e.Kind == scripted.End && e.Conn == c })
}

func (s *scenario) isOpen() error {
	c, err := s.conn()
	if err != nil {
		return err
	}
	if err := s.w.Sleep(suite.Way); err != nil {
		return err
	}
	seen := "it is not"
	if list := s.ends(c); len(list) > 0 {
		seen = fmt.Sprintf("%s at %s", list[0].Text, span(list[0].At))
	}
	return s.w.Expect(c.Open(), c.Name+" to be open", seen)
}

func (s *scenario) givenUp(text string) error {
	c, err := s.conn()
	if err != nil {
		return err
	}
	m := moment(text)
	expected := "the client to give " + c.Name + " up" + m.text
	ok, err := s.net.Wait(s.mark+m.most-s.w.Now(), func() bool { return len(s.ends(c)) > 0 })
	if err != nil {
		return err
	}
	if !ok {
		return s.w.Fail(expected, fmt.Sprintf("it is open still after %s", span(s.w.Now()-s.mark)))
	}
	at := s.ends(c)[0].At
	if err := s.inTime(m, at, expected, "given up"); err != nil {
		return err
	}
	s.mark = at
	return nil
}

func (s *scenario) givenUpReset() error {
	if err := s.givenUp(""); err != nil {
		return err
	}
	e := s.ends(s.cur.Conn)[0]
	return s.w.Expect(e.Reset, "a reset, so that nothing unsent is delivered later", e.Text)
}

func (s *scenario) beats(server, times int) error {
	v := s.server(server)
	from := s.mark
	count := func() (list []*entry) {
		for _, e := range s.accepts(server) {
			if e.At > from {
				list = append(list, e)
			}
		}
		return list
	}
	if _, err := s.net.Wait(time.Duration(times)*(3*time.Second+suite.BeatJitter+suite.BeatOff)+suite.Late, func() bool { return len(count()) >= times }); err != nil {
		return err
	}
	// The first loss is that of the connection there was; each new one is lost
	// as soon as it is there.
	losses := s.net.Entries(func(e *entry) bool { return e.At >= from && e.Kind == scripted.Cut && e.Conn.Server == v })
	list := count()
	for i := range times {
		expected := fmt.Sprintf("connection %d to %s 2.7 to 3.3 s after the loss of the one before", i+1, v.Name)
		if i >= len(list) || i >= len(losses) {
			return s.w.Fail(expected, fmt.Sprintf("none in %s", span(s.w.Now()-from)))
		}
		if err := s.beatGap(list[i].At-losses[i].At, expected); err != nil {
			return err
		}
	}
	return nil
}

func (s *scenario) beatGap(gap time.Duration, expected string) error {
	const three = 3 * time.Second
	off := suite.BeatJitter + suite.BeatOff
	return s.w.Expect(gap >= three-off && gap <= three+off, expected, "after "+span(gap))
}

func (s *scenario) beat(server int, after string) error {
	from := s.mark
	if after == "after the start" {
		from = s.started
	}
	find := func() *entry {
		for _, e := range s.accepts(server) {
			if e.At > s.mark {
				return e
			}
		}
		return nil
	}
	expected := fmt.Sprintf("a connection to server %d 2.7 to 3.3 s %s", server, after)
	ok, err := s.net.Wait(from+3*time.Second+suite.BeatJitter+time.Second-s.w.Now(), func() bool { return find() != nil })
	if err != nil {
		return err
	}
	if !ok {
		return s.w.Fail(expected, "none in "+span(s.w.Now()-from))
	}
	return s.beatGap(find().At-from, expected)
}

func (s *scenario) dropped(server int) error {
	v := s.server(server)
	list := s.net.Entries(func(e *entry) bool {
		return e.Kind == scripted.Answer && e.Conn.Server == v && e.Field(0) == "M"
	})
	if len(list) == 0 {
		return s.w.NotJudged("server %d was not asked in this scenario, so it has not redirected", server)
	}
	last := list[len(list)-1]
	ended := func() []*entry { return s.ends(last.Conn) }
	expected := fmt.Sprintf("the connection to server %d to be given up 30 s after it ceased to serve", server)
	ok, err := s.net.Wait(last.At+30*time.Second+suite.Dropped-s.w.Now(), func() bool { return len(ended()) > 0 })
	if err != nil {
		return err
	}
	if !ok {
		return s.w.Fail(expected, "it is open still after "+span(s.w.Now()-last.At))
	}
	gap := ended()[0].At - last.At
	return s.w.Expect(gap >= 30*time.Second-suite.Dropped, expected, "given up after "+span(gap))
}

// inBatch are the lines of an op since the last "different keys".
func (s *scenario) inBatch(op string) []*entry {
	return s.net.Lines(func(e *entry) bool { return e.At >= s.batch && e.Op() == op })
}

func (s *scenario) cycle(of string) error {
	name := func(e *entry) string { return e.Conn.Server.Name }
	var want []string
	n := 0
	if number, ok := strings.CutSuffix(of, " connections"); ok {
		n, _ = strconv.Atoi(number)
		name = func(e *entry) string { return e.Conn.Name }
	} else {
		list, err := s.pick(of)
		if err != nil {
			return err
		}
		n = len(list)
		for _, v := range list {
			want = append(want, v.Name)
		}
	}
	var order []string
	for _, e := range s.inBatch("A") {
		order = append(order, name(e))
	}
	ok := len(order) == s.batched && len(order) >= n
	for i := range order {
		ok = ok && (want == nil || slices.Contains(want, order[i]))
		if i >= n {
			ok = ok && order[i] == order[i-n]
		} else {
			ok = ok && !slices.Contains(order[:i], order[i])
		}
	}
	return s.w.Expect(ok, fmt.Sprintf("%d acquires to go round %s in one fixed order", s.batched, of), strings.Join(order, ", "))
}

func (s *scenario) cameHome(op string) error {
	home := map[string]*scripted.Conn{}
	for _, e := range s.inBatch("A") {
		home[e.Key()] = e.Conn
	}
	list := s.inBatch(op)
	for _, e := range list {
		if home[e.Key()] != e.Conn {
			return s.w.Fail(fmt.Sprintf("%s on %s, which granted it", e.Text, home[e.Key()].Name), "on "+e.Conn.Name)
		}
	}
	return s.w.Expect(len(list) == s.batched, fmt.Sprintf("%d %s", s.batched, op), fmt.Sprint(len(list)))
}

func (s *scenario) grantedAll(server int) error {
	v := s.server(server)
	n := 0
	for _, e := range s.net.Entries(func(e *entry) bool { return e.At >= s.batch && e.Kind == scripted.Answer && e.Field(0) == "A" }) {
		if e.Conn.Server != v {
			return s.w.Fail("all to be granted by "+v.Name, fmt.Sprintf("%s granted %q", e.Conn.Name, e.Text))
		}
		n++
	}
	return s.w.Expect(n == s.batched, fmt.Sprintf("%d grants by %s", s.batched, v.Name), fmt.Sprint(n))
}

func (s *scenario) count(who, how string, want int, op string) error {
	list, err := s.pick(who)
	if err != nil {
		return err
	}
	for _, v := range list {
		n := 0
		for _, e := range s.inBatch(op) {
			if e.Conn.Server == v {
				n++
			}
		}
		ok := n == want || how == "at most" && n < want
		if !ok {
			return s.w.Fail(fmt.Sprintf("%s to receive %s %d %s", v.Name, how, want, op), fmt.Sprint(n))
		}
	}
	return nil
}

func (s *scenario) pings(most int) error {
	c, err := s.conn()
	if err != nil {
		return err
	}
	n := len(s.net.Lines(func(e *entry) bool { return e.Conn == c && e.Op() == "P" }))
	return s.w.Expect(n <= most, fmt.Sprintf("at most %d ping in flight", most), fmt.Sprintf("%d, none of them answered", n))
}

func (s *scenario) onceEach(server int) error {
	v := s.server(server)
	count := map[*scripted.Conn]int{}
	for _, e := range s.inBatch("A") {
		if e.Conn.Server != v {
			continue
		}
		if count[e.Conn]++; count[e.Conn] > 1 {
			return s.w.Fail("at most one A on each connection to "+v.Name, fmt.Sprintf("a second one on %s: %q", e.Conn.Name, e.Text))
		}
	}
	return nil
}

func (s *scenario) owed(most int) error {
	count := map[*scripted.Conn]int{}
	for _, e := range s.net.Lines(func(e *entry) bool { return e.Conn.Open() && !s.net.Answered(e) }) {
		count[e.Conn]++
	}
	for c, n := range count {
		if n >= most {
			return s.w.Fail(fmt.Sprintf("less than %d unanswered requests on one connection", most), fmt.Sprintf("%d on %s", n, c.Name))
		}
	}
	return nil
}

func (s *scenario) redirected() error {
	n := len(s.net.Entries(func(e *entry) bool { return e.At >= s.batch && e.Kind == scripted.Answer && e.Field(0) == "M" }))
	return s.w.Expect(n > 0, "the rotation to come by a server that redirects", "none was asked")
}

func (s *scenario) pauses(list string) error {
	var want []time.Duration
	for _, f := range strings.FieldsFunc(list, func(r rune) bool { return r != '.' && (r < '0' || r > '9') }) {
		want = append(want, seconds(f))
	}
	as := s.net.Lines(func(e *entry) bool { return e.Op() == "A" })
	// Ten redirects are the end; whether the tenth is still followed is not said.
	if n := len(as) - 1; n != len(want) && n != len(want)+1 {
		return s.w.Fail(fmt.Sprintf("an end after ten redirects, of which %d or %d are followed", len(want), len(want)+1), fmt.Sprintf("%d A", len(as)))
	}
	for i, d := range want {
		gap := as[i+1].At - as[i].At
		if gap < d-suite.Way || gap > d+suite.Late {
			return s.w.Fail(fmt.Sprintf("a pause of %s before redirect %d is followed", span(d), i+1), span(gap))
		}
	}
	return nil
}

func (s *scenario) copies(pattern string) error {
	find := func() []*entry {
		return s.net.Lines(func(e *entry) bool { return e.At >= s.mark && matches(pattern, e) })
	}
	ok, err := s.net.Wait(suite.AtOnce, func() bool { return len(find()) > 0 })
	if err != nil {
		return err
	}
	if !ok {
		return s.w.Fail(pattern+" at once", "nothing of that kind"+s.received())
	}
	first := find()[0].At
	if err := s.w.SleepUntil(first + suite.CopiesOver + time.Second); err != nil {
		return err
	}
	list := find()
	for i := 1; i < len(list); i++ {
		gap := list[i].At - list[i-1].At
		if gap < suite.CopiesApart || gap > suite.CopiesApartMost {
			return s.w.Fail("copies 0.2 s apart", fmt.Sprintf("copy %d %s after the one before, at %s", i+1, span(gap), span(list[i].At-first)))
		}
	}
	long := list[len(list)-1].At - first
	return s.w.Expect(long >= suite.CopiesFor && long <= suite.CopiesForMost, "copies for 5 s, and none after", fmt.Sprintf("%d copies, the last one %s after the first", len(list), span(long)))
}
