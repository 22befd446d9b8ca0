// Package server holds deliberately wrong servers: a small plain one that is
// right, and switches that break one rule each. The suite's own tests show that
// each is caught by exactly the scenarios that are listed for it.
package server

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/stile-lock/stile/protocol"
)

const (
	defaultLease = 5 * time.Second
	maxLease     = 60 * time.Second
	grace        = time.Second
)

// Server is a whole server for one node: all profiles but cluster, one lock
// over everything, a timer for each deadline. It is written to be read beside
// SPEC.md, not to be fast. Its bug is the one thing in which it is wrong.
type Server struct {
	bug string
	ln  net.Listener

	mu     sync.Mutex
	token  uint64
	keys   map[string]*key
	conns  map[*conn]bool
	closed bool
}

// key is one lock: at most one grant, and a line.
type key struct {
	name   string
	held   *grant
	line   []*waiter
	nonces map[string]*nonce
	token  uint64 // for the bug that counts for each key
}

type grant struct {
	token uint64
	end   time.Time
	timer *time.Timer
	nonce string
	began time.Time // for bugs
}

// waiter is an acquire in line. Detached from its connection it has no request.
type waiter struct {
	req   *request
	limit time.Time // zero: none
	lease time.Duration
	nonce string
	timer *time.Timer // of the limit
	grace *time.Timer // of a detached one
	asked time.Time
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
	greeted bool          // for a bug
	last    string        // for a bug: the key of its last release
}

// Start listens on a free port of loopback. The bug is "" for none.
func Start(bug string) (*Server, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Server{bug: bug, ln: ln, token: uint64(time.Now().UnixMilli()) << 20, keys: map[string]*key{}, conns: map[*conn]bool{}}
	go func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			most := protocol.MaxLine
			if bug == bugShortLines {
				most = 1000
			}
			c := &conn{s: s, nc: nc, in: bufio.NewReaderSize(nc, most), queue: map[string][]*request{}, out: make(chan []byte, 1<<14), written: make(chan struct{})}
			s.mu.Lock()
			s.conns[c] = true
			s.mu.Unlock()
			if s.bug == bugOneAtATime {
				c.in.Peek(1)
			}
			go c.write()
			go c.read()
		}
	}()
	return s, nil
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

func (c *conn) write() {
	defer close(c.written)
	for line := range c.out {
		c.nc.SetWriteDeadline(time.Now().Add(5 * time.Second))
		if _, err := c.nc.Write(line); err != nil {
			c.nc.Close() // the reader sees it
			for range c.out {
			}
			return
		}
	}
	if tcp, ok := c.nc.(*net.TCPConn); ok {
		tcp.CloseWrite()
	}
}

func (c *conn) read() {
	in := c.in
	for {
		if c.s.bug == bugSilenceFrees {
			c.nc.SetReadDeadline(time.Now().Add(2 * time.Second))
		}
		line, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			if c.s.bug == bugLongLines {
				for errors.Is(err, bufio.ErrBufferFull) {
					_, err = in.ReadSlice('\n')
				}
				continue
			}
			c.s.refuse(c, 0, nil, protocol.CodeBadRequest)
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
		if !c.s.serve(c, line) {
			break
		}
		if c.s.bug == bugStopsReading {
			c.waitForAnswers()
		}
	}
	c.s.drop(c)
	// Read on until the client has seen the last line (SPEC.md 11.4).
	c.nc.SetReadDeadline(time.Now().Add(time.Second))
	<-c.written
	io.Copy(io.Discard, c.nc)
	c.nc.Close()
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
	var r protocol.Request
	code := protocol.ParseRequest(line, &r)
	if s.bug == bugFoldsCase {
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
	}
	if code != 0 {
		return s.refuse(c, r.Op, r.Key, code)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	req := s.expect(c, r.Op, string(r.Key))
	k := s.keys[string(r.Key)]
	if k == nil && r.Op != protocol.Op('P') && r.Op != protocol.Op('H') {
		k = &key{name: string(r.Key), nonces: map[string]*nonce{}}
		s.keys[k.name] = k
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
		addr := s.ln.Addr().String()
		req.end([]byte("H 1 " + addr + " core,keep,ping,hello,resume\n"))
	}
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
		w := &waiter{req: &request{c: c, op: 'A', key: k.name}, lease: time.Second}
		c.queue[w.req.place()] = append(c.queue[w.req.place()], w.req)
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
func (s *Server) refuse(c *conn, op protocol.Op, key []byte, code protocol.Code) bool {
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
	req.end(protocol.AppendError(nil, op, key, code, text))
	return (op != 0 || s.bug == bugGoesOn) && s.bug != bugClosesOnError
}

// expect notes that a request is to be answered.
func (s *Server) expect(c *conn, op protocol.Op, key string) *request {
	r := &request{c: c, op: op, key: key}
	c.queue[r.place()] = append(c.queue[r.place()], r)
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
		c.queue[r.place()] = slices.DeleteFunc(c.queue[r.place()], func(q *request) bool { return q == r })
		if len(c.queue[r.place()]) == 0 {
			delete(c.queue, r.place())
		}
		return
	}
	q := c.queue[r.place()]
	for len(q) > 0 && q[0].answer != nil {
		c.say(q[0].answer())
		q = q[1:]
	}
	if len(q) > 0 {
		c.queue[r.place()] = q
	} else {
		delete(c.queue, r.place())
	}
}

// say sends a line. A client that does not read is cut off.
func (c *conn) say(line []byte) {
	if c.gone {
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
			if w.req != nil && w.req.c == c && s.bug != bugGhostAfterDrop {
				s.detach(k, w)
			}
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
	delete(s.conns, c)
}

func (k *key) spend(name string) {
	if name != "" {
		k.nonces[name] = &nonce{}
	}
}
