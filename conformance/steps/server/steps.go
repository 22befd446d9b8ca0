package server

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cucumber/godog"

	"github.com/stile-lock/stile/conformance/lines"
	"github.com/stile-lock/stile/conformance/suite"
	"github.com/stile-lock/stile/protocol"
)

// steps registers the words that the server's feature files are made of. A
// number is a connection, which opens at its first mention.
func (s *scenario) steps(sc *godog.ScenarioContext) {
	// What clients do.
	sc.Step(`^(\d+) (holds|waits for) (\S+?)(?: for at most ([\d.]+) s)?(?: with a lease of ([\d.]+) s)?(?: under the nonce (\S+))?$`, s.acquire)
	sc.Step(`^(\d+) sends "(.*)"$`, func(c, line string) error { return s.send(c, line) })
	sc.Step(`^(\d+) sends in one piece:$`, s.sendAll)
	sc.Step(`^(\d+) sends "(.*)" byte by byte$`, s.sendSlowly)
	sc.Step(`^(\d+) sends the bytes "(.*)" without an LF$`, s.sendBytes)
	sc.Step(`^(\d+) sends a line of (\d+) bytes that begins with "(.*)"$`, s.sendLong)
	sc.Step(`^(\d+) sends a line of (\d+) bytes with a CR before its LF$`, s.sendLongCR)
	sc.Step(`^(\d+) sends (\d+) bytes without an LF$`, s.sendEndless)
	sc.Step(`^(\d+) sends (\d+) acquires, for (\d+) keys that (\d+) holds$`, s.sendMany)
	sc.Step(`^(\d+) sends (\d+) releases of a token it does not hold and does not read the answers$`, s.flood)
	sc.Step(`^(\d+) sends (\d+) releases of a token it does not hold$`, s.sendReleases)
	sc.Step(`^(\d+) sends (\d+) acquires for (\S+)$`, s.sendMore)
	sc.Step(`^(\d+) sends a stranger's line and 64 KiB behind it$`, s.sendBehind)
	sc.Step(`^(\d+) is told (\d+) times that (\S+) is held$`, s.toldHeld)
	sc.Step(`^(\d+) cancels (\d+) other nonces$`, s.cancelMany)
	sc.Step(`^(\d+) says nothing$`, func(c string) error { _, err := s.open(c, false); return err })
	sc.Step(`^(\d+) releases (\S+)$`, s.release)
	sc.Step(`^(\d+) (drops|resets|ends its input)$`, s.leave)
	sc.Step(`^(\d+) gives the secret and sends "(.*)", in one piece$`, s.giveSecretAnd)
	sc.Step(`^(\d+) is a connection without a secret$`, func(c string) error { _, err := s.open(c, false); return err })
	sc.Step(`^(\d+) gives (the secret|a wrong secret|no secret)$`, s.giveSecret)
	sc.Step(`^(\d+) connections are open and say nothing$`, s.openMany)
	sc.Step(`^as many connections are open as the server allows$`, s.openAll)
	sc.Step(`^as many wait for (\S+) as the server allows$`, s.waitAll)
	sc.Step(`^([\d.]+) s pass$`, func(d string) error { return s.w.Sleep(seconds(d)) })

	// What they see.
	sc.Step(`^(\d+) receives "(.*)"$`, s.receives)
	sc.Step(`^(\d+) receives "(.*)" at once$`, s.receivesAtOnce)
	sc.Step(`^(\d+) receives "T (\S+)" when its wait of ([\d.]+) s is over$`, s.timesOut(suite.Late))
	sc.Step(`^(\d+) receives "T (\S+)" at most 50 ms after its wait of ([\d.]+) s$`, s.timesOut(suite.LateAdvice))
	sc.Step(`^(\d+) receives these lines, one after the other:$`, s.receivesAll)
	sc.Step(`^(\d+) receives either "(.*)" or "(.*)"$`, s.receivesEither)
	sc.Step(`^(\d+) receives (\d+) answers and nothing more for 1 s$`, s.receivesCount)
	sc.Step(`^(\d+) is granted (\S+)$`, func(c, key string) error { _, err := s.granted(c, key); return err })
	sc.Step(`^(\d+) is granted (\S+) with a lease of ([\d.]+) s$`, s.grantedLease)
	sc.Step(`^(\d+) is granted (\S+) with a lease of at least ([\d.]+) s$`, s.grantedAtLeast)
	sc.Step(`^(\d+) is granted (\S+) with a lease of at most ([\d.]+) s$`, s.grantedAtMost)
	sc.Step(`^(\d+) is granted (\S+) at once$`, s.grantedWithin(suite.AtOnce))
	sc.Step(`^(\d+) is granted (\S+) within 100 ms$`, s.grantedWithin(suite.HandOver))
	sc.Step(`^(\d+) is granted (\S+) when the lease of (\d+) ends$`, s.grantedAtEnd(suite.Late))
	sc.Step(`^(\d+) is granted (\S+) at most 50 ms after the lease of (\d+)$`, s.grantedAtEnd(suite.LateAdvice))
	sc.Step(`^(\d+) is told of the grant of (\S+) to (\d+) again, with what is left of its lease$`, s.toldAgain)
	sc.Step(`^(\d+) is kept (\S+) with a lease of ([\d.]+) s$`, s.kept)
	sc.Step(`^(\d+) is kept (\S+) with the lease of (\d+) for (\S+)$`, s.keptAs)
	sc.Step(`^(\d+) asks for (\S+) without a wait for ([\d.]+) s, and is never granted it$`, s.neverGranted)
	sc.Step(`^(\d+) leases of ([\d.]+) s of (\d+) are over (\d+) ms after their ends$`, s.overAtTheirEnds)
	sc.Step(`^(\d+) receives nothing for ([\d.]+) s$`, func(c, d string) error { return s.quiet(c, seconds(d)) })
	sc.Step(`^(\d+) has received nothing$`, func(c string) error { return s.quiet(c, 0) })
	sc.Step(`^(\d+) is closed$`, func(c string) error { _, err := s.closed(c); return err })
	sc.Step(`^(\d+) is closed, and not by a reset$`, s.closedPolitely)
	sc.Step(`^(\d+) still works$`, s.works)
	sc.Step(`^a new connection is served at once$`, s.served)
	sc.Step(`^(\S+) is free$`, s.free)
	sc.Step(`^(\S+) is held$`, s.held)
	sc.Step(`^the text that (\d+) receives for "(.*)" has no control bytes$`, s.cleanText)
	sc.Step(`^the answer to (\d+) for (\S+) ends with "(.*)"$`, s.grantLine)
	sc.Step(`^the token of (\d+) for (\S+) is greater than that of (\d+) for (\S+)$`, s.greater)
	sc.Step(`^the token of (\d+) for (\S+) is that of (\d+)$`, s.sameToken)
	sc.Step(`^(\d+) grants, on (\d+) connections and (\d+) keys, have rising tokens$`, s.manyTokens)
	sc.Step(`^the token of (\d+) for (\S+) is below 2\^63$`, s.smallToken)
	sc.Step(`^(\d+) receives the hello of this server, with the profiles it had before$`, s.sameHello)
	sc.Step(`^(\d+) receives a hello whose address can be dialled$`, s.helloAddr)
	sc.Step(`^the lease of (\d+) for (\S+) is that of (\d+) for (\S+)$`, s.sameLease)
	sc.Step(`^(\d+) is granted (\S+) with the (default|longest) lease of the server$`, s.knownLease)
	sc.Step(`^(\d+) is kept (\S+) with the longest lease of the server$`, func(c, key string) error {
		return s.kept(c, key, strconv.Itoa(s.t.Limits["max-lease"]))
	})
	sc.Step(`^(\d+) sends (\d+) more acquires than one connection may have unanswered, for (\d+) keys that (\d+) holds$`, s.sendTooMany)
}

func (s *scenario) acquire(conn, how, key, wait, lease, nonce string) error {
	if wait == "" {
		wait = "0"
	}
	if lease == "" {
		lease = "5"
	}
	line := "A " + key + " " + wait + " " + lease
	if nonce != "" {
		line += " " + nonce
	}
	if err := s.send(conn, line); err != nil {
		return err
	}
	if how == "holds" {
		_, err := s.granted(conn, key)
		return err
	}
	return s.read(conn)
}

func (s *scenario) sendAll(conn string, text *godog.DocString) error {
	return s.send(conn, strings.Split(text.Content, "\n")...)
}

func (s *scenario) sendSlowly(conn, text string) error {
	c, err := s.on(conn)
	if err != nil {
		return err
	}
	line, err := s.line(text)
	if err != nil {
		return err
	}
	for i, b := range []byte(line + "\n") {
		if _, err := c.Write([]byte{b}, fmt.Sprintf("byte %d: %q", i+1, b)); err != nil {
			return err
		}
		if err := s.w.Sleep(2 * time.Millisecond); err != nil {
			return err
		}
	}
	s.last = moment{s.w.Now(), s.w.Now()}
	return nil
}

func (s *scenario) write(conn string, b []byte, shown string) error {
	c, err := s.on(conn)
	if err != nil {
		return err
	}
	before, err := c.Write(b, shown)
	s.last = moment{before, s.w.Now()}
	return err
}

func (s *scenario) sendBytes(conn, text string) error {
	line, err := s.line(text)
	if err != nil {
		return err
	}
	return s.write(conn, []byte(line), line+" (without LF)")
}

func (s *scenario) sendLong(conn string, n int, begin string) error {
	line, err := s.line(begin)
	if err != nil {
		return err
	}
	line += strings.Repeat("x", n-1-len(line))
	return s.write(conn, []byte(line+"\n"), fmt.Sprintf("%s… (%d bytes with its LF)", begin, n))
}

// sendLongCR sends a line that is malformed in nothing but its length, so that
// its answer tells whether that was counted with the CR.
func (s *scenario) sendLongCR(conn string, n int) error {
	line := "R " + s.w.Key("door") + " "
	line += strings.Repeat("x", n-2-len(line))
	return s.write(conn, []byte(line+"\r\n"), fmt.Sprintf("R door xxx… (%d bytes with its CR and LF)", n))
}

func (s *scenario) sendEndless(conn string, n int) error {
	return s.write(conn, []byte("A "+strings.Repeat("x", n-2)), fmt.Sprintf("A xxx… (%d bytes without LF)", n))
}

// hold takes n keys on a connection and returns their names.
func (s *scenario) hold(conn string, n int) ([]string, error) {
	var keys []string
	for i := range n {
		keys = append(keys, fmt.Sprintf("door%d", i+1))
		if err := s.acquire(conn, "holds", keys[i], "", "", ""); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

func (s *scenario) sendMany(conn string, n, keys int, holder string) error {
	names, err := s.hold(holder, keys)
	if err != nil {
		return err
	}
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, "A %s 0 5\n", s.w.Key(names[i%keys]))
	}
	return s.write(conn, []byte(all.String()), fmt.Sprintf("%d times A … 0 5", n))
}

func (s *scenario) sendReleases(conn string, n int) error {
	line := "R " + s.w.Key("door") + " 1"
	return s.write(conn, []byte(strings.Repeat(line+"\n", n)), fmt.Sprintf("%d times %s", n, line))
}

func (s *scenario) sendMore(conn string, n int, key string) error {
	line := "A " + s.w.Key(key) + " 0 5"
	return s.write(conn, []byte(strings.Repeat(line+"\n", n)), fmt.Sprintf("%d times %s", n, line))
}

// sendBehind sends a line that ends the connection, and in the same write far
// more than a server reads at once.
func (s *scenario) sendBehind(conn string) error {
	const behind = 64 << 10
	c, err := s.on(conn)
	if err != nil {
		return err
	}
	text := "no op at all\n" + strings.Repeat("R "+s.w.Key("door")+" 1\n", behind/(5+len(s.w.Key("door"))))
	c.TryWrite([]byte(text), suite.ServerAnswer, fmt.Sprintf("no op at all ⏎ … (%d bytes)", len(text)))
	return nil
}

func (s *scenario) sendTooMany(conn string, more, keys int, holder string) error {
	return s.sendMany(conn, s.t.Limits["unanswered"]+more, keys, holder)
}

func (s *scenario) flood(conn string, n int) error {
	c, err := s.openNarrow(conn)
	if err != nil {
		return err
	}
	line := "R " + s.w.Key("door") + " 1\n"
	c.StopReading()
	// The server may close the connection, or leave it full: both are right.
	c.TryWrite([]byte(strings.Repeat(line, n)), suite.Quiet, fmt.Sprintf("%d times %s", n, line[:len(line)-1]))
	s.last = moment{s.w.Now(), s.w.Now()}
	return nil
}

func (s *scenario) release(conn, key string) error {
	if err := s.send(conn, "R "+key+" {"+conn+":"+key+"}"); err != nil {
		return err
	}
	_, err := s.conns[conn].expect("R "+key+" {"+conn+":"+key+"}", suite.ServerAnswer)
	return err
}

func (s *scenario) leave(conn, how string) error {
	c, err := s.on(conn)
	if err != nil {
		return err
	}
	before := s.w.Now()
	switch how {
	case "drops":
		c.Drop()
	case "resets":
		c.Reset()
	default:
		s.w.Note(conn, "end of input")
		if err := c.CloseWrite(); err != nil {
			return s.w.NotJudged("this connection can't end its sending half alone: %v", err)
		}
	}
	s.last = moment{before, s.w.Now()}
	return s.settle()
}

func (s *scenario) giveSecret(conn, what string) error {
	c, err := s.on(conn)
	if err != nil {
		return err
	}
	line := "H 1 " + clientName
	shown := line
	switch what {
	case "the secret":
		line, shown = s.t.hello(), shown+" (the secret)"
	case "a wrong secret":
		// As long as the right one, and different in its last byte only.
		b := []byte(s.t.Secret)
		b[len(b)-1] ^= 1
		line, shown = line+" "+string(b), shown+" (a wrong secret)"
	}
	before, err := c.SendAs(line, shown)
	s.last = moment{before, s.w.Now()}
	return err
}

func (s *scenario) giveSecretAnd(conn, text string) error {
	line, err := s.line(text)
	if err != nil {
		return err
	}
	return s.write(conn, []byte(s.t.hello()+"\n"+line+"\n"), "H 1 "+clientName+" (the secret) ⏎ "+line)
}

func (s *scenario) openMany(n int) error {
	for i := range n {
		if _, err := s.open(fmt.Sprintf("silent%d", i+1), false); err != nil {
			return err
		}
	}
	return nil
}

// openAll opens connections until the server refuses one, at the latest when
// there are as many as its limit.
func (s *scenario) openAll() error {
	for i := range s.t.Limits["connections"] {
		c, err := s.open(fmt.Sprintf("full%d", i+1), false)
		if err != nil {
			return err
		}
		if i%50 != 0 {
			continue
		}
		if err := s.settle(); err != nil {
			return err
		}
		if a, err := c.next(0); err == nil && a.code == "limit" {
			return nil
		}
	}
	return s.settle()
}

func (s *scenario) waitAll(key string) error {
	const each = 1000 // on one connection, below the limit of 3.6
	line := "A " + s.w.Key(key) + " 0 5\n"
	for left, i := s.t.Limits["waiters-per-key"], 1; left > 0; i++ {
		n, conn := min(left, each), strconv.Itoa(100+i)
		left -= n
		if err := s.write(conn, []byte(strings.Repeat(line, n)), fmt.Sprintf("%d times %s", n, line[:len(line)-1])); err != nil {
			return err
		}
		// It is answered after they have all taken effect (SPEC.md 3.4).
		if err := s.send(conn, "R "+key+" 1"); err != nil {
			return err
		}
		if err := s.receives(conn, "E R "+key+" not-held"); err != nil {
			return err
		}
	}
	return nil
}

func (s *scenario) receives(conn, text string) error {
	c, err := s.on(conn)
	if err != nil {
		return err
	}
	_, err = c.expect(text, suite.ServerAnswer)
	return err
}

func (s *scenario) receivesAtOnce(conn, text string) error {
	c, err := s.on(conn)
	if err != nil {
		return err
	}
	a, err := c.expect(text, suite.ServerAnswer)
	if err != nil {
		return err
	}
	return s.notLater(text, a.at, s.last.after, suite.AtOnce)
}

func (s *scenario) timesOut(late time.Duration) func(conn, key, wait string) error {
	return func(conn, key, wait string) error {
		c, err := s.on(conn)
		if err != nil {
			return err
		}
		asked, ok := s.asks[place{conn, s.w.Key(key)}]
		if !ok {
			return fmt.Errorf("%s did not ask for %s", conn, key)
		}
		d := seconds(wait)
		a, err := c.expect("T "+key, asked.after+d+suite.ServerAnswer-s.w.Now())
		if err != nil {
			return err
		}
		if err := s.notEarlier("T "+key, a.at, asked.before+d); err != nil {
			return err
		}
		return s.notLater("T "+key, a.at, asked.after+d, late)
	}
}

// receivesAll compares the lines of a connection one by one, whatever they
// answer.
func (s *scenario) receivesAll(conn string, text *godog.DocString) error {
	c, err := s.on(conn)
	if err != nil {
		return err
	}
	for _, want := range strings.Split(text.Content, "\n") {
		p, err := s.pattern(want)
		if err != nil {
			return err
		}
		a, err := c.next(suite.ServerAnswer)
		if err != nil {
			return c.wrong(p.text, err)
		}
		if !p.matches(a) {
			return s.w.Fail(p.text+" as the next line on "+conn, a.text)
		}
		s.saw(c, a)
	}
	return nil
}

func (s *scenario) receivesEither(conn, one, other string) error {
	c, err := s.on(conn)
	if err != nil {
		return err
	}
	p, err := s.pattern(one)
	if err != nil {
		return err
	}
	q, err := s.pattern(other)
	if err != nil {
		return err
	}
	a, err := c.answer(p.op, p.key, suite.ServerAnswer)
	if err != nil {
		return c.wrong(one+" or "+other, err)
	}
	s.saw(c, a)
	return s.w.Expect(p.matches(a) || q.matches(a), p.text+" or "+q.text+" on "+conn, a.text)
}

func (s *scenario) receivesCount(conn string, n int) error {
	c, err := s.on(conn)
	if err != nil {
		return err
	}
	for i := range n {
		a, err := c.next(suite.ServerAnswer)
		if err != nil {
			return c.wrong(fmt.Sprintf("answer %d of %d", i+1, n), err)
		}
		s.saw(c, a)
	}
	return s.quiet(conn, suite.Quiet)
}

func (s *scenario) grantedLease(conn, key, lease string) error {
	a, err := s.granted(conn, key)
	if err != nil {
		return err
	}
	return s.w.Expect(a.lease == seconds(lease), fmt.Sprintf("%s to be granted %s with a lease of %s", conn, key, lease), a.text)
}

func (s *scenario) grantedAtLeast(conn, key, lease string) error {
	a, err := s.granted(conn, key)
	if err != nil {
		return err
	}
	return s.w.Expect(a.lease >= seconds(lease), fmt.Sprintf("%s to be granted %s with a lease of at least %s", conn, key, lease), a.text)
}

func (s *scenario) grantedAtMost(conn, key, lease string) error {
	a, err := s.granted(conn, key)
	if err != nil {
		return err
	}
	return s.w.Expect(a.lease <= seconds(lease), fmt.Sprintf("%s to be granted %s with at most %s s left of the lease", conn, key, lease), a.text)
}

func (s *scenario) keptAs(conn, key, other, otherKey string) error {
	g, err := s.grantOf(other, otherKey)
	if err != nil {
		return err
	}
	return s.kept(conn, key, strconv.FormatFloat(g.lease.Seconds(), 'f', -1, 64))
}

// toldHeld asks for a key that is held, without a wait.
func (s *scenario) toldHeld(conn string, n int, key string) error {
	return s.manyTimes(conn, n, func(int) (request, answer string) { return "A " + key + " -1 5", "T " + key })
}

func (s *scenario) cancelMany(conn string, n int) error {
	return s.manyTimes(conn, n, func(i int) (request, answer string) {
		line := fmt.Sprintf("C door other%d", i)
		return line, line
	})
}

// manyTimes sends requests that are answered at once, some at a time.
func (s *scenario) manyTimes(conn string, n int, one func(i int) (request, answer string)) error {
	const atOnce = 500
	for first := 0; first < n; first += atOnce {
		var requests, answers []string
		for i := first; i < min(first+atOnce, n); i++ {
			r, a := one(i)
			requests, answers = append(requests, r), append(answers, a)
		}
		if err := s.send(conn, requests...); err != nil {
			return err
		}
		for _, a := range answers {
			if _, err := s.conns[conn].expect(a, suite.ServerAnswer); err != nil {
				return err
			}
		}
	}
	return nil
}

// neverGranted asks all the time, as somebody who wants to push in would.
func (s *scenario) neverGranted(conn, key, d string) error {
	for end := s.w.Now() + seconds(d); s.w.Now() < end; {
		if err := s.send(conn, "A "+key+" -1 5"); err != nil {
			return err
		}
		if _, err := s.conns[conn].expect("T "+key, suite.ServerAnswer); err != nil {
			return err
		}
		if err := s.w.Sleep(2 * time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// overAtTheirEnds asks for a release a moment after the end of a lease, which
// is soon enough to meet a server that looks at its leases now and then only.
func (s *scenario) overAtTheirEnds(n int, d, conn string, after int) error {
	for i := range n {
		key := fmt.Sprintf("door%d", i)
		if err := s.send(conn, "A "+key+" -1 "+d); err != nil {
			return err
		}
		a, err := s.granted(conn, key)
		if err != nil {
			return err
		}
		if err := s.w.Sleep(a.at + seconds(d) + time.Duration(after)*time.Millisecond - s.w.Now()); err != nil {
			return err
		}
		if err := s.send(conn, fmt.Sprintf("R %s %d", key, a.token)); err != nil {
			return err
		}
		if _, err := s.conns[conn].expect("E R "+key+" not-held", suite.ServerAnswer); err != nil {
			return err
		}
	}
	return nil
}

func (s *scenario) knownLease(conn, key, which string) error {
	name := map[string]string{"default": "default-lease", "longest": "max-lease"}[which]
	return s.grantedLease(conn, key, strconv.Itoa(s.t.Limits[name]))
}

func (s *scenario) grantedWithin(tolerance time.Duration) func(conn, key string) error {
	return func(conn, key string) error {
		a, err := s.granted(conn, key)
		if err != nil {
			return err
		}
		what := conn + " to be granted " + key
		if err := s.notEarlier(what, a.at, s.last.before); err != nil {
			return err
		}
		return s.notLater(what, a.at, s.last.after, tolerance)
	}
}

func (s *scenario) grantedAtEnd(late time.Duration) func(conn, key, holder string) error {
	return func(conn, key, holder string) error {
		before, err := s.grantOf(holder, key)
		if err != nil {
			return err
		}
		c, err := s.on(conn)
		if err != nil {
			return err
		}
		s.freed[s.w.Key(key)] = before.earliest + before.lease
		a, err := c.expect("A "+key+" TOKEN LEASE", before.read+before.lease+suite.ServerAnswer-s.w.Now())
		if err != nil {
			return err
		}
		what := conn + " to be granted " + key
		if err := s.notEarlier(what, a.at, before.earliest+before.lease); err != nil {
			return err
		}
		return s.notLater(what, a.at, before.read+before.lease, late)
	}
}

// toldAgain compares a grant with one that another connection was told of: the
// same token, and not more lease than can be left.
func (s *scenario) toldAgain(conn, key, holder string) error {
	before, err := s.grantOf(holder, key)
	if err != nil {
		return err
	}
	a, err := s.granted(conn, key)
	if err != nil {
		return err
	}
	if err := s.w.Expect(a.token == before.token, fmt.Sprintf("the token %d again on %s", before.token, conn), a.text); err != nil {
		return err
	}
	// The lease began between earliest and read, and the answer was made
	// between the request and its reading.
	most := before.read + before.lease - s.asks[place{conn, s.w.Key(key)}].before
	least := before.earliest + before.lease - a.at - time.Millisecond
	s.grants[place{conn, s.w.Key(key)}] = before
	return s.w.Expect(a.lease <= most && a.lease >= least,
		fmt.Sprintf("between %.3f and %.3f s left of the lease", max(least, 0).Seconds(), most.Seconds()), a.text)
}

func (s *scenario) kept(conn, key, lease string) error {
	c, err := s.on(conn)
	if err != nil {
		return err
	}
	a, err := c.expect("K "+key+" TOKEN LEASE", suite.ServerAnswer)
	if err != nil {
		return err
	}
	return s.w.Expect(a.lease == seconds(lease), fmt.Sprintf("%s to be kept with a lease of %s", key, lease), a.text)
}

// closed returns how the connection was closed.
func (s *scenario) closed(conn string) (how lines.Closed, err error) {
	c, err := s.on(conn)
	if err != nil {
		return how, err
	}
	a, err := c.next(suite.ServerAnswer)
	switch {
	case err == nil:
		return how, s.w.Fail(conn+" to be closed", a.text)
	case errors.As(err, &how):
		return how, nil
	}
	return how, c.wrong(conn+" to be closed by the server", err)
}

// closedPolitely is about what the client's system was told: one that resets
// may have lost the line before it, on another system than this.
func (s *scenario) closedPolitely(conn string) error {
	how, err := s.closed(conn)
	if err != nil {
		return err
	}
	return s.w.Expect(how.Why != lines.Why(syscall.ECONNRESET), "the server to end its sending half, and to read on for a while", how.Why)
}

func (s *scenario) works(conn string) error {
	if err := s.send(conn, "A still-works -1 5"); err != nil {
		return err
	}
	if _, err := s.granted(conn, "still-works"); err != nil {
		return err
	}
	return s.release(conn, "still-works")
}

func (s *scenario) served() error {
	a, c, err := s.probe("served")
	if err != nil {
		return err
	}
	if a.op != 'A' {
		return s.w.Fail("a free key to be granted", a.text)
	}
	if err := s.notLater("an answer on a new connection", a.at, s.last.after, suite.AtOnce); err != nil {
		return err
	}
	return s.release(c.Name, "served")
}

func (s *scenario) free(key string) error {
	a, c, err := s.probe(key)
	if err != nil {
		return err
	}
	if a.op != 'A' {
		return s.w.Fail(key+" to be free: granted to whoever asks for it", a.text)
	}
	return s.release(c.Name, key)
}

func (s *scenario) held(key string) error {
	a, _, err := s.probe(key)
	if err != nil {
		return err
	}
	return s.w.Expect(a.op == 'T', key+" to be held: T for whoever asks for it without a wait", a.text)
}

func (s *scenario) cleanText(conn, text string) error {
	if err := s.send(conn, text); err != nil {
		return err
	}
	a, err := s.conns[conn].next(suite.ServerAnswer)
	if err != nil {
		return s.conns[conn].wrong("an answer", err)
	}
	return s.w.Expect(strings.IndexFunc(strings.TrimSuffix(a.text, "\r"), func(r rune) bool { return r < 0x20 || r == 0x7F }) < 0,
		"a text without control bytes", strconv.Quote(a.text))
}

func (s *scenario) grantLine(conn, key, end string) error {
	a, err := s.granted(conn, key)
	if err != nil {
		return err
	}
	f := strings.Split(a.text, " ")
	return s.w.Expect(f[3] == end, fmt.Sprintf("the lease in its shortest form, %q", end), a.text)
}

func (s *scenario) greater(conn, key, conn2, key2 string) error {
	a, err := s.grantOf(conn, key)
	if err != nil {
		return err
	}
	b, err := s.grantOf(conn2, key2)
	if err != nil {
		return err
	}
	return s.w.Expect(a.token > b.token, fmt.Sprintf("a token greater than %d, which was granted before", b.token), strconv.FormatUint(a.token, 10))
}

func (s *scenario) sameToken(conn, key, conn2 string) error {
	a, err := s.grantOf(conn, key)
	if err != nil {
		return err
	}
	b, err := s.grantOf(conn2, key)
	if err != nil {
		return err
	}
	return s.w.Expect(a.token == b.token, fmt.Sprintf("the token %d as before", b.token), strconv.FormatUint(a.token, 10))
}

// manyTokens takes keys in turn over several connections, one grant after the
// other, and gives each back: every token is greater than the one before.
func (s *scenario) manyTokens(n, conns, keys int) error {
	last := uint64(0)
	for i := range n {
		conn, key := strconv.Itoa(i%conns+1), fmt.Sprintf("door%d", i%keys+1)
		if err := s.send(conn, "A "+key+" -1 5"); err != nil {
			return err
		}
		a, err := s.granted(conn, key)
		if err != nil {
			return err
		}
		if a.token <= last {
			return s.w.Fail(fmt.Sprintf("a token greater than %d, that of the grant before", last), a.text)
		}
		last = a.token
		if err := s.release(conn, key); err != nil {
			return err
		}
	}
	return nil
}

func (s *scenario) smallToken(conn, key string) error {
	g, err := s.grantOf(conn, key)
	if err != nil {
		return err
	}
	return s.w.Expect(g.token < 1<<63, "a token below 2^63", strconv.FormatUint(g.token, 10))
}

func (s *scenario) sameHello(conn string) error {
	c, err := s.on(conn)
	if err != nil {
		return err
	}
	a, err := c.answer('H', "1", suite.ServerAnswer)
	if err != nil {
		return c.wrong("H 1 and the profiles", err)
	}
	if a.op != 'H' {
		return s.w.Fail("H 1 and the profiles", a.text)
	}
	var now, before protocol.Answer
	protocol.ParseAnswer([]byte(a.text), &now)
	protocol.ParseAnswer([]byte(s.w.Target.Hello), &before)
	set := func(profiles []byte) []string {
		return slices.Sorted(slices.Values(strings.Split(string(profiles), ",")))
	}
	return s.w.Expect(slices.Equal(set(now.Profiles), set(before.Profiles)), "the profiles "+string(before.Profiles), string(now.Profiles))
}

// helloAddr looks at the port: the form of the address was judged with the
// line.
func (s *scenario) helloAddr(conn string) error {
	c, err := s.on(conn)
	if err != nil {
		return err
	}
	a, err := c.answer('H', "1", suite.ServerAnswer)
	if err != nil {
		return c.wrong("H 1 and an address", err)
	}
	f := strings.Split(a.text, " ")
	return s.w.Expect(a.op == 'H' && !strings.HasSuffix(f[2], ":0"), "H 1 and an address with a port above 0", a.text)
}

func (s *scenario) sameLease(conn, key, conn2, key2 string) error {
	a, err := s.grantOf(conn, key)
	if err != nil {
		return err
	}
	b, err := s.grantOf(conn2, key2)
	if err != nil {
		return err
	}
	return s.w.Expect(a.lease == b.lease, fmt.Sprintf("a lease of %v as for %s", b.lease, key2), a.lease.String())
}
