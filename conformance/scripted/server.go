package scripted

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stile-lock/stile/conformance/ports"
	"github.com/stile-lock/stile/protocol"
)

// Server is one scripted server.
type Server struct {
	Name string
	Addr string
	n    *Network

	mu       sync.Mutex
	l        net.Listener // nil while it is down
	conns    []*Conn
	accepted int
	rules    map[string][]*rule
	profiles string
	core     bool // it does not know H
	silent   bool // it reads, and says nothing
	hangUp   bool // it resets each connection when it is opened
	delay    time.Duration
	ended    bool
}

// rule is what is done on lines of one op.
type rule struct {
	times  int         // how often it is used; 0: for ever
	only   func() bool // asked each time, if not nil
	action Action
}

// Action does something about a line.
type Action func(c *Conn, line *Entry)

// Conn is one connection to a server.
type Conn struct {
	Name   string
	Server *Server
	nc     net.Conn
	wake   chan struct{} // there is something to write
	over   chan struct{} // closed when nothing is read any more

	mu    sync.Mutex
	out   []outgoing
	cut   bool
	ended bool
}

type outgoing struct {
	due   time.Time
	bytes []byte
	shown string
}

// NewServer adds a server, which serves from now on.
func (n *Network) NewServer() (*Server, error) {
	l, err := ports.Listen("127.0.0.1")
	if err != nil {
		return nil, err
	}
	s := &Server{
		Name: fmt.Sprintf("server %d", len(n.Servers)+1), Addr: l.Addr().String(), n: n,
		rules: map[string][]*rule{}, profiles: "keep,ping,hello,resume",
	}
	n.Servers = append(n.Servers, s)
	n.W.Note(s.Name, "listens on %s", s.Addr)
	s.serve(l)
	return s, nil
}

func (s *Server) serve(l net.Listener) {
	s.mu.Lock()
	s.l = l
	s.mu.Unlock()
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			s.accept(nc)
		}
	}()
}

func (s *Server) accept(nc net.Conn) {
	s.mu.Lock()
	s.accepted++
	c := &Conn{Name: fmt.Sprintf("%s #%d", s.Name, s.accepted), Server: s, nc: nc, wake: make(chan struct{}, 1), over: make(chan struct{})}
	if s.ended || s.l == nil {
		s.mu.Unlock()
		reset(nc)
		return
	}
	s.conns = append(s.conns, c)
	hangUp := s.hangUp
	s.mu.Unlock()
	s.n.add(&Entry{Kind: Accept, Conn: c})
	s.n.W.Note(c.Name, "open")
	if hangUp {
		c.Reset()
		return
	}
	go c.write()
	go c.read()
}

// Profiles sets the list that a hello is answered with.
func (s *Server) Profiles(list string) { s.locked(func() { s.profiles = list }) }

// Core makes the server one that speaks core only: it knows no other op.
func (s *Server) Core() { s.locked(func() { s.core = true }) }

// Silence makes the server read, and say nothing, whatever its rules are.
func (s *Server) Silence() { s.locked(func() { s.silent = true }) }

// Speak ends a Silence.
func (s *Server) Speak() { s.locked(func() { s.silent = false }) }

// HangUp makes the server reset each new connection at once, or no more.
func (s *Server) HangUp(on bool) { s.locked(func() { s.hangUp = on }) }

// Delay is how long each byte to the clients is on its way.
func (s *Server) Delay(d time.Duration) { s.locked(func() { s.delay = d }) }

func (s *Server) locked(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// On has the action done for lines of the op, the next few of them or, if
// times is 0, all; the last rule that was set comes first.
func (s *Server) On(op string, times int, a Action) {
	s.locked(func() { s.rules[op] = append([]*rule{{times: times, action: a}}, s.rules[op]...) })
}

// OnIf is On for lines when only says so.
func (s *Server) OnIf(op string, only func() bool, a Action) {
	s.locked(func() { s.rules[op] = append([]*rule{{only: only, action: a}}, s.rules[op]...) })
}

// Down stops listening and resets all connections.
func (s *Server) Down() {
	s.mu.Lock()
	l := s.l
	s.l = nil
	s.mu.Unlock()
	if l != nil {
		l.Close()
		s.n.W.Note(s.Name, "is down: it refuses connections")
	}
	s.ResetAll()
}

// Up listens again, on the same port.
func (s *Server) Up() error {
	var l net.Listener
	var err error
	for range 50 {
		if l, err = net.Listen("tcp", s.Addr); err == nil {
			s.n.W.Note(s.Name, "listens again")
			s.serve(l)
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

// ResetAll resets the connections there are.
func (s *Server) ResetAll() {
	for _, c := range s.Conns() {
		c.Reset()
	}
}

// Conns are the connections that are open on both sides.
func (s *Server) Conns() (open []*Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		if c.Open() {
			open = append(open, c)
		}
	}
	return open
}

func (s *Server) close() {
	s.mu.Lock()
	s.ended = true
	l, conns := s.l, s.conns
	s.l = nil
	s.mu.Unlock()
	if l != nil {
		l.Close()
	}
	for _, c := range conns {
		c.mu.Lock()
		c.cut = true
		c.mu.Unlock()
		reset(c.nc)
	}
	ports.Free(s.Addr)
}

// Open reports whether neither side has ended the connection.
func (c *Conn) Open() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.cut && !c.ended
}

func (c *Conn) read() {
	defer close(c.over)
	in := bufio.NewReader(c.nc)
	for {
		text, err := in.ReadString('\n')
		if err != nil {
			c.mu.Lock()
			c.ended = true
			cut := c.cut
			c.mu.Unlock()
			if cut || errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) {
				return
			}
			e := &Entry{Kind: End, Conn: c, Text: "the client closed the connection", Reset: errors.Is(err, syscall.ECONNRESET)}
			if e.Reset {
				e.Text = "the client reset the connection"
			}
			if text != "" {
				e.Text += fmt.Sprintf(", after %q, a line without its end", text)
			}
			c.Server.n.W.Note(c.Name, "%s", e.Text)
			c.Server.n.add(e)
			if !e.Reset {
				c.mu.Lock()
				c.cut = true
				c.mu.Unlock()
				c.nc.Close()
			}
			return
		}
		text = strings.TrimSuffix(text, "\n")
		line := &Entry{Kind: Line, Conn: c, Text: text, Fields: strings.Split(text, " ")}
		n := c.Server.n
		n.W.Received(c.Name, text)
		n.add(line)
		var r protocol.Request
		if code := protocol.ParseRequest([]byte(strings.TrimSuffix(text, "\r")), &r); code != 0 && text != "" {
			n.W.Fault(n.W.Fail("lines that follow the grammar of SPEC.md 2.4", fmt.Sprintf("%s received %q, which is %s", c.Name, text, code)))
		}
		c.act(line)
	}
}

// act does what the rules say, or what a server that serves does.
func (c *Conn) act(line *Entry) {
	s := c.Server
	s.mu.Lock()
	if s.silent {
		s.mu.Unlock()
		return
	}
	core := s.core && line.Op() != "A" && line.Op() != "R"
	var action Action
	for i, r := range s.rules[line.Op()] {
		if r.only != nil && !r.only() {
			continue
		}
		action = r.action
		if r.times > 0 {
			if r.times--; r.times == 0 {
				s.rules[line.Op()] = append(s.rules[line.Op()][:i:i], s.rules[line.Op()][i+1:]...)
			}
		}
		break
	}
	s.mu.Unlock()
	switch {
	case action != nil:
		action(c, line)
	case core:
		c.Answer(line, "E OP KEY unknown-op")
	default:
		Serve(c, line)
	}
}

// Serve is what a server does that serves.
func Serve(c *Conn, line *Entry) {
	switch line.Op() {
	case "H":
		c.Answer(line, "H 1 SELF PROFILES")
	case "P":
		c.Answer(line, "P KEY")
	case "A":
		c.Answer(line, "A KEY NEW LEASE")
	case "R":
		c.Answer(line, "R KEY TOKEN")
	case "K":
		c.Answer(line, "K KEY TOKEN LEASE")
	case "C":
		c.Answer(line, "C KEY NONCE")
	}
}

// Answer answers a line. In the template these words stand for what fits:
// OP, KEY, TOKEN (of an R or a K), NONCE (of a C), LEASE (as asked for, 30 for
// the default), NEW (the next token), SELF (the server's address), PROFILES,
// and ADDR1 and PORT1, ADDR2 and PORT2, … (those of the servers).
func (c *Conn) Answer(line *Entry, template string) {
	c.Server.n.mu.Lock()
	line.answered = true
	c.Server.n.mu.Unlock()
	c.Send(c.fill(line, template))
}

// Answered reports whether a line was answered.
func (n *Network) Answered(line *Entry) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return line.answered
}

func (c *Conn) fill(line *Entry, template string) string {
	n := c.Server.n
	words := strings.Split(template, " ")
	for i, word := range words {
		switch {
		case word == "OP":
			word = line.Op()
		case word == "KEY":
			word = line.Key()
		case word == "TOKEN", word == "NONCE":
			word = line.Field(2)
		case word == "LEASE":
			if word = line.Field(3); word == "0" {
				word = "30"
			}
			word = shortest(word)
		case word == "NEW":
			word = strconv.FormatUint(n.NextToken(), 10)
		case word == "SELF":
			word = c.Server.Addr
		case word == "PROFILES":
			c.Server.locked(func() { word = c.Server.profiles })
		case strings.Contains(word, "ADDR"), strings.Contains(word, "PORT"):
			for i, s := range n.Servers {
				_, port, _ := net.SplitHostPort(s.Addr)
				word = strings.ReplaceAll(word, fmt.Sprintf("ADDR%d", i+1), s.Addr)
				word = strings.ReplaceAll(word, fmt.Sprintf("PORT%d", i+1), port)
			}
		}
		words[i] = word
	}
	return strings.Join(words, " ")
}

// shortest writes a duration as answers do.
func shortest(seconds string) string {
	if strings.Contains(seconds, ".") {
		return strings.TrimRight(strings.TrimRight(seconds, "0"), ".")
	}
	return seconds
}

// Send writes a line, to which it adds the LF.
func (c *Conn) Send(line string) { c.SendBytes([]byte(line+"\n"), line) }

// SendBytes writes bytes as they are.
func (c *Conn) SendBytes(b []byte, shown string) {
	var delay time.Duration
	c.Server.locked(func() { delay = c.Server.delay })
	c.mu.Lock()
	c.out = append(c.out, outgoing{time.Now().Add(delay), b, shown})
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// next waits for the next bytes to be written; false: there are none any more.
func (c *Conn) next() (o outgoing, ok bool) {
	for {
		c.mu.Lock()
		if len(c.out) > 0 {
			o, c.out = c.out[0], c.out[1:]
			c.mu.Unlock()
			return o, true
		}
		c.mu.Unlock()
		select {
		case <-c.wake:
		case <-c.over:
			return o, false
		}
	}
}

func (c *Conn) write() {
	for {
		o, ok := c.next()
		if !ok {
			return
		}
		if d := time.Until(o.due); d > 0 {
			time.Sleep(d)
		}
		c.mu.Lock()
		cut := c.cut || c.ended
		c.mu.Unlock()
		if cut {
			return
		}
		c.Server.n.W.Sent(c.Name, o.shown)
		c.nc.SetWriteDeadline(time.Now().Add(5 * time.Second))
		// Logged first: what the client does about it must not be in the log
		// before it.
		c.Server.n.add(&Entry{Kind: Answer, Conn: c, Text: o.shown, Fields: strings.Split(o.shown, " ")})
		if _, err := c.nc.Write(o.bytes); err != nil {
			return
		}
	}
}

// Reset ends the connection with a reset: what the client is owed is lost.
func (c *Conn) Reset() {
	c.mu.Lock()
	was := c.cut || c.ended
	c.cut = true
	c.mu.Unlock()
	if was {
		return
	}
	c.Server.n.W.Note(c.Name, "the server resets the connection")
	reset(c.nc)
	c.Server.n.add(&Entry{Kind: Cut, Conn: c, Text: "the server reset the connection"})
}

func reset(nc net.Conn) {
	if tcp, ok := nc.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	nc.Close()
}

// The actions there are, besides Serve.

// Say answers by a template (see Conn.Answer), after d.
func Say(template string, d time.Duration) Action {
	return func(c *Conn, line *Entry) {
		if d == 0 {
			c.Answer(line, template)
			return
		}
		time.AfterFunc(d, func() { c.Answer(line, template) })
	}
}

// Nothing leaves the line unanswered.
func Nothing(*Conn, *Entry) {}

// ResetOn resets the connection: the line was read, its answer is lost.
func ResetOn(c *Conn, _ *Entry) { c.Reset() }

// DownOn resets all connections, and refuses new ones.
func DownOn(c *Conn, _ *Entry) { c.Server.Down() }
