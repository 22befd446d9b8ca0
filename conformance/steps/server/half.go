// Package server is the half of the conformance suite that judges one live
// server, perhaps in use: it takes only keys of its own, with leases of 5 s at
// most, and gives everything back.
package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/cucumber/godog"

	"github.com/stile-lock/stile/conformance/lines"
	"github.com/stile-lock/stile/conformance/report"
	"github.com/stile-lock/stile/conformance/suite"
	"github.com/stile-lock/stile/features"
	"github.com/stile-lock/stile/protocol"
)

// Options say how to reach the server, and what it can't say of itself.
type Options struct {
	Addr   string
	Secret string      // "" if it asks for none
	TLS    *tls.Config // nil: none
	// Limits are those of the server that are to be tried, by their names in
	// LimitNames.
	Limits map[string]int
}

// LimitNames are the limits that a server may have (SPEC.md 15) and that the
// suite can try if it is told of them.
var LimitNames = map[string]string{
	"connections":     "connections at once",
	"unanswered":      "unanswered requests on one connection",
	"waiters-per-key": "waiting requests for one key",
	"default-lease":   "seconds of lease for an acquire that asks for 0",
	"max-lease":       "seconds of the longest lease; allows the suite to take one, and to give it back at once",
}

// Half judges the server.
func Half(o Options) suite.Half {
	t := &target{o}
	return suite.Half{
		Name: "server", Title: "a live server", FS: features.Server(),
		Prepare: t.prepare, Register: t.register,
		// Most scenarios wait most of the time; more at once would only make
		// this machine late.
		Concurrency: 12,
		TimeLimit:   45 * time.Second,
	}
}

type target struct{ Options }

// clientName is the suite's in a hello, for the server's log.
const clientName = "stile-conformance"

func (t *target) dial(ctx context.Context) (net.Conn, error) { return t.dialTo(ctx, t.Addr) }

func (t *target) dialTo(ctx context.Context, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, suite.ServerAnswer)
	defer cancel()
	if t.TLS != nil {
		return (&tls.Dialer{Config: t.TLS}).DialContext(ctx, "tcp", addr)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
}

// hello is the hello that is said first on each connection, "" for none.
func (t *target) hello() string {
	if t.Secret == "" {
		return ""
	}
	return "H 1 " + clientName + " " + t.Secret
}

// prepare asks the server what it can do. One without hello has core, and is
// judged by that unless the user knows better.
func (t *target) prepare(ctx context.Context) (suite.Target, error) {
	found := suite.Target{
		Target: report.Target{Name: t.Addr},
		Judged: []string{"core"}, Missing: map[string]string{}, Absent: map[string]string{}, Has: map[string]bool{},
	}
	nc, err := t.dial(ctx)
	if err != nil {
		return found, fmt.Errorf("the server can't be reached: %w", err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(suite.ServerAnswer))
	hello := t.hello()
	if hello == "" {
		hello = "H 1 " + clientName
	}
	if _, err := fmt.Fprintf(nc, "%s\n", hello); err != nil {
		return found, fmt.Errorf("the server closed the connection before a hello: %w", err)
	}
	in := bufio.NewReader(lines.Bounded(nc, 4*protocol.MaxLine))
	line, err := in.ReadString('\n')
	if err != nil {
		return found, fmt.Errorf("the server does not answer %q, not even that it knows no such op: %w", "H 1 "+clientName, err)
	}
	line = strings.TrimSuffix(line, "\n")
	var a protocol.Answer
	if err := protocol.ParseAnswer([]byte(line), &a); err != nil || a.For != 'H' {
		return found, fmt.Errorf("the answer to %q is %q, which is none", "H 1 "+clientName, line)
	}
	found.Hello = line
	switch {
	case a.Op == 'H':
		for _, p := range strings.Split(string(a.Profiles), ",") {
			if p == "-" || p == "cluster" || !slices.Contains(suite.Profiles, p) {
				continue
			}
			found.Profiles = append(found.Profiles, p)
			found.Has[p] = true
			if p != "core" {
				found.Judged = append(found.Judged, p)
			}
		}
	case a.Code == protocol.CodeUnauthorized && t.Secret == "":
		return found, fmt.Errorf("the server asks for a secret: give --secret-file")
	case a.Code == protocol.CodeUnauthorized:
		return found, fmt.Errorf("the server does not accept the secret")
	case a.Code != protocol.CodeUnknownOp:
		return found, fmt.Errorf("the server refuses a hello: %s", line)
	}
	if addr, ok := moved(nc, in); ok {
		if found.Note, err = t.elsewhere(ctx, addr, nc.RemoteAddr()); err != nil {
			return found, err
		}
	}
	if t.Secret != "" {
		found.Has["secret"] = true
		found.Judged = append(found.Judged, "secret")
	} else {
		found.Missing["secret"] = "no --secret-file was given"
	}
	for name := range LimitNames {
		if t.Limits[name] == 0 {
			if len(t.Limits) > 0 {
				found.Absent[name] = "--limits does not name " + name
			} else {
				found.Missing[name] = "no --limits were given"
			}
		}
	}
	if len(t.Limits) > 0 {
		found.Judged = append(found.Judged, "limits")
	}
	return found, nil
}

func (t *target) register(sc *godog.ScenarioContext, w *suite.World) {
	s := &scenario{
		w: w, t: t, conns: map[string]*client{},
		asks: map[place]ask{}, grants: map[place]grant{}, freed: map[string]time.Duration{},
	}
	sc.Before(func(ctx context.Context, _ *godog.Scenario) (context.Context, error) {
		if w.Scenario != nil {
			w.Cleanup(s.giveBack) // the first one added, so the last one called
		}
		return ctx, nil
	})
	s.steps(sc)
}

// giveBack releases over a fresh connection whatever the transcript shows as
// granted and not released, and cancels every acquire that had a nonce. All
// other connections are closed by now, and read to their end.
func (s *scenario) giveBack(ctx context.Context) {
	var todo []string
	held := map[string]bool{}
	for _, e := range s.w.Transcript() {
		f := strings.Split(strings.TrimSuffix(e.Text, "\r"), " ")
		if len(f) < 3 || !strings.HasPrefix(f[1], s.w.Prefix) {
			continue
		}
		switch {
		case e.Kind == report.Received && f[0] == "A":
			held["R "+f[1]+" "+f[2]] = true
		case e.Kind == report.Received && f[0] == "R":
			delete(held, "R "+f[1]+" "+f[2])
		case e.Kind == report.Sent && f[0] == "A" && len(f) == 5 && protocol.ValidNonce([]byte(f[4])) && s.w.Target.Has["resume"]:
			todo = append(todo, "C "+f[1]+" "+f[4])
		}
	}
	for line := range held {
		todo = append(todo, line)
	}
	slices.Sort(todo)
	todo = slices.Compact(todo)
	if len(todo) == 0 {
		return
	}
	nc, err := s.t.dial(ctx)
	if err != nil {
		s.w.Note("", "nothing could be given back: %v", err)
		return
	}
	defer nc.Close()
	deadline, _ := ctx.Deadline()
	nc.SetDeadline(deadline)
	s.w.Note("", "give back: %s", strings.Join(todo, "; "))
	answers := len(todo)
	if hello := s.t.hello(); hello != "" {
		todo = slices.Insert(todo, 0, hello)
		answers++
	}
	if _, err := fmt.Fprintf(nc, "%s\n", strings.Join(todo, "\n")); err != nil {
		return
	}
	in := bufio.NewReader(lines.Bounded(nc, lines.MaxRead))
	for range answers {
		if _, err := in.ReadString('\n'); err != nil {
			return
		}
	}
}

// open opens a connection under a name. Where the server asks for a secret,
// it is given first, unless the scenario is about that.
func (s *scenario) open(name string, withSecret bool) (*client, error) {
	nc, err := s.t.dial(s.w.Context())
	if err != nil {
		if s.w.Context().Err() != nil {
			return nil, s.w.Stopped()
		}
		return nil, s.w.Fail("the server to accept connection "+name, err.Error())
	}
	return s.begin(name, nc, withSecret)
}

func (s *scenario) begin(name string, nc net.Conn, withSecret bool) (*client, error) {
	c := &client{Conn: lines.New(s.w, name, nc), s: s}
	s.conns[name] = c
	if hello := s.t.hello(); hello != "" && withSecret {
		if _, err := c.SendAs(hello, "H 1 "+clientName+" (the secret)"); err != nil {
			return nil, err
		}
		a, err := c.answer('H', "1", suite.ServerAnswer)
		if err != nil {
			return nil, err
		}
		if a.op != 'H' {
			return nil, s.w.Fail("the secret to be accepted on connection "+name, a.text)
		}
	}
	return c, nil
}

// openNarrow opens a connection for which this machine keeps little that was
// not read yet: how much it keeps otherwise, it decides as it likes.
func (s *scenario) openNarrow(name string) (*client, error) {
	nc, err := s.t.dial(s.w.Context())
	if err != nil {
		return nil, s.w.Fail("the server to accept connection "+name, err.Error())
	}
	plain := nc
	if t, ok := nc.(*tls.Conn); ok {
		plain = t.NetConn()
	}
	if tcp, ok := plain.(*net.TCPConn); ok {
		tcp.SetReadBuffer(1 << 14)
	}
	return s.begin(name, nc, true)
}

// on returns the connection, which opens at its first mention.
func (s *scenario) on(name string) (*client, error) {
	if c := s.conns[name]; c != nil {
		return c, nil
	}
	return s.open(name, true)
}
