package lockspace

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/stile-lock/stile/protocol"
)

// TestRoleScripts runs the scripts of testdata/roles: what becomes of a table
// as its node serves, follows and is promoted. The directives beside those of
// TestScripts, whose names they share:
//
//	follow                               the table becomes a standby
//	promote [gap=1s]                     and serves
//	apply made k 7 [lease=30s] [nonce=n] [age=1h] a change of the node that serves
//	apply kept k 7 [lease=30s]
//	apply ended|undone k 7
//	apply queued k n arrival=3 [wait=5s] [lease=1s] [age=1h]
//	apply left|spent k n
//	apply known k n [age=2s]             the nonce was spent long ago
//	apply seen 7                         the highest token
//	adopt … [known-token]                the same as a row of an offer
//	hold A k [until=2s] …                an acquire that may not be answered
//	serve                                one of them; "all": until none is left
//	end-sessions moved|stopping|no-active
//	since k                              how long it has been held, and who is in
//	                                     line has waited
//	offer                                the rows of an offer
//	forget-ended
//	install                              the table of the lines below instead,
//	                                     each an "apply" without the word
//
// Changes that a call recorded come out after its effects, behind "->".
func TestRoleScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/roles", func(t *testing.T, path string) {
		s := newRoleScript()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return s.run(t, d) })
	})
}

type roleScript struct {
	space    *Space
	now      Time
	sessions map[string]Session
	names    map[Session]string
	live     []Session
	places   map[uint64]Effect // grants, by token
	lastTag  uint64
	token    uint64
	noTokens bool
}

func newRoleScript() *roleScript {
	s := &roleScript{sessions: map[string]Session{}, names: map[Session]string{}, places: map[uint64]Effect{}, token: 100}
	s.space = New(s.config())
	return s
}

func (s *roleScript) config() Config {
	return Config{
		DefaultLease: 30 * time.Second, MaxLease: time.Minute,
		ReattachGrace: time.Second, SpentFor: 10 * time.Second, MaxSpent: 65536,
		MaxWaitersPerKey: 100, Record: true,
		NextToken: func() (uint64, bool) { s.token++; return s.token, !s.noTokens },
	}
}

func (s *roleScript) run(t *testing.T, d *datadriven.TestData) string {
	a := arguments{t, d, slices.Clone(d.CmdArgs)}
	if d.Input != "" && d.Cmd != "install" {
		d.Fatalf(t, "%s takes no lines of input", d.Cmd)
	}
	var out strings.Builder
	switch d.Cmd {
	case "acquire":
		q := s.acquire(&a)
		a.end()
		s.space.Acquire(s.now, q)
	case "hold":
		until := s.now + Time(2*time.Second)
		if v, ok := a.take("until"); ok {
			until = s.now + Time(a.duration(v))
		}
		q := s.acquire(&a)
		a.end()
		s.space.Hold(s.now, q, until)
	case "serve":
		if s.space.Serve(s.now) {
			out.WriteString("there are more\n")
		}
		a.end()
	case "release":
		key, token := a.next(), a.number(a.next())
		a.end()
		if !s.space.Release(s.now, []byte(key), token) {
			out.WriteString("not held\n")
		}
	case "keep":
		key, token, lease := a.next(), a.number(a.next()), time.Duration(0)
		if v, ok := a.take("lease"); ok {
			lease = a.duration(v)
		}
		a.end()
		if _, ok := s.space.Keep(s.now, 0, []byte(key), token, lease); !ok {
			out.WriteString("not held\n")
		}
	case "cancel":
		key, nonce := a.next(), a.nonce(a.next())
		a.end()
		s.space.Cancel(s.now, []byte(key), nonce)
	case "drop":
		session := s.session(a.next())
		a.end()
		s.space.Drop(s.now, session)
		s.live = slices.DeleteFunc(s.live, func(x Session) bool { return x == session })
		delete(s.sessions, s.names[session])
	case "undo":
		session, token := s.session(a.next()), a.number(a.next())
		a.end()
		e, ok := s.places[token]
		if !ok {
			d.Fatalf(t, "nobody was told of %d", token)
		}
		s.space.Undo(s.now, session, e.Key, token, e.Place)
	case "refuse":
		session, key, code := s.session(a.next()), a.next(), a.code(a.next())
		a.end()
		s.lastTag++
		s.space.Refuse(s.now, session, s.lastTag, []byte(key), code)
	case "advance":
		by, most := a.duration(a.next()), math.MaxInt
		if v, ok := a.take("most"); ok {
			most = int(a.number(v))
		}
		a.end()
		s.now += Time(by)
		if s.space.Advance(s.now, most) {
			out.WriteString("more is due\n")
		}
	case "late":
		s.now += Time(a.duration(a.next()))
		a.end()
	case "next":
		a.end()
		return instant(s.space.Next()) + "\n"
	case "state":
		a.end()
		return stateOf(s.space, s.names, s.live)
	case "follow":
		a.end()
		s.space.Follow(s.now)
	case "promote":
		gap := time.Duration(0)
		if v, ok := a.take("gap"); ok {
			gap = a.duration(v)
		}
		a.end()
		s.space.Promote(s.now, gap)
	case "apply":
		c := s.change(&a)
		a.end()
		s.space.Apply(s.now, &c)
	case "adopt":
		_, known := a.take("known-token")
		c := s.change(&a)
		a.end()
		if s.space.Adopt(s.now, &c, known) {
			out.WriteString("conflict\n")
		}
	case "install":
		a.end()
		staged := New(s.config())
		staged.Follow(s.now)
		for _, line := range strings.Split(d.Input, "\n") {
			cmd, args, err := datadriven.ParseLine("apply " + line)
			if err != nil || cmd != "apply" {
				d.Fatalf(t, "%q: %v", line, err)
			}
			b := arguments{t, d, args}
			c := s.change(&b)
			b.end()
			staged.Apply(s.now, &c)
		}
		s.space.Install(staged, s.now)
	case "end-sessions":
		kind, code := Moved, protocol.Code(0)
		if v := a.next(); v != "moved" {
			kind, code = Refused, a.code(v)
		}
		a.end()
		s.space.EndSessions(s.now, kind, code)
	case "tokens":
		s.noTokens = a.next() == "none"
		a.end()
	case "forget-ended":
		a.end()
		s.space.ForgetEnded()
	case "since":
		h, first, ok := s.space.Look([]byte(a.next()), math.MaxInt)
		a.end()
		if !ok {
			return "not held\n"
		}
		fmt.Fprintln(&out, time.Duration(s.now-h.Since))
		for _, q := range first {
			fmt.Fprintf(&out, "  in line: %v\n", time.Duration(s.now-q.Since))
		}
		return out.String()
	case "offer":
		a.end()
		rows, more := s.space.Snapshot(true).Next(s.now, math.MaxInt, nil)
		if more {
			d.Fatalf(t, "more than everything")
		}
		for i := range rows {
			fmt.Fprintln(&out, showChange(&rows[i]))
		}
	default:
		d.Fatalf(t, "unknown directive %s", d.Cmd)
	}
	for _, e := range s.space.Effects() {
		if e.Kind == Granted {
			e.Key = slices.Clone(e.Key)
			s.places[e.Token] = e
		}
		fmt.Fprintln(&out, showEffect(&e, s.names[e.Session], fmt.Sprintf("#%d", e.Tag)))
	}
	changes := s.space.Changes()
	for i := range changes {
		fmt.Fprintln(&out, "->", showChange(&changes[i]))
	}
	s.space.check()
	return out.String()
}

func (s *roleScript) session(name string) Session {
	if id, ok := s.sessions[name]; ok {
		return id
	}
	id := Session(len(s.names) + 1)
	s.sessions[name], s.names[id] = id, name
	s.live = append(s.live, id)
	return id
}

func (s *roleScript) acquire(a *arguments) Acquire {
	s.lastTag++
	q := Acquire{Session: s.session(a.next()), Tag: s.lastTag, MayQueue: true}
	q.Key = []byte(a.next())
	if v, ok := a.take("wait"); ok {
		if q.Wait = protocol.NoQueue; v != "-1" {
			q.Wait = a.duration(v)
		}
	}
	if v, ok := a.take("lease"); ok {
		q.Lease = a.duration(v)
	}
	if v, ok := a.take("nonce"); ok {
		q.Nonce = a.nonce(v)
	}
	if _, ok := a.take("no-room"); ok {
		q.MayQueue = false
	}
	return q
}

var changeNames = map[string]ChangeKind{
	"made": GrantMade, "kept": GrantKept, "ended": GrantEnded, "undone": GrantUndone,
	"queued": WaiterQueued, "left": WaiterLeft, "spent": NonceSpent, "known": SpentKnown, "seen": TokenSeen,
}

func (s *roleScript) change(a *arguments) Change {
	name := a.next()
	kind, ok := changeNames[name]
	if !ok {
		a.d.Fatalf(a.t, "%q is no change", name)
	}
	c := Change{Kind: kind, Lease: 30 * time.Second, Wait: Forever}
	if kind != TokenSeen {
		c.Key = []byte(a.next())
	}
	switch kind {
	case GrantMade, GrantKept, GrantEnded, GrantUndone, TokenSeen:
		c.Token = a.number(a.next())
	default:
		c.Nonce = a.nonce(a.next())
	}
	if v, ok := a.take("lease"); ok {
		c.Lease = a.duration(v)
		c.Asked = c.Lease
	}
	if v, ok := a.take("wait"); ok {
		c.Wait = a.duration(v)
	}
	if v, ok := a.take("nonce"); ok {
		c.Nonce = a.nonce(v)
	}
	if v, ok := a.take("arrival"); ok {
		c.Arrival = a.number(v)
	}
	if v, ok := a.take("age"); ok {
		c.Age = a.duration(v)
	}
	if kind == SpentKnown {
		c = Change{Kind: kind, Pair: pairOf(fingerprintOf(c.Key, &c.Nonce)), Age: c.Age}
	}
	return c
}

func showChange(c *Change) string {
	var b strings.Builder
	for name, kind := range changeNames {
		if kind == c.Kind {
			b.WriteString(name)
		}
	}
	if c.Key != nil {
		fmt.Fprintf(&b, " %s", c.Key)
	}
	if c.Token != 0 {
		fmt.Fprintf(&b, " %d", c.Token)
	}
	switch c.Kind {
	case GrantMade, GrantKept:
		fmt.Fprintf(&b, " lease=%v", c.Lease)
		if c.Age != 0 {
			fmt.Fprintf(&b, " age=%v", c.Age)
		}
	case WaiterQueued:
		fmt.Fprintf(&b, " arrival=%d", c.Arrival)
		if c.Wait != Forever {
			fmt.Fprintf(&b, " wait=%v", c.Wait)
		}
		if c.Asked != 0 {
			fmt.Fprintf(&b, " lease=%v", c.Asked)
		}
		if c.Age != 0 {
			fmt.Fprintf(&b, " age=%v", c.Age)
		}
	case SpentKnown:
		fmt.Fprintf(&b, " age=%v", c.Age)
	}
	if !c.Nonce.none() {
		fmt.Fprintf(&b, " nonce=%s", c.Nonce.Bytes())
	}
	return b.String()
}
