package lockspace

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/stile-lock/stile/protocol"
)

// TestScripts runs the scripts of testdata/scripts, one topic each, on a
// Space and on the model together. After a change on purpose:
//
//	go test -run TestScripts -rewrite
//
// and the diff of the scripts is what there is to review. The directives, in
// which A and B are sessions, k is a key and 7 a token:
//
//	config max-waiters=2 …          a table with other limits; must come first
//	acquire A k [wait=5s] [lease=1s] [nonce=n] [no-room]
//	refuse A k bad-request          a malformed acquire, answered in its turn
//	release k 7
//	break k 7                       as an operator does
//	keep k 7 lease=10s
//	cancel k n
//	drop A                          the connection is gone
//	undo A k 7                      and had not read this grant
//	advance 3s [most=1]             time goes by, and Advance is called
//	late 3s                         time goes by, and Advance is not called;
//	                                with -3s the clock seems to go back
//	end-waiters stopping
//	tokens none|some
//	next                            when Advance is due
//	state                           everything the table knows
//
// Times are counted from the start of the script. The answers, numbered as
// the acquires were, come out as they go to the sessions.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		var s *script
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "config" {
				if s != nil {
					d.Fatalf(t, "config must come first")
				}
				s = newScript(t, d)
				return ""
			}
			if s == nil {
				s = newScript(t, nil)
			}
			return s.run(t, d)
		})
	})
}

type script struct {
	*rig
	sessions map[string]Session
	names    map[Session]string
	grants   map[uint64]granted // by token
	out      strings.Builder
}

func newScript(t *testing.T, d *datadriven.TestData) *script {
	cfg := Config{
		DefaultLease: 30 * time.Second, MaxLease: time.Minute,
		ReattachGrace: time.Second, SpentFor: 10 * time.Second, MaxSpent: 65536,
		MaxWaitersPerKey: 100,
	}
	mask, start := uint64(math.MaxUint64), time.Duration(0)
	if d != nil {
		a := arguments{t, d, d.CmdArgs}
		for name, p := range map[string]*time.Duration{
			"default-lease": &cfg.DefaultLease, "max-lease": &cfg.MaxLease,
			"grace": &cfg.ReattachGrace, "spent-for": &cfg.SpentFor,
		} {
			if v, ok := a.take(name); ok {
				*p = a.duration(v)
			}
		}
		for name, p := range map[string]*int{"max-spent": &cfg.MaxSpent, "max-waiters": &cfg.MaxWaitersPerKey} {
			if v, ok := a.take(name); ok {
				*p = int(a.number(v))
			}
		}
		if v, ok := a.take("hash-mask"); ok {
			mask = a.number(v)
		}
		if v, ok := a.take("start-before-0"); ok {
			start = -a.duration(v)
		}
		a.end()
	}
	s := &script{
		rig:      newRig(t, cfg, mask),
		sessions: map[string]Session{},
		names:    map[Session]string{},
		grants:   map[uint64]granted{},
	}
	s.now = Time(start)
	s.seen = func(e *Effect) {
		fmt.Fprintln(&s.out, showEffect(e, s.names[e.Session], fmt.Sprintf("#%d", e.Tag)))
	}
	return s
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	s.t, s.observer.t = t, t
	s.out.Reset()
	a := arguments{t, d, slices.Clone(d.CmdArgs)}
	if d.Input != "" {
		d.Fatalf(t, "%s takes no lines of input", d.Cmd)
	}
	result := ""
	switch d.Cmd {
	case "acquire":
		q := Acquire{Session: s.session(a.next()), MayQueue: true}
		key := a.next()
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
		a.end()
		s.acquire(q, key)
	case "refuse":
		session, key := s.session(a.next()), a.next()
		code := a.code(a.next())
		a.end()
		s.refuse(session, key, code)
	case "release":
		key, token := a.next(), a.number(a.next())
		a.end()
		result = "not held\n"
		if s.release(key, token) {
			result = "released\n"
		}
	case "break":
		key, token := a.next(), a.number(a.next())
		a.end()
		switch holder, next := s.breakKey(key, token); {
		case holder == 0:
			result = "not held\n"
		case holder != token:
			result = fmt.Sprintf("held under token %d\n", holder)
		case next == 0:
			result = "broken\n"
		default:
			result = fmt.Sprintf("broken, token %d has the key\n", next)
		}
	case "keep":
		key, token := a.next(), a.number(a.next())
		lease := time.Duration(0)
		if v, ok := a.take("lease"); ok {
			lease = a.duration(v)
		}
		by := s.grants[token].session // who was told of it
		if v, ok := a.take("by"); ok {
			by = s.session(v)
		}
		a.end()
		result = "not held\n"
		if lease, ok := s.keep(by, key, token, lease); ok {
			result = fmt.Sprintf("kept, lease %v\n", lease)
		}
	case "cancel":
		key, nonce := a.next(), a.nonce(a.next())
		a.end()
		s.cancel(key, nonce)
	case "drop":
		session := s.session(a.next())
		a.end()
		s.drop(session, 0)
		delete(s.sessions, s.names[session]) // the name may be used again
	case "undo":
		name, key, token := a.next(), a.next(), a.number(a.next())
		a.end()
		u, ok := s.grants[token]
		if !ok || u.key != key || s.names[u.session] != name {
			d.Fatalf(t, "%s was not told of %d for %s", name, token, key)
		}
		s.undo(u)
	case "advance":
		by, most := a.duration(a.next()), math.MaxInt
		if v, ok := a.take("most"); ok {
			most = int(a.number(v))
		}
		a.end()
		s.now += Time(by)
		if s.advance(most) {
			result = "more is due\n"
		}
	case "late":
		v, back := strings.CutPrefix(a.next(), "-")
		by := a.duration(v)
		if back {
			by = -by
		}
		a.end()
		s.now += Time(by)
	case "end-waiters":
		code := a.code(a.next())
		a.end()
		s.endWaiters(code)
	case "tokens":
		v := a.next()
		if v != "none" && v != "some" {
			d.Fatalf(t, "tokens %s: none or some", v)
		}
		a.end()
		s.noTokens = v == "none"
	case "next":
		a.end()
		result = instant(s.space.Next()) + "\n"
	case "state":
		a.end()
		result = s.state()
	default:
		d.Fatalf(t, "unknown directive %s", d.Cmd)
	}
	s.remember()
	return result + s.out.String()
}

// remember notes the grants that undo may name.
func (s *script) remember() {
	for _, fresh := range s.fresh {
		for _, u := range fresh {
			s.grants[u.token] = u
		}
	}
}

func (s *script) session(name string) Session {
	if id, ok := s.sessions[name]; ok {
		return id
	}
	id := s.connect()
	s.sessions[name], s.names[id] = id, name
	return id
}

// state writes down all that the Space itself, not the model, knows.
func (s *script) state() string { return stateOf(s.space, s.names, s.live) }

func stateOf(s *Space, names map[Session]string, live []Session) string {
	var b strings.Builder
	var entries []*entry
	s.keys.all(func(e *entry) { entries = append(entries, e) })
	slices.SortFunc(entries, func(a, b *entry) int { return strings.Compare(string(a.key), string(b.key)) })
	for _, e := range entries {
		if e.token == 0 {
			fmt.Fprintf(&b, "%s: free\n", e.key)
		} else {
			who := ", last told: " + names[e.holder]
			if e.holder == 0 {
				who = ""
			}
			if e.inherited {
				who += ", inherited"
			}
			fmt.Fprintf(&b, "%s: token %d until %s%s%s\n", e.key, e.token, instant(e.deadline), who, withNonce(e.name))
		}
		var line []*request
		for _, it := range s.waits.items {
			if it.v.e == e {
				line = append(line, it.v)
			}
		}
		slices.SortFunc(line, func(a, b *request) int { return int(a.place.arrival) - int(b.place.arrival) })
		for _, r := range line {
			who := "detached until " + instant(Time(s.waits.items[r.waitSlot].at))
			if r.replica {
				who = "replica until " + instant(Time(s.waits.items[r.waitSlot].at))
			}
			if r.state == queued {
				who = fmt.Sprintf("%s #%d", names[r.session], r.tag)
			}
			fmt.Fprintf(&b, "  in line: %s, limit %s%s\n", who, instant(r.place.until), withNonce(r.name))
		}
		for _, session := range live {
			for r := s.sessions[session]; r != nil; r = r.next {
				if r.e == e && r.state == ended {
					kind := map[Kind]string{Granted: "grant", TimedOut: "timeout", Refused: "refusal", Moved: "redirect"}[r.kind]
					fmt.Fprintf(&b, "  held back: the %s of %s #%d\n", kind, names[session], r.tag)
				}
				if r.e == e && r.state == held {
					fmt.Fprintf(&b, "  held: %s #%d until %s%s\n", names[session], r.tag,
						instant(Time(s.holds.items[r.waitSlot].at)), withNonce(r.name))
				}
				if r.next == s.sessions[session] {
					break
				}
			}
		}
	}
	if n := s.spent.n; n > 0 {
		fmt.Fprintf(&b, "nonces spent: %d\n", n)
	}
	if b.Len() == 0 {
		return "nothing\n"
	}
	return b.String()
}

func withNonce(n *name) string {
	if n == nil {
		return ""
	}
	return ", nonce " + string(n.bytes())
}

func instant(t Time) string {
	if t == Never {
		return "never"
	}
	return time.Duration(t).String()
}

// arguments takes a directive's arguments apart. What is missing, wrong or
// left over fails the test.
type arguments struct {
	t    *testing.T
	d    *datadriven.TestData
	rest []datadriven.CmdArg
}

// next takes the next argument that stands without a name.
func (a *arguments) next() string {
	a.t.Helper()
	if len(a.rest) == 0 || len(a.rest[0].Vals) > 0 {
		a.d.Fatalf(a.t, "%s: an argument is missing", a.d.Cmd)
	}
	v := a.rest[0].Key
	a.rest = a.rest[1:]
	return v
}

// take takes a named argument, or a flag.
func (a *arguments) take(name string) (string, bool) {
	a.t.Helper()
	for i, arg := range a.rest {
		if arg.Key != name {
			continue
		}
		a.rest = slices.Delete(slices.Clone(a.rest), i, i+1)
		if len(arg.Vals) > 1 || (name == "no-room" || name == "known-token") != (len(arg.Vals) == 0) {
			a.d.Fatalf(a.t, "%s: %s has %d values", a.d.Cmd, name, len(arg.Vals))
		}
		if len(arg.Vals) == 0 {
			return "", true
		}
		return arg.Vals[0], true
	}
	return "", false
}

func (a *arguments) end() {
	a.t.Helper()
	if len(a.rest) > 0 {
		a.d.Fatalf(a.t, "%s: what is %q?", a.d.Cmd, a.rest[0].String())
	}
}

func (a *arguments) duration(v string) time.Duration {
	a.t.Helper()
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 {
		a.d.Fatalf(a.t, "%s: %q is no duration", a.d.Cmd, v)
	}
	return d
}

func (a *arguments) number(v string) uint64 {
	a.t.Helper()
	n, err := strconv.ParseUint(v, 10, 64)
	if err != nil {
		a.d.Fatalf(a.t, "%s: %q is no number", a.d.Cmd, v)
	}
	return n
}

func (a *arguments) nonce(v string) Nonce {
	a.t.Helper()
	if !protocol.ValidNonce([]byte(v)) {
		a.d.Fatalf(a.t, "%s: %q is no nonce", a.d.Cmd, v)
	}
	return MakeNonce([]byte(v))
}

func (a *arguments) code(v string) protocol.Code {
	a.t.Helper()
	for _, c := range protocol.Codes() {
		if c.String() == v {
			return c
		}
	}
	a.d.Fatalf(a.t, "%s: %q is no code", a.d.Cmd, v)
	return 0
}
