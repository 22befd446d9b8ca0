package cluster

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stile-lock/stile/server/peers"
	"github.com/stile-lock/stile/server/replica"
)

// world is a cluster in which nothing happens but what a script says: its
// machines, the connections between them with what is on its way, and disks
// and tables as far as a Machine knows of them.
//
// A table is a place and nothing else; the stream moves it.
type world struct {
	fatalf  func(format string, args ...any)
	now     Time
	cfg     Config // what all have in common
	nodes   []*node
	hidden  map[string]bool
	conns   []*conn
	wire    []*packet // in the order in which it was sent
	gen     uint64
	cut     map[[2]int]string // from, to → how
	stalled map[[2]int]bool   // from, to: the stream does not move
	banned  map[uint64]bool
	used    map[replica.Epoch]bool
	serving string // the ids that serve
	out     strings.Builder
	boots   uint64
}

// node is one machine with its disk, and its process while it runs.
type node struct {
	w      *world
	id     int
	disk   replica.Epoch // what the epoch file has
	how    string        // the disk works: ok, slow, fails
	busy   Time          // when it last wrote
	writes int           // how many times then
	clock  int           // seconds that its clock is ahead
	peers  string

	settings int // nodes that differ in them can't be linked

	m         *Machine // nil: no process
	boot      uint64
	asleep    Time // until then
	place     replica.Place
	forked    bool
	from      int // the stream comes from there; -1
	stream    uint64
	began     uint64 // the stream that has moved the table
	feeds     map[int]uint64
	ackDue    bool
	storing   *replica.Epoch
	taking    *TakeEpoch
	mode      Mode
	modeTo    uint8
	committed uint64
	leaving   bool // Done or Fail: it ends when it has done all it had to
}

// conn is a connection that one node dialed; only the dialer sends on it.
type conn struct {
	from, to         *node
	genFrom, genTo   uint64
	fromUp, toUp     bool
	bootFrom, bootTo uint64
}

// packet is something on its way.
type packet struct {
	from, to *node
	sent     Time
	boot     uint64 // dial: the dialing process
	conn     *conn  // nil: a dial
	msg      Message
	end      bool // the connection was reset; this goes to `to`
}

const origin = 10 * time.Second

func newWorld(n int, cfg Config, fatalf func(string, ...any)) *world {
	w := &world{
		fatalf: fatalf, now: origin, cfg: cfg, hidden: map[string]bool{"dial": true, "status": true, "ack": true},
		cut: map[[2]int]string{}, stalled: map[[2]int]bool{}, banned: map[uint64]bool{}, used: map[replica.Epoch]bool{},
	}
	list := make([]string, n)
	for id := range n {
		list[id] = fmt.Sprintf("n%d:1", id)
	}
	for id := range n {
		w.nodes = append(w.nodes, &node{w: w, id: id, how: "ok", peers: strings.Join(list, ","), from: -1})
	}
	return w
}

// usual is the part of the Config that nodes have in common.
func usual() Config {
	return Config{
		Heartbeat: 100 * time.Millisecond, FailureTimeout: time.Second, BootGrace: 2 * time.Second,
		StopTimeout: 5 * time.Second, Takeback: -1, SyncTimeout: 500 * time.Millisecond,
	}
}

func (w *world) printf(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	fmt.Fprintf(&w.out, "%6.3f  %s\n", (w.now - origin).Seconds(), line)
}

func (n *node) printf(format string, args ...any) {
	n.w.printf("%d "+format, append([]any{n.id}, args...)...)
}

// start runs a new process.
func (n *node) start(failureTimeout time.Duration) {
	w := n.w
	w.boots++
	n.boot = w.boots
	n.place, n.from, n.stream, n.began, n.feeds = replica.Place{}, -1, 0, 0, map[int]uint64{}
	n.forked, n.ackDue, n.storing, n.taking, n.leaving, n.asleep = false, false, nil, nil, false, 0
	n.mode, n.committed = Hold, math.MaxUint64
	list, err := peers.Parse(n.peers)
	if err != nil {
		w.fatalf("%v", err)
	}
	cfg := w.cfg
	cfg.Self, cfg.Boot, cfg.Known, cfg.FailureTimeout = uint8(n.id), n.boot, n.disk, failureTimeout
	for _, p := range list {
		cfg.Order = append(cfg.Order, p.ID)
	}
	cfg.Advertise, cfg.Peers = fmt.Sprintf("n%d:1", n.id), list.String()
	cfg.Compatible = func(theirs string) error {
		other, err := peers.Parse(theirs)
		if err != nil {
			return err
		}
		return peers.Compatible(list, other)
	}
	cfg.Place = func() replica.Place { return n.place }
	cfg.Forked = func() bool { return n.forked }
	n.m = New(cfg, w.now)
	n.carry()
}

// up reports whether the process runs, and is not asleep.
func (n *node) up() bool { return n.m != nil && n.w.now >= n.asleep }

// carry carries out the actions as a member of a cluster does.
func (n *node) carry() {
	for round := 0; n.m != nil; round++ {
		if round > 1000 {
			n.w.fatalf("node %d finds no rest", n.id)
		}
		actions := n.m.Actions()
		for _, a := range actions {
			n.do(a)
		}
		if n.ackDue && n.m.MayAck() {
			n.ackDue = false
			if n.from >= 0 {
				n.send(n.from, &Ack{Stream: n.stream, Place: n.place})
			}
		}
		n.commit()
		if len(actions) == 0 {
			break
		}
		n.m.Tick(n.w.now)
	}
	if n.leaving && n.m != nil {
		n.crash()
	}
}

func (n *node) commit() {
	c := n.m.Committed()
	if c == n.committed {
		return
	}
	n.committed = c
	if c == math.MaxUint64 {
		n.show("commit", "answers wait for nobody")
	} else {
		n.show("commit", "answers up to %d", c)
	}
}

// show prints a line unless the script wants none of the kind.
func (n *node) show(kind, format string, args ...any) {
	if !n.w.hidden[kind] {
		n.printf(format, args...)
	}
}

func (n *node) do(a Action) {
	w := n.w
	switch a := a.(type) {
	case Dial:
		n.show("dial", "dial %d", a.Peer)
		w.wire = append(w.wire, &packet{from: n, to: w.nodes[a.Peer], sent: w.now, boot: n.boot})
	case Cut:
		n.show("cut", "cut %d", a.Peer)
		n.cutOff(w.nodes[a.Peer])
	case Ban:
		n.show("ban", "ban boot %d", a.Boot)
		w.banned[a.Boot] = true
	case Send:
		n.send(int(a.Peer), a.Msg)
	case StoreEpoch:
		n.show("store", "store epoch %v", a.Epoch)
		n.storing = &a.Epoch
	case TakeEpoch:
		n.show("take", "take epoch above %d", a.Above)
		n.taking = &a
	case Pull:
		n.from, n.stream = int(a.Peer), a.Stream
	case Feed:
		n.show("feed", "feed %d from %v on", a.Peer, a.Place)
		n.feeds[int(a.Peer)] = a.Stream
	case Unfeed:
		n.show("feed", "unfeed %d", a.Peer)
		delete(n.feeds, int(a.Peer))
	case Promote:
		n.printf("PROMOTE reign %v base %v gap %v", a.Reign, a.Base, a.Gap)
		n.use(a.Reign)
		n.place, n.forked, n.from = Start(a.Reign, a.Start), false, -1
	case UseEpoch:
		ahead := ""
		if a.Ahead {
			ahead = ", ahead"
		}
		n.printf("use epoch %v%s", a.Epoch, ahead)
		n.use(a.Epoch)
		n.place.Pos++
	case Demote:
		n.printf("DEMOTE to %v", a.Place)
		n.place, n.forked, n.from = a.Place, n.forked || n.place != a.Place, -1
	case SetMode:
		n.commit()
		n.mode, n.modeTo = a.Mode, a.Active
		n.printf("mode %s", n.showMode())
	case SetInSync:
		n.place.Pos++
		n.printf("in sync: %s, at %d", ids(a.Members), n.place.Pos)
		n.m.InSyncAt(w.now, a.Members, n.place.Pos)
	case SendOffer:
		n.printf("offer the table to %d by way of %d", a.To, a.Via)
		for seq := range uint32(2) {
			n.send(int(a.Via), &Offer{From: uint8(n.id), To: a.To, Epoch: a.Epoch, Seq: seq, Last: seq == 1})
		}
	case Adopt:
		n.printf("adopt what %d offered", a.From)
	case Say:
		text := "log: " + a.Text
		for _, attr := range a.Attrs {
			text += " " + attr.String()
		}
		n.show("log", "%s", text)
	case Fail:
		n.printf("FAIL: %s", a.Reason)
		n.leaving = true
	case Done:
		n.printf("DONE")
		n.leaving = true
	default:
		w.fatalf("unknown action %T", a)
	}
}

// use checks that the node gives tokens under an epoch that is on its disk, and
// that nobody has used.
func (n *node) use(e replica.Epoch) {
	if less(n.disk, e) {
		n.w.fatalf("node %d uses epoch %v, and has %v on its disk", n.id, e, n.disk)
	}
	if n.w.used[e] {
		n.w.fatalf("node %d uses epoch %v again", n.id, e)
	}
	n.w.used[e] = true
}

func (n *node) showMode() string {
	if n.mode == Redirect {
		return fmt.Sprintf("redirect to %d", n.modeTo)
	}
	return n.mode.String()
}

func (n *node) send(to int, msg Message) {
	w := n.w
	msg, err := Decode(Append(nil, msg))
	if err != nil {
		w.fatalf("%T can't be sent", msg)
	}
	if kind, text := describe(msg); kind != "" {
		n.show(kind, "> %d %s", to, text)
	}
	for _, c := range w.conns {
		if c.from == n && c.to.id == to && c.fromUp {
			w.wire = append(w.wire, &packet{from: n, to: c.to, sent: w.now, conn: c, msg: msg})
		}
	}
}

func describe(msg Message) (kind, text string) {
	switch m := msg.(type) {
	case *Status:
		return "status", describeStatus(m)
	case *Join:
		if m.Stream == 0 {
			return "join", "the stream has ended"
		}
		return "join", fmt.Sprintf("join, at %v", m.Place)
	case *Ack:
		return "ack", fmt.Sprintf("ack %v", m.Place)
	case *Prepare:
		if m.ID == 0 {
			return "handoff", "prepare no longer"
		}
		return "handoff", fmt.Sprintf("prepare #%d, above %v", m.ID, m.Above)
	case *Prepared:
		if m.Epoch.N == 0 {
			return "handoff", fmt.Sprintf("not prepared #%d", m.ID)
		}
		return "handoff", fmt.Sprintf("prepared #%d, epoch %v", m.ID, m.Epoch)
	case *Go:
		return "handoff", fmt.Sprintf("GO #%d at %v", m.ID, m.Place)
	case *Offer:
		last := ""
		if m.Last {
			last = ", the last"
		}
		return "offer", fmt.Sprintf("offer of %d to %d, part %d%s", m.From, m.To, m.Seq, last)
	}
	return "", fmt.Sprintf("%T", msg)
}

func describeStatus(s *Status) string {
	text := fmt.Sprintf("status: %v at %v known %v", s.Role, s.Place, s.Known)
	if s.Role == Active {
		text += fmt.Sprintf(" epoch %v base %v", s.Epoch, s.Base)
	}
	for _, f := range []struct {
		on   bool
		name string
	}{{s.Stopping, "stopping"}, {s.Unfit, "unfit"}, {s.Fresh, "fresh"}, {s.Paused, "paused"}} {
		if f.on {
			text += " " + f.name
		}
	}
	if s.Meeting != 0 {
		text += fmt.Sprintf(" meeting %d", s.Meeting-1)
	}
	text += " reach " + ids(s.Reach)
	for _, a := range s.Sees {
		text += fmt.Sprintf(" sees %d of %v", a.ID, a.Reign)
	}
	return text + fmt.Sprintf(" ask %d answer %d", s.Ask, s.Answer)
}

func ids(set uint16) string {
	var list []string
	for id := range uint8(16) {
		if set&bit(id) != 0 {
			list = append(list, strconv.Itoa(int(id)))
		}
	}
	if list == nil {
		return "nobody"
	}
	return strings.Join(list, ",")
}

// cutOff resets the node's connections with the other. The other end learns
// of it as far as the network lets it.
func (n *node) cutOff(other *node) {
	w := n.w
	for _, c := range w.conns {
		if c.from == n && c.to == other {
			c.fromUp = false
		} else if c.from == other && c.to == n {
			c.toUp = false
		} else {
			continue
		}
		w.discard(func(p *packet) bool { return p.conn == c && !p.end })
		w.wire = append(w.wire, &packet{from: n, to: other, sent: w.now, conn: c, end: true})
	}
	w.discard(func(p *packet) bool { return p.conn == nil && p.from == n && p.to == other })
}

// crash ends the process.
func (n *node) crash() {
	n.m = nil
	for _, other := range n.w.nodes {
		if other != n {
			n.cutOff(other)
		}
	}
	n.w.discard(func(p *packet) bool { return p.to == n && p.conn != nil })
}

func (w *world) discard(which func(*packet) bool) int {
	before := len(w.wire)
	w.wire = slices.DeleteFunc(w.wire, which)
	return before - len(w.wire)
}

// way reports what is in the way from one node to another: "" or how it is cut.
func (w *world) way(from, to *node) string { return w.cut[[2]int{from.id, to.id}] }

// deliver takes the first packet that can arrive and that pick wants. It
// reports whether there was one.
func (w *world) deliver(pick func(*packet) bool) bool {
	for i, p := range w.wire {
		if !pick(p) || !w.arrives(p) {
			continue
		}
		w.wire = slices.Delete(w.wire, i, i+1)
		w.arrive(p)
		return true
	}
	return false
}

func (w *world) arrives(p *packet) bool {
	if p.conn == nil {
		switch {
		case !p.from.up():
			return false
		case p.from.boot != p.boot, w.now-p.sent >= w.cfg.FailureTimeout:
			return true
		case w.way(p.from, p.to) == "silent" || w.way(p.to, p.from) == "silent":
			return false
		}
		return p.to.m == nil || p.to.up() || w.way(p.from, p.to) == "refused"
	}
	return p.to.up() && w.way(p.from, p.to) != "silent"
}

func (w *world) arrive(p *packet) {
	n := p.to
	switch c := p.conn; {
	case c == nil:
		w.arriveDial(p)
	case p.end:
		if c.from == n && c.fromUp {
			c.fromUp = false
			n.m.LinkDown(w.now, uint8(c.to.id), true, c.genFrom, false)
			n.carry()
		} else if c.to == n && c.toUp {
			c.toUp = false
			n.m.LinkDown(w.now, uint8(c.from.id), false, c.genTo, false)
			n.carry()
		}
	case c.toUp:
		n.m.Receive(w.now, uint8(p.from.id), p.msg)
		n.carry()
	}
}

func (w *world) arriveDial(p *packet) {
	a, b := p.from, p.to
	switch {
	case a.boot != p.boot || a.m == nil:
		return // of a process that has ended
	case w.way(a, b) == "silent" || w.way(b, a) == "silent":
		a.m.DialFailed(w.now, uint8(b.id), false, false)
		a.carry()
		return
	case b.m == nil || w.way(a, b) == "refused":
		a.m.DialFailed(w.now, uint8(b.id), true, false)
		a.carry()
		return
	case !b.up():
		a.m.DialFailed(w.now, uint8(b.id), false, false)
		a.carry()
		return
	case w.way(a, b) == "misfit" || a.settings != b.settings:
		a.m.DialFailed(w.now, uint8(b.id), false, true)
		a.carry()
		return
	case w.banned[a.boot]:
		a.printf("is turned away by %d, and ends", b.id)
		a.crash()
		return
	}
	for _, c := range w.conns {
		if c.from == a && c.to == b && c.toUp {
			c.toUp = false
			b.m.LinkDown(w.now, uint8(a.id), false, c.genTo, false)
			b.carry()
		}
	}
	w.gen += 2
	c := &conn{from: a, to: b, genFrom: w.gen - 1, genTo: w.gen, fromUp: true, toUp: true}
	w.conns = append(slices.DeleteFunc(w.conns, func(c *conn) bool { return !c.fromUp && !c.toUp }), c)
	ours, theirs := a.m.Hello(), b.m.Hello()
	b.m.LinkUp(w.now, uint8(a.id), false, c.genTo, ours)
	b.carry()
	if a.m != nil && c.fromUp {
		a.m.LinkUp(w.now, uint8(b.id), true, c.genFrom, theirs)
		a.carry()
	}
}

// flow moves the streams on. It reports whether one has moved.
func (w *world) flow(pick func(from, to *node) bool) (moved bool) {
	for _, c := range w.conns {
		a, b := c.from, c.to
		stream := a.feeds[b.id]
		if !c.fromUp || !c.toUp || !a.up() || !b.up() || stream == 0 || w.stalled[[2]int{a.id, b.id}] ||
			w.way(a, b) != "" || !pick(a, b) || b.from != a.id || b.stream != stream {
			continue
		}
		if a.place == b.place && b.began == stream {
			continue
		}
		moved = true
		b.place, b.forked, b.began, b.ackDue = a.place, false, stream, true
		b.m.Heard(w.now, uint8(a.id))
		if a.m.role == Active {
			b.m.Learn(a.m.epoch)
		}
		b.m.Progress(w.now, false)
		b.carry()
	}
	return moved
}

// disks finish what they were asked to do, four things in a moment.
func (w *world) disks() (did bool) {
	for _, n := range w.nodes {
		if !n.up() || n.how == "slow" || n.busy == w.now && n.writes >= 4 {
			continue
		}
		if n.busy != w.now {
			n.busy, n.writes = w.now, 0
		}
		if n.storing != nil || n.taking != nil {
			n.writes++
		}
		var err error
		if n.how == "fails" {
			err = errors.New("no space")
		}
		if n.storing != nil {
			n.stored(err)
			did = true
		}
		if n.m != nil && n.taking != nil {
			n.took(err)
			did = true
		}
	}
	return did
}

func (n *node) stored(err error) {
	e := *n.storing
	n.storing = nil
	if err == nil && less(n.disk, e) {
		n.disk = e
	}
	n.m.StoredEpoch(n.w.now, e, err)
	n.carry()
}

func (n *node) took(err error) {
	op := n.taking
	n.taking = nil
	clock := 1000 + n.clock + int((n.w.now-origin)/time.Second)
	e := replica.Epoch{N: max(min(op.Above, 1<<31-2)+1, uint32(max(clock, 0))), Node: uint8(n.id)}
	if op.Above == 1<<31-1 {
		err = errors.New("no epoch is left")
	}
	if err == nil {
		n.disk = e
	}
	n.m.TookEpoch(n.w.now, op.Op, e, 0, err)
	n.carry()
}

// rest lets everything happen that needs no time.
func (w *world) rest() {
	all := func(*packet) bool { return true }
	flows := func(*node, *node) bool { return true }
	for round := 0; w.deliver(all) || w.disks() || w.flow(flows); round++ {
		if round > 20000 {
			w.fatalf("the cluster finds no rest; its last words:\n%s", w.out.String()[max(0, w.out.Len()-2000):])
		}
	}
	w.checkServing()
}

// checkServing prints when more than one node serves.
func (w *world) checkServing() {
	serving, count := "", 0
	for _, n := range w.nodes {
		if n.up() && n.mode == Serve {
			serving += fmt.Sprintf(" %d", n.id)
			count++
		}
	}
	if serving != w.serving && count > 1 {
		w.printf("!! these serve at the same time:%s", serving)
	}
	w.serving = serving
}

// tick lets time pass, with rest after each step if wanted.
func (w *world) tick(by time.Duration, rest bool) {
	for end := w.now + by; w.now < end; {
		w.now = min(end, w.now+w.cfg.Heartbeat/4)
		for _, n := range w.nodes {
			if n.up() {
				n.m.Tick(w.now)
				n.carry()
			}
		}
		if rest {
			w.rest()
		}
	}
}
