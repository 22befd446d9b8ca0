package member

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stile-lock/stile/server/cluster"
	"github.com/stile-lock/stile/server/fencing"
	"github.com/stile-lock/stile/server/lockspace"
	"github.com/stile-lock/stile/server/replica"
)

const (
	heartbeat      = 100 * time.Millisecond
	failureTimeout = time.Second
)

// rig is a few nodes that are wired directly: what one sends the others get,
// in order, as soon as the test runs on.
type rig struct {
	t     *testing.T
	now   cluster.Time
	nodes []*node
	wire  []parcel
	gen   uint64
	cut   map[[2]int]bool // from, to: nothing arrives
}

// parcel is something on its way.
type parcel struct {
	from, to int
	gen      uint64 // of the sender's dial; a payload of an earlier one is lost
	payload  []byte
	dial     bool
	reset    bool // the sender has given the link up
	pump     bool // the writer of the link looks for data
	sent     cluster.Time
}

// node is a member with its table. It is the member's World and Table.
type node struct {
	r        *rig
	id       int
	m        *Member
	out      map[int]uint64 // dials that stand, with what they are called here
	in       map[int]uint64 // and there
	peerDial map[int]uint64
	slow     bool // the disk is slow: see finish
	disk     replica.Epoch
	pending  []func(error)
	done     bool
	failed   string
	log      []string
	frames   map[int][]byte // types of the frames of data sent to each peer
	modes    map[int][]byte // how the streams to each peer began
	acks     int
	acked    replica.Place // the last one
	slowPeer map[int]bool  // data for it stays where it is

	shards   []*lockspace.Space
	stream   *replica.Log
	alloc    *fencing.Allocator
	aheads   []replica.Epoch
	mode     cluster.Mode
	active   string
	calls    []string // of the Table, in order
	commit   uint64
	answers  []string
	abandons int
	tag      uint64
}

type option func(*cluster.Config, *Config)

func newRig(t *testing.T, nodes, shards int, opts ...option) *rig {
	r := &rig{t: t, now: 10 * time.Second, cut: map[[2]int]bool{}}
	order := []uint8{}
	for id := range nodes {
		order = append(order, uint8(id))
	}
	for id := range nodes {
		n := &node{
			r: r, id: id, out: map[int]uint64{}, in: map[int]uint64{}, peerDial: map[int]uint64{},
			frames: map[int][]byte{}, modes: map[int][]byte{}, slowPeer: map[int]bool{},
		}
		for i := range shards {
			n.shards = append(n.shards, n.NewSpace(i))
		}
		roles := cluster.Config{
			Self: uint8(id), Order: order, Boot: uint64(id) + 1, Advertise: addr(uint8(id)), Peers: "all",
			Heartbeat: heartbeat, FailureTimeout: failureTimeout, BootGrace: 2 * time.Second, StopTimeout: 5 * time.Second,
			Takeback: -1, SyncTimeout: 500 * time.Millisecond,
		}
		cfg := Config{Addr: addr}
		for _, o := range opts {
			o(&roles, &cfg)
		}
		cfg.Roles = roles
		n.m = New(cfg, n, n, r.now)
		r.nodes = append(r.nodes, n)
	}
	return r
}

func addr(id uint8) string { return fmt.Sprintf("n%d:1", id) }

func syncMode(c *cluster.Config, _ *Config) { c.Sync = true }

// run lets time go by, with all that happens in it.
func (r *rig) run(d time.Duration) {
	r.t.Helper()
	r.rest()
	for end := r.now + d; r.now < end; {
		r.now += heartbeat / 4
		for _, n := range r.nodes {
			if !n.done {
				n.m.Tick(r.now)
			}
		}
		r.rest()
	}
}

// rest delivers all that can be.
func (r *rig) rest() {
	r.t.Helper()
	for i := 0; r.deliver(); i++ {
		if i > 100_000 {
			r.t.Fatal("the nodes find no rest")
		}
	}
}

func (r *rig) silent(a, b int) bool { return r.cut[[2]int{a, b}] || r.cut[[2]int{b, a}] }

func (r *rig) deliver() bool {
	for _, n := range r.nodes {
		if len(n.pending) > 0 && !n.slow && !n.done {
			n.finish(nil)
			return true
		}
	}
	for i, p := range r.wire {
		if r.silent(p.from, p.to) && !(p.dial && r.now-p.sent >= failureTimeout) {
			continue
		}
		r.wire = slices.Delete(r.wire, i, i+1)
		r.arrive(p)
		return true
	}
	return false
}

func (r *rig) arrive(p parcel) {
	from, to := r.nodes[p.from], r.nodes[p.to]
	switch {
	case p.reset:
		if gen := to.in[p.from]; gen != 0 && from.out[p.to] != gen && !to.done {
			delete(to.in, p.from)
			to.m.LinkDown(r.now, uint8(p.from), false, gen, false)
		}
		if gen := to.out[p.from]; gen != 0 && from.in[p.to] != gen && !to.done {
			delete(to.out, p.from)
			to.m.LinkDown(r.now, uint8(p.from), true, gen, false)
		}
	case p.dial && from.done:
	case p.dial && to.done:
		from.m.DialFailed(r.now, uint8(p.to), true, false)
	case p.dial && r.silent(p.from, p.to):
		from.m.DialFailed(r.now, uint8(p.to), false, false)
	case p.dial:
		r.gen++
		from.out[p.to], to.in[p.from] = r.gen, r.gen
		theirs, ours := to.m.Hello(), from.m.Hello()
		to.m.LinkUp(r.now, uint8(p.from), false, r.gen, ours)
		if from.out[p.to] == r.gen {
			from.m.LinkUp(r.now, uint8(p.to), true, r.gen, theirs)
		}
	case from.out[p.to] != p.gen || to.in[p.from] != p.gen || to.done:
	case p.pump:
		from.pump(p.to)
	default:
		to.m.Receive(r.now, uint8(p.from), p.payload)
		for i := range p.payload {
			p.payload[i] = 0xEE // it is not to be kept
		}
	}
}

// reset breaks the connections between two nodes.
func (r *rig) reset(a, b int) {
	for _, x := range [][2]int{{a, b}, {b, a}} {
		from, to := r.nodes[x[0]], r.nodes[x[1]]
		gen := from.out[to.id]
		if gen == 0 || to.in[from.id] != gen {
			continue
		}
		delete(from.out, to.id)
		delete(to.in, from.id)
		if !from.done {
			from.m.LinkDown(r.now, uint8(to.id), true, gen, false)
		}
		if !to.done {
			to.m.LinkDown(r.now, uint8(from.id), false, gen, false)
		}
	}
}

// split makes everything between two nodes silent, heal ends that.
func (r *rig) split(a, b int) { r.cut[[2]int{a, b}] = true }

func (r *rig) heal(a, b int) {
	delete(r.cut, [2]int{a, b})
	delete(r.cut, [2]int{b, a})
}

// finish ends the oldest thing that the disk has to do.
func (n *node) finish(err error) {
	f := n.pending[0]
	n.pending = n.pending[1:]
	f(err)
}

// crash ends a node as if its process was killed.
func (r *rig) crash(id int) {
	r.nodes[id].done = true
	for _, other := range r.nodes {
		if other.id != id {
			r.reset(id, other.id)
		}
	}
}

// The World.

func (n *node) Dial(peer uint8) {
	n.r.wire = append(n.r.wire, parcel{from: n.id, to: int(peer), dial: true, sent: n.r.now})
}

func (n *node) Cut(peer uint8) {
	other := n.r.nodes[peer]
	delete(n.out, other.id)
	delete(n.in, other.id)
	n.r.wire = slices.DeleteFunc(n.r.wire, func(p parcel) bool { return p.dial && p.from == n.id && p.to == other.id })
	// The other end learns of it, as soon as the network lets it.
	n.r.wire = append(n.r.wire, parcel{from: n.id, to: other.id, reset: true})
}

func (n *node) Ban(uint64) {}

func (n *node) Send(peer uint8, payload []byte) {
	msg, err := cluster.Decode(payload)
	if err != nil {
		n.r.t.Errorf("%d sends what is no message: %x", n.id, payload)
	}
	if a, ok := msg.(*cluster.Ack); ok && a.Place != n.acked {
		n.acks++
		n.acked = a.Place
	}
	if gen := n.out[int(peer)]; gen != 0 {
		n.r.wire = append(n.r.wire, parcel{from: n.id, to: int(peer), gen: gen, payload: payload})
	}
}

func (n *node) Kick(peer uint8) {
	if gen := n.out[int(peer)]; gen != 0 {
		n.r.wire = append(n.r.wire, parcel{from: n.id, to: int(peer), gen: gen, pump: true})
	}
}

// pump sends what data there is for the peer, a frame at a time.
func (n *node) pump(peer int) {
	if n.slowPeer[peer] {
		return
	}
	frame, ok, overrun := n.m.Next(uint8(peer), replica.MaxFrame, nil)
	if overrun != 0 {
		n.m.Overrun(n.r.now, uint8(peer), overrun)
		return
	}
	if !ok {
		return
	}
	n.frames[peer] = append(n.frames[peer], frame[0])
	if frame[0] == 0x80 {
		n.modes[peer] = append(n.modes[peer], frame[13])
	}
	gen := n.out[peer]
	n.r.wire = append(n.r.wire, parcel{from: n.id, to: peer, gen: gen, payload: frame}, parcel{from: n.id, to: peer, gen: gen, pump: true})
}

func (n *node) StoreEpoch(e replica.Epoch) {
	n.pending = append(n.pending, func(err error) {
		if err == nil && n.disk.Less(e) {
			n.disk = e
		}
		n.m.StoredEpoch(n.r.now, e, err)
	})
}

func (n *node) TakeEpoch(op uint64, above uint32, _ bool) {
	e := replica.Epoch{N: max(above+1, uint32(n.r.now/time.Second)+990), Node: uint8(n.id)}
	n.pending = append(n.pending, func(err error) {
		if err == nil {
			n.disk = e
		}
		n.m.TookEpoch(n.r.now, op, e, 0, err)
	})
}

func (n *node) Log(_ slog.Level, text string, attrs []slog.Attr) {
	for _, a := range attrs {
		text += " " + a.String()
	}
	n.log = append(n.log, text)
}

func (n *node) Fail(reason string) { n.failed = reason }
func (n *node) Done()              { n.done = true }

func (n *node) logged(part string) bool {
	return slices.ContainsFunc(n.log, func(line string) bool { return strings.Contains(line, part) })
}

// The Table.

func (n *node) Now() lockspace.Time { return lockspace.Time(n.r.now) }
func (n *node) Shards() int         { return len(n.shards) }

func (n *node) ShardOf(hash uint64) int {
	// Another one on each node: shards are nobody else's business.
	return int((hash + uint64(n.id)) % uint64(len(n.shards)))
}

func (n *node) With(shard int, f func(*lockspace.Space)) {
	s := n.shards[shard]
	f(s)
	for _, e := range s.Effects() {
		n.answers = append(n.answers, fmt.Sprintf("%d %s #%d kind %d token %d", e.Session, e.Key, e.Tag, e.Kind, e.Token))
	}
	changes := s.Changes()
	if n.stream != nil {
		n.stream.AppendChanges(changes)
	}
}

func (n *node) NewSpace(int) *lockspace.Space {
	return lockspace.New(lockspace.Config{
		DefaultLease: 30 * time.Second, MaxLease: time.Minute, ReattachGrace: time.Second,
		SpentFor: 10 * time.Second, MaxSpent: 65536, MaxWaitersPerKey: 1000, Record: true,
		NextToken: func() (uint64, bool) { return n.alloc.Next() },
	})
}

func (n *node) call(format string, args ...any) {
	n.calls = append(n.calls, fmt.Sprintf(format, args...))
}

func (n *node) SetLog(log *replica.Log) {
	n.call("log %t", log != nil)
	n.stream = log
}

func (n *node) SetMode(mode cluster.Mode, active string) {
	n.call("mode %v", mode)
	n.mode, n.active = mode, active
}

func (n *node) UseTokens(e replica.Epoch, start uint32, ahead bool) {
	n.call("tokens %v", e)
	if n.disk.Less(e) {
		n.r.t.Errorf("%d gives tokens of %v, which is not on its disk: %v", n.id, e, n.disk)
	}
	if ahead {
		n.aheads = append(n.aheads, e)
		n.alloc.Reserve(e.N, e.Node, start)
		return
	}
	n.alloc = fencing.NewAllocator(e.N, e.Node, start)
}

func (n *node) Committed(pos uint64) {
	if pos == math.MaxUint64 {
		n.call("committed all")
	} else {
		n.call("committed")
	}
	n.commit = pos
}

func (n *node) Abandon() {
	n.call("abandon")
	n.abandons++
}

// What clients do.

func (n *node) at(key string, f func(*lockspace.Space)) {
	n.With(n.ShardOf(lockspace.HashKey([]byte(key))), f)
	n.m.KickAll()
}

// acquire returns the token, 0 if there is none yet.
func (n *node) acquire(key, nonce string) (token uint64) {
	n.r.t.Helper()
	if n.mode != cluster.Serve {
		n.r.t.Fatalf("%d does not serve", n.id)
	}
	n.tag++
	a := lockspace.Acquire{Session: 1, Tag: n.tag, Key: []byte(key), MayQueue: true}
	if nonce != "" {
		a.Nonce = lockspace.MakeNonce([]byte(nonce))
	}
	before := len(n.answers)
	n.at(key, func(s *lockspace.Space) { s.Acquire(n.Now(), a) })
	for _, line := range n.answers[before:] {
		var session, tag, kind uint64
		var k string
		if _, err := fmt.Sscanf(line, "%d %s #%d kind %d token %d", &session, &k, &tag, &kind, &token); err != nil {
			n.r.t.Fatal(err)
		}
	}
	return token
}

func (n *node) release(key string, token uint64) (ok bool) {
	n.at(key, func(s *lockspace.Space) { ok = s.Release(n.Now(), []byte(key), token) })
	return ok
}

// digest is what the table holds, whatever shards it is in.
func (n *node) digest() string {
	var all []byte
	for _, s := range n.shards {
		all = s.Digest(all)
	}
	lines := strings.SplitAfter(string(all), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// same checks that the nodes have the table of the first, and its place.
func (r *rig) same(first int, others ...int) {
	r.t.Helper()
	a := r.nodes[first]
	for _, id := range others {
		b := r.nodes[id]
		if got, want := b.digest(), a.digest(); got != want {
			r.t.Errorf("the table of %d is\n%swhile that of %d is\n%s", id, got, first, want)
		}
		if got, want := b.m.Place(), a.m.Place(); got != want {
			r.t.Errorf("%d is at %v, while %d is at %v", id, got, first, want)
		}
	}
}

// roles checks who is active, and that the others name it.
func (r *rig) roles(active int) {
	r.t.Helper()
	for _, n := range r.nodes {
		switch {
		case n.done:
		case n.id == active:
			if !n.m.Active() || n.mode != cluster.Serve {
				r.t.Errorf("%d is active: %t, in mode %v", n.id, n.m.Active(), n.mode)
			}
		case n.m.Active() || n.mode != cluster.Redirect || n.active != addr(uint8(active)):
			r.t.Errorf("%d is active: %t, in mode %v to %s, and should follow %d", n.id, n.m.Active(), n.mode, n.active, active)
		}
	}
}

var errDisk = errors.New("no space")
