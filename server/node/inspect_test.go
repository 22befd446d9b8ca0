package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stile-lock/stile/protocol"
	"github.com/stile-lock/stile/server/cluster"
	"github.com/stile-lock/stile/server/lockspace"
	"github.com/stile-lock/stile/server/replica"
)

// talk is a client that says a line and reads answers.
type talk struct {
	t  *testing.T
	nc net.Conn
	in *bufio.Reader
}

func talkTo(t *testing.T, n *Node) *talk {
	t.Helper()
	ours, theirs := net.Pipe()
	if !n.ServeConn(theirs) {
		t.Fatal("no room for a connection")
	}
	t.Cleanup(func() { ours.Close() })
	return &talk{t, ours, bufio.NewReader(ours)}
}

func (c *talk) say(line string) {
	c.t.Helper()
	if _, err := c.nc.Write([]byte(line + "\n")); err != nil {
		c.t.Fatal(err)
	}
	synctest.Wait()
}

func (c *talk) hear(want string) {
	c.t.Helper()
	if got, err := c.in.ReadString('\n'); err != nil || got != want+"\n" {
		c.t.Fatalf("received %q, %v; want %q", got, err, want)
	}
	synctest.Wait()
}

func counting() func() (uint64, bool) {
	last := uint64(0)
	return func() (uint64, bool) { last++; return last, true }
}

func aloneNode(t *testing.T, cfg Config) *Node {
	t.Helper()
	cfg.Tokens = counting()
	n := New(cfg)
	t.Cleanup(func() { n.Shutdown(context.Background()) })
	return n
}

// A hand-over is measured from the end of the grant until the answer is
// written, be it that somebody releases, or that a lease ends.
func TestHandOverIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := aloneNode(t, Config{})
		a, b := talkTo(t, n), talkTo(t, n)
		a.say("A k 0 600")
		a.hear("A k 1 600")
		b.say("A k 0 1")
		time.Sleep(3 * time.Second)
		a.say("R k 1")
		a.hear("R k 1")
		time.Sleep(20 * time.Millisecond) // b is slow to take its answer
		b.hear("A k 2 1")
		a.say("A k 0 600")
		time.Sleep(2 * time.Second)
		a.hear("A k 3 600") // a read it a second after the lease had ended
		c := n.Counts()
		if c.HandOver.Count() != 2 || c.HandOver.Sum != float64(20*time.Millisecond+time.Second+20*time.Millisecond) {
			t.Errorf("%d hand-overs took %v", c.HandOver.Count(), time.Duration(c.HandOver.Sum))
		}
		if c.Wait.Count() != 3 || c.Hold.Count() != 2 {
			t.Errorf("%d waits, %d holds", c.Wait.Count(), c.Hold.Count())
		}
	})
}

func TestCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := aloneNode(t, Config{MaxWaitersPerKey: 1})
		a, b := talkTo(t, n), talkTo(t, n)
		for _, step := range []struct{ say, hear string }{
			{"A k 0 600 n1", "A k 1 600"},
			{"A k 0 600 n1", "A k 1 598"}, // told again
			{"A k -1 600", "T k"},
			{"K k 1 60", "K k 1 60"},
			{"K k 9 60", "E K k not-held"},
			{"R k 9", "E R k not-held"},
			{"C k n2", "C k n2"},
			{"A k 0", "E A k bad-request"},
			{"R k", "E R k bad-request"},
			{"B k", "E B k unknown-op"},
			{"A k 1 600", "T k"},
			{"A k 0 600", ""},
			{"A k2 0 600", "A k2 2 600"},
			{"C k n1", "A k 3 600"},
		} {
			a.say(step.say)
			time.Sleep(2 * time.Second)
			if step.hear != "" {
				a.hear(step.hear)
			}
		}
		a.hear("C k n1")
		b.say("A k 0 600")
		a.say("A k 0 600")
		a.hear("E A k queue-full")
		c := n.Counts()
		want := &Counts{
			Kept: 1, Cancelled: 2, Accepted: 2,
			Refused: map[protocol.Code]uint64{
				protocol.CodeNotHeld: 2, protocol.CodeBadRequest: 2, protocol.CodeUnknownOp: 1, protocol.CodeQueueFull: 1,
			},
		}
		want.Granted[lockspace.Immediate], want.Granted[lockspace.Repeated], want.Granted[lockspace.HandedOver] = 2, 1, 1
		want.Ended[lockspace.Cancelled] = 1
		want.TimedOut[lockspace.AtOnce], want.TimedOut[lockspace.AtLimit] = 1, 1
		want.Wait, want.Hold, want.HandOver = c.Wait, c.Hold, c.HandOver
		for _, code := range protocol.Codes() {
			if c.Refused[code] == 0 {
				delete(c.Refused, code)
			}
		}
		if diff := cmp.Diff(want, c); diff != "" {
			t.Error(diff)
		}
		if s := n.Status(); s.Held != 2 || s.Waiting != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// Each request that is sent to the active counts, whatever it asks for.
func TestRedirectsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := aloneNode(t, Config{Cluster: &Cluster{
			HoldFor: time.Second, Kick: func() {}, Clock: func() time.Duration { return 0 }, PauseLimit: time.Hour,
		}})
		n.Table().SetMode(cluster.Redirect, "10.0.0.9:5625")
		a := talkTo(t, n)
		for _, op := range []string{"A k 0 600", "R k 1", "K k 1 60", "C k n1"} {
			a.say(op)
			a.hear("M " + op[:1] + " k 10.0.0.9:5625")
		}
		if c := n.Counts(); c.Moved != 4 || c.Kept != 0 || c.Cancelled != 0 {
			t.Errorf("%d redirects, %d keeps, %d cancels", c.Moved, c.Kept, c.Cancelled)
		}
	})
}

func TestKeysAndTop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := aloneNode(t, Config{})
		ctx := context.Background()
		start := time.Now()
		a, b := talkTo(t, n), talkTo(t, n)
		a.say("H 1 first")
		a.in.ReadString('\n')
		const all = 300
		for i := range all {
			a.say(fmt.Sprintf("A k%03d 0 600", i))
			a.in.ReadString('\n')
			time.Sleep(time.Millisecond)
		}
		for i := range 30 { // 1, 2, 3, … waiters
			for range i + 1 {
				b.say(fmt.Sprintf("A k%03d 60 600", i))
			}
		}
		busiest, longest, err := n.Top(ctx, TopQuery{Most: 20, Waiters: 3})
		if err != nil || len(busiest) != 20 || len(longest) != 20 {
			t.Fatal(len(busiest), len(longest), err)
		}
		for i := range 20 {
			if k := busiest[i]; string(k.Key) != fmt.Sprintf("k%03d", 29-i) || k.Waiting != 30-i || len(k.Waiters) != 3 {
				t.Errorf("number %d of the busiest is %s with %d", i, k.Key, k.Waiting)
			}
			if k := longest[i]; string(k.Key) != fmt.Sprintf("k%03d", i) || !k.Since.Equal(start.Add(time.Duration(i)*time.Millisecond)) {
				t.Errorf("number %d of the longest is %s, since %v", i, k.Key, k.Since.Sub(start))
			}
		}
		busiest, longest, err = n.Top(ctx, TopQuery{Prefix: []byte("k02"), Most: 3})
		if err != nil || len(busiest) != 3 || string(busiest[0].Key) != "k029" || len(busiest[0].Waiters) > 0 ||
			len(longest) != 3 || string(longest[0].Key) != "k020" {
			t.Errorf("those that begin with k02: %+v, %+v, %v", busiest, longest, err)
		}
		page, next, err := n.Keys(ctx, Query{Prefix: []byte("k0"), After: []byte("k028"), Limit: 3, Waiters: 2, MaxWaiters: 100})
		if err != nil || len(page) != 3 || string(next) != "k031" {
			t.Fatalf("%+v, %s, %v", page, next, err)
		}
		k := page[0]
		if string(k.Key) != "k029" || k.Holder.Name != "first" || k.Waiting != 30 || len(k.Waiters) != 2 || k.Until.Sub(k.Since) != 600*time.Second ||
			k.Waiters[0].Until.Sub(k.Waiters[0].Since) != time.Minute || k.Waiters[0].Name != "" {
			t.Errorf("%+v", k)
		}
		if one, ok := n.Key([]byte("k029"), 2); !ok || !reflect.DeepEqual(one, k) {
			t.Errorf("%+v, and as part of a list %+v", one, k)
		}
		if one, ok := n.Key([]byte("k"), 2); ok {
			t.Errorf("nobody holds it: %+v", one)
		}
		// With many waiters listed a page ends early, and nothing is left out.
		var keys []string
		q := Query{Limit: 100, Waiters: 10, MaxWaiters: 15}
		for pages := 1; ; pages++ {
			page, next, err := n.Keys(ctx, q)
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range page {
				keys = append(keys, string(k.Key))
			}
			if q.After = next; next == nil {
				if pages < 10 {
					t.Errorf("only %d pages", pages)
				}
				break
			}
		}
		if len(keys) != all || !slices.IsSorted(keys) {
			t.Errorf("%d keys: %s", len(keys), strings.Join(keys, " "))
		}
		gone, cancel := context.WithCancel(ctx)
		cancel()
		if _, _, err := n.Keys(gone, q); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// A grant outlives the connection that got it, as of a command that took a lock
// and ended: whose it is stays known, until somebody else keeps it.
func TestHolderThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := aloneNode(t, Config{})
		holder := func() Client {
			k, ok := n.Key([]byte("k"), 0)
			if !ok {
				t.Fatal("the key is not held")
			}
			return k.Holder
		}
		for _, c := range []struct{ name, says, hears string }{
			{"acquires", "A k 0 600", "A k 1 600"},
			{"keeps", "K k 1 600", "K k 1 600"},
			{"fails", "K k 2 600", "E K k not-held"},
		} {
			a := talkTo(t, n)
			a.say("H 1 " + c.name)
			if _, err := a.in.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			a.say(c.says)
			a.hear(c.hears)
			want := Client{Name: c.name, Addr: "pipe"}
			if c.name == "fails" {
				want.Name, want.Gone = "keeps", true
			}
			if got := holder(); got != want {
				t.Errorf("%s: %+v", c.name, got)
			}
			a.nc.Close()
			synctest.Wait()
			want.Gone = true
			if got := holder(); got != want {
				t.Errorf("%s, then gone: %+v", c.name, got)
			}
		}
		if got := len(n.departed.who); got != 2 {
			t.Errorf("%d connections are remembered: only two were told of a grant", got)
		}
	})
}

func TestDepartedAreBounded(t *testing.T) {
	var d departed
	const all = 3*maxDeparted + 1
	for i := range lockspace.Session(all) {
		d.add(i, Client{Name: fmt.Sprint(i)})
	}
	for i := range lockspace.Session(all) {
		want := Client{}
		if i >= all-maxDeparted {
			want = Client{Name: fmt.Sprint(i), Gone: true}
		}
		if got := d.of(i); got != want {
			t.Fatalf("%d: %+v, want %+v", i, got, want)
		}
	}
	if len(d.who) != maxDeparted || len(d.ring) != maxDeparted {
		t.Errorf("%d and %d are remembered", len(d.who), len(d.ring))
	}
}

func TestBreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := aloneNode(t, Config{})
		ctx := context.Background()
		a, b := talkTo(t, n), talkTo(t, n)
		a.say("H 1 first")
		a.in.ReadString('\n')
		a.say("A k 0 600")
		a.hear("A k 1 600")
		b.say("A k 0 600")
		if got, err := n.Break(ctx, []byte("k"), 7); !errors.Is(err, ErrOtherToken) || got.Token != 1 {
			t.Error(got, err)
		}
		if _, err := n.Break(ctx, []byte("x"), 7); !errors.Is(err, ErrNotHeld) {
			t.Error(err)
		}
		if got, err := n.Break(ctx, []byte("k"), 1); err != nil || got.Next != 2 || got.Holder.Name != "first" {
			t.Error(got, err)
		}
		b.hear("A k 2 600")
		a.say("K k 1 60")
		a.hear("E K k not-held")
		a.say("R k 1")
		a.hear("E R k not-held")
	})
}

// In sync mode a break is over when the standbys know. A node that has lost its
// role meanwhile can't tell.
func TestBreakWaitsForStandbys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := aloneNode(t, Config{Cluster: &Cluster{
			Sync: true, HoldFor: time.Second, Kick: func() {},
			Clock: func() time.Duration { return 0 }, PauseLimit: time.Hour,
		}})
		table := n.Table()
		log := replica.NewLog(replica.Epoch{N: 1}, replica.Place{}, 0)
		table.SetLog(log)
		serve := func() {
			table.SetMode(cluster.Serve, "")
			table.Committed(log.Pos())
		}
		a := talkTo(t, n)
		grant := func(token int) {
			t.Helper()
			a.say("A k 0 600")
			table.Committed(log.Pos())
			a.hear(fmt.Sprintf("A k %d 600", token))
		}
		type result struct {
			b   Broken
			err error
		}
		start := func(token uint64) chan result {
			done := make(chan result, 1)
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				defer cancel()
				b, err := n.Break(ctx, []byte("k"), token)
				done <- result{b, err}
			}()
			time.Sleep(time.Second)
			synctest.Wait()
			return done
		}
		serve()
		grant(1)
		done := start(1)
		select {
		case r := <-done:
			t.Fatal("it did not wait", r)
		default:
		}
		table.Committed(log.Pos())
		if r := <-done; r.err != nil || r.b.Token != 1 {
			t.Error(r)
		}
		grant(2)
		done = start(2)
		if r := <-done; !errors.Is(r.err, ErrUncertain) || r.b.Token != 2 {
			t.Error("the standbys say nothing:", r)
		}
		grant(3)
		done = start(3)
		table.SetLog(nil)
		table.Committed(1<<64 - 1)
		if r := <-done; !errors.Is(r.err, ErrUncertain) {
			t.Error("it has lost its role:", r)
		}

		for mode, want := range map[cluster.Mode]error{
			cluster.Redirect: ErrNotActive, cluster.Hold: ErrNoActive, cluster.Freeze: ErrNoActive, cluster.Refuse: ErrNoActive,
		} {
			table.SetLog(log)
			serve()
			table.SetMode(mode, "10.0.0.9:5625")
			b, err := n.Break(context.Background(), []byte("k"), 3)
			if !errors.Is(err, want) || (b.Active == "10.0.0.9:5625") != (mode == cluster.Redirect) {
				t.Errorf("%v: %+v, %v", mode, b, err)
			}
		}
	})
}
