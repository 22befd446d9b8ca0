// Package server holds a small plain server, and switches that break one rule
// each: the suite's own tests show that each is caught by exactly the scenarios
// that are listed for it. Without such a switch the server is right, in any of
// the ways that SPEC.md leaves to it.
package server

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/stile-lock/stile/protocol"
)

// grace is that of SPEC.md 9.6.
const grace = time.Second

// Config is what SPEC.md leaves to a server, and the bug of a wrong one. The
// zero Config is right: all profiles but cluster, no secret, no limits.
type Config struct {
	Bug string

	Core             bool // no profile but core
	Secret           string
	Default, Longest time.Duration // leases; 5 s and 60 s if 0
	Connections      int           // each of these limits is none if 0
	Unanswered       int
	Waiters          int

	Remembers  time.Duration // a spent nonce; for ever if 0
	Late       time.Duration // how late its timers are
	Gaps       bool          // tokens leave gaps, and are too great for a signed column
	Pieces     bool          // a line is written in pieces
	GrantFirst bool          // the next in line is answered before the release
	Chatty     bool          // answers end with more than has to be there, profiles are in any order
}

// Server is a whole server for one node: one lock over everything, a timer for
// each deadline. It is written to be read beside SPEC.md, not to be fast. Of
// 6.6 it undoes only a grant whose line is held back: nobody outside can tell
// one whose line can't be written from one whose line was lost.
type Server struct {
	Config
	bug string
	ln  net.Listener

	mu      sync.Mutex
	token   uint64
	keys    map[string]*key
	conns   map[*conn]bool
	closed  bool
	greeted bool // for bugs
	trusted bool
	spent   []func()
}

// key is one lock: at most one grant, and a line.
type key struct {
	name   string
	held   *grant
	line   []*waiter
	nonces map[string]*nonce
	token  uint64 // for bugs
	grants int
	last   *conn
}

type grant struct {
	token uint64
	end   time.Time
	timer *time.Timer
	nonce string
	from  *waiter // what was granted, for an undo
	told  bool

	// For bugs.
	began time.Time
	keeps int
	short time.Time
	tick  time.Time // it ends then instead
	asked time.Duration
}

// waiter is an acquire in line. Detached from its connection it has no request.
type waiter struct {
	req    *request
	limit  time.Time // zero: none
	lease  time.Duration
	nonce  string
	timer  *time.Timer // of the limit
	queued bool        // for a bug: it was not granted at once
	grace  *time.Timer // of a detached one
	asked  time.Time
	old    *conn // for a bug: whose request it was before
}

// nonce is the state of one: queued if waiter, granted if grant, else spent.
type nonce struct {
	waiter *waiter
	grant  *grant
}

// request is one that is not answered yet.
type request struct {
	c      *conn
	op     protocol.Op
	key    string
	answer func() []byte // nil until it has ended; called when its turn comes
}

type conn struct {
	s       *Server
	nc      net.Conn
	in      *bufio.Reader
	queue   map[string][]*request // by op and key, the oldest first
	gone    bool                  // dropped, by either side
	out     chan []byte
	written chan struct{} // closed when all that is due was written
	granted []*grant      // for bugs: what it was told of

	unanswered int
	trusted    bool // it has given the secret
	wrong      int  // how many wrong ones

	// For bugs.
	greeted, tried bool
	late           bool   // what it reads next comes before the hello
	last           string // the key of its last release
	answers        int
	reads          atomic.Int32
	later          []byte // a line that takes effect behind the next one
}

// Start listens on a free port of loopback.
func Start(c Config) (*Server, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	if c.Default == 0 {
		c.Default = 5 * time.Second
	}
	if c.Longest == 0 {
		c.Longest = 60 * time.Second
	}
	switch c.Bug {
	case bugOtherDefault:
		c.Default /= 2
	case bugLowMaximum:
		c.Longest = 50 * time.Second
	case bugUnboundedLine:
		c.Waiters = 0
	case bugUnboundedConnection:
		c.Unanswered = 0
	}
	s := &Server{Config: c, bug: c.Bug, ln: ln, token: uint64(time.Now().UnixMilli()) << 20, keys: map[string]*key{}, conns: map[*conn]bool{}}
	if s.Gaps {
		s.token |= 1 << 63
	}
	go func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			s.accept(nc)
		}
	}()
	return s, nil
}

func (s *Server) accept(nc net.Conn) {
	most := protocol.MaxLine
	switch s.bug {
	case bugShortLines:
		most = 1000
	case bugFreeCR:
		most++
	case bugBlocksOnWrites:
		nc.(*net.TCPConn).SetWriteBuffer(1 << 14)
	}
	c := &conn{s: s, nc: nc, queue: map[string][]*request{}, out: make(chan []byte, 1<<14), written: make(chan struct{})}
	c.in = bufio.NewReaderSize(counted{c}, most)
	s.mu.Lock()
	full := s.Connections > 0 && len(s.conns) >= s.Connections
	if !full {
		s.conns[c] = true
	}
	s.mu.Unlock()
	if full {
		go c.turnAway()
		return
	}
	switch s.bug {
	case bugOneAtATime:
		c.in.Peek(1)
	case bugGreets:
		s.after(300*time.Millisecond, func() {
			if c.reads.Load() == 1 { // the one that waits
				c.say(protocol.AppendPing(nil, []byte("welcome")))
			}
		})
	}
	go c.write(c.out)
	go c.read()
}

// turnAway is SPEC.md 11.5.
func (c *conn) turnAway() {
	if c.s.bug != bugTurnsAwaySilently {
		c.nc.Write(protocol.AppendError(nil, 0, nil, protocol.CodeLimit, ""))
	}
	c.nc.(*net.TCPConn).CloseWrite()
	c.nc.SetReadDeadline(time.Now().Add(time.Second))
	io.Copy(io.Discard, c.nc)
	c.nc.Close()
}

// counted counts the reads of a connection, for bugs.
type counted struct{ c *conn }

func (r counted) Read(b []byte) (int, error) {
	r.c.reads.Add(1)
	return r.c.nc.Read(b)
}

func (s *Server) Addr() string { return s.ln.Addr().String() }

func (s *Server) Close() {
	s.ln.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for c := range s.conns {
		c.nc.Close()
	}
}

// after does something later, under the lock.
func (s *Server) after(d time.Duration, do func()) *time.Timer {
	return time.AfterFunc(d, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		do()
	})
}

func (c *conn) write(out <-chan []byte) {
	defer close(c.written)
	for line := range out {
		c.nc.SetWriteDeadline(time.Now().Add(5 * time.Second))
		for len(line) > 0 {
			n := len(line)
			if c.s.Pieces {
				n = 1 + rand.IntN(n)
			}
			if _, err := c.nc.Write(line[:n]); err != nil {
				c.nc.Close() // the reader sees it
				for range out {
				}
				return
			}
			line = line[n:]
		}
	}
	tcp := c.nc.(*net.TCPConn)
	if c.s.bug == bugRudeClose {
		tcp.SetLinger(0)
		tcp.Close()
		return
	}
	tcp.CloseWrite()
}

func (c *conn) read() {
	in := c.in
	for {
		if c.s.bug == bugSilenceFrees {
			c.nc.SetReadDeadline(time.Now().Add(2 * time.Second))
		}
		before := c.reads.Load()
		if c.s.bug == bugHalfALine {
			in.Peek(1)
			c.s.mu.Lock()
			c.nc.SetReadDeadline(time.Now().Add(2 * time.Second))
		}
		line, err := in.ReadSlice('\n')
		if c.s.bug == bugHalfALine {
			c.nc.SetReadDeadline(time.Time{})
			c.s.mu.Unlock()
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			if c.s.bug == bugLongLines {
				for errors.Is(err, bufio.ErrBufferFull) {
					_, err = in.ReadSlice('\n')
				}
				continue
			}
			c.s.refuse(c, 0, nil, protocol.CodeBadRequest, nil)
			break
		}
		if err != nil && (c.s.bug != bugUnfinishedLine || len(line) == 0) {
			break
		}
		line = bytes.TrimSuffix(line, []byte("\n"))
		if c.s.bug != bugKeepsCR {
			line = bytes.TrimSuffix(line, []byte("\r"))
		}
		if len(line) == 0 && c.s.bug != bugEmptyLine {
			continue
		}
		if c.s.bug == bugDropsPieces && c.reads.Load() > before+4 {
			continue
		}
		if c.postpones(line) {
			continue
		}
		later := c.later
		c.later = nil
		if !c.s.serve(c, line) || later != nil && !c.s.serve(c, later) {
			break
		}
		switch c.s.bug {
		case bugStopsReading:
			c.waitForAnswers()
		case bugThreeAtOnce:
			// Two come at once by chance, too.
			if rest, _ := in.Peek(in.Buffered()); bytes.Count(rest, []byte("\n")) >= 2 {
				in.Discard(len(rest))
			}
		}
	}
	c.s.drop(c)
	// Read on until the client has seen the last line (SPEC.md 11.4).
	c.nc.SetReadDeadline(time.Now().Add(time.Second))
	<-c.written
	io.Copy(io.Discard, c.nc)
	c.nc.Close()
}

// postpones is a bug's: a line takes effect after the next one.
func (c *conn) postpones(line []byte) bool {
	op := byte(0)
	switch c.s.bug {
	case bugKeepsLast:
		op = 'K'
	case bugCancelsFirst:
		op = 'A'
	}
	next, _ := c.in.Peek(min(c.in.Buffered(), 1))
	if op == 0 || line[0] != op || len(next) == 0 || op == 'A' && next[0] != 'C' || c.later != nil {
		return false
	}
	c.later = bytes.Clone(line)
	return true
}

// waitForAnswers is a bug's: it reads the next line only when all before it
// are answered.
func (c *conn) waitForAnswers() {
	for {
		c.s.mu.Lock()
		idle := len(c.queue) == 0
		stop := c.s.closed
		c.s.mu.Unlock()
		if idle || stop {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// serve does one line. It reports false when the connection is to be closed.
func (s *Server) serve(c *conn, line []byte) bool {
	if s.bug == bugExtraFields {
		// It takes as many fields as it knows, and ignores the rest.
		if f := bytes.Split(line, []byte(" ")); len(f) > 3 && string(f[0]) == "R" {
			line = bytes.Join(f[:3], []byte(" "))
		}
	}
	if s.bug == bugWraps {
		line = wrap(line)
	}
	if s.bug == bugTrimsReleases && line[0] == 'R' {
		line = bytes.TrimRight(line, " ")
	}
	var r protocol.Request
	code := protocol.ParseRequest(line, &r)
	if s.bug == bugFoldsCase && code == 0 && utf8.Valid(r.Key) {
		r.Key = bytes.ToLower(r.Key)
	}
	if s.bug == bugSpaces && code != 0 {
		code = protocol.ParseRequest(bytes.Join(bytes.Fields(line), []byte(" ")), &r)
	}
	switch s.bug {
	case bugNormalises:
		r.Key = bytes.ReplaceAll(r.Key, []byte("e\u0301"), []byte("\u00e9"))
	case bugShortKeys:
		if code == 0 && len(r.Key) > 254 {
			code = protocol.CodeBadKey
		}
	case bugShortNonces:
		if code == 0 && len(r.Nonce) > 31 {
			code = protocol.CodeBadRequest
		}
	case bugShortNames:
		if code == 0 && r.Op == 'H' && len(line) > 64 {
			code = protocol.CodeBadRequest
		}
	case bugHelloOnce:
		if code == 0 && r.Op == 'H' {
			if c.greeted {
				code = protocol.CodeBadRequest
			}
			c.greeted = true
		}
	case bugNoDefault:
		if code == 0 && r.Op == 'A' && r.Lease == 0 {
			code = protocol.CodeBadRequest
		}
	case bugRefusedWaits:
		if code != 0 && r.Op == 'A' {
			s.standsInLine(c, line)
		}
	case bugReplacesBytes:
		if code == 0 {
			r.Key = bytes.ToValidUTF8(r.Key, []byte("?"))
		}
	case bugWaitsIn32Bits:
		if r.Wait > 0 {
			r.Wait %= time.Millisecond << 32
		}
	case bugLeasesIn32Bits:
		r.Lease %= time.Millisecond << 32
	case bugLongWaitsEnd:
		if r.Wait > time.Hour {
			r.Wait = time.Millisecond
		}
	case bugWaitsInHundredths:
		if r.Wait > 0 {
			r.Wait = r.Wait.Truncate(10 * time.Millisecond)
		}
	case bugZeroIsFourSeconds:
		if r.Op == 'A' && r.Wait == 0 {
			r.Wait = 4 * time.Second
		}
	case bugNoncePrefix:
		r.Nonce = r.Nonce[:min(len(r.Nonce), 16)]
	case bugNonceCase:
		r.Nonce = bytes.ToLower(r.Nonce)
	case bugOnlyUTF8:
		if r.Op != 0 && !utf8.Valid(r.Key) {
			code, r.Key = protocol.CodeBadKey, nil
		}
	case bugVersionLast:
		if n := bytes.Count(line, []byte(" ")); code == protocol.CodeVersion && (n < 2 || n > 3) {
			code = protocol.CodeBadRequest
		}
	case bugZeroWaitEnds:
		if f := strings.Split(string(line), " "); code == 0 && f[0] == "A" && f[2] == "0.000" {
			r.Wait = time.Millisecond
		}
	case bugZeroLease:
		if f := strings.Split(string(line), " "); code == 0 && f[0] == "A" && f[3] == "0.000" {
			r.Lease = time.Second
		}
	case bugShortNumbers:
		if code == 0 && r.Op == 'A' && r.Wait > 1e8*time.Second {
			code = protocol.CodeBadRequest
		}
	case bugPaddedKeep:
		if f := strings.Split(string(line), " "); code != 0 && f[0] == "K" && len(f) == 4 {
			f[2], f[3] = strings.TrimLeft(f[2], "0"), strings.TrimLeft(f[3], "0")
			code = protocol.ParseRequest([]byte(strings.Join(f, " ")), &r)
		}
	case bugPingsAnything:
		if r.Op == 'P' && string(line) == "P ?" {
			code, r.Key = 0, []byte("?")
		}
	case bugBadVersionAsRequest:
		if r.Op == 'H' && code == protocol.CodeBadKey {
			code = protocol.CodeBadRequest
		}
	case bugRefusesSecret:
		if code == 0 && r.Op == 'H' && len(r.Secret) > 0 {
			code = protocol.CodeUnauthorized
		}
	case bugTakesNonces:
		r.Nonce = nil
	case bugSlowDoNotQueue:
		if r.Op == 'A' && r.Wait == protocol.NoQueue && !c.tried {
			c.tried = true
			time.Sleep(400 * time.Millisecond)
		}
	}
	if s.Core && code != protocol.CodeBadKey && r.Op != 0 {
		switch {
		case r.Op == 'H' || strings.ContainsRune("KCP", rune(r.Op)) && s.bug != bugUnknownAsRequest:
			code = protocol.CodeUnknownOp
		case len(r.Nonce) > 0 || strings.ContainsRune("KCP", rune(r.Op)):
			code = protocol.CodeBadRequest
		}
	}
	if s.bug == bugSecretFirst && code == protocol.CodeBadRequest && r.Op != 0 && s.refuses(c, r.Op) {
		code = protocol.CodeUnauthorized
	}
	if code == 0 && s.refuses(c, r.Op) {
		code = protocol.CodeUnauthorized
		if s.bug == bugUnauthorizedSpends && r.Op == 'A' {
			s.mu.Lock()
			s.spend(s.key(string(r.Key)), string(r.Nonce))
			s.mu.Unlock()
		}
	}
	if code != 0 {
		return s.refuse(c, r.Op, r.Key, code, line)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Op == 'A' && s.Unanswered > 0 && c.unanswered >= s.Unanswered {
		c.say(protocol.AppendError(nil, 0, nil, protocol.CodeLimit, ""))
		return false
	}
	req := s.expect(c, r.Op, string(r.Key))
	var k *key
	if r.Op != 'P' && r.Op != 'H' {
		k = s.key(string(r.Key))
		s.due(k)
	}
	switch r.Op {
	case 'A':
		s.acquire(k, req, r.Wait, r.Lease, string(r.Nonce))
	case 'R':
		s.release(k, req, r.Token)
	case 'K':
		s.keep(k, req, r.Token, r.Lease)
	case 'C':
		s.cancel(k, req, string(r.Nonce))
	case 'P':
		req.end(protocol.AppendPing(nil, r.Key))
	case 'H':
		return s.hello(c, req, r.Secret)
	}
	return true
}

func (s *Server) key(name string) *key {
	k := s.keys[name]
	if k == nil {
		k = &key{name: name, nonces: map[string]*nonce{}}
		s.keys[name] = k
	}
	return k
}

// refuses is SPEC.md 10.4: whether the op is not served for want of a secret.
func (s *Server) refuses(c *conn, op protocol.Op) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.late {
		c.late = false
		return true
	}
	if s.Secret == "" || c.trusted || s.bug == bugSecretForAll && s.trusted {
		return false
	}
	switch op {
	case 'P':
		return s.bug == bugPingNeedsSecret
	case 'H':
		return false
	case 'A':
		return s.bug != bugAcquiresWithoutSecret
	case 'R':
		return s.bug != bugReleasesWithoutSecret
	case 'K':
		return s.bug != bugKeepsWithoutSecret
	case 'C':
		return s.bug != bugCancelsWithoutSecret
	}
	return true
}

// hello is SPEC.md 4.6 and 10.4.
func (s *Server) hello(c *conn, req *request, secret []byte) bool {
	right := s.Secret == "" || string(secret) == s.Secret
	if s.bug == bugComparesAPrefix && len(secret) > 3 {
		right = strings.HasPrefix(s.Secret, string(secret[:3]))
	}
	if !right {
		if len(secret) > 0 || s.bug == bugNoneIsWrong {
			c.wrong++
		}
		if s.bug == bugBadHelloLocks {
			c.trusted = false
		}
		most := 3
		switch s.bug {
		case bugGuessesForEver:
			most = 100
		case bugClosesOnSecond:
			most = 2
		}
		req.end(protocol.AppendError(nil, 'H', []byte("1"), protocol.CodeUnauthorized, ""))
		return c.wrong < most
	}
	// The bug looks at all that has arrived before it does any of it.
	c.late = s.bug == bugHelloLater && c.in.Buffered() > 0
	c.trusted, s.trusted = true, true
	profiles := []string{"core", "keep", "ping", "hello", "resume"}
	addr := s.ln.Addr().String()
	switch {
	case s.Chatty:
		profiles = append(profiles, "x-later")
		rand.Shuffle(len(profiles), func(i, j int) { profiles[i], profiles[j] = profiles[j], profiles[i] })
	case (s.bug == bugForgetsProfiles || s.bug == bugForgetsTrustedProfiles) && s.greeted:
		profiles = profiles[:1]
	case s.bug == bugPortZero && s.greeted:
		addr = "127.0.0.1:0"
	}
	s.greeted = true
	req.end(protocol.AppendWelcome(nil, []byte(addr), []byte(strings.Join(profiles, ","))))
	return true
}

// standsInLine is a bug's: the key of a line that is refused is waited for.
func (s *Server) standsInLine(c *conn, line []byte) {
	f := bytes.Split(line, []byte(" "))
	if len(f) < 2 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.keys[string(f[1])]; k != nil && k.held != nil {
		w := &waiter{req: s.expect(c, 'A', k.name), lease: time.Second}
		k.line = append(k.line, w)
	}
}

// wrap is a bug's: it takes a number modulo 2^64, as a careless parser does.
func wrap(line []byte) []byte {
	f := bytes.Split(line, []byte(" "))
	for i := 2; i < len(f); i++ {
		digits := len(f[i]) > 9
		var n uint64
		for _, b := range f[i] {
			digits = digits && b >= '0' && b <= '9'
			n = n*10 + uint64(b-'0')
		}
		if digits && f[0][0] == 'A' {
			f[i] = []byte{'0' + byte(n%10)}
		}
	}
	return bytes.Join(f, []byte(" "))
}

// refuse answers a bad line.
func (s *Server) refuse(c *conn, op protocol.Op, key []byte, code protocol.Code, line []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := ""
	if code == protocol.CodeVersion {
		text = "1"
	}
	switch {
	case s.bug == bugBadKeyAsRequest && code == protocol.CodeBadKey:
		code = protocol.CodeBadRequest
	case s.bug == bugRefusalOvertakes && op == 'A' && key != nil:
		c.say(protocol.AppendError(nil, op, key, code, text))
		return true
	}
	req := s.expect(c, op, string(key))
	answer := protocol.AppendError(nil, op, key, code, text)
	if s.bug == bugEchoesInText {
		answer = append(append(append(bytes.TrimSuffix(answer, []byte("\n")), ' '), line...), '\n')
	}
	req.end(answer)
	switch s.bug {
	case bugGoesOn:
		return true
	case bugClosesOnBadKey:
		return op != 0 && code != protocol.CodeBadKey
	case bugClosesOnBadRequest:
		return op != 0 && code != protocol.CodeBadRequest
	case bugClosesOnUnknownOp:
		return op != 0 && code != protocol.CodeUnknownOp
	}
	return op != 0
}

// expect notes that a request is to be answered.
func (s *Server) expect(c *conn, op protocol.Op, key string) *request {
	r := &request{c: c, op: op, key: key}
	c.queue[r.place()] = append(c.queue[r.place()], r)
	c.unanswered++
	return r
}

func (r *request) place() string { return string([]byte{byte(r.op)}) + r.key }

// end gives the request an answer whose bytes are known.
func (r *request) end(line []byte) { r.endWith(func() []byte { return line }) }

// endWith gives the request its answer, and sends all that have their turn.
func (r *request) endWith(answer func() []byte) {
	r.answer = answer
	c := r.c
	if c.s.bug == bugAnyOrder {
		c.say(answer())
		c.unanswered--
		c.queue[r.place()] = slices.DeleteFunc(c.queue[r.place()], func(q *request) bool { return q == r })
		if len(c.queue[r.place()]) == 0 {
			delete(c.queue, r.place())
		}
		return
	}
	q := c.queue[r.place()]
	for len(q) > 0 && q[0].answer != nil {
		line := q[0].answer()
		c.say(line)
		if c.s.bug != bugCountsTimeouts || len(line) == 0 || line[0] != 'T' {
			c.unanswered--
		}
		q = q[1:]
	}
	if len(q) > 0 {
		c.queue[r.place()] = q
	} else {
		delete(c.queue, r.place())
	}
}

// overtake is a bug's: the answer does not take its turn.
func (r *request) overtake(line []byte) {
	c := r.c
	c.say(line)
	c.unanswered--
	if c.queue[r.place()] = slices.DeleteFunc(c.queue[r.place()], func(q *request) bool { return q == r }); len(c.queue[r.place()]) == 0 {
		delete(c.queue, r.place())
	}
}

// say sends a line. A client that does not read is cut off.
func (c *conn) say(line []byte) {
	if c.gone || len(line) == 0 {
		return
	}
	if more := " and so on\n"; c.s.Chatty && len(line)+len(more) <= protocol.MaxLine {
		line = append(bytes.TrimSuffix(line, []byte("\n")), more...)
	}
	switch c.answers++; {
	case c.s.bug == bugLosesAnswers && c.answers%1000 == 0:
		return
	case c.s.bug == bugBlocksOnWrites:
		c.nc.SetWriteDeadline(time.Now().Add(2 * time.Second))
		if _, err := c.nc.Write(line); err != nil {
			c.nc.Close()
		}
		return
	}
	select {
	case c.out <- line:
	default:
		c.nc.Close()
	}
}

// drop is SPEC.md 6.5.
func (s *Server) drop(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.keys {
		for _, w := range slices.Clone(k.line) {
			if w.req != nil && w.req.c == c && s.bug != bugGhostAfterDrop || w.old == c {
				s.detach(k, w)
			}
		}
	}
	for _, k := range s.keys {
		if g := k.held; g != nil && !g.told && g.from != nil && g.from.req.c == c && s.bug != bugNoUndo {
			s.undo(k, g)
		}
	}
	if s.bug == bugDropReleases {
		for _, k := range s.keys {
			if k.held != nil && c.holds(k) {
				s.over(k)
			}
		}
	}
	c.gone = true
	close(c.out)
	c.out = nil // its requests stay known by their nonces, and must not keep its buffer
	delete(s.conns, c)
}

func (s *Server) spend(k *key, name string) {
	if name == "" {
		return
	}
	n := &nonce{}
	k.nonces[name] = n
	if s.bug == bugRemembersFew {
		if s.spent = append(s.spent, func() {
			if k.nonces[name] == n {
				delete(k.nonces, name)
			}
		}); len(s.spent) > 1000 {
			s.spent[0]()
			s.spent = s.spent[1:]
		}
	}
	if s.Remembers > 0 {
		s.after(s.Remembers, func() {
			if k.nonces[name] == n {
				delete(k.nonces, name)
			}
		})
	}
}
