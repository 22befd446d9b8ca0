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
	"github.com/stile-lock/stile/conformance/testee"
)

func (s *scenario) registerCalls(sc *godog.ScenarioContext) {
	const who = `([A-Z][a-z]+)`
	step(sc, `the client is given SRV`, s.isGiven)
	step(sc, `the client is connected to SRV`, s.isConnected)
	step(sc, `the client refuses to be given SRV`, s.refuses)
	step(sc, `the client follows only listed addresses`, func() { s.dial.OnlyListed = true })
	step(sc, `the client may retry for ([\d.]+) s`, func(d string) { s.dial.RetryForMS = seconds(d).Milliseconds() })
	step(sc, `the client has the secret (.+)`, func(quoted string) (err error) {
		s.dial.Secret, err = unquote(quoted)
		return err
	})
	step(sc, who+` (acquires|tries) "([^"]*)"(?: with(?: a wait of ([\d.]+) s)?(?: and)?(?: a lease of ([\d.]+) s| (the default lease))?)?`, s.acquires)
	step(sc, who+` acquires "([^"]*)" with a (wait|lease) of (-?\d+) ms`, s.acquiresMS)
	step(sc, who+` acquires the key (.+)`, s.acquiresKey)
	step(sc, who+` holds "([^"]*)"(?: with a lease of ([\d.]+) s)?`, s.holds)
	step(sc, who+` releases the lock`, s.releases)
	step(sc, who+` keeps the lock with a lease of ([\d.]+) s`, s.keeps)
	step(sc, who+` gives up`, func(name string) error { return s.givesUp(name, "acquire") })
	step(sc, who+` gives up the (release|keep)`, s.givesUp)
	step(sc, `the client acquires( and releases| and keeps|) (\d+) different keys?, one after the other`, s.several)
	step(sc, `(\d+) callers acquire different keys`, s.manyCallers)
	step(sc, `all of them have their locks`, s.manyLocks)

	step(sc, who+` has the lock(?: with the token (\d+)| with another token than (\d+)|)`, s.hasLock)
	step(sc, who+`'s (acquire|release|keep) ends wellWHEN`, s.endsWell)
	step(sc, who+`'s (acquire|release|keep) ends with ([a-z_]+(?: or [a-z_]+)*)(?: "([a-z-]+)")?(?: "([a-z-]+)")?WHEN`, s.endsWith)
	step(sc, who+`'s (acquire|release|keep) has not ended`, s.notEnded)
	step(sc, who+` does not get the token (\d+)`, s.doesNotGet)
	step(sc, who+` is told that the lock is lost, at once`, s.toldLost)
	step(sc, who+` is told that the lock is lost, no later than ([\d.]+) s after the A was read`, s.toldLostBy)
	step(sc, who+` was not told so before ([\d.]+) s after the A was read`, s.notToldBefore)
	step(sc, who+` does not hold the lock`, s.doesNotHold)
	step(sc, who+`'s lock ends no later than ([\d.]+) s after (that answer|the A was read|the K was read)`, s.endsNoLater)
	step(sc, who+`'s lock ends no sooner than ([\d.]+) s after that answer`, s.endsNoSooner)
	step(sc, `the text of the error has the address of each server`, s.listsAddresses)
	step(sc, `another connection receives "([^"]*)", or `+who+`'s acquire ends with timeout within ([\d.]+) s`, s.elsewhereOrTimeout)
}

// give starts the client, and returns the call for it.
func (s *scenario) give(who string) (*testee.Call, error) {
	list, err := s.pick(who)
	if err != nil {
		return nil, err
	}
	if err := s.open(); err != nil {
		return nil, err
	}
	s.dial.Do, s.given = "dial", list
	for _, v := range list {
		s.dial.Addrs = append(s.dial.Addrs, v.Addr)
	}
	s.act()
	s.started = s.mark
	return s.send(s.dial)
}

// refuses is isGiven where the client must not start.
func (s *scenario) refuses(who string) error {
	c, err := s.give(who)
	if err != nil {
		return err
	}
	const expected = "the client to refuse to start, with bad_argument"
	r, _, err := s.await(c, suite.Answer)
	if errors.Is(err, errNoReply) {
		return s.w.Fail(expected, s.session.Hung(c, suite.Answer))
	}
	if err != nil {
		return err
	}
	return s.w.Expect(r.Error == "bad_argument", expected, describe(r))
}

// isGiven starts the client.
func (s *scenario) isGiven(who string) error {
	c, err := s.give(who)
	if err != nil {
		return err
	}
	r, _, err := s.await(c, suite.Answer)
	if errors.Is(err, errNoReply) {
		return s.w.Fail("the client to start", s.session.Hung(c, suite.Answer))
	}
	if err == nil && !r.OK {
		return s.w.Fail("the client to start, whether or not servers answer", describe(r))
	}
	return err
}

// isConnected starts the client and waits until it has said hello everywhere.
func (s *scenario) isConnected(who string) error {
	if err := s.isGiven(who); err != nil {
		return err
	}
	ok, err := s.net.Wait(suite.Answer, func() bool {
		for _, v := range s.given {
			if len(v.Conns()) == 0 {
				return false
			}
		}
		return true
	})
	if err == nil && !ok {
		return s.w.Fail("a connection to each address the client was given", "none to some of them within "+span(suite.Answer))
	}
	if err == nil {
		err = s.w.Sleep(suite.Connected)
	}
	s.act()
	return err
}

func (s *scenario) acquire(name string, r testee.Request) error {
	c := s.caller(name)
	r.Do = "acquire"
	c.key, c.lock, c.token, c.told = *r.Key, 0, "", false
	s.act()
	call, err := s.send(r)
	if err != nil {
		return err
	}
	c.calls["acquire"], c.began = call, s.at(call.SentAt)
	return nil
}

func (s *scenario) acquires(name, how, key, wait, lease, fallback string) error {
	r := testee.Request{Key: &key, WaitMS: new(int64), LeaseMS: testee.Milliseconds(30 * time.Second)}
	if how == "tries" {
		*r.WaitMS = -1
	}
	if wait != "" {
		r.WaitMS = testee.Milliseconds(seconds(wait))
	}
	if lease != "" {
		r.LeaseMS = testee.Milliseconds(seconds(lease))
	}
	if fallback != "" {
		*r.LeaseMS = 0
	}
	return s.acquire(name, r)
}

func (s *scenario) acquiresMS(name, key, what, ms string) error {
	n, err := strconv.ParseInt(ms, 10, 64)
	if err != nil {
		return err
	}
	r := testee.Request{Key: &key, WaitMS: new(int64), LeaseMS: testee.Milliseconds(30 * time.Second)}
	if what == "wait" {
		r.WaitMS = &n
	} else {
		r.LeaseMS = &n
	}
	return s.acquire(name, r)
}

func (s *scenario) acquiresKey(name, quoted string) error {
	key, err := unquote(quoted)
	if err != nil {
		return err
	}
	return s.acquire(name, testee.Request{Key: &key, WaitMS: new(int64), LeaseMS: testee.Milliseconds(30 * time.Second)})
}

// unquote reads "door", or 256 times "k".
func unquote(text string) (string, error) {
	times := 1
	if n, quoted, ok := strings.Cut(text, " times "); ok {
		var err error
		if times, err = strconv.Atoi(n); err != nil {
			return "", err
		}
		text = quoted
	}
	one, err := strconv.Unquote(text)
	return strings.Repeat(one, times), err
}

func (s *scenario) holds(name, key, lease string) error {
	if err := s.acquires(name, "acquires", key, "", lease, ""); err != nil {
		return err
	}
	if err := s.hasLock(name, "", ""); err != nil {
		return err
	}
	// "That connection" is where it came from.
	if list := s.acquiresOf(key); len(list) > 0 {
		s.cur = list[len(list)-1]
		for _, e := range list {
			s.seen[e] = true
		}
	}
	s.act()
	return nil
}

func (s *scenario) acquiresOf(key string) []*entry {
	return s.net.Lines(func(e *entry) bool { return e.Op() == "A" && e.Key() == key })
}

func (s *scenario) releases(name string) error {
	c := s.caller(name)
	s.act()
	call, err := s.send(testee.Request{Do: "release", Lock: c.lock})
	c.calls["release"] = call
	return err
}

func (s *scenario) keeps(name, lease string) error {
	c := s.caller(name)
	s.act()
	call, err := s.send(testee.Request{Do: "keep", Lock: c.lock, LeaseMS: testee.Milliseconds(seconds(lease))})
	c.calls["keep"] = call
	return err
}

func (s *scenario) givesUp(name, what string) error {
	c := s.caller(name)
	call := c.calls[what]
	if call == nil {
		return fmt.Errorf("%s has no %s", name, what)
	}
	s.act()
	cancel, err := s.send(testee.Request{Do: "cancel", Call: call.Request.ID})
	if err != nil {
		return err
	}
	return s.mustOK(cancel, "the caller to be able to give up")
}

func (s *scenario) mustOK(c *testee.Call, expected string) error {
	r, _, err := s.await(c, suite.Answer)
	if errors.Is(err, errNoReply) {
		return s.w.Fail(expected, s.session.Hung(c, suite.Answer))
	}
	if err == nil && !r.OK {
		return s.w.Fail(expected, describe(r))
	}
	return err
}

// several acquires keys one after the other. Each is granted before the next
// is asked for.
func (s *scenario) several(and string, n int) error {
	s.act()
	s.batch, s.batched = s.mark, n
	for i := range n {
		key := fmt.Sprintf("key%d-%d", len(s.acquiresOf(""))+i+1, s.mark.Milliseconds())
		acquire, err := s.send(testee.Request{Do: "acquire", Key: &key, WaitMS: new(int64), LeaseMS: testee.Milliseconds(30 * time.Second)})
		if err != nil {
			return err
		}
		if err := s.mustOK(acquire, fmt.Sprintf("acquire %d of %d to be granted", i+1, n)); err != nil {
			return err
		}
		r := testee.Request{Lock: acquire.Request.ID}
		switch and {
		case " and releases":
			r.Do = "release"
		case " and keeps":
			r.Do, r.LeaseMS = "keep", testee.Milliseconds(60*time.Second)
		default:
			continue
		}
		call, err := s.send(r)
		if err != nil {
			return err
		}
		if err := s.mustOK(call, fmt.Sprintf("the %s of key %d to end well", r.Do, i+1)); err != nil {
			return err
		}
	}
	return nil
}

func (s *scenario) manyCallers(n int) error {
	s.act()
	for i := range n {
		key := fmt.Sprintf("key%d", i)
		c, err := s.send(testee.Request{Do: "acquire", Key: &key, WaitMS: new(int64), LeaseMS: testee.Milliseconds(30 * time.Second)})
		if err != nil {
			return err
		}
		s.many = append(s.many, c)
	}
	return nil
}

func (s *scenario) manyLocks() error {
	for i, c := range s.many {
		if err := s.mustOK(c, fmt.Sprintf("caller %d to have its lock", i+1)); err != nil {
			return err
		}
	}
	return nil
}

// describe says in words what a reply tells.
func describe(r testee.Reply) string {
	switch {
	case r.OK && r.Token != "":
		return "it was granted, with the token " + r.Token
	case r.OK:
		return "it ended well"
	}
	text := "it ended with " + r.Error
	if r.Code != "" {
		text += " " + r.Code
	}
	text += ", outcome " + r.Outcome
	if r.Text != "" {
		text += " (" + r.Text + ")"
	}
	return text
}

// end waits for the end of a caller's call. What was expected is for the error.
func (s *scenario) end(name, what, expected string, most time.Duration) (testee.Reply, time.Duration, error) {
	call := s.caller(name).calls[what]
	if call == nil {
		return testee.Reply{}, 0, fmt.Errorf("%s has no %s", name, what)
	}
	// A reply that is a little too late is still worth telling of.
	r, at, err := s.await(call, max(s.mark+most-s.w.Now(), 0)+time.Second)
	if errors.Is(err, errNoReply) {
		return r, at, s.w.Fail(expected, fmt.Sprintf("it has not ended after %s", span(s.w.Now()-s.at(call.SentAt))))
	}
	return r, at, err
}

func (s *scenario) hasLock(name, token, not string) error {
	c := s.caller(name)
	expected := name + " to have the lock of " + c.key
	if token != "" {
		expected += " with the token " + token
	}
	r, at, err := s.end(name, "acquire", expected, suite.Answer)
	if err != nil {
		return err
	}
	if !r.OK || token != "" && r.Token != token {
		return s.w.Fail(expected, describe(r))
	}
	if not != "" && r.Token == not {
		return s.w.Fail(expected+" with another token than "+not, describe(r))
	}
	if r.Token == "" {
		return s.w.NotJudged("the testee does not keep to TESTEE.md: no \"token\" in the reply to an acquire")
	}
	c.lock, c.token = c.calls["acquire"].Request.ID, r.Token
	s.note(c, r, at)
	return nil
}

// note takes over what the client says about the end of the lease.
func (s *scenario) note(c *caller, r testee.Reply, at time.Duration) {
	if r.ExpiresInMS != nil {
		c.told = true
		c.expires = at + time.Duration(*r.ExpiresInMS*float64(time.Millisecond))
	}
}

func (s *scenario) endsWell(name, what, text string) error {
	m := moment(text)
	expected := fmt.Sprintf("%s's %s to end well%s", name, what, m.text)
	r, at, err := s.end(name, what, expected, m.most)
	if err != nil {
		return err
	}
	if !r.OK {
		return s.w.Fail(expected, describe(r))
	}
	s.note(s.caller(name), r, at)
	return s.inTime(m, at, expected, "it ended")
}

func (s *scenario) inTime(m when, at time.Duration, expected, seen string) error {
	since := at - s.mark
	return s.w.Expect(m.text == "" || since >= m.least && since <= m.most, expected, fmt.Sprintf("%s after %s", seen, span(since)))
}

func (s *scenario) endsWith(name, what, kinds, code, outcome, text string) error {
	m := moment(text)
	if _, ok := testee.Outcomes[code]; ok && outcome == "" {
		code, outcome = "", code
	}
	expected := fmt.Sprintf("%s's %s to end with %s", name, what, strings.TrimSpace(kinds+" "+code))
	if outcome != "" {
		expected += ", outcome " + outcome
	}
	expected += m.text
	most := m.most
	if what == "release" && kinds == "undelivered" {
		most = suite.CopiesOver + suite.Answer
	}
	r, at, err := s.end(name, what, expected, most)
	if err != nil {
		return err
	}
	ok := slices.Contains(strings.Split(kinds, " or "), r.Error) && (code == "" || code == r.Code) && (outcome == "" || outcome == r.Outcome)
	if !ok {
		return s.w.Fail(expected, describe(r))
	}
	return s.inTime(m, at, expected, "it ended")
}

func (s *scenario) notEnded(name, what string) error {
	call := s.caller(name).calls[what]
	if call == nil {
		return fmt.Errorf("%s has no %s", name, what)
	}
	r, _, err := s.await(call, suite.AtOnce)
	if errors.Is(err, errNoReply) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.w.Fail(fmt.Sprintf("%s's %s to go on", name, what), describe(r))
}

func (s *scenario) doesNotGet(name, token string) error {
	r, _, err := s.await(s.caller(name).calls["acquire"], suite.AtOnce)
	if errors.Is(err, errNoReply) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.w.Expect(r.Token != token, fmt.Sprintf("%s not to be handed the grant %s, which is another call's", name, token), describe(r))
}

// lostAt waits for the event "lost".
func (s *scenario) lostAt(name, expected string, until time.Duration) (time.Duration, error) {
	c := s.caller(name)
	timer := time.NewTimer(until + time.Second - s.w.Now())
	defer timer.Stop()
	for {
		at, lost, changed := s.session.Lost(c.lock)
		if lost {
			return s.at(at), nil
		}
		select {
		case <-changed:
		case <-s.session.Ended():
			return 0, s.sessionError(s.session.Err())
		case <-timer.C:
			return 0, s.w.Fail(expected, fmt.Sprintf("nothing of that kind, until %s", span(s.w.Now())))
		case <-s.w.Context().Done():
			return 0, s.w.Stopped()
		}
	}
}

func (s *scenario) toldLost(name string) error {
	expected := name + " to be told at once that the lock is lost"
	at, err := s.lostAt(name, expected, s.mark+suite.AtOnce)
	if err != nil {
		return err
	}
	return s.w.Expect(at <= s.mark+suite.AtOnce, expected, "told after "+span(at-s.mark))
}

// readOf is when the last A or K of a caller's key was read.
func (s *scenario) readOf(name, op string) (time.Duration, error) {
	key := s.caller(name).key
	list := s.net.Lines(func(e *entry) bool { return e.Op() == op && e.Key() == key })
	if len(list) == 0 {
		return 0, s.w.Fail("an "+op+" of "+key, "none")
	}
	return list[len(list)-1].At, nil
}

func (s *scenario) toldLostBy(name, d string) error {
	read, err := s.readOf(name, "A")
	if err != nil {
		return err
	}
	expected := fmt.Sprintf("%s to be told that the lock is lost no later than %s s after its A was read: the server's lease ends then", name, d)
	at, err := s.lostAt(name, expected, read+seconds(d))
	if err != nil {
		return err
	}
	return s.w.Expect(at <= read+seconds(d)+suite.Told, expected, "told after "+span(at-read))
}

func (s *scenario) notToldBefore(name, d string) error {
	read, err := s.readOf(name, "A")
	if err != nil {
		return err
	}
	at, _, _ := s.session.Lost(s.caller(name).lock)
	since := s.at(at) - read
	return s.w.Expect(since >= seconds(d), "the lock to be held for at least "+d+" s", "told that it was lost after "+span(since))
}

func (s *scenario) doesNotHold(name string) error {
	call, err := s.send(testee.Request{Do: "lock", Lock: s.caller(name).lock})
	if err != nil {
		return err
	}
	r, _, err := s.await(call, suite.Answer)
	if errors.Is(err, errNoReply) {
		return s.w.Fail("the client to say whether it holds the lock", s.session.Hung(call, suite.Answer))
	}
	if err != nil {
		return err
	}
	if r.Held == nil {
		return s.w.NotJudged("the testee does not keep to TESTEE.md: no \"held\" in the reply to lock")
	}
	return s.w.Expect(!*r.Held, name+" not to hold the lock", "the client says that it is held")
}

func (s *scenario) lockEnd(name string) (time.Duration, error) {
	c := s.caller(name)
	if !c.told {
		return 0, s.w.NotJudged("the testee does not keep to TESTEE.md: no \"expires_in_ms\" in the reply")
	}
	return c.expires, nil
}

func (s *scenario) endsNoLater(name, d, after string) error {
	end, err := s.lockEnd(name)
	if err != nil {
		return err
	}
	from, what := s.answer, "that answer"
	if after != what {
		if from, err = s.readOf(name, strings.Fields(after)[1]); err != nil {
			return err
		}
		what = "its " + strings.TrimPrefix(after, "the ")
	}
	return s.w.Expect(end <= from+seconds(d)+suite.Told,
		fmt.Sprintf("the client to count on the lock for no more than %s s after %s: the server's lease ends then", d, what),
		fmt.Sprintf("it counts on it until %s after that", span(end-from)))
}

func (s *scenario) endsNoSooner(name, d string) error {
	end, err := s.lockEnd(name)
	if err != nil {
		return err
	}
	return s.w.Expect(end >= s.answer+seconds(d),
		fmt.Sprintf("the client to know the start of the lease to within about a second, and to count on at least %s s", d),
		fmt.Sprintf("it counts on %s", span(end-s.answer)))
}

func (s *scenario) listsAddresses() error {
	for _, c := range s.callers {
		if call := c.calls["acquire"]; call != nil {
			r, _ := call.Reply()
			for _, v := range s.net.Servers {
				if !strings.Contains(r.Text, v.Addr) {
					return s.w.Fail("an error that lists every address", fmt.Sprintf("%q, without %s of %s", r.Text, v.Addr, v.Name))
				}
			}
		}
	}
	return nil
}

func (s *scenario) elsewhereOrTimeout(pattern, name, d string) error {
	var busy *scripted.Conn
	if list := s.net.Lines(func(e *entry) bool { return e.Op() == "A" && !s.net.Answered(e) }); len(list) > 0 {
		busy = list[0].Conn
	}
	m := moment("within " + d + " s")
	call := s.caller(name).calls["acquire"]
	elsewhere := func() bool {
		return len(s.net.Lines(func(e *entry) bool { return matches(pattern, e) && e.Conn != busy && e.At >= s.mark })) > 0
	}
	ended := func() bool {
		select {
		case <-call.Done():
			return true
		default:
			return false
		}
	}
	for !elsewhere() && !ended() && s.w.Now() < s.mark+m.most {
		if _, err := s.net.Wait(20*time.Millisecond, elsewhere); err != nil {
			return err
		}
	}
	if elsewhere() {
		return nil
	}
	return s.endsWith(name, "acquire", "timeout", "", "", "within "+d+" s")
}
