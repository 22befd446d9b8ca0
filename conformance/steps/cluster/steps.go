package cluster

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cucumber/godog"

	"github.com/stile-lock/stile/conformance/suite"
)

// steps registers the words that the cluster's feature files are made of. Node
// one is the node that served first, two and three are the others in the order
// of the list of peers; "the active" is the node that was seen to serve last.
// Names are people, each with a connection to each node that they speak to.
func (s *scenario) steps(sc *godog.ScenarioContext) {
	const at = ` (?:at|to|from) (node \w+|the active)$`

	// Nodes and the network between them.
	sc.Step(`^a cluster that serves$`, s.serves)
	sc.Step(`^three nodes that were started at once$`, s.startAtOnce)
	sc.Step(`^three nodes of which none runs$`, s.open)
	sc.Step(`^(node \w+|the active) is (killed|asked to stop|paused|resumed|started|killed and started at once)$`, s.do)
	sc.Step(`^all nodes are killed$`, s.killAll)
	sc.Step(`^all nodes are started$`, s.startAll)
	sc.Step(`^(node \w+) ends$`, s.ends)
	sc.Step(`^node (\w+) is cut off from nodes? (.*)$`, s.cutOff)
	sc.Step(`^node (\w+) (can't reach|is reset by) node (\w+)$`, s.cut)
	sc.Step(`^the network is whole again$`, s.heal)
	sc.Step(`^nothing happens for 1 s$`, func() error { return s.w.Sleep(suite.Replicated) })
	sc.Step(`^([\d.]+) s pass$`, func(d string) error { return s.w.Sleep(seconds(d)) })

	// Who serves.
	sc.Step(`^a node serves within the failover time$`, s.within)
	sc.Step(`^a node serves on the side of nodes two and three within the failover time$`, s.sideServes)
	sc.Step(`^a node serves within the time of a start$`, func() error { return s.find(s.t.StartWithin) })
	sc.Step(`^(node \w+) is the active$`, s.isActive)
	sc.Step(`^the active is the node of highest priority that lives$`, s.highest)
	sc.Step(`^the others redirect to the active$`, func() error { return s.follow(suite.Settled) })
	sc.Step(`^(node \w+) serves again soon$`, s.takesBack)
	sc.Step(`^all nodes are asked the whole time who grants$`, s.poll)
	sc.Step(`^for 3 s no node grants but (node \w+|the active)$`, func(n string) error { return s.onlyGrants(n, suite.Partitioned) })
	sc.Step(`^soon exactly one node grants, and goes on alone$`, s.oneGrants)
	sc.Step(`^no node has named itself$`, s.noSelf)
	sc.Step(`^each node answers its first request as one that is starting$`, s.answeredAtStart)
	sc.Step(`^(node \w+) is asked to stop at work, and whoever its first M names serves$`, s.firstMoved)

	// What clients do.
	sc.Step(`^(\w+) (holds|waits for) (\S+?)(?: for at most ([\d.]+) s)?(?: with a lease of ([\d.]+) s)?(?: under the nonce (\S+))?`+at,
		func(who, how, key, wait, lease, nonce, where string) error {
			return s.acquire(who, how, key, where, wait, lease, nonce)
		})
	sc.Step(`^(\w+) asks for (\S+)`+at, s.asksFor)
	sc.Step(`^(\w+) speaks`+at, func(who, where string) error { _, err := s.at(who, where); return err })
	sc.Step(`^(\w+) sends "(.*)"`+at, s.sends)
	sc.Step(`^(\w+) takes (\d+) keys`+at, func(who string, n int, where string) error { return s.takeMany(who, n, where) })
	sc.Step(`^(\w+) releases (\d+) of them`+at, func(who string, n int, where string) error { return s.releaseMany(who, n, where) })
	sc.Step(`^(\w+) can release the rest`+at, s.releaseRest)
	sc.Step(`^(\w+) (?:releases|can release) (\S+)`+at, s.release)
	sc.Step(`^(\w+) keeps (\S+) for ([\d.]+) s`+at, func(who, key, lease, where string) error { return s.keep(who, key, where, lease) })
	sc.Step(`^clients that take keys in turns$`, func() error { return s.work(s.t.FailoverWithin) })
	sc.Step(`^clients that take keys in turns and try for 1 s only$`, func() error { return s.work(suite.HeldInHandoff) })

	// What they see.
	sc.Step(`^(\w+) receives "(.*)"`+at, s.receives)
	sc.Step(`^(\w+) gets a redirect to (node \w+|the active) for each of these`+at, s.redirects)
	sc.Step(`^(\w+) gets the answer of a server to each of these`+at, s.table)
	sc.Step(`^(\w+) is granted (\S+)`+at, s.granted)
	sc.Step(`^(\w+) is not granted (\S+)`+at, s.notGranted)
	sc.Step(`^(\w+) is told of (?:his|her) grant of (\S+) again`+at, s.toldAgain)
	sc.Step(`^(\w+) has received nothing`+at, s.quiet)
	sc.Step(`^(\w+) is sent to the successor for (\S+) at (node \w+), and it serves$`, s.sentOn)
	sc.Step(`^the wait of (\w+) for (\S+) of ([\d.]+) s ends in time`+at, s.limit)
	sc.Step(`^(\w+) is granted (\S+) when the lease of (\w+) ends, later by the outage at most$`, s.grantedAtEnd)
	sc.Step(`^(\S+) is (held|free)`+at, s.state)
	sc.Step(`^what (\w+) holds is still held`+at, s.stillHeld)
	sc.Step(`^what (\w+) has released is free`+at, s.areFree)
	sc.Step(`^of the grants of (\S+) the one with the greater token holds, and no other$`, s.greaterHolds)

	// Tokens.
	sc.Step(`^all tokens are distinct$`, s.distinct)
	sc.Step(`^the tokens rise$`, s.rising)
	sc.Step(`^the tokens of each node rise$`, s.risingAtEach)
	sc.Step(`^the tokens of the side promoted later are above those of node one$`, s.laterAbove)
	sc.Step(`^the next token is above all before$`, s.above)

	// The clients at work.
	sc.Step(`^no acquire of the clients has failed$`, s.noneFailed)
	sc.Step(`^their calls are those of locks$`, s.locks)
	sc.Step(`^what their clients have lost is counted$`, s.count)
}

func seconds(text string) time.Duration {
	f, _ := strconv.ParseFloat(text, 64) // the steps' expressions let only numbers in
	return time.Duration(f * float64(time.Second)).Round(time.Millisecond)
}

func (s *scenario) sideServes() error {
	one := s.names["one"]
	was := s.paused[one]
	s.paused[one] = true // so that it is not asked
	err := s.within()
	s.paused[one] = was
	return err
}

func (s *scenario) highest() error {
	alive := s.alive()
	return s.w.Expect(s.active == alive[0].ID,
		fmt.Sprintf("the first node of the list that lives to serve, which is %s", s.label(alive[0].ID)), s.label(s.active)+" serves")
}

// asksFor takes the key if it gets it.
func (s *scenario) asksFor(who, key, where string) error {
	c, err := s.at(who, where)
	if err != nil {
		return err
	}
	if err := c.send("A " + s.w.Key(key) + " -1 20"); err != nil {
		return err
	}
	a, err := c.answer('A', s.w.Key(key), suite.Answer)
	if err != nil {
		return c.wrong("an answer", err)
	}
	s.told(who, a)
	return nil
}

func (s *scenario) redirects(who, to, where string, text *godog.DocString) error {
	target, err := s.node(to)
	if err != nil {
		return err
	}
	for _, line := range strings.Split(text.Content, "\n") {
		if err := s.sends(who, line, where); err != nil {
			return err
		}
		f := strings.Split(line, " ")
		if err := s.receives(who, "M "+f[0]+" "+f[1]+" "+target.Advertise, where); err != nil {
			return err
		}
	}
	return nil
}

// table sends the first cell of each row, and expects the second.
func (s *scenario) table(who, where string, rows *godog.Table) error {
	for _, row := range rows.Rows {
		if err := s.sends(who, row.Cells[0].Value, where); err != nil {
			return err
		}
		if err := s.receives(who, row.Cells[1].Value, where); err != nil {
			return err
		}
	}
	return nil
}

func (s *scenario) notGranted(who, key, where string) error {
	c, err := s.at(who, where)
	if err != nil {
		return err
	}
	a, err := c.answer('A', s.w.Key(key), suite.Answer)
	if err != nil {
		return c.wrong("an answer that is no grant", err)
	}
	return s.w.Expect(a.op != 'A', fmt.Sprintf("%s not to be granted %s, which another node has granted to somebody else", who, key), a.text)
}

// sentOn expects that a waiter is told where to go.
func (s *scenario) sentOn(who, key, where string) error {
	c, err := s.at(who, where)
	if err != nil {
		return err
	}
	a, err := c.answer('A', s.w.Key(key), suite.Stopped)
	if err != nil {
		return c.wrong("M to the successor", err)
	}
	if a.op != 'M' {
		return s.w.Fail("M to the successor on "+c.Name, a.text)
	}
	return s.target(a)
}

// limit expects that a request which a node may hold, for it does not know who
// is active, ends at its own limit.
func (s *scenario) limit(who, key, wait, where string) error {
	c, err := s.at(who, where)
	if err != nil {
		return err
	}
	asked := s.asks[ask{who, s.w.Key(key)}]
	d := seconds(wait)
	a, err := c.answer('A', s.w.Key(key), suite.Answer)
	if err != nil {
		return c.wrong("T "+key+" at its limit", err)
	}
	expected := fmt.Sprintf("A or M before the limit of %v, or T at it and at most %d ms later", d, suite.Late.Milliseconds())
	seen := fmt.Sprintf("%s after %d ms", a.text, (a.at - asked.before).Milliseconds())
	switch a.op {
	case 'T':
		return s.w.Expect(a.at >= asked.before+d-suite.Early && a.at <= asked.after+d+suite.Late, expected, seen)
	case 'A', 'M':
		return s.w.Expect(a.at <= asked.after+d+suite.Late, expected, seen)
	}
	return s.w.Fail(expected, seen)
}

// grantedAtEnd judges a lease that goes on over a change of the active: it ends
// never early, and late by no more than the time in which nobody served.
func (s *scenario) grantedAtEnd(who, key, holder string) error {
	before, ok := s.held[ask{holder, s.w.Key(key)}]
	if !ok {
		return fmt.Errorf("%s was not granted %s before", holder, key)
	}
	late := s.outage + suite.Late
	a, err := s.expect(who, "A "+key+" TOKEN LEASE", "the active", max(before.read+before.lease+late+suite.Answer-s.w.Now(), 0))
	if err != nil {
		return err
	}
	first, last := before.earliest+before.lease, before.read+before.lease+late
	return s.w.Expect(a.at >= first && a.at <= last,
		fmt.Sprintf("%s to be granted %s between %.3f s, when the lease ends, and %.3f s, later by the %d ms in which nobody served and %d ms", who, key, first.Seconds(), last.Seconds(), s.outage.Milliseconds(), suite.Late.Milliseconds()),
		fmt.Sprintf("it was at %.3f s", a.at.Seconds()))
}

// greaterHolds releases a key by all tokens that somebody was told of, the
// greatest last: only that one holds.
func (s *scenario) greaterHolds(key string) error {
	key = s.w.Key(key)
	greatest := uint64(0)
	for k, h := range s.held {
		if k.key == key {
			greatest = max(greatest, h.token)
		}
	}
	if greatest == 0 {
		return fmt.Errorf("nobody was granted %s", key)
	}
	c, err := s.at("Zoe", "the active")
	if err != nil {
		return err
	}
	try := func(token uint64, held bool) error {
		if err := c.send(fmt.Sprintf("R %s %d", key, token)); err != nil {
			return err
		}
		a, err := c.answer('R', key, suite.Answer)
		if err != nil {
			return c.wrong("an answer to the release", err)
		}
		if held {
			return s.w.Expect(a.op == 'R', fmt.Sprintf("the grant with the greater token, %d, to be held still", token), a.text)
		}
		return s.w.Expect(a.op == 'E' && a.code == "not-held", fmt.Sprintf("not-held for the lower token, %d", token), a.text)
	}
	for k, h := range s.held {
		if k.key == key && h.token != greatest {
			if err := try(h.token, false); err != nil {
				return err
			}
		}
	}
	return try(greatest, true)
}
