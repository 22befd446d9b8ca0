package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/stile-lock/stile/server/replica"
)

// TestScripts runs the scripts of testdata/scripts, one rule each. After a
// change on purpose:
//
//	go test -run TestScripts -rewrite
//
// and the diff of the scripts is what there is to review. The directives, in
// which 0 and 1 are nodes, the lower the higher in priority:
//
//	cluster 3 [failure-timeout=1s] [takeback=1s] [sync] …   must come first
//	boot 0 1 [lost-disk] [peers=(n0:1,n1:1)] [failure-timeout=1s]   start, empty
//	crash 0
//	run 2s             time goes by, and all that is sent arrives at once
//	tick 100ms         time goes by, and nothing arrives
//	deliver [0 1] [most=1]     what is on its way, from 0 to 1
//	drop 0 1 [offer]   what is on its way from 0 to 1 is lost
//	wire               what is on its way
//	reset 0 1          the connections break
//	link-down 0 1 silent [one-way]     nothing arrives from 0 at 1
//	link-down 0 1 refused      and the connections break
//	link-down 0 1 misfit       and they break, but somebody answers each dial
//	link-up 0 1
//	links              how they are
//	pause 1 3s         the node does nothing from now on
//	disk 0 ok|slow|fails       slow: until stored or took-epoch
//	disk 0 epoch=2000.0        what its file has
//	stored 0 [fails]
//	took-epoch 0 [fails]
//	clock 0 -3600      the clock of the node is off, in seconds
//	write 0 5          records of the stream
//	place 0 1000.0/5   where its table stands
//	stall 0 1          the stream from 0 to 1 does not move; flow: it does
//	broken 1           the stream can't be followed
//	overrun 0 1        1 is too slow for the stream from 0
//	want-epoch 0       the tokens run out
//	stop 0
//	receive 1 from 0 go 1 1000.0/5     a message out of the blue; go, prepare,
//	                                   offer
//	status [0 …]
//	why 0              it has its role, as operators see it
//	hide|show dial log …       kinds of lines: ack, ban, commit, cut, dial,
//	                           feed, handoff, join, log, offer, status,
//	                           store, take
//
// The lines are what the machines want done, with the seconds since the start
// of the script. "quiet" at the end of a directive hides them.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		var w *world
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Input != "" {
				d.Fatalf(t, "%s takes no lines of input", d.Cmd)
			}
			if d.Cmd == "cluster" {
				if w != nil {
					d.Fatalf(t, "cluster must come first")
				}
				w = cluster(&arguments{t, d, nil, slices.Clone(d.CmdArgs)})
				return ""
			}
			if w == nil {
				d.Fatalf(t, "cluster must come first")
			}
			w.fatalf = func(format string, args ...any) { d.Fatalf(t, format, args...) }
			w.out.Reset()
			w.run(&arguments{t, d, w, slices.Clone(d.CmdArgs)})
			return w.out.String()
		})
	})
}

// cluster makes the world of a script.
func cluster(a *arguments) *world {
	n, cfg := 3, usual()
	if len(a.args) > 0 && len(a.args[0].Vals) == 0 {
		n = a.number(a.next())
	}
	for name, p := range map[string]*time.Duration{
		"heartbeat": &cfg.Heartbeat, "failure-timeout": &cfg.FailureTimeout, "boot-grace": &cfg.BootGrace,
		"stop-timeout": &cfg.StopTimeout, "takeback": &cfg.Takeback, "sync-timeout": &cfg.SyncTimeout,
	} {
		if v, ok := a.take(name); ok {
			*p = a.duration(v)
		}
	}
	if v, ok := a.take("min-in-sync"); ok {
		cfg.MinInSync = a.number(v)
	}
	_, cfg.Sync = a.take("sync")
	a.end()
	return newWorld(n, cfg, a.fatalf)
}

// run carries out one directive.
func (w *world) run(a *arguments) {
	_, quiet := a.take("quiet")
	switch a.d.Cmd {
	case "boot":
		_, lost := a.take("lost-disk")
		list, listed := a.take("peers")
		timeout := w.cfg.FailureTimeout
		if v, ok := a.take("failure-timeout"); ok {
			timeout = a.duration(v)
		}
		for len(a.args) > 0 {
			n := a.node()
			if n.m != nil {
				w.fatalf("%d runs", n.id)
			}
			if lost {
				n.disk = replica.Epoch{}
			}
			if listed {
				n.peers = list
			}
			n.start(timeout)
		}
	case "crash":
		for len(a.args) > 0 {
			a.running().crash()
		}
	case "run":
		by := a.duration(a.next())
		a.end()
		w.rest()
		w.tick(by, true)
	case "tick":
		by := a.duration(a.next())
		a.end()
		w.tick(by, false)
	case "deliver":
		w.deliverSome(a)
	case "drop":
		from, to := a.node(), a.node()
		_, offers := a.take("offer")
		a.end()
		fmt.Fprintf(&w.out, "%d messages are lost\n", w.discard(func(p *packet) bool {
			_, offer := p.msg.(*Offer)
			return p.from == from && p.to == to && p.msg != nil && (offer || !offers)
		}))
	case "wire":
		a.end()
		w.showWire()
	case "reset":
		from, to := a.running(), a.running()
		a.end()
		w.reset(from, to)
	case "link-down":
		w.linkDown(a)
	case "link-up":
		from, to := a.node(), a.node()
		a.end()
		delete(w.cut, [2]int{from.id, to.id})
		delete(w.cut, [2]int{to.id, from.id})
	case "links":
		a.end()
		w.showLinks()
	case "pause":
		n := a.running()
		n.asleep = w.now + a.duration(a.next())
		a.end()
	case "disk":
		n := a.node()
		if v, ok := a.take("epoch"); ok {
			n.disk = a.epoch(v)
			break
		}
		how := a.next()
		if !slices.Contains([]string{"ok", "slow", "fails"}, how) {
			w.fatalf("a disk is ok, slow, or fails")
		}
		n.how = how
	case "stored", "took-epoch":
		n := a.running()
		var err error
		if _, fails := a.take("fails"); fails {
			err = errors.New("no space")
		}
		a.end()
		switch {
		case a.d.Cmd == "stored" && n.storing != nil:
			n.stored(err)
		case a.d.Cmd == "took-epoch" && n.taking != nil:
			n.took(err)
		default:
			w.fatalf("nothing is under way")
		}
	case "clock":
		n := a.node()
		n.clock = a.number(a.next())
		a.end()
	case "write":
		n := a.running()
		if n.m.role != Active {
			w.fatalf("%d is not active", n.id)
		}
		n.place.Pos += uint64(a.number(a.next()))
		a.end()
	case "place":
		n := a.running()
		n.place = a.place(a.next())
		a.end()
	case "stall", "flow":
		from, to := a.node(), a.node()
		a.end()
		w.stalled[[2]int{from.id, to.id}] = a.d.Cmd == "stall"
	case "broken":
		n := a.running()
		a.end()
		n.m.Progress(w.now, true)
		n.carry()
	case "overrun":
		from, to := a.running(), a.node()
		a.end()
		from.m.FeedEnded(w.now, uint8(to.id), from.feeds[to.id])
		from.carry()
	case "want-epoch":
		n := a.running()
		a.end()
		n.m.WantEpoch(w.now)
		n.carry()
	case "stop":
		n := a.running()
		a.end()
		n.m.Stop(w.now)
		n.carry()
	case "receive":
		n := a.running()
		if a.next() != "from" {
			w.fatalf("from whom?")
		}
		from := a.node()
		msg := a.message()
		a.end()
		n.m.Receive(w.now, uint8(from.id), msg)
		n.carry()
	case "status":
		if len(a.args) == 0 {
			for _, n := range w.nodes {
				n.showStatus()
			}
		}
		for len(a.args) > 0 {
			a.node().showStatus()
		}
	case "why":
		n := a.running()
		a.end()
		fmt.Fprintf(&w.out, "%s\n", n.m.View().Why)
	case "hide", "show":
		for len(a.args) > 0 {
			w.hidden[a.next()] = a.d.Cmd == "hide"
		}
	default:
		w.fatalf("unknown directive %s", a.d.Cmd)
	}
	a.end()
	if quiet {
		w.out.Reset()
	}
}

func (w *world) deliverSome(a *arguments) {
	most := 10000
	if v, ok := a.take("most"); ok {
		most = a.number(v)
	}
	pick := func(p *packet) bool { return true }
	flows := func(*node, *node) bool { return true }
	if len(a.args) > 0 {
		from, to := a.node(), a.node()
		pick = func(p *packet) bool { return p.from == from && p.to == to }
		flows = func(a, b *node) bool { return a == from && b == to }
	}
	a.end()
	for i := 0; i < most && w.deliver(pick); i++ {
	}
	if most == 10000 {
		w.flow(flows)
	}
	w.checkServing()
}

func (w *world) showWire() {
	for _, p := range w.wire {
		text := "dial"
		if p.end {
			text = "reset"
		} else if p.msg != nil {
			_, text = describe(p.msg)
		}
		fmt.Fprintf(&w.out, "%d > %d %s\n", p.from.id, p.to.id, text)
	}
}

// reset breaks the connections between two nodes; both learn of it.
func (w *world) reset(a, b *node) {
	for _, c := range w.conns {
		if c.from == a && c.to == b || c.from == b && c.to == a {
			w.discard(func(p *packet) bool { return p.conn == c })
			w.wire = append(w.wire, &packet{from: c.to, to: c.from, sent: w.now, conn: c, end: true},
				&packet{from: c.from, to: c.to, sent: w.now, conn: c, end: true})
		}
	}
}

// linkDown cuts a link. Refused, as if there were no process at the other end.
func (w *world) linkDown(a *arguments) {
	from, to, how := a.node(), a.node(), a.next()
	_, oneWay := a.take("one-way")
	a.end()
	w.cut[[2]int{from.id, to.id}] = how
	if !oneWay {
		w.cut[[2]int{to.id, from.id}] = how
	}
	switch how {
	case "silent":
	case "refused", "misfit":
		w.reset(from, to)
	default:
		w.fatalf("a link is silent, refused, or misfit")
	}
}

func (w *world) showLinks() {
	for _, a := range w.nodes {
		for _, b := range w.nodes {
			how := w.way(a, b)
			for _, c := range w.conns {
				if c.from == a && c.to == b && c.fromUp && c.toUp {
					how += " up"
				}
			}
			if a != b {
				fmt.Fprintf(&w.out, "%d > %d %s\n", a.id, b.id, how)
			}
		}
	}
}

func (n *node) showStatus() {
	out := &n.w.out
	if n.m == nil {
		fmt.Fprintf(out, "%d is down\n", n.id)
		return
	}
	m := n.m
	fmt.Fprintf(out, "%d %v, %s, at %v", n.id, m.role, n.showMode(), n.place)
	if m.role == Active {
		fmt.Fprintf(out, ", epoch %v, base %v", m.epoch, m.base)
	}
	fmt.Fprintf(out, ", known %v", m.known)
	if less(m.stored, m.known) {
		fmt.Fprintf(out, " (stored %v)", m.stored)
	}
	var reach, fed uint16
	for _, p := range m.peers {
		if p.reached == live {
			reach |= bit(p.id)
		}
		if p.feeding != 0 {
			fed |= bit(p.id)
		}
	}
	fmt.Fprintf(out, ", reaches %s", ids(reach))
	if fed != 0 {
		fmt.Fprintf(out, ", feeds %s", ids(fed))
	}
	if m.role == Active && m.cfg.Sync {
		fmt.Fprintf(out, ", in sync %s", ids(m.insync.members))
		if c := m.Committed(); c != 1<<64-1 {
			fmt.Fprintf(out, ", answers up to %d", c)
		}
	}
	for _, f := range []struct {
		on   bool
		name string
	}{
		{m.guard, "guarded"}, {m.stopping, "stopping"}, {m.unfit, "unfit"}, {m.meeting != nil, "meeting"},
		{m.handoff != nil, "handing over"}, {m.prepared != nil, "prepared"}, {n.w.now < n.asleep, "asleep"},
	} {
		if f.on {
			fmt.Fprintf(out, ", %s", f.name)
		}
	}
	fmt.Fprintln(out)
}

// arguments reads those of a directive; what is left over is an error.
type arguments struct {
	t    *testing.T
	d    *datadriven.TestData
	w    *world
	args []datadriven.CmdArg
}

func (a *arguments) fatalf(format string, args ...any) { a.d.Fatalf(a.t, format, args...) }

// take removes an argument by its name, and returns its value if it has one.
func (a *arguments) take(name string) (value string, ok bool) {
	for i, arg := range a.args {
		if arg.Key == name {
			a.args = slices.Delete(a.args, i, i+1)
			return strings.Join(arg.Vals, ","), true
		}
	}
	return "", false
}

// next removes the first argument, which has no value.
func (a *arguments) next() string {
	if len(a.args) == 0 || len(a.args[0].Vals) > 0 {
		a.fatalf("an argument is missing")
	}
	v := a.args[0].Key
	a.args = a.args[1:]
	return v
}

func (a *arguments) end() {
	if len(a.args) > 0 {
		a.fatalf("unknown argument %s", a.args[0])
	}
}

func (a *arguments) number(v string) int {
	n, err := strconv.Atoi(v)
	if err != nil {
		a.fatalf("%v", err)
	}
	return n
}

func (a *arguments) duration(v string) time.Duration {
	d, err := time.ParseDuration(v)
	if err != nil {
		a.fatalf("%v", err)
	}
	return d
}

func (a *arguments) node() *node {
	id := a.number(a.next())
	if id < 0 || id >= len(a.w.nodes) {
		a.fatalf("there is no node %d", id)
	}
	return a.w.nodes[id]
}

func (a *arguments) running() *node {
	n := a.node()
	if n.m == nil {
		a.fatalf("%d does not run", n.id)
	}
	return n
}

// epoch reads 1000.2.
func (a *arguments) epoch(v string) replica.Epoch {
	n, node, ok := strings.Cut(v, ".")
	if !ok {
		a.fatalf("%s is no epoch", v)
	}
	return replica.Epoch{N: uint32(a.number(n)), Node: uint8(a.number(node))}
}

// place reads 1000.2/5.
func (a *arguments) place(v string) replica.Place {
	e, pos, ok := strings.Cut(v, "/")
	if !ok {
		a.fatalf("%s is no place", v)
	}
	return replica.Place{Reign: a.epoch(e), Pos: uint64(a.number(pos))}
}

func (a *arguments) message() Message {
	switch kind := a.next(); kind {
	case "go":
		return &Go{uint64(a.number(a.next())), a.place(a.next())}
	case "prepare":
		return &Prepare{uint64(a.number(a.next())), a.epoch(a.next())}
	case "prepared":
		return &Prepared{uint64(a.number(a.next())), a.epoch(a.next())}
	case "offer":
		return &Offer{From: uint8(a.number(a.next())), To: uint8(a.number(a.next())), Epoch: a.epoch(a.next()), Last: true}
	default:
		a.fatalf("%s is no message", kind)
	}
	return nil
}
