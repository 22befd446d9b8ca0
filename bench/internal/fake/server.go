// Package fake is a small server of Stile's protocol that can be told to be
// wrong or slow, so that tests see whether the load generator notices.
package fake

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"
)

// Server grants, queues and releases. One request is served at a time.
type Server struct {
	// Spoil may replace the answer to a request; the number counts the requests
	// from 1. Nothing is answered for "".
	Spoil func(n int, request, answer string) string
	// Service is how long a request takes.
	Service time.Duration
	// Stall is called before each request is served.
	Stall func()
	// Steal has the server grant keys that are held.
	Steal bool

	all   sync.WaitGroup
	mu    sync.Mutex
	n     int
	token uint64
	keys  map[string]*key
}

type key struct {
	token   uint64 // 0: free
	nonce   string // of the holder
	waiting []*waiter
}

type waiter struct {
	request, answer string
	nonce           string
	line            *line
}

// line keeps the answers to the acquires of one key on one connection in the
// order of the requests.
type line struct {
	out     func(request, answer string)
	waiting []*waiter
}

func (w *waiter) say(answer string) {
	w.answer = answer
	l := w.line
	for len(l.waiting) > 0 && l.waiting[0].answer != "" {
		l.out(l.waiting[0].request, l.waiting[0].answer)
		l.waiting = l.waiting[1:]
	}
}

// Dial returns the other end of a connection to the server.
func (s *Server) Dial() net.Conn {
	ours, theirs := net.Pipe()
	s.all.Go(func() { s.serve(ours) })
	return theirs
}

// Held is how many keys are held.
func (s *Server) Held() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.keys {
		if k.token != 0 {
			n++
		}
	}
	return n
}

// Wait waits until the connections of Dial have come to their end.
func (s *Server) Wait() { s.all.Wait() }

// Serve serves the connections of a listener until it is closed.
func (s *Server) Serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go s.serve(c)
	}
}

func (s *Server) serve(c net.Conn) {
	defer c.Close()
	// The answers have a writer of their own: a pipe has no buffer, and the load
	// writes while it is not reading.
	lines, done := make(chan string, 1<<16), make(chan struct{})
	defer close(done)
	s.all.Go(func() {
		for {
			select {
			case l := <-lines:
				c.Write([]byte(l + "\n"))
			case <-done:
				return
			}
		}
	})
	out := func(request, answer string) {
		s.n++
		if s.Spoil != nil {
			answer = s.Spoil(s.n, request, answer)
		}
		if answer != "" {
			select {
			case lines <- answer:
			case <-done:
			}
		}
	}
	// What arrives is taken at once, as a kernel would.
	requests := make(chan string, 1<<16)
	s.all.Go(func() {
		defer close(requests)
		for in := bufio.NewScanner(c); in.Scan(); {
			requests <- in.Text()
		}
	})
	ordered := map[string]*line{}
	for request := range requests {
		if s.Stall != nil {
			s.Stall()
		}
		if s.Service > 0 {
			time.Sleep(s.Service)
		}
		s.mu.Lock()
		s.request(request, out, ordered)
		s.mu.Unlock()
	}
}

func (s *Server) request(request string, out func(request, answer string), ordered map[string]*line) {
	f := strings.Fields(request)
	if s.keys == nil {
		s.keys = map[string]*key{}
		s.token = 1000
	}
	switch f[0] {
	case "H":
		out(request, "H 1 fake:1 core,ping,hello,resume")
		return
	case "P":
		out(request, request)
		return
	}
	k := s.keys[f[1]]
	if k == nil {
		k = &key{}
		s.keys[f[1]] = k
	}
	switch f[0] {
	case "A":
		if ordered[f[1]] == nil {
			ordered[f[1]] = &line{out: out}
		}
		w := &waiter{request: request, line: ordered[f[1]]}
		w.line.waiting = append(w.line.waiting, w)
		if len(f) > 4 {
			w.nonce = f[4]
		}
		if k.token == 0 || s.Steal {
			s.grant(f[1], k, w)
		} else {
			k.waiting = append(k.waiting, w)
		}
	case "R":
		if fmt.Sprint(k.token) != f[2] {
			out(request, "E R "+f[1]+" not-held")
			return
		}
		out(request, request)
		s.end(f[1], k)
	case "C":
		if k.token != 0 && k.nonce == f[2] {
			s.end(f[1], k)
		}
		for i, w := range k.waiting {
			if w.nonce == f[2] {
				k.waiting = append(k.waiting[:i:i], k.waiting[i+1:]...)
				w.say("T " + f[1])
				break
			}
		}
		out(request, request)
	}
}

func (s *Server) end(name string, k *key) {
	k.token = 0
	if len(k.waiting) > 0 {
		next := k.waiting[0]
		k.waiting = k.waiting[1:]
		s.grant(name, k, next)
	}
}

func (s *Server) grant(name string, k *key, w *waiter) {
	s.token++
	k.token, k.nonce = s.token, w.nonce
	w.say(fmt.Sprintf("A %s %d 30", name, s.token))
}
