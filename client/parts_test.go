package client

import (
	"errors"
	"fmt"
	"go/build"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stile-lock/stile/protocol"
)

// Only protocol and the standard library.
func TestImports(t *testing.T) {
	for _, dir := range []string{".", "fence"} {
		p, err := build.ImportDir(dir, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range p.Imports {
			if first, _, _ := strings.Cut(path, "/"); strings.Contains(first, ".") && path != "github.com/stile-lock/stile/protocol" {
				t.Errorf("%s imports %s", p.Name, path)
			}
		}
	}
}

func TestNonces(t *testing.T) {
	a, b := newNonces(), newNonces()
	if a.prefix == b.prefix {
		t.Error("two clients with the same 16 characters")
	}
	seen := make(map[nonce]bool)
	for range 10000 {
		x := a.next()
		if seen[x] || !protocol.ValidNonce(x.bytes()) || len(x.bytes()) < 17 {
			t.Fatalf("nonce %s", x.bytes())
		}
		seen[x] = true
	}
	a.count = 1<<64 - 2
	if x := a.next(); !protocol.ValidNonce(x.bytes()) {
		t.Errorf("the last nonce: %s", x.bytes())
	}
}

func TestAddresses(t *testing.T) {
	list, err := parseAddresses("b:1, a:2,,A.:2 ,[::1]:3,[0::1]:3,10.0.0.1:4,[::ffff:10.0.0.1]:4")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range list {
		got = append(got, a.text)
	}
	if d := cmp.Diff([]string{"b:1", "a:2", "[::1]:3", "10.0.0.1:4"}, got); d != "" {
		t.Error(d)
	}
}

func TestPendingOrder(t *testing.T) {
	var p pending
	push := func(op protocol.Op, key string, token uint64) *request {
		r := &request{op: op, key: key, token: token}
		p.push(r)
		return r
	}
	a1, b1, a2, r1 := push(opA, "a", 1), push(opA, "b", 2), push(opA, "a", 3), push(opR, "a", 4)
	for _, want := range []*request{a1, r1, a2} {
		got := p.oldest(want.op, []byte(want.key))
		if got != want {
			t.Fatalf("oldest %v %s is %+v; want %+v", want.op, want.key, got, want)
		}
		p.pop(got)
	}
	if p.oldest(opA, []byte("a")) != nil || p.count != 1 {
		t.Errorf("left: %d", p.count)
	}
	a3 := push(opA, "a", 5)
	if first := p.takeAll(); first != b1 || first.next != a3 || p.count != 0 || p.oldest(opA, []byte("a")) != nil {
		t.Error("takeAll is not in order")
	}
}

func TestClashes(t *testing.T) {
	pendingFrom := func(moves ...[2]uint64) *pendingQueue {
		var p pending
		for _, m := range moves {
			p.push(&request{op: opA, key: "k", from: m[0], fromOrder: m[1]})
		}
		return p.queue(opA, "k")
	}
	for _, test := range []struct {
		q    *pendingQueue
		want bool
	}{
		{pendingFrom([2]uint64{7, 1}, [2]uint64{7, 3}), false},
		{pendingFrom([2]uint64{7, 1}, [2]uint64{7, 6}), true}, // it stood behind
		{pendingFrom([2]uint64{8, 1}), true},
		{pendingFrom([2]uint64{0, 0}), true}, // no moved one
		{pendingFrom([2]uint64{7, 1}, [2]uint64{0, 0}), true},
		{pendingFrom([2]uint64{0, 0}, [2]uint64{7, 1}), true},
	} {
		a := &acquire{known: true, from: 7, fromOrder: 5}
		if got := a.clashes(test.q); got != test.want {
			t.Errorf("behind %+v: %v", test.q, got)
		}
		a.known = false
		if a.clashes(test.q) {
			t.Error("a nonce that no server knows clashes with nothing")
		}
	}
}

// A moved acquire that would stand behind another one of its key gives its
// nonce up there, unless another connection has none.
func TestMovedNonceIsGivenUpOrKept(t *testing.T) {
	for _, addrs := range []string{"n0:5625,n1:5625", "n0:5625,n1:5625,n2:5625"} {
		virtual(t, func(w *world) {
			var servers []*server
			for i := range 3 {
				servers = append(servers, w.server(fmt.Sprintf("n%d:5625", i), func(c *sconn, r request4) {
					if r.op == opC {
						obliging(c, r)
					}
				}))
			}
			c := w.client(addrs)
			time.Sleep(time.Second)
			go c.Acquire(bg, "k")
			synctest.Wait()
			go c.Acquire(bg, "k")
			synctest.Wait()
			first, second := servers[0], servers[1]
			if len(first.seen("A")) == 0 {
				t.Fatal("no acquire at the first server")
			}
			old := strings.Fields(first.seen("A")[0].text)[4]
			first.refuse()
			first.cut()
			synctest.Wait()
			if len(addrs) > 20 { // a third connection has none pending
				if got := servers[2].seen("AC"); len(got) != 1 || strings.Fields(got[0].text)[4] != old {
					t.Errorf("the third server read %v; want the old nonce", got)
				}
				return
			}
			got := second.seen("AC")
			if len(got) != 3 || got[1].text != "C k "+old || strings.HasSuffix(got[2].text, old) {
				t.Errorf("the second server read %v; want C with the old nonce, then a fresh one", got)
			}
		})
	}
}

// Acquires that were moved together keep their nonces and their order.
func TestMovedTogetherKeepTheirOrder(t *testing.T) {
	virtual(t, func(w *world) {
		w.server("n0:5625", silent)
		w.server("n1:5625", silent)
		c := w.client("n0:5625,n1:5625")
		time.Sleep(time.Second)
		w.servers[1].refuse()
		w.servers[1].cut()
		synctest.Wait()
		for range 10 {
			go c.Acquire(bg, "k")
			synctest.Wait()
		}
		before := texts(w.servers[0].seen("A"))
		w.servers[1].listen()
		time.Sleep(4 * time.Second)
		w.servers[0].refuse()
		w.servers[0].cut()
		synctest.Wait()
		if d := cmp.Diff(before, texts(w.servers[1].seen("AC"))); d != "" {
			t.Error(d)
		}
	})
}

func TestErrorText(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
	}{
		{&Error{Op: "acquire", Key: "a b", Outcome: DidNotHappen, Err: ErrNoActive, Addrs: []AddrError{{Addr: "x:1", Reason: "refused"}, {Addr: "y:2", Reason: "silent"}}},
			`stile: acquire "a b": no active server known (x:1: refused; y:2: silent)`},
		{&Error{Op: "release", Key: "k", Err: ErrUndelivered}, `stile: release "k": not confirmed by any server within 5 seconds; it may have happened`},
		{&Error{Op: "keep", Key: "k", Outcome: DidNotHappen, Err: &ServerError{Name: "bad-request", Text: "too long"}}, `stile: keep "k": server answered bad-request: too long`},
	} {
		if got := test.err.Error(); got != test.want {
			t.Errorf("error reads %q; want %q", got, test.want)
		}
	}
	if OutcomeOf(nil) != Happened || OutcomeOf(errors.New("x")) != MayHaveHappened || OutcomeOf(fmt.Errorf("y: %w", &Error{Err: ErrClosed, Outcome: DidNotHappen})) != DidNotHappen {
		t.Error("OutcomeOf")
	}
	if !errors.Is(ErrLeaseLost, ErrNotHeld) || errors.Is(ErrNotHeld, ErrLeaseLost) {
		t.Error("a lost lease is not held, and not the other way round")
	}
}

var _ net.Conn = (*sconn)(nil)
