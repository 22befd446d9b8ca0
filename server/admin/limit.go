package admin

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

// limited is a listener with at most max connections at once. For one on top
// of that the one ends which has asked for nothing for longest; only where all
// are being answered is the new one turned away. So whoever opens many and
// leaves them alone, or keeps many alive, keeps nobody out.
type limited struct {
	net.Listener
	max int

	mu   sync.Mutex
	open map[*limitedConn]struct{}
}

func limit(l net.Listener, most int) *limited {
	return &limited{Listener: l, max: most, open: make(map[*limitedConn]struct{})}
}

// Accept implements net.Listener.
func (l *limited) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &limitedConn{Conn: nc, l: l, idle: time.Now()}
		if l.enter(c) {
			return c, nil
		}
		nc.Close()
	}
}

func (l *limited) enter(c *limitedConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= l.max {
		var idlest *limitedConn
		for o := range l.open {
			if !o.idle.IsZero() && (idlest == nil || o.idle.Before(idlest.idle)) {
				idlest = o
			}
		}
		if idlest == nil {
			return false
		}
		delete(l.open, idlest)
		idlest.Conn.Close()
	}
	l.open[c] = struct{}{}
	return true
}

// state is told by the HTTP server what a connection does.
func (l *limited) state(nc net.Conn, s http.ConnState) {
	if t, ok := nc.(*tls.Conn); ok {
		nc = t.NetConn()
	}
	c, ok := nc.(*limitedConn)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch s {
	case http.StateActive:
		c.idle = time.Time{}
	case http.StateIdle:
		c.idle = time.Now()
	}
}

type limitedConn struct {
	net.Conn
	l    *limited
	idle time.Time // since when; zero: it is being answered. Guarded by l.mu
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	c.l.mu.Lock()
	delete(c.l.open, c)
	c.l.mu.Unlock()
	return c.Conn.Close()
}
