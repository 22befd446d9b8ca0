package cluster

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stile-lock/stile/client"
	"github.com/stile-lock/stile/conformance/cluster/history"
	"github.com/stile-lock/stile/conformance/cluster/rig"
	"github.com/stile-lock/stile/conformance/suite"
	"github.com/stile-lock/stile/protocol"
)

// polls ask all nodes at all times for keys of their own.
type polls struct {
	s    *scenario
	stop chan struct{}
	wg   sync.WaitGroup

	mu     sync.Mutex
	grants []rig.Grant
	selves []string       // redirects of a node to itself
	word   map[int]string // what a node says at present
}

// poll starts them.
func (s *scenario) poll() error {
	if s.polls != nil {
		return nil
	}
	p := &polls{s: s, stop: make(chan struct{}), word: map[int]string{}}
	s.polls = p
	for _, n := range s.c.Nodes() {
		p.wg.Go(func() { p.ask(n) })
	}
	s.w.Note("", "all nodes are asked every %v from now on", suite.PollEvery)
	s.w.Cleanup(func(context.Context) {
		close(p.stop)
		p.wg.Wait()
	})
	return nil
}

func (p *polls) ask(n *rig.Node) {
	var d *raw
	defer func() {
		if d != nil {
			d.Close()
		}
	}()
	for i := 0; ; i++ {
		select {
		case <-p.stop:
			return
		case <-time.After(suite.PollEvery):
		}
		if d == nil {
			var err error
			if d, err = p.s.dial(n, suite.Held); err != nil {
				d = nil
				p.says(n, "can't be reached")
				continue
			}
			go func(d *raw) {
				<-p.stop
				d.Close()
			}(d)
		}
		key := p.s.w.Key(fmt.Sprintf("poll/%d/%d", n.ID, i)) // a release that is lost must not matter
		sent := time.Now()
		a, err := d.ask("A "+key+" -1 1", suite.Answer)
		if err != nil {
			d.Close()
			d = nil
			p.says(n, "does not answer: "+err.Error())
			continue
		}
		switch a.op {
		case 'A':
			p.mu.Lock()
			p.grants = append(p.grants, rig.Grant{Node: n.ID, Key: key, Token: a.token, Sent: sent, At: time.Now()})
			p.mu.Unlock()
			p.says(n, "grants")
			d.ask(fmt.Sprintf("R %s %d", key, a.token), suite.Answer)
		case 'M':
			if a.addr == n.Advertise {
				p.mu.Lock()
				p.selves = append(p.selves, fmt.Sprintf("%s at %.3f s: %s", p.s.label(n.ID), p.s.w.Now().Seconds(), a.text))
				p.mu.Unlock()
			}
			p.says(n, "redirects to "+p.s.labelOf(a.addr))
		default:
			p.says(n, "answers "+strings.Join(slices.DeleteFunc([]string{string(rune(a.op)), a.code}, func(s string) bool { return s == "" }), " "))
		}
	}
}

// says notes a change.
func (p *polls) says(n *rig.Node, word string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.word[n.ID] != word {
		p.word[n.ID] = word
		p.s.w.Note("", "%s %s", p.s.label(n.ID), word)
	}
}

func (p *polls) seen() []rig.Grant {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.grants)
}

// givers are the nodes that granted what was asked after a moment, in words.
func (s *scenario) givers(after time.Time) (ids []int, words string) {
	ids = rig.Givers(s.polls.seen(), after)
	var list []string
	for _, id := range ids {
		list = append(list, s.label(id))
	}
	if len(list) == 0 {
		return ids, "no node does"
	}
	return ids, strings.Join(list, " and ") + " do"
}

// onlyGrants watches for a time that nobody but one node grants.
func (s *scenario) onlyGrants(what string, d time.Duration) error {
	n, err := s.node(what)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := s.w.Sleep(d); err != nil {
		return err
	}
	ids, seen := s.givers(start)
	return s.w.Expect(slices.Equal(ids, []int{n.ID}), fmt.Sprintf("%s, and no other node, to grant free keys during %v", s.label(n.ID), d), seen)
}

// oneGrants waits until exactly one node grants, and does so for a while. The
// role may go to the node of highest priority before that.
func (s *scenario) oneGrants() error {
	began := s.w.Now()
	alone, since := 0, began
	for {
		start := time.Now()
		if err := s.w.Sleep(4 * suite.PollEvery); err != nil {
			return err
		}
		ids, seen := s.givers(start)
		switch {
		case len(ids) != 1:
			alone = 0
		case ids[0] != alone:
			alone, since = ids[0], s.w.Now()
		}
		if alone != 0 && s.w.Now()-since >= suite.Alone {
			s.active = alone
			s.w.Note("", "%s alone serves", s.label(alone))
			return nil
		}
		if s.w.Now()-began > suite.Settled+suite.Alone {
			return s.w.Fail(fmt.Sprintf("exactly one node to grant free keys after %v, and to go on with it for %v", suite.Settled, suite.Alone), "in the end "+seen)
		}
	}
}

func (s *scenario) noSelf() error {
	s.polls.mu.Lock()
	defer s.polls.mu.Unlock()
	return s.w.Expect(len(s.polls.selves) == 0, "no node to name itself in M", strings.Join(s.polls.selves[:min(1, len(s.polls.selves))], ""))
}

// all is every grant that this scenario has seen.
func (s *scenario) all() []rig.Grant {
	s.mu.Lock()
	list := slices.Clone(s.grants)
	s.mu.Unlock()
	if s.polls != nil {
		list = append(list, s.polls.seen()...)
	}
	if s.load != nil {
		list = append(list, rig.Grants(s.load.Ops())...)
	}
	return list
}

func (s *scenario) distinct() error {
	list := s.all()
	s.w.Note("", "%d tokens were seen", len(list))
	seen := map[uint64]rig.Grant{}
	for _, g := range list {
		if other, twice := seen[g.Token]; twice {
			return s.w.Fail("no token to be given twice", fmt.Sprintf("token %d given to %s and to %s", g.Token, other.Key, g.Key))
		}
		seen[g.Token] = g
	}
	return nil
}

// rising compares the tokens of grants that were asked for one after the other.
func (s *scenario) rising() error {
	err := risingIn(s.all())
	return s.w.Expect(err == "", "a later grant to have a greater token than an earlier one", err)
}

func (s *scenario) risingAtEach() error {
	list := s.all()
	for id := 1; id <= nodes; id++ {
		err := risingIn(slices.DeleteFunc(slices.Clone(list), func(g rig.Grant) bool { return g.Node != id }))
		if err != "" {
			return s.w.Fail("tokens to rise at each node", s.label(id)+": "+err)
		}
	}
	return nil
}

// risingIn says what is wrong with the order of tokens.
func risingIn(list []rig.Grant) string {
	byAnswer := slices.SortedFunc(slices.Values(list), func(a, b rig.Grant) int { return a.At.Compare(b.At) })
	bySent := slices.SortedFunc(slices.Values(list), func(a, b rig.Grant) int { return a.Sent.Compare(b.Sent) })
	var highest rig.Grant
	for _, g := range bySent {
		for len(byAnswer) > 0 && byAnswer[0].At.Before(g.Sent) {
			if byAnswer[0].Token > highest.Token {
				highest = byAnswer[0]
			}
			byAnswer = byAnswer[1:]
		}
		if highest.Token > g.Token {
			return fmt.Sprintf("token %d was given for a request sent %d ms after the answer with token %d was read", g.Token, g.Sent.Sub(highest.At).Milliseconds(), highest.Token)
		}
	}
	return ""
}

// laterAbove compares the two sides of a partition: all tokens that node one
// has given are below those of the other side.
func (s *scenario) laterAbove() error {
	var one, other []uint64
	for _, g := range s.all() {
		if g.Node == s.names["one"] {
			one = append(one, g.Token)
		} else {
			other = append(other, g.Token)
		}
	}
	if len(one) == 0 || len(other) == 0 {
		return fmt.Errorf("one of the sides has granted nothing")
	}
	return s.w.Expect(slices.Max(one) < slices.Min(other), fmt.Sprintf("the side promoted later to give only tokens above %d, the greatest of node one", slices.Max(one)), strconv.FormatUint(slices.Min(other), 10))
}

// above takes a key at the active: its token is above all that were seen.
func (s *scenario) above() error {
	highest := uint64(0)
	for _, g := range s.all() {
		highest = max(highest, g.Token)
	}
	s.probes++
	key := fmt.Sprintf("above%d", s.probes)
	c, err := s.at(fmt.Sprintf("probe%d", s.probes), "the active")
	if err != nil {
		return err
	}
	// Polls go on meanwhile, so only what was there before is compared.
	if err := c.send("A " + s.w.Key(key) + " -1 1"); err != nil {
		return err
	}
	a, err := c.answer('A', s.w.Key(key), suite.Answer)
	if err != nil {
		return c.wrong("a grant", err)
	}
	return s.w.Expect(a.op == 'A' && a.token > highest, fmt.Sprintf("a token above %d, the greatest that was seen before", highest), a.text)
}

// load is clients that follow all the rules, at work.
type load struct {
	*rig.Load
	ended bool
}

const (
	loadWorkers = 6
	loadKeys    = 3
	loadHold    = 3 * time.Millisecond
	loadLease   = 20 * time.Second
)

// work starts clients that take keys in turns, each for a moment. They go on
// trying for as long as a failover may take, or a handoff.
func (s *scenario) work(patience time.Duration) error {
	var opts []client.Option
	if s.t.Secret != "" {
		opts = append(opts, client.Secret(s.t.Secret))
	}
	l := &load{Load: &rig.Load{
		Addrs: s.c.Addrs(), Workers: loadWorkers, Keys: loadKeys, Prefix: s.w.Key("load/"),
		Hold: loadHold, Lease: loadLease, RetryFor: patience, Options: opts,
	}}
	if err := l.Start(); err != nil {
		return err
	}
	s.load = l
	s.w.Note("", "%d clients take and release %d keys", l.Workers, l.Keys)
	s.w.Cleanup(func(context.Context) {
		if !l.ended {
			l.Abort()
		}
	})
	return s.w.Sleep(suite.Settle)
}

// stopWork lets the clients finish.
func (s *scenario) stopWork() []rig.Op {
	if !s.load.ended {
		s.load.Stop()
		s.load.ended = true
	}
	return s.load.Ops()
}

func (s *scenario) noneFailed() error {
	ops := s.stopWork()
	failed := rig.Failed(ops)
	s.w.Note("", "the clients made %d calls", len(ops))
	if len(failed) > 0 {
		return s.w.Fail("no acquire to fail", fmt.Sprintf("%d of %d calls did, the first: %v", len(failed), len(ops), failed[0].Err))
	}
	return nil
}

// locks judges the calls of the clients on all nodes as those of one lock.
func (s *scenario) locks() error {
	ops := s.stopWork()
	switch verdict, why := history.Check(ops, 10*time.Second); verdict {
	case history.Bad:
		return s.w.Fail("the calls of all clients to be those of locks, each held by one at a time, with rising tokens", why)
	case history.Unknown:
		return s.w.NotJudged("the calls of the clients could not be judged: %s", why)
	}
	return nil
}

// count says what the death of a node has cost. That is no failure (SPEC.md
// 12.6), so it fails nothing.
func (s *scenario) count() error {
	ops := s.stopWork()
	lost, failed := 0, len(rig.Failed(ops))
	for _, o := range ops {
		if o.Kind == rig.Release && o.Err != nil && client.OutcomeOf(o.Err) == client.DidNotHappen {
			lost++
		}
	}
	c := s.load.Resource.Count()
	s.w.Note("", "%d calls under load; %d acquires failed; %d grants were lost; %d holders came while there was another one; %d writes were refused for their token", len(ops), failed, lost, c.Overlaps, c.Stale)
	return s.w.Expect(c.Backwards == 0, "no write to be let through with a token lower than an earlier one's", fmt.Sprintf("%d", c.Backwards))
}

// answeredAtStart asks each node that has just started, and judges that nobody
// is left without an answer, or told too early that nobody is known.
func (s *scenario) answeredAtStart() error {
	type result struct {
		n    *rig.Node
		a    answer
		err  error
		took time.Duration
	}
	results := make(chan result, nodes)
	for _, n := range s.c.Nodes() {
		go func() {
			start := s.w.Now()
			a, err := s.once(n, "A "+s.w.Key("early/"+strconv.Itoa(n.ID))+" -1 1", suite.Answer)
			results <- result{n, a, err, s.w.Now() - start}
		}()
	}
	var failure error
	for range nodes {
		r := <-results
		s.w.Note("", "%s answers %s after %d ms", s.label(r.n.ID), r.a.text, r.took.Milliseconds())
		expected := fmt.Sprintf("%s, just started, to answer A or M, or no-active after it has held the request, within %v", s.label(r.n.ID), suite.Held)
		switch {
		case failure != nil:
		case r.err != nil:
			failure = s.w.Fail(expected, r.err.Error())
		case r.took > suite.Held:
			failure = s.w.Fail(expected, fmt.Sprintf("%s after %d ms", r.a.text, r.took.Milliseconds()))
		case r.a.op == 'A', r.a.op == 'M':
		case r.a.code == protocol.CodeNoActive.String() && r.took >= suite.HeldLeast:
		default:
			failure = s.w.Fail(expected, fmt.Sprintf("%s after %d ms", r.a.text, r.took.Milliseconds()))
		}
	}
	return failure
}
