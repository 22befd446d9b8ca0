package node

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/stile-lock/stile/protocol"
	"github.com/stile-lock/stile/server/lockspace"
)

const (
	// A peer that vanished without a word is found after about half a minute:
	// by probes when nothing is under way, by unacknowledged data otherwise.
	keepAliveIdle     = 15 * time.Second
	keepAliveInterval = 5 * time.Second
	keepAliveCount    = 3
	userTimeout       = 30 * time.Second

	// acceptPause is how long accepting rests after it failed, for want of
	// descriptors for instance.
	acceptPause = 100 * time.Millisecond

	// maxTurnedAway is how many connections over the limit are told so at
	// once. Those beyond are closed without a word, or wait, see turnAway.
	maxTurnedAway = 64

	sweepEvery = 5 * time.Second

	// peerSpeaks is how long a connection over the limit has to show that it
	// is another node's.
	peerSpeaks = 250 * time.Millisecond
)

// Serve accepts connections until the listener fails or the node stops; then
// it returns [ErrStopped].
func (n *Node) Serve(l net.Listener) error {
	n.mu.Lock()
	n.listeners[l] = struct{}{}
	n.mu.Unlock()
	if n.stopping.Load() {
		l.Close()
	}
	turnedAway := make(chan struct{}, maxTurnedAway)
	for {
		nc, err := l.Accept()
		switch {
		case err == nil:
		case n.stopping.Load():
			return ErrStopped
		case errors.Is(err, net.ErrClosed):
			return err
		default:
			n.cantAccept.Log(n.cfg.Log, slog.LevelError, "accepting fails, those who are connected are served on", slog.Any("error", err))
			time.Sleep(acceptPause)
			continue
		}
		addr := addressOf(nc)
		if !n.addrs.enter(addr) {
			n.turnAway(nc, turnedAway, "too many connections from this address")
			continue
		}
		select {
		case slot := <-n.freeSlots:
			n.open(nc, slot, addr)
		default:
			n.addrs.leave(addr)
			n.turnAway(nc, turnedAway, "too many connections")
		}
	}
}

// ServeConn serves one connection in the background, as if a listener had
// accepted it. It reports false if there is no room for it.
func (n *Node) ServeConn(nc net.Conn) bool {
	select {
	case slot := <-n.freeSlots:
		n.open(nc, slot, netip.Addr{})
		return true
	default:
		return false
	}
}

func (n *Node) open(nc net.Conn, slot uint32, addr netip.Addr) {
	c := &conn{
		n:       n,
		nc:      nc,
		base:    nc,
		session: session(n.generation.Add(1), slot),
		addr:    addr,
		opened:  n.now(),
	}
	c.out.c = c
	c.authorized.Store(len(*n.secrets.Load()) == 0)
	c.lastRead.Store(int64(c.opened))
	if tcp, ok := nc.(*net.TCPConn); ok {
		tcp.SetKeepAliveConfig(net.KeepAliveConfig{
			Enable: true, Idle: keepAliveIdle, Interval: keepAliveInterval, Count: keepAliveCount,
		})
		c.raw, _ = tcp.SyscallConn()
		setUserTimeout(c.raw, userTimeout)
	}
	if n.cfg.TLS != nil {
		c.tls = newSecure(nc, c.raw, n.cfg.TLS)
		c.nc, c.raw = c.tls, nil
	}
	n.conns.Add(1)
	n.connections.Add(1)
	n.sessions[slot].Store(c)
	if n.stopping.Load() {
		c.sayGoodbye() // Shutdown may have passed the slot already
	}
	go func() {
		c.debug("connection opened")
		c.serve()
		c.debug("connection closed")
		if c.out.wasTold() {
			n.departed.add(c.session, c.client())
		}
		n.sessions[slot].Store(nil)
		n.connections.Add(-1)
		n.addrs.leave(addr)
		n.freeSlots <- slot
		n.conns.Done()
	}()
}

// turnAway tells a connection over a limit that it is one.
func (n *Node) turnAway(base net.Conn, busy chan struct{}, text string) {
	n.turnedAway.Add(1)
	select {
	case busy <- struct{}{}:
	default:
		if n.cfg.Cluster == nil {
			base.Close()
			return
		}
		// To another node, one that closes without a word is one that has
		// ended. So it waits, and with it all who would be turned away.
		select {
		case busy <- struct{}{}:
		case <-n.stopped:
			base.Close()
			return
		}
	}
	go func() {
		defer func() { <-busy }()
		nc := base
		base.SetDeadline(time.Now().Add(lingerFor))
		if n.cfg.TLS != nil {
			over := tls.Server(base, n.cfg.TLS)
			if err := over.Handshake(); err != nil {
				n.badHandshake(base, err)
				base.Close()
				return
			}
			nc = over
		}
		if n.cfg.Cluster != nil && n.isPeer(nc) {
			return
		}
		defer base.Close()
		base.SetDeadline(time.Now().Add(lingerFor))
		nc.Write(protocol.AppendError(nil, 0, nil, protocol.CodeLimit, text))
		if closeWrite(nc) == nil && (nc == base || closeWrite(base) == nil) {
			io.CopyN(io.Discard, base, 64<<10)
		}
	}()
}

// isPeer hands the connection over if another node has dialed it: the limit is
// one of clients. A node speaks at once; who is silent for long is none.
func (n *Node) isPeer(nc net.Conn) bool {
	nc.SetReadDeadline(time.Now().Add(peerSpeaks))
	var first [len(peerMark)]byte
	got, err := io.ReadFull(nc, first[:])
	if err != nil || string(first[:]) != peerMark {
		return false
	}
	n.cfg.Cluster.Peer(nc, first[:got])
	return true
}

// sweep closes connections that have been silent for too long with nothing
// unanswered, and those that did not give the secret in time. Who waited for
// hours and was granted just now is not idle yet.
func (n *Node) sweep() {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-n.stopped:
			return
		case <-tick.C:
		}
		now := n.now()
		before := now - lockspace.Time(n.cfg.IdleTimeout)
		if n.cfg.IdleTimeout < 0 {
			before = math.MinInt64
		}
		n.eachConn(func(c *conn) {
			if !c.authorized.Load() && c.opened < now-lockspace.Time(n.cfg.HelloTimeout) {
				c.sayGoodbye()
			} else if c.unanswered.Load() > 0 {
				c.owedAt = now
			} else if max(lockspace.Time(c.lastRead.Load()), c.owedAt) < before {
				c.sayGoodbye()
			}
		})
	}
}

func setUserTimeout(raw syscall.RawConn, d time.Duration) {
	if raw != nil {
		raw.Control(func(fd uintptr) { setTCPUserTimeout(fd, d) })
	}
}
