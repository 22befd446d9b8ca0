package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stile-lock/stile/server/internal/rarely"
)

const (
	// MaxFrame is the longest frame. A peer that announces a longer one is
	// cut. Frames should stay far below, at 64 KiB or so: a control frame
	// waits for the data frame that is being written.
	MaxFrame = 1 << 20

	// MaxHello is the longest hello. Sixteen long names fit.
	MaxHello = 8192

	// maxQueue is how many bytes of control frames may wait for a peer that
	// does not read.
	maxQueue = 4 << 20

	// maxHandshakes is how many accepted connections may be unfinished; for
	// one more, the oldest is closed.
	maxHandshakes = 64

	// writeTimeout is how long one write may take: some control frames and
	// one data frame.
	writeTimeout = 10 * time.Second

	// maxUnsent is how much the kernel may hold that a control frame can't
	// overtake.
	maxUnsent = 128 << 10

	// A peer that vanished without a word is noticed by its user, who misses
	// its heartbeats. These close what is left of the connection.
	keepAliveIdle     = 15 * time.Second
	keepAliveInterval = 5 * time.Second
	keepAliveCount    = 3
	userTimeout       = 30 * time.Second
)

// Config says who this node is and whom it links to.
type Config struct {
	Self uint8  // id of this node
	Boot uint64 // random number of this process

	// Peers returns the host:port of a node. It is asked at each dial, and a
	// name in it is looked up each time. A node that it does not know is
	// turned away; one with an empty address is let in and can't be dialed.
	Peers func(id uint8) (addr string, ok bool)

	List   string // of peers, as it is told to a node that is turned away
	Secret []byte // of the cluster; without one, only certificates tell who is a node

	// TLS, if not nil, returns the settings to dial a host with. Connections
	// that are accepted come with their TLS.
	TLS func(host string) *tls.Config
	// Host, if not nil, returns the host of a node as this node's own list has
	// it. Who dials as that node must have shown a certificate for the host.
	Host func(id uint8) (host string, ok bool)

	// LocalIP, if valid, is the address to dial from. It is for nodes that
	// listen on a loopback address, and used for such peers only.
	LocalIP netip.Addr

	// Hello returns what to tell a peer in a handshake, MaxHello bytes at
	// most. It is called from several goroutines, at the moment of sending.
	Hello func() []byte

	// HandshakeTimeout bounds connecting and handshake, together.
	HandshakeTimeout time.Duration

	Log *slog.Logger
}

// EventKind is what happened.
type EventKind uint8

const (
	OutUp      EventKind = iota + 1 // Send works now. Boot and Hello are the peer's
	DialFailed                      // a Dial came to nothing
	OutLost                         // Send works no more
	InUp                            // the peer has dialed. Boot and Hello are the peer's
	InLost                          // nothing more comes from it
	Frame                           // Payload came in
)

func (k EventKind) String() string {
	switch k {
	case OutUp:
		return "out up"
	case DialFailed:
		return "dial failed"
	case OutLost:
		return "out lost"
	case InUp:
		return "in up"
	case InLost:
		return "in lost"
	case Frame:
		return "frame"
	}
	return "unknown"
}

// Event is something that happened to a link.
type Event struct {
	Kind  EventKind
	Peer  uint8
	Gen   uint64 // number of the connection; a later one has a greater number
	Boot  uint64
	Hello []byte

	Payload []byte // valid until the event function returns

	// Refused, on DialFailed, says that nobody is there: the connection was
	// refused, or closed before a node said a word. Otherwise somebody may
	// be: there was no answer in time, or the address could not be found.
	Refused bool
	// Misfit, on DialFailed, says that somebody is there and has answered, but
	// there can be no link: one side alone speaks TLS, a certificate or the
	// secret is refused, it speaks another version, it is no node at all, or
	// it has turned this one away, see [RejectedError].
	Misfit bool

	Err error // on DialFailed, OutLost and InLost: why
}

// Mesh is this node's links to all its peers.
type Mesh struct {
	cfg   Config
	event func(Event)

	writeTimeout time.Duration // the constant, but in tests

	life context.Context // ends with Close
	end  context.CancelCauseFunc
	all  sync.WaitGroup // every goroutine

	gen atomic.Uint64            // the last connection's number
	up  [256]atomic.Pointer[out] // those that Send works on, by peer

	linked [256]atomic.Bool // there was one, by peer

	mu         sync.Mutex
	closed     bool
	outs       map[uint8]*out // the last one of each peer, also after its end
	ins        map[uint8]*in
	handshakes []*in // accepted and unfinished, the oldest first

	banned sync.Map // boot numbers

	secret atomic.Pointer[[]byte]

	wrongSecret, turnedAway rarely.Line
}

var (
	errClosed   = errors.New("this node is stopping")
	errCut      = errors.New("cut by this node")
	errReplaced = errors.New("the peer has dialed anew")
)

// New returns a mesh without links.
//
// event is called from the goroutines of the links, concurrently. It may
// block for a moment: meanwhile nothing is read from that peer. The events of
// the out connections to a peer come one after the other, in order, and so do
// those of the in connections from it; nothing orders the two. A connection
// that was up is lost before the next one comes up, and no event of it
// follows.
func New(cfg Config, event func(Event)) *Mesh {
	m := &Mesh{cfg: cfg, event: event, writeTimeout: writeTimeout, outs: map[uint8]*out{}, ins: map[uint8]*in{}}
	m.life, m.end = context.WithCancelCause(context.Background())
	m.SetSecret(cfg.Secret)
	return m
}

// SetSecret changes the cluster's secret for handshakes to come.
func (m *Mesh) SetSecret(secret []byte) { m.secret.Store(&secret) }

// Close cuts all links and returns when nothing of the mesh runs any more. No
// event begins after Close has begun. It must not be called from the event
// function, nor while that waits for the caller.
func (m *Mesh) Close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.end(errClosed)
	m.all.Wait()
}

// Cut resets both connections with a peer.
func (m *Mesh) Cut(peer uint8) {
	m.CutOut(peer)
	m.CutIn(peer)
}

// Ban turns away one process from now on, by its boot number.
func (m *Mesh) Ban(boot uint64) { m.banned.Store(boot, nil) }

func (m *Mesh) emit(e Event) {
	if m.life.Err() == nil {
		m.event(e)
	}
}

// hello returns what this node says in a handshake.
func (m *Mesh) hello() ([]byte, error) {
	h := m.cfg.Hello()
	if len(h) > MaxHello {
		return nil, errors.New("what this node has to say in a handshake is too long; are the names in its list of peers very long?")
	}
	return h, nil
}

// tune makes a connection notice a peer that vanished.
func tune(nc net.Conn) {
	tcp, ok := below(nc).(*net.TCPConn)
	if !ok {
		return
	}
	tcp.SetKeepAliveConfig(net.KeepAliveConfig{
		Enable: true, Idle: keepAliveIdle, Interval: keepAliveInterval, Count: keepAliveCount,
	})
	if raw, err := tcp.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) {
			setTCPUserTimeout(fd, userTimeout)
			setTCPUnsent(fd, maxUnsent)
		})
	}
}

// below is the connection that carries the TLS of nc, or nc itself.
func below(nc net.Conn) net.Conn {
	for {
		over, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			return nc
		}
		nc = over.NetConn()
	}
}

// reset closes a connection so that the peer notices at once, and what is
// still under way is dropped. Under TLS there is no farewell, which could
// block.
func reset(nc net.Conn) {
	nc = below(nc)
	if tcp, ok := nc.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	nc.Close()
}

// whyEnded prefers the reason that somebody had to end a connection to the
// error that it caused.
func whyEnded(life context.Context, err error) error {
	if cause := context.Cause(life); cause != nil {
		return cause
	}
	return err
}
