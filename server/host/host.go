package host

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stile-lock/stile/server/cluster"
	"github.com/stile-lock/stile/server/fencing"
	"github.com/stile-lock/stile/server/history"
	"github.com/stile-lock/stile/server/member"
	"github.com/stile-lock/stile/server/node"
	"github.com/stile-lock/stile/server/peer"
	"github.com/stile-lock/stile/server/peers"
	"github.com/stile-lock/stile/server/replica"
)

// Config is what a Host is made with. All is required, but for what is said.
type Config struct {
	Node  node.Config // Tokens and Cluster are set by the host
	Peers peers.List
	Self  int // index in Peers

	Secret   []byte                        // of the cluster; may be empty
	DialTLS  func(host string) *tls.Config // nil: peers speak no TLS
	Mutual   bool                          // who dials has shown a certificate
	DialFrom netip.Addr                    // invalid: from wherever

	Heartbeat, FailureTimeout, BootGrace, StopTimeout time.Duration
	Takeback                                          time.Duration // negative: never

	Sync        bool
	SyncTimeout time.Duration
	MinInSync   int

	Store *fencing.Store
	Wall  func() time.Time // the clock that epochs come from
	Log   *slog.Logger
	// History is told of the changes of the role.
	History *history.Log
}

// holdSlack is how much longer than the failure timeout a request is kept:
// the time to find out, to promote, and to serve.
const holdSlack = time.Second

// posted is how much may wait for the loop before whoever posts has to wait.
const posted = 256

// Host is a running node of a cluster.
type Host struct {
	cfg    Config
	node   *node.Node
	member *member.Member
	mesh   *peer.Mesh
	log    *slog.Logger
	boot   uint64

	posts  chan func(now time.Duration)
	quit   chan struct{} // closed by Close
	ended  chan struct{} // closed when the loop has ended
	done   chan struct{} // closed when the member may end
	failed chan error
	once   sync.Once

	hello  atomic.Pointer[[]byte]
	tokens atomic.Pointer[fencing.Allocator]
	watch  context.CancelFunc // of the loop: ends the watch of the allocator

	unreached [16]unreached // of the loop
	asked     [16]asked     // of the loop
	secrets   [][]byte      // of the loop: what clients must give
	role      cluster.Role  // of the loop: as last noted
	reign     replica.Epoch // of the loop: of another node, as last noted

	mu    sync.Mutex
	extra map[uint8]string // addresses of peers that only they list
}

// New starts a node. It serves no connection until Node().Serve is called.
func New(cfg Config) *Host {
	h := &Host{
		cfg: cfg, log: cfg.Log, boot: rand.Uint64() | 1,
		posts: make(chan func(time.Duration), posted),
		quit:  make(chan struct{}), ended: make(chan struct{}), done: make(chan struct{}),
		failed: make(chan error, 1), extra: map[uint8]string{},
		watch: func() {}, secrets: cfg.Node.Secrets,
	}
	self := cfg.Peers[cfg.Self]
	h.mesh = peer.New(peer.Config{
		Self: self.ID, Boot: h.boot,
		Peers:  func(id uint8) (string, bool) { return h.addr(id), true },
		List:   cfg.Peers.String(),
		Secret: cfg.Secret, LocalIP: cfg.DialFrom, TLS: cfg.DialTLS, Host: h.certifiedHost(),
		Hello:            func() []byte { return *h.hello.Load() },
		HandshakeTimeout: cfg.FailureTimeout,
		Log:              cfg.Log,
	}, h.linkEvent)

	nc := cfg.Node
	nc.Tokens = h.nextToken
	nc.Cluster = &node.Cluster{
		Sync: cfg.Sync, HoldFor: cfg.FailureTimeout + holdSlack,
		Kick:  func() { h.member.KickAll() },
		Peer:  h.mesh.Accept,
		Clock: clock, PauseLimit: cfg.Heartbeat,
	}
	h.node = node.New(nc)

	order := make([]uint8, len(cfg.Peers))
	for i, p := range cfg.Peers {
		order[i] = p.ID
	}
	now := clock()
	h.member = member.New(member.Config{
		Roles: cluster.Config{
			Self: self.ID, Order: order, Boot: h.boot,
			Advertise: self.Addr, Peers: cfg.Peers.String(),
			Compatible: h.compatible, Listed: h.listed,
			Heartbeat: cfg.Heartbeat, FailureTimeout: cfg.FailureTimeout, BootGrace: cfg.BootGrace,
			StopTimeout: cfg.StopTimeout, Takeback: cfg.Takeback,
			Sync: cfg.Sync, SyncTimeout: cfg.SyncTimeout, MinInSync: cfg.MinInSync,
			Known: replica.Epoch(cfg.Store.Known()),
		},
		Addr: h.addr,
	}, (*world)(h), table{h.node.Table(), h}, now)
	h.node.Passed(now)
	h.say()
	h.noteRole()
	go h.loop()
	return h
}

// certifiedHost is peer.Config.Host.
func (h *Host) certifiedHost() func(id uint8) (string, bool) {
	if !h.cfg.Mutual {
		return nil
	}
	return func(id uint8) (string, bool) {
		i, ok := h.cfg.Peers.Index(id)
		if !ok {
			return "", false
		}
		host, _, err := net.SplitHostPort(h.cfg.Peers[i].Addr)
		return host, err == nil
	}
}

// SetSecret changes the cluster's secret for links to come.
func (h *Host) SetSecret(secret []byte) { h.mesh.SetSecret(secret) }

// Node is the node that serves clients.
func (h *Host) Node() *node.Node { return h.node }

// Epoch is the epoch of the latest token that this node could give, 0 if it
// was not active yet.
func (h *Host) Epoch() uint32 {
	if a := h.tokens.Load(); a != nil {
		return a.Epoch()
	}
	return 0
}

// Failed delivers why the node must not go on.
func (h *Host) Failed() <-chan error { return h.failed }

// loop is the only goroutine that calls the member.
func (h *Host) loop() {
	defer close(h.ended)
	tick := time.NewTicker(h.cfg.Heartbeat / 4)
	defer tick.Stop()
	h.pass(func(now time.Duration) { h.member.Tick(now) })
	for {
		select {
		case <-h.quit:
			h.watch()
			return
		case f := <-h.posts:
			h.pass(f)
		case <-tick.C:
			h.pass(func(now time.Duration) { h.member.Tick(now) })
		}
	}
}

// pass lets the member look at the time and at what has happened.
func (h *Host) pass(f func(time.Duration)) {
	now := clock()
	f(now)
	h.say()
	h.node.Passed(now)
	if h.member.Role() != h.role {
		h.noteRole()
	}
	if id, reign, ok := h.member.Other(); ok && reign != h.reign {
		h.reign = reign
		h.cfg.History.Add(history.Event{Time: h.cfg.Wall(), Kind: history.Active, Active: h.addr(id), Epoch: reign.N})
	}
}

// noteRole puts the role into the history.
func (h *Host) noteRole() {
	h.role = h.member.Role()
	v := h.member.Status()
	h.cfg.History.Add(history.Event{
		Time: h.cfg.Wall(), Kind: history.Role, Role: v.Role, Why: v.Why, Epoch: v.KnownEpoch,
	})
}

// say makes the hello for links that come up.
func (h *Host) say() {
	hello := h.member.Hello()
	h.hello.Store(&hello)
}

// post has the loop call f. It reports false if there is no loop any more.
func (h *Host) post(f func(now time.Duration)) bool {
	select {
	case h.posts <- f:
		return true
	case <-h.quit:
		return false
	}
}

// linkEvent is called by the goroutines of the links.
func (h *Host) linkEvent(e peer.Event) {
	id, gen, refused := e.Peer, e.Gen, e.Refused
	switch e.Kind {
	case peer.OutUp:
		h.mesh.SetSource(id, func(buf []byte) ([]byte, bool) { return h.next(id, buf) })
		h.post(func(now time.Duration) {
			err := h.member.LinkUp(now, id, true, gen, e.Hello)
			if err != nil {
				h.sayUnreached(peer.Event{Peer: id, Misfit: true, Err: fmt.Errorf("node %d at %s: %w", id, h.addr(id), err)})
				return
			}
			h.unreached[id] = unreached{}
			h.asked[id].out = e.Boot
			h.tellTerms(id)
		})
	case peer.InUp:
		h.learnAddr(id, e.Hello)
		h.post(func(now time.Duration) {
			h.asked[id].in, h.asked[id].theirs = e.Boot, nil
			// What can't be read is said of the link that this node dials.
			_ = h.member.LinkUp(now, id, false, gen, e.Hello)
		})
	case peer.OutLost, peer.InLost:
		h.debug(e)
		h.post(func(now time.Duration) {
			if e.Kind == peer.OutLost {
				h.asked[id].out = 0
			}
			h.member.LinkDown(now, id, e.Kind == peer.OutLost, gen, refused)
		})
	case peer.DialFailed:
		h.debug(e)
		var rejected *peer.RejectedError
		turned := errors.As(e.Err, &rejected)
		if turned && rejected.Verdict == peer.Twice {
			(*world)(h).Fail("another process runs with the id of this node: give each node an entry of its own in --peers")
		}
		h.post(func(now time.Duration) {
			h.sayUnreached(e)
			if turned && (rejected.Verdict == peer.WrongNode || rejected.Verdict == peer.SameNode) && h.member.Joining() {
				(*world)(h).Fail("the node at " + h.addr(id) + " runs, and turned this one away: " + rejected.Reason + "; the peers list of this node is " + h.cfg.Peers.String())
			}
			h.member.DialFailed(now, id, refused, e.Misfit)
		})
	case peer.Frame:
		payload := append([]byte(nil), e.Payload...)
		if len(payload) > 0 && payload[0] == termsFrame {
			h.post(func(time.Duration) { h.takeTerms(id, payload) })
			return
		}
		h.post(func(now time.Duration) { h.member.Receive(now, id, payload) })
	}
}

// unreached is why a peer can't be reached, as of the last try.
type unreached struct{ kind, why string }

// sayUnreached logs why a peer can't be reached, once for each kind of reason:
// a wrong name or address would otherwise show on the day of a failover.
func (h *Host) sayUnreached(e peer.Event) {
	kind, level := "silent", slog.LevelWarn
	switch {
	case e.Refused:
		kind, level = "refused", slog.LevelInfo // it is not started yet, or has ended
	case e.Misfit:
		kind, level = "misfit", slog.LevelError
	case !errors.Is(e.Err, context.DeadlineExceeded):
		kind = "failed"
	}
	was := h.unreached[e.Peer].kind
	h.unreached[e.Peer] = unreached{kind, e.Err.Error()}
	if was != kind {
		h.log.Log(context.Background(), level, "a peer can't be reached", slog.Int("peer", int(e.Peer)),
			slog.String("address", h.addr(e.Peer)), slog.Any("error", e.Err))
	}
}

func (h *Host) debug(e peer.Event) {
	h.log.Debug("link: "+e.Kind.String(), slog.Int("peer", int(e.Peer)), slog.Bool("refused", e.Refused), slog.Any("error", e.Err))
}

// maxData is how many bytes of data a frame has at most. Heartbeats wait for
// no more than one.
const maxData = 64 << 10

// next is called by the writer of a link.
func (h *Host) next(id uint8, buf []byte) ([]byte, bool) {
	frame, ok, overrun := h.member.Next(id, maxData, buf)
	if overrun != 0 {
		h.post(func(now time.Duration) { h.member.Overrun(now, id, overrun) })
	}
	return frame, ok
}

// addr is where a node is to be reached, by its clients as well; empty if it
// is not known.
func (h *Host) addr(id uint8) string {
	if i, ok := h.cfg.Peers.Index(id); ok {
		return h.cfg.Peers[i].Addr
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.extra[id]
}

// learnAddr notes where a node is that only its own list has.
func (h *Host) learnAddr(id uint8, hello []byte) {
	if _, ok := h.cfg.Peers.Index(id); ok {
		return
	}
	if msg, err := cluster.Decode(hello); err == nil {
		if s, ok := msg.(*cluster.Status); ok {
			h.mu.Lock()
			h.extra[id] = s.Advertise
			h.mu.Unlock()
		}
	}
}

func (h *Host) compatible(list string) error {
	theirs, err := peers.Parse(list)
	if err != nil {
		return err
	}
	return peers.Compatible(h.cfg.Peers, theirs)
}

// listed reports whether a node that says it has the id may be the one that we
// list under it.
func (h *Host) listed(id uint8, advertise string) bool {
	i, ok := h.cfg.Peers.Index(id)
	return !ok || peers.Canonical(h.cfg.Peers[i].Addr) == peers.Canonical(advertise)
}

// Status is what an operator sees.
func (h *Host) Status() (s member.Status) {
	got := make(chan struct{})
	status := func(time.Duration) {
		s = h.member.Status()
		for i := range s.PeerViews {
			p := &s.PeerViews[i]
			if p.Problem == "" && !p.Reached {
				p.Problem = h.unreached[p.ID].why
			}
			if d := h.asked[p.ID].difference; d != "" && p.Reached {
				p.Differs = append(p.Differs, d)
			}
		}
		close(got)
	}
	if h.post(status) {
		select {
		case <-got:
		case <-h.ended:
		}
	}
	return s
}

// Shutdown hands the role over, answers everybody who waits, and stops. When
// ctx ends first, what is left is cut, and the context's error returned.
func (h *Host) Shutdown(ctx context.Context) error {
	h.post(func(now time.Duration) { h.member.Stop(now) })
	select {
	case <-h.done:
	case <-ctx.Done():
	}
	err := h.node.Shutdown(ctx)
	h.Close()
	return err
}

// Close stops the loop and cuts all links, without a word to anybody.
func (h *Host) Close() {
	h.once.Do(func() { close(h.quit) })
	<-h.ended
	h.mesh.Close()
}

func (h *Host) nextToken() (uint64, bool) {
	a := h.tokens.Load()
	if a == nil {
		return 0, false
	}
	return a.Next()
}

// table is the node's, with the tokens.
type table struct {
	node.Table
	h *Host
}

// SetMode implements member.Table.
func (t table) SetMode(mode cluster.Mode, active string) {
	t.h.log.Debug("how clients are answered", slog.String("mode", mode.String()), slog.String("active", active))
	t.Table.SetMode(mode, active)
}

// UseTokens implements member.Table.
func (t table) UseTokens(e replica.Epoch, start uint32, ahead bool) {
	h := t.h
	if ahead {
		h.tokens.Load().Reserve(e.N, e.Node, start)
		return
	}
	a := fencing.NewAllocator(e.N, e.Node, start)
	h.tokens.Store(a)
	h.watch()
	ctx, cancel := context.WithCancel(context.Background())
	h.watch = cancel
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-a.Want():
				h.post(func(now time.Duration) {
					if h.tokens.Load() == a {
						h.member.WantEpoch(now)
					}
				})
			}
		}
	}()
}
