package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/stile-lock/stile/conformance/cluster/rig"
	"github.com/stile-lock/stile/conformance/lines"
	"github.com/stile-lock/stile/conformance/suite"
	"github.com/stile-lock/stile/protocol"
)

// place is somebody's connection to a node.
type place struct {
	who  string
	node int
}

// ask is somebody's request for a key.
type ask struct{ who, key string }

// held is a grant that somebody was told of. The server's clock for its lease
// started after earliest and before read.
type held struct {
	key            string
	token          uint64
	lease          time.Duration
	earliest, read time.Duration
}

// conn is a connection that matches answers to requests by op and key (SPEC.md
// 3.2).
type conn struct {
	*lines.Conn
	s      *scenario
	node   int
	sent   map[string]time.Time // when a key was asked for last
	unread []answer
}

// answer is a parsed answer line.
type answer struct {
	op, forOp  protocol.Op
	key        string
	token      uint64
	lease      time.Duration
	addr, code string
	text       string // the whole line
	at         time.Duration
}

func parse(text string) (answer, error) {
	var a protocol.Answer
	if err := protocol.ParseAnswer([]byte(strings.TrimSuffix(text, "\r")), &a); err != nil {
		return answer{}, err
	}
	return answer{
		op: a.Op, forOp: a.For, key: string(a.Key), token: a.Token, lease: a.Lease,
		addr: string(a.Addr), code: string(a.CodeName), text: text,
	}, nil
}

// connect opens a connection to a node, as somebody.
func (s *scenario) connect(who string, n *rig.Node) (*conn, error) {
	ctx, cancel := context.WithTimeout(s.w.Context(), suite.Answer)
	defer cancel()
	nc, err := (&net.Dialer{}).DialContext(ctx, "tcp", n.Advertise)
	if err != nil {
		if s.w.Context().Err() != nil {
			return nil, s.w.Stopped()
		}
		return nil, s.w.Fail(s.label(n.ID)+" to accept a connection", err.Error())
	}
	name := fmt.Sprintf("%s@%s", who, strings.TrimPrefix(s.label(n.ID), "node "))
	c := &conn{Conn: lines.New(s.w, name, nc), s: s, node: n.ID, sent: map[string]time.Time{}}
	if s.t.Secret != "" {
		hello := "H 1 " + clientName
		if _, err := c.SendAs(hello+secretField(s.t.Secret), hello+" (the secret)"); err != nil {
			return nil, err
		}
		a, err := c.answer('H', "1", suite.Answer)
		if err != nil {
			return nil, c.wrong("the secret to be accepted", err)
		}
		if a.op != 'H' {
			return nil, s.w.Fail("the secret to be accepted by "+s.label(n.ID), a.text)
		}
	}
	return c, nil
}

// at returns somebody's connection to a node, which opens at its first mention.
func (s *scenario) at(who, where string) (*conn, error) {
	n, err := s.node(where)
	if err != nil {
		return nil, err
	}
	p := place{who, n.ID}
	if c := s.conns[p]; c != nil {
		return c, nil
	}
	c, err := s.connect(who, n)
	if err == nil {
		s.conns[p] = c
	}
	return c, err
}

// answer takes the oldest answer to the op and key, and leaves the others for
// later. Every grant is noted, for the tokens.
func (c *conn) answer(op protocol.Op, key string, within time.Duration) (answer, error) {
	for i, a := range c.unread {
		if a.forOp == op && a.key == key || a.forOp == 0 {
			c.unread = append(c.unread[:i:i], c.unread[i+1:]...)
			return a, nil
		}
	}
	deadline := c.s.w.Now() + within
	for {
		l, err := c.Next(max(deadline-c.s.w.Now(), 0))
		if err != nil {
			return answer{}, err
		}
		a, err := parse(l.Text)
		if err != nil {
			return a, c.s.w.Fail("an answer in the form of SPEC.md 2.4", fmt.Sprintf("%q on %s", l.Text, c.Name))
		}
		a.at = l.At
		if a.op == 'A' {
			c.s.grants = append(c.s.grants, rig.Grant{Node: c.node, Key: a.key, Token: a.token, Sent: c.sent[a.key], At: time.Now()})
		}
		if a.forOp == op && a.key == key || a.forOp == 0 {
			return a, nil
		}
		c.unread = append(c.unread, a)
	}
}

// wrong makes the failure of an expected answer that did not come.
func (c *conn) wrong(expected string, err error) error {
	var silent lines.Silent
	var closed lines.Closed
	if !errors.As(err, &silent) && !errors.As(err, &closed) {
		return err
	}
	seen := err.Error()
	for _, a := range c.unread {
		seen += ", besides " + a.text
	}
	return c.s.w.Fail(expected+" on "+c.Name, seen)
}

// send sends a request line as it is.
func (c *conn) send(line string) error {
	f := strings.Split(line, " ")
	if len(f) > 1 {
		c.sent[f[1]] = time.Now()
	}
	before, err := c.Send(line)
	if err == nil && len(f) > 2 {
		c.s.asks[ask{c.who(), f[1]}] = moment{before, c.s.w.Now()}
	}
	return err
}

func (c *conn) who() string { who, _, _ := strings.Cut(c.Name, "@"); return who }

// once asks one line over a connection of its own, beside the transcript.
func (s *scenario) once(n *rig.Node, line string, within time.Duration) (answer, error) {
	d, err := s.dial(n, within)
	if err != nil {
		return answer{}, err
	}
	defer d.Close()
	return d.ask(line, within)
}

// Lines in feature files have a few signs: {Ann:door} is the token of Ann's
// newest grant of door, {one} the address of node one; TOKEN, LEASE and ADDR in an
// answer are any.
var sign = regexp.MustCompile(`\{(\w+)(?::(\S+?))?\}`)

// expand fills in the signs; field is which of the fields is the key.
func (s *scenario) expand(text string, field int) (string, error) {
	f := strings.Split(text, " ")
	if len(f) > field && f[field] != "?" && f[field-1] != "P" && f[field-1] != "H" && f[0] != "P" && f[0] != "H" {
		f[field] = s.w.Key(f[field])
	}
	var bad error
	return sign.ReplaceAllStringFunc(strings.Join(f, " "), func(m string) string {
		p := sign.FindStringSubmatch(m)
		if p[2] == "" {
			n, err := s.node("node " + p[1])
			if p[1] == "active" {
				n, err = s.node("the active")
			}
			if err != nil {
				bad = err
				return m
			}
			return n.Advertise
		}
		h, ok := s.held[ask{p[1], s.w.Key(p[2])}]
		if !ok {
			bad = fmt.Errorf("%s: %s was not granted %s before", m, p[1], p[2])
		}
		return strconv.FormatUint(h.token, 10)
	}), bad
}

func (s *scenario) sends(who, text, where string) error {
	c, err := s.at(who, where)
	if err != nil {
		return err
	}
	line, err := s.expand(text, 1)
	if err != nil {
		return err
	}
	return c.send(line)
}

// receives takes the answer that the pattern is about and compares it.
func (s *scenario) receives(who, text, where string) error {
	_, err := s.expect(who, text, where, suite.Answer)
	return err
}

func (s *scenario) expect(who, text, where string, within time.Duration) (answer, error) {
	c, err := s.at(who, where)
	if err != nil {
		return answer{}, err
	}
	field := 1
	if text[0] == 'E' || text[0] == 'M' {
		field = 2
	}
	want, err := s.expand(text, field)
	if err != nil {
		return answer{}, err
	}
	f := strings.Split(want, " ")
	op, key := protocol.Op(f[field-1][0]), strings.TrimSuffix(f[field], "?")
	if op == 'T' {
		op = 'A'
	}
	a, err := c.answer(op, key, within)
	if err != nil {
		return a, c.wrong(want, err)
	}
	got := strings.Split(a.text, " ")
	for i, w := range f {
		if i >= len(got) || w != "TOKEN" && w != "LEASE" && w != "ADDR" && w != got[i] {
			return a, s.w.Fail(want+" on "+c.Name, a.text)
		}
	}
	s.told(who, a)
	return a, nil
}

// told remembers a grant or a keep that somebody was told of.
func (s *scenario) told(who string, a answer) {
	k := ask{who, a.key}
	if a.op == 'A' || a.op == 'K' {
		s.held[k] = held{a.key, a.token, a.lease, s.asks[k].before, a.at}
	}
}

func (s *scenario) acquire(who, how, key, where, wait, lease, nonce string) error {
	if wait == "" {
		wait = "0"
	}
	if lease == "" {
		lease = "20"
	}
	line := "A " + key + " " + wait + " " + lease
	if nonce != "" {
		line += " " + nonce
	}
	if err := s.sends(who, line, where); err != nil {
		return err
	}
	if how == "holds" {
		_, err := s.expect(who, "A "+key+" TOKEN LEASE", where, suite.Answer)
		return err
	}
	return s.settle(who, where)
}

// settle gives the node time to read what somebody has just sent.
func (s *scenario) settle(who, where string) error { return s.w.Sleep(suite.Settle) }

func (s *scenario) granted(who, key, where string) error {
	_, err := s.expect(who, "A "+key+" TOKEN LEASE", where, suite.Answer)
	return err
}

// toldAgain expects the grant that somebody has already.
func (s *scenario) toldAgain(who, key, where string) error {
	before, ok := s.held[ask{who, s.w.Key(key)}]
	if !ok {
		return fmt.Errorf("%s was not granted %s before", who, key)
	}
	a, err := s.expect(who, "A "+key+" TOKEN LEASE", where, suite.Answer)
	if err != nil {
		return err
	}
	s.held[ask{who, s.w.Key(key)}] = before
	s.grants = s.grants[:len(s.grants)-1] // it is no new one
	return s.w.Expect(a.token == before.token, fmt.Sprintf("the grant with token %d again", before.token), a.text)
}

func (s *scenario) release(who, key, where string) error {
	line := fmt.Sprintf("R %s {%s:%s}", key, who, key)
	if err := s.sends(who, line, where); err != nil {
		return err
	}
	return s.receives(who, line, where)
}

func (s *scenario) keep(who, key, where, lease string) error {
	line := fmt.Sprintf("K %s {%s:%s} %s", key, who, key, lease)
	if err := s.sends(who, line, where); err != nil {
		return err
	}
	_, err := s.expect(who, line, where, suite.Answer)
	return err
}

func (s *scenario) quiet(who, where string) error {
	c, err := s.at(who, where)
	if err != nil {
		return err
	}
	if len(c.unread) > 0 {
		return s.w.Fail("nothing on "+c.Name, c.unread[0].text)
	}
	l, err := c.Next(0)
	var silent lines.Silent
	switch {
	case err == nil:
		return s.w.Fail("nothing on "+c.Name, l.Text)
	case errors.As(err, &silent):
		return nil
	}
	return c.wrong("an open connection and no line", err)
}

// state asks for a key without standing in line.
func (s *scenario) state(key, want, where string) error {
	s.probes++
	c, err := s.at(fmt.Sprintf("probe%d", s.probes), where)
	if err != nil {
		return err
	}
	if err := c.send("A " + s.w.Key(key) + " -1 1"); err != nil {
		return err
	}
	a, err := c.answer('A', s.w.Key(key), suite.Answer)
	if err != nil {
		return c.wrong("an answer to an acquire of "+key, err)
	}
	if want == "held" {
		return s.w.Expect(a.op == 'T', key+" to be held: T for whoever asks for it without a wait", a.text)
	}
	if a.op != 'A' {
		return s.w.Fail(key+" to be free: granted to whoever asks for it", a.text)
	}
	s.told(c.who(), a)
	return s.release(c.who(), key, where)
}

// takeMany takes many keys on one connection.
func (s *scenario) takeMany(who string, n int, where string) error {
	c, err := s.at(who, where)
	if err != nil {
		return err
	}
	var all []string
	for i := range n {
		key := fmt.Sprintf("%s-%d", who, i+1)
		all = append(all, key)
		if err := c.send("A " + s.w.Key(key) + " -1 30"); err != nil {
			return err
		}
	}
	for _, key := range all {
		a, err := s.expect(who, "A "+key+" TOKEN LEASE", where, suite.Answer)
		if err != nil {
			return err
		}
		s.many[who] = append(s.many[who], held{key: key, token: a.token})
	}
	return nil
}

// releaseMany releases the first ones of them.
func (s *scenario) releaseMany(who string, n int, where string) error {
	for _, h := range s.many[who][:n] {
		if err := s.release(who, h.key, where); err != nil {
			return err
		}
	}
	s.many[who+" released"] = append(s.many[who+" released"], s.many[who][:n]...)
	s.many[who] = s.many[who][n:]
	return nil
}

func (s *scenario) releaseRest(who, where string) error {
	return s.releaseMany(who, len(s.many[who]), where)
}

// stillHeld asks for all that somebody holds.
func (s *scenario) stillHeld(who, where string) error {
	return s.allAre(s.many[who], "T", "held", where)
}

func (s *scenario) areFree(who, where string) error {
	return s.allAre(s.many[who+" released"], "A", "free", where)
}

func (s *scenario) allAre(list []held, answer, word, where string) error {
	if len(list) == 0 {
		return errors.New("there are no such keys")
	}
	s.probes++
	c, err := s.at(fmt.Sprintf("probe%d", s.probes), where)
	if err != nil {
		return err
	}
	bad, first := 0, ""
	for _, h := range list {
		if err := c.send("A " + s.w.Key(h.key) + " -1 0.5"); err != nil {
			return err
		}
	}
	for _, h := range list {
		a, err := c.answer('A', s.w.Key(h.key), suite.Answer)
		if err != nil {
			return c.wrong("an answer for "+h.key, err)
		}
		if string(rune(a.op)) != answer {
			if bad++; first == "" {
				first = a.text
			}
		}
	}
	return s.w.Expect(bad == 0, fmt.Sprintf("all %d keys to be %s", len(list), word), fmt.Sprintf("%d are not, as the answer %s shows", bad, first))
}

// firstMoved asks a node on one connection until it redirects, and at once asks
// whoever it names.
func (s *scenario) firstMoved(where string) error {
	n, err := s.node(where)
	if err != nil {
		return err
	}
	c, err := s.at("Zoe", where)
	if err != nil {
		return err
	}
	// A node may stop between two requests of Zoe's, and close her connection
	// without a word: nothing was owed. It does owe M to who waits in line.
	y, err := s.at("Yan", where)
	if err != nil {
		return err
	}
	for range 2 {
		if err := y.send("A " + s.w.Key("line") + " 0 30"); err != nil {
			return err
		}
	}
	if a, err := y.answer('A', s.w.Key("line"), suite.Answer); err != nil || a.op != 'A' {
		return y.wrong("the key, and a place in line for it", err)
	}
	end := s.w.Now() + suite.Stopped
	for i := 0; s.w.Now() < end; i++ {
		// Some requests go before the stop, so that it finds the node at work.
		if i == 20 {
			if err := s.do(where, "asked to stop"); err != nil {
				return err
			}
		}
		key := fmt.Sprintf("moving/%d", i)
		var a answer
		err := c.send("A " + s.w.Key(key) + " -1 1")
		if err == nil {
			a, err = c.answer('A', s.w.Key(key), suite.Answer)
		}
		if err != nil && i >= 20 {
			if a, err = y.answer('A', s.w.Key("line"), suite.Answer); err != nil {
				return y.wrong("M to the successor, as a waiter at a node that stopped", err)
			}
		}
		if err != nil {
			return c.wrong("service, or M to the successor", err)
		}
		switch {
		case a.op == 'A':
			if err := s.w.Sleep(time.Millisecond); err != nil {
				return err
			}
			continue
		case a.op != 'M' || i < 20:
			return s.w.Fail("service, and then M to the successor", a.text)
		case a.addr == n.Advertise:
			return s.w.Fail("M to the successor", "M to the very node that says so: "+a.text)
		}
		return s.target(a)
	}
	return s.w.Fail(fmt.Sprintf("M from %s within %v of the signal to stop", where, suite.Stopped), "it goes on serving")
}

// target asks the node that a redirect named: it has to serve, after the time
// of a handoff at most.
func (s *scenario) target(m answer) error {
	label := s.labelOf(m.addr)
	expected := fmt.Sprintf("%s, named by the first M, to serve, or to hold the request for %v at most", label, suite.HeldInHandoff)
	d, err := s.dialAddr(m.addr, suite.Answer)
	if err != nil {
		return s.w.Fail(expected, "it can't be reached: "+err.Error())
	}
	defer d.Close()
	start := s.w.Now()
	a, err := d.ask("A "+s.w.Key("moved")+" -1 1", suite.Answer)
	took := s.w.Now() - start
	s.w.Note("", "%s, asked at once, answers %s after %d ms", label, a.text, took.Milliseconds())
	switch {
	case err != nil:
		return s.w.Fail(expected, err.Error())
	case a.op != 'A':
		return s.w.Fail(expected, a.text)
	case took > suite.HeldInHandoff+suite.Late:
		return s.w.Fail(expected, fmt.Sprintf("it did after %d ms", took.Milliseconds()))
	}
	for _, n := range s.c.Nodes() {
		if n.Advertise == m.addr {
			s.active = n.ID
			s.grants = append(s.grants, rig.Grant{Node: n.ID, Key: a.key, Token: a.token, Sent: time.Now().Add(-took), At: time.Now()})
		}
	}
	return nil
}

// raw is a connection beside the transcript: for those who ask the whole time.
type raw struct {
	*rig.Conn
}

func (s *scenario) dial(n *rig.Node, within time.Duration) (*raw, error) {
	return s.dialAddr(n.Advertise, within)
}

func (s *scenario) dialAddr(addr string, within time.Duration) (*raw, error) {
	c, err := rig.Dial(addr)
	if err != nil {
		return nil, err
	}
	r := &raw{c}
	if s.t.Secret != "" {
		if a, err := r.ask("H 1 "+clientName+secretField(s.t.Secret), within); err != nil || a.op != 'H' {
			r.Close()
			return nil, fmt.Errorf("the secret was not accepted: %s %v", a.text, err)
		}
	}
	return r, nil
}

func (r *raw) ask(line string, within time.Duration) (answer, error) {
	if err := r.Send("%s", line); err != nil {
		return answer{}, err
	}
	text, err := r.Read(within)
	if err != nil {
		return answer{}, errors.New(lines.Why(err))
	}
	a, err := parse(text)
	if err != nil {
		return a, fmt.Errorf("%q is no answer (SPEC.md 2.4)", text)
	}
	return a, nil
}

// probe asks one node for a key, again and again.
type probe struct {
	s     *scenario
	n     *rig.Node
	key   string
	pause time.Duration
	done  <-chan struct{}
	last  string // what was seen last
}

// untilGranted returns when the node granted, or 0 if it did not in time.
func (p *probe) untilGranted(limit time.Duration) (time.Duration, error) {
	s, w := p.s, p.s.w
	end := w.Now() + limit
	p.last = "nothing"
	var d *raw
	defer func() {
		if d != nil {
			d.Close()
		}
	}()
	for i := 0; ; i++ {
		select {
		case <-p.done:
			return 0, nil
		case <-w.Context().Done():
			return 0, w.Stopped()
		case <-time.After(p.pause):
		}
		left := end - w.Now()
		if left <= 0 {
			return 0, nil
		}
		if d == nil {
			var err error
			if d, err = s.dial(p.n, left); err != nil {
				d, p.last = nil, "its connection is refused, or not opened: "+err.Error()
				continue
			}
			// One that holds a request must not hold the others up.
			if p.done != nil {
				go func(d *raw) {
					<-p.done
					d.Close()
				}(d)
			}
		}
		key := s.w.Key(fmt.Sprintf("%s/%d", p.key, i))
		sent := time.Now()
		a, err := d.ask("A "+key+" -1 1", left)
		if err != nil {
			d.Close()
			d = nil
			p.last = err.Error()
			continue
		}
		if p.last = a.text; a.op != 'A' {
			continue
		}
		at := w.Now()
		s.mu.Lock()
		s.grants = append(s.grants, rig.Grant{Node: p.n.ID, Key: key, Token: a.token, Sent: sent, At: time.Now()})
		s.mu.Unlock()
		d.ask(fmt.Sprintf("R %s %d", key, a.token), suite.AtOnce)
		return at, nil
	}
}
