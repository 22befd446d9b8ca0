package node

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stile-lock/stile/protocol"
	"github.com/stile-lock/stile/server/cluster"
	"github.com/stile-lock/stile/server/internal/hist"
	"github.com/stile-lock/stile/server/internal/rarely"
	"github.com/stile-lock/stile/server/lockspace"
)

// Profiles is what a node that is alone lists in its answer to a hello, and
// ClusterProfiles what one of a cluster lists.
const (
	Profiles        = "core,keep,ping,hello,resume"
	ClusterProfiles = "core,cluster,keep,ping,hello,resume"
)

// Config is what a node is made with. The zero value of every field but
// Tokens means the default.
type Config struct {
	// Advertise is the host:port that a hello names. Empty: the local
	// address of the connection.
	Advertise string

	// Tokens gives a token greater than every one before it, or false if
	// none is left: then acquires are answered with no-active.
	Tokens func() (token uint64, ok bool)

	DefaultLease time.Duration // 30 s
	MaxLease     time.Duration // 24 h

	// ReattachGrace is how long a waiter with a nonce keeps its place after
	// its connection dropped. 1 s.
	ReattachGrace time.Duration

	MaxConnections   int // 10,000
	MaxWaiters       int // in all; 1,000,000
	MaxWaitersPerKey int // 200,000
	MaxUnanswered    int // per connection; protocol.MaxUnanswered

	// MaxOutbound is how many bytes of answers a connection may leave unread
	// in the node before it is cut off. 4 MiB.
	MaxOutbound int

	// WriteTimeout is how long a write may make no progress before the
	// connection is cut off. 10 s.
	WriteTimeout time.Duration

	// IdleTimeout is how long a connection may be silent, with nothing
	// unanswered, before it is closed. 5 min; below 0: never.
	IdleTimeout time.Duration

	// MaxConnectionsPerAddress and MaxWrongSecrets (in a minute) bound what
	// comes from one address; see addressOf. 0: no bound.
	MaxConnectionsPerAddress int
	MaxWrongSecrets          int

	// Secrets, one of which clients must give in a hello; empty: none is asked.
	Secrets [][]byte

	// HelloTimeout is how long a connection may take to give the secret. 1 min.
	HelloTimeout time.Duration

	// TLS that all connections must speak; nil: none.
	TLS *tls.Config

	// HandshakeTimeout is how long the handshake of TLS may take. 10 s.
	HandshakeTimeout time.Duration

	// Cluster is set for a node of a cluster. Such a node is a standby until
	// its Table is told otherwise.
	Cluster *Cluster

	Log *slog.Logger // nothing is logged by default
}

// Cluster is what a node of a cluster is made with besides. All is required.
type Cluster struct {
	// Sync has the answers to changes wait until Table.Committed lets them
	// out.
	Sync bool
	// HoldFor is how long a request is kept while it can't be answered.
	HoldFor time.Duration
	// Kick is called when the log has grown. It must not block.
	Kick func()
	// Peer takes a connection that another node has dialed, with the bytes
	// that were read of it.
	Peer func(nc net.Conn, already []byte)

	// Clock also runs while the machine sleeps. Nothing is done with the
	// table when Node.Passed was not called within PauseLimit on it: the
	// process was paused, and may have lost its role.
	Clock      func() time.Duration
	PauseLimit time.Duration
}

func (c Config) withDefaults() Config {
	def(&c.DefaultLease, 30*time.Second)
	def(&c.MaxLease, 24*time.Hour)
	def(&c.ReattachGrace, time.Second)
	def(&c.MaxConnections, 10_000)
	def(&c.MaxWaiters, 1_000_000)
	def(&c.MaxWaitersPerKey, 200_000)
	def(&c.MaxUnanswered, protocol.MaxUnanswered)
	def(&c.MaxOutbound, 4<<20)
	def(&c.WriteTimeout, 10*time.Second)
	def(&c.IdleTimeout, 5*time.Minute)
	def(&c.HelloTimeout, time.Minute)
	def(&c.HandshakeTimeout, 10*time.Second)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

func def[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

const (
	// spentFor and maxSpent are what SPEC.md asks of a server's memory of
	// spent nonces. maxSpent holds for each shard, and so for the node.
	spentFor = 10 * time.Second
	maxSpent = 65_536

	// maxHeld is how many requests are kept in all while they can't be
	// answered. A request is at most a line, but most are far shorter: they
	// take less than 16 MiB.
	maxHeld = 65_536

	// shardCount is a power of two, far above the number of cores: two busy
	// connections seldom want the same lock.
	shardCount = 64
)

// ErrStopped is returned by Serve after Shutdown.
var ErrStopped = errors.New("node: stopped")

// Node is one node that serves clients.
type Node struct {
	cfg    Config
	origin time.Time // of lockspace.Time
	seed   uint64    // of the hash that picks a shard
	shards [shardCount]*shard

	// advancing has room for half as many shards as there are processors. If all
	// shards ended leases at once, they would keep every processor busy, and the
	// runtime looks for what has come over the network only when one is idle, or
	// every 10 ms.
	advancing chan struct{}

	// sessions has a connection at the slot its session names; see session.
	sessions  []atomic.Pointer[conn]
	departed  departed
	freeSlots chan uint32
	conns     sync.WaitGroup

	waiting     atomic.Int64 // in all shards
	held        atomic.Int64 // kept requests in all shards
	connections atomic.Int64
	generation  atomic.Uint64 // of sessions

	// Counted beside the shards.
	refused    [maxCodes]atomic.Uint64 // by code
	turnedAway atomic.Uint64
	cutOffs    atomic.Uint64
	handOvers  [64]hist.Shared // by session, so that few share one

	stopping atomic.Bool
	stopped  chan struct{} // closed when Shutdown begins

	mu        sync.Mutex
	listeners map[net.Listener]struct{}

	spaceConfig lockspace.Config

	secrets atomic.Pointer[[][]byte]
	addrs   *addresses

	cantAccept, insecure, barred rarely.Line
	unauthorized                 rarely.Line // a minute: whole deployments can have an old secret

	// Of a cluster.
	passed    atomic.Int64 // when the roles last looked at the time
	committed atomic.Uint64
	lateMu    sync.Mutex
	late      []*conn // with answers that wait for the standbys
}

// New returns a node that serves nobody yet.
func New(cfg Config) *Node {
	cfg = cfg.withDefaults()
	n := &Node{
		cfg:       cfg,
		origin:    time.Now(),
		seed:      rand.Uint64(),
		sessions:  make([]atomic.Pointer[conn], cfg.MaxConnections),
		freeSlots: make(chan uint32, cfg.MaxConnections),
		stopped:   make(chan struct{}),
		advancing: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),
		listeners: make(map[net.Listener]struct{}),

		unauthorized: rarely.Line{Every: time.Minute},
	}
	for i := range cfg.MaxConnections {
		n.freeSlots <- uint32(i)
	}
	n.committed.Store(math.MaxUint64)
	n.addrs = newAddresses(cfg.MaxConnectionsPerAddress, cfg.MaxWrongSecrets)
	n.SetSecrets(cfg.Secrets)
	n.spaceConfig = lockspace.Config{
		DefaultLease:     cfg.DefaultLease,
		MaxLease:         cfg.MaxLease,
		ReattachGrace:    cfg.ReattachGrace,
		SpentFor:         spentFor,
		MaxSpent:         maxSpent,
		MaxWaitersPerKey: cfg.MaxWaitersPerKey,
		Seed:             rand.Uint64(),
		NextToken:        cfg.Tokens,
		Record:           cfg.Cluster != nil,
	}
	for i := range n.shards {
		n.shards[i] = newShard(n, n.spaceConfig)
	}
	if cfg.Cluster != nil {
		var t touched
		for _, sh := range n.shards {
			sh.setMode(cluster.Hold, nil, &t)
		}
	}
	go n.sweep()
	return n
}

// SetSecrets changes what clients must give from now on, one of these. Who has
// given one before is served on. A node that asks for none goes on asking for none.
func (n *Node) SetSecrets(set [][]byte) { n.secrets.Store(&set) }

func (n *Node) mayQueue() bool { return n.waiting.Load() < int64(n.cfg.MaxWaiters) }
func (n *Node) mayHold() bool  { return n.held.Load() < maxHeld }
func (n *Node) sync() bool     { return n.cfg.Cluster != nil && n.cfg.Cluster.Sync }

// now is monotonic: a jump of the wall clock moves no lease.
func (n *Node) now() lockspace.Time { return lockspace.Time(time.Since(n.origin)) }

// session makes the name of the connection in a slot: no name is used twice.
func session(generation uint64, slot uint32) lockspace.Session {
	return lockspace.Session(generation<<24 | uint64(slot) + 1)
}

// connOf returns the connection of a session, nil if it is gone.
func (n *Node) connOf(s lockspace.Session) *conn {
	c := n.sessions[uint32(s&(1<<24-1))-1].Load()
	if c == nil || c.session != s {
		return nil
	}
	return c
}

// eachConn calls f for every connection there is.
func (n *Node) eachConn(f func(*conn)) {
	for i := range n.sessions {
		if c := n.sessions[i].Load(); c != nil {
			f(c)
		}
	}
}

// Shutdown stops the node: it accepts nobody, answers everybody who waits
// with `stopping`, or with the address of the active if it has handed over to
// that, writes what is due and closes the connections. Locks are
// not released: they end with the node. It returns when all is closed; when
// ctx ends first it cuts what is left and returns the context's error.
func (n *Node) Shutdown(ctx context.Context) error {
	if n.stopping.Swap(true) {
		return ErrStopped
	}
	close(n.stopped)
	n.mu.Lock()
	for l := range n.listeners {
		l.Close()
	}
	n.mu.Unlock()
	var t touched
	for _, sh := range n.shards {
		sh.end(&t)
		t.flush()
	}
	n.eachConn((*conn).sayGoodbye)
	closed := make(chan struct{})
	go func() {
		n.conns.Wait()
		close(closed)
	}()
	defer func() {
		for _, sh := range n.shards {
			sh.timer.Stop()
		}
	}()
	select {
	case <-closed:
		return nil
	case <-ctx.Done():
		if n.connections.Load() == 0 {
			return nil // both were ready: nobody is cut
		}
		n.eachConn((*conn).cut)
		<-closed
		return ctx.Err()
	}
}

// Stopping reports whether Shutdown was called.
func (n *Node) Stopping() bool { return n.stopping.Load() }

// Status is what a node says of itself.
type Status struct {
	Connections int  `json:"connections"`
	Held        int  `json:"held"`
	Waiting     int  `json:"waiting"`
	Kept        int  `json:"kept"` // requests that can't be answered at the moment
	Goroutines  int  `json:"goroutines"`
	Stopping    bool `json:"stopping"`
}

// Status counts what the node holds at the moment. It takes the lock of one
// shard after the other.
func (n *Node) Status() Status {
	s := Status{
		Connections: int(n.connections.Load()),
		Goroutines:  runtime.NumGoroutine(),
		Kept:        int(n.held.Load()),
		Stopping:    n.stopping.Load(),
	}
	for _, sh := range n.shards {
		sh.mu.Lock()
		s.Held += sh.space.Held()
		s.Waiting += sh.space.Waiting()
		sh.mu.Unlock()
	}
	return s
}
