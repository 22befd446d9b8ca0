// Package client has a second, plain client of Stile's protocol, which can be
// made wrong in one rule at a time: the mutants that the client half of the
// suite has to catch. It is also the proof that the suite does not certify the
// Go client only: as it is, and with the liberties of Different, it passes.
//
// It is written for being read, not for being used: one lock, a goroutine per
// call, and no care for speed.
package client

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stile-lock/stile/protocol"
)

// Client is the plain client.
type Client struct {
	f      Faults
	secret string
	only   bool
	retry  time.Duration
	prefix string // of nonces

	mu      sync.Mutex
	slots   []*slot
	cursor  int
	cursorR int
	count   int             // of nonces and ping words
	rounds  int             // of dials for releases
	held    map[string]bool // key and token of each grant that was read
	moving  []*acquire      // that lost their connections and were not sent anew
	changed chan struct{}   // closed and made anew when connections come and go
	closed  bool

	answeredSent time.Time // for a fault
}

type slot struct {
	c       *Client
	addr    string
	listed  bool
	conn    *conn
	dialing bool
	tries   int // that are over
	spare   bool
	served  bool
	ceased  time.Time
	rest    time.Time
	err     error
	wake    chan struct{}
	removed bool
	demand  bool
}

type conn struct {
	s            *slot
	nc           net.Conn
	out          chan string
	live, dead   bool
	everRead     bool
	keep, resume bool
	pend         map[string][]*request // by op and key
	order        []*request
	answeredSent time.Time
	lastRead     time.Time
	busySince    time.Time
	pinged       time.Time // zero: none in flight
	stir         chan struct{}
}

type request struct {
	op, key, token, nonce string
	sent                  time.Time
	call                  *acquire
	c                     *conn
	answer                chan answer
	// late is called under the lock instead, when the call has gone.
	late func(answer)
}

// crowd is how many requests may be unanswered on one connection.
const crowd = 1000

type answer struct {
	fields []string // nil: the connection was lost
	at     time.Time
	from   *request
	base   time.Time // the last request answered until then was sent at
}

func (a answer) field(n int) string {
	if n < len(a.fields) {
		return a.fields[n]
	}
	return ""
}

// dial makes a client.
func dial(f Faults, addrs []string, secret string, only bool, retry time.Duration) *Client {
	c := &Client{f: f, secret: secret, only: only, retry: retry, held: map[string]bool{}, changed: make(chan struct{})}
	for range 16 {
		c.prefix += string(rune('a' + rand.IntN(26)))
	}
	if len(addrs) == 1 && !f.OneConnection || f.TwoEach {
		addrs = append(addrs, addrs...)
	}
	c.mu.Lock()
	for _, a := range addrs {
		c.addSlot(a, true)
	}
	if f.StartLast {
		c.cursor = len(c.slots) - 1
	}
	c.mu.Unlock()
	// As soon as one is live, or all have failed.
	c.wait(time.Now().Add(time.Second), nil, func() bool {
		failed := 0
		for _, s := range c.slots {
			if s.conn != nil && s.conn.live {
				return true
			}
			if s.tries > 0 {
				failed++
			}
		}
		return failed == len(c.slots)
	})
	return c
}

// wait waits until ok, asked under the lock, or until a moment or done.
func (c *Client) wait(until time.Time, done <-chan struct{}, ok func() bool) bool {
	for {
		c.mu.Lock()
		fine, changed := ok(), c.changed
		c.mu.Unlock()
		d := time.Until(until)
		if fine || d <= 0 {
			return fine
		}
		t := time.NewTimer(d)
		select {
		case <-changed:
		case <-t.C:
		case <-done:
			t.Stop()
			return false
		}
		t.Stop()
	}
}

func (c *Client) broadcast() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *Client) addSlot(addr string, listed bool) *slot {
	s := &slot{c: c, addr: addr, listed: listed, wake: make(chan struct{}, 1), dialing: listed}
	c.slots = append(c.slots, s)
	go s.run()
	return s
}

func (c *Client) beat() time.Duration {
	d := 3 * time.Second
	if c.f.Beat != 0 {
		d = c.f.Beat
	}
	return time.Duration(float64(d) * (0.9 + 0.2*rand.Float64()))
}

// run dials by the beat, and whenever a call needs the address.
func (s *slot) run() {
	c := s.c
	next := time.Now()
	for {
		c.mu.Lock()
		for !s.removed && !c.closed && !s.demand && (time.Now().Before(next) || !s.listed && !s.served) {
			d := time.Until(next)
			if !s.listed && !s.served {
				d = time.Hour
			}
			c.mu.Unlock()
			t := time.NewTimer(d)
			select {
			case <-s.wake:
			case <-t.C:
			}
			t.Stop()
			c.mu.Lock()
		}
		if s.removed || c.closed {
			c.mu.Unlock()
			return
		}
		limit := 3 * time.Second
		if s.demand {
			limit = time.Second
		}
		slow := s.demand && c.f.SlowDemand
		s.demand, s.dialing = false, true
		c.mu.Unlock()
		if slow {
			time.Sleep(900 * time.Millisecond)
		}
		if began := time.Now(); !next.After(began) {
			next = began.Add(c.beat())
		}
		if n := s.try(limit); n != nil && n.everRead {
			next = time.Now().Add(c.beat())
		}
	}
}

// try dials and reads until the connection ends.
func (s *slot) try(limit time.Duration) *conn {
	c := s.c
	end := time.Now().Add(limit)
	nc, err := net.DialTimeout("tcp", s.addr, limit)
	c.mu.Lock()
	if err != nil || c.closed {
		s.over(err)
		c.mu.Unlock()
		return nil
	}
	n := &conn{s: s, nc: nc, out: make(chan string, 2000), stir: make(chan struct{}, 1), pend: map[string][]*request{}, lastRead: time.Now()}
	s.conn = n
	go n.write()
	hello := "H 1 plain"
	if c.secret != "" && (s.listed || c.f.SecretToAnybody) {
		hello += " " + c.secret
	}
	if c.f.NoHello {
		n.live = true
		s.serves()
	} else {
		h := n.send("H", "1", hello, nil)
		h.late = n.welcome
	}
	c.mu.Unlock()
	go n.watch(end)
	n.read()
	return n
}

func (s *slot) over(err error) {
	s.err, s.dialing = err, false
	s.tries++
	s.c.broadcast()
}

func (s *slot) serves() {
	s.dialing, s.spare, s.served, s.err, s.ceased = false, s.spare && s.c.f.SparesStaySpares, true, nil, time.Time{}
	s.tries++
	s.c.broadcast()
}

// welcome takes the answer to the hello.
func (n *conn) welcome(a answer) {
	switch {
	case a.fields == nil:
		return
	case a.field(0) == "H":
		list := strings.Split(a.field(3), ",")
		has := func(p string) bool {
			for _, f := range list {
				if f == p {
					return true
				}
			}
			return false
		}
		n.keep, n.resume = has("keep"), has("resume")
	case a.field(0) != "E" || a.field(3) != "unknown-op":
		n.fail(errors.New("hello refused"))
		return
	}
	if n.s.c.f.NonceAlways {
		n.resume = true
	}
	n.live = true
	n.s.serves()
	n.changes()
}

// send writes a line and enters its request.
func (n *conn) send(op, key, line string, ch chan answer) *request {
	now := time.Now()
	r := &request{op: op, key: key, sent: now, c: n, answer: ch}
	if len(n.order) == 0 {
		n.busySince = now
		n.changes()
	}
	n.pend[op+" "+key] = append(n.pend[op+" "+key], r)
	n.order = append(n.order, r)
	select {
	case n.out <- line + "\n":
	default:
	}
	return r
}

func (n *conn) write() {
	for line := range n.out {
		if _, err := n.nc.Write([]byte(line)); err != nil {
			return
		}
	}
}

// watch pings and gives dead connections up. It sleeps until something may be
// due: many clients run at once in the tests, and all of them mostly wait.
func (n *conn) watch(helloBy time.Time) {
	c := n.s.c
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-n.stir:
		}
		c.mu.Lock()
		if n.dead {
			c.mu.Unlock()
			return
		}
		d := time.Until(n.due(helloBy))
		if d <= 0 {
			n.overdue()
			d = time.Until(n.due(helloBy))
		}
		c.mu.Unlock()
		t.Reset(max(d, time.Millisecond))
	}
}

// due is when there is something to do about the connection.
func (n *conn) due(helloBy time.Time) time.Time {
	f := n.s.c.f
	switch {
	case !n.live:
		return helloBy
	case f.NoPing:
		return time.Now().Add(time.Hour)
	case !n.pinged.IsZero() && f.PingsPileUp:
		return n.pinged.Add(time.Second)
	case !n.pinged.IsZero() && f.NeverGivesUp:
		return time.Now().Add(time.Hour)
	case !n.pinged.IsZero():
		return later(n.lastRead, n.pinged).Add(2 * time.Second)
	case len(n.order) > 0:
		return later(n.lastRead, n.busySince).Add(time.Second)
	case f.NoIdlePing:
		return time.Now().Add(time.Hour)
	}
	return n.lastRead.Add(15 * time.Second)
}

func (n *conn) overdue() {
	c := n.s.c
	switch {
	case !n.live:
		n.fail(errors.New("no answer to the hello"))
	case !n.pinged.IsZero() && !c.f.PingsPileUp:
		n.fail(errors.New("silent"))
	default:
		c.count++
		n.pinged = time.Now()
		word := fmt.Sprintf("p%d", c.count)
		p := n.send("P", word, "P "+word, nil)
		p.late = func(a answer) {
			if a.field(0) == "E" && c.f.UnknownOpIsNoPong && a.fields != nil {
				n.fail(errors.New("ping refused"))
			}
			n.pinged = time.Time{}
			n.changes()
		}
	}
}

// changes wakes watch: what is due may be due sooner.
func (n *conn) changes() {
	select {
	case n.stir <- struct{}{}:
	default:
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (n *conn) read() {
	c := n.s.c
	var from io.Reader = n.nc
	if c.f.ReadIsALine {
		from = endsLines{from}
	}
	in := bufio.NewReaderSize(from, protocol.MaxLine)
	for {
		b, err := in.ReadSlice('\n')
		c.mu.Lock()
		now := time.Now()
		if len(b) > 0 {
			n.lastRead, n.everRead = now, true
		}
		if err != nil {
			n.fail(err)
		}
		if n.dead {
			c.mu.Unlock()
			return
		}
		line := string(b[:len(b)-1])
		if !c.f.NoCR {
			line = strings.TrimSuffix(line, "\r")
		}
		if line != "" {
			n.take(line, now)
		}
		dead := n.dead
		c.mu.Unlock()
		if dead {
			return
		}
	}
}

// endsLines ends a line with each read.
type endsLines struct{ io.Reader }

func (e endsLines) Read(p []byte) (int, error) {
	n, err := e.Reader.Read(p[:len(p)-1])
	if n > 0 && p[n-1] != '\n' {
		p[n] = '\n'
		n++
	}
	return n, err
}

// take gives an answer to the request it belongs to.
func (n *conn) take(line string, now time.Time) {
	c := n.s.c
	var a protocol.Answer
	bad := protocol.ParseAnswer([]byte(line), &a) != nil
	if c.f.NoExtraFields && !bad && a.Op == 'A' && strings.Count(line, " ") > 3 {
		bad = true
	}
	if bad || a.For == 0 || a.Key == nil {
		if !c.f.MisfitsIgnored {
			n.fail(errors.New("an answer that fits nothing"))
		}
		return
	}
	name := string(byte(a.For)) + " " + string(a.Key)
	if c.f.ByOrder && len(n.order) > 0 {
		name = n.order[0].op + " " + n.order[0].key
		for _, r := range n.order { // by order, of those of the same op
			if r.op == string(byte(a.For)) {
				name = r.op + " " + r.key
				break
			}
		}
	}
	queue := n.pend[name]
	grant := string(a.Key) + " " + strconv.FormatUint(a.Token, 10)
	if c.f.TwoFromTwo {
		grant += " " + n.s.addr
	}
	fits := len(queue) > 0
	if fits && (a.Op == 'R' || a.Op == 'K') && queue[0].token != strconv.FormatUint(a.Token, 10) {
		fits = c.f.TokensAsFloats
	}
	if a.Op == 'A' && c.held[grant] && !c.f.DuplicatesTaken {
		fits = false
	}
	if !fits {
		if !c.f.MisfitsIgnored {
			n.fail(errors.New("an answer that fits nothing"))
		}
		return
	}
	r := queue[0]
	if len(queue) == 1 {
		delete(n.pend, name)
	} else {
		n.pend[name] = queue[1:]
	}
	for i, o := range n.order {
		if o == r {
			n.order = append(n.order[:i:i], n.order[i+1:]...)
			break
		}
	}
	if a.Op == 'A' {
		c.held[grant] = true
	}
	if len(n.order) == crowd-1 {
		c.broadcast() // there is room again
	}
	n.answeredSent = later(n.answeredSent, r.sent)
	if c.f.AnyAnswerCounts {
		c.answeredSent = later(c.answeredSent, r.sent)
		n.answeredSent = c.answeredSent
	}
	r.give(answer{strings.Split(line, " "), now, r, n.answeredSent})
}

func (r *request) give(a answer) {
	if r.late != nil {
		r.late(a)
	} else if r.answer != nil {
		r.answer <- a
	}
}

// fail gives the connection up.
func (n *conn) fail(err error) {
	if n.dead {
		return
	}
	s, c := n.s, n.s.c
	wasLive := n.live
	n.dead, n.live = true, false
	if tcp, ok := n.nc.(*net.TCPConn); ok && !c.f.ClosesPolitely {
		tcp.SetLinger(0)
	}
	n.nc.Close()
	close(n.out)
	n.changes()
	s.conn, s.err = nil, err
	if !wasLive {
		s.dialing = false
		s.tries++
	}
	if !s.listed && s.ceased.IsZero() {
		s.ceases()
	}
	for _, r := range n.order {
		if r.call != nil && r.late == nil {
			c.moving = append(c.moving, r.call)
		}
		if c.f.ExtraDial && r.op == "A" {
			s.ask()
		}
		r.give(answer{at: time.Now(), from: r})
	}
	c.broadcast()
}

// ask asks for a dial now.
func (s *slot) ask() {
	if s.conn != nil || s.dialing || s.removed {
		return
	}
	s.demand, s.dialing = true, true
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// ceases starts the 30 s after which an unlisted address is dropped.
func (s *slot) ceases() {
	if s.listed || s.c.f.UnlistedForEver {
		return
	}
	at := time.Now()
	s.ceased = at
	time.AfterFunc(30*time.Second, func() {
		s.c.mu.Lock()
		defer s.c.mu.Unlock()
		if !s.ceased.Equal(at) {
			return
		}
		s.removed = true
		for i, o := range s.c.slots {
			if o == s {
				s.c.slots = append(s.c.slots[:i:i], s.c.slots[i+1:]...)
				s.c.cursor = 0
				break
			}
		}
		if s.conn != nil {
			s.conn.fail(errors.New("dropped"))
		}
		select {
		case s.wake <- struct{}{}:
		default:
		}
	})
}

// next is the next live connection in the rotation that passes; spares only if
// there is nothing else.
func (c *Client) next(cursor *int, pass func(*conn) bool) *conn {
	for _, spares := range []bool{false, true} {
		if spares && c.f.SparesNeverServe {
			break
		}
		for i := range c.slots {
			at := (*cursor + i) % len(c.slots)
			s := c.slots[at]
			if s.conn == nil || !s.conn.live || s.spare != spares && !c.f.SparesServe || !pass(s.conn) {
				continue
			}
			*cursor = (at + 1) % len(c.slots)
			return s.conn
		}
	}
	return nil
}

// close ends everything.
func (c *Client) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, s := range c.slots {
		select {
		case s.wake <- struct{}{}:
		default:
		}
		if s.conn != nil {
			s.conn.fail(errors.New("closed"))
		}
	}
	c.broadcast()
}

// failure is an error of the plain client, in the contract's words.
type failure struct {
	kind, code, outcome, text string
}

func (f *failure) Error() string { return f.kind + " " + f.code + " " + f.text }
