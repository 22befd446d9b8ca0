package node

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/stile-lock/stile/server/internal/secrets"
)

// addresses keeps what one address may have in bounds. Only the beginning and
// the end of a connection, and a hello with a secret, come by here.
type addresses struct {
	wrong    secrets.Wrong
	maxConns int // 0: any number

	mu    sync.Mutex
	conns map[netip.Addr]int // open ones, so as many as connections at most
}

func newAddresses(maxConns, maxWrong int) *addresses {
	return &addresses{wrong: secrets.Wrong{Max: maxWrong}, maxConns: maxConns, conns: map[netip.Addr]int{}}
}

// addressOf is what counts as one address, see [secrets.Source]. It is not
// valid for what is not bounded: loopback, where proxies and load generators
// are, and what is no network.
func addressOf(nc net.Conn) netip.Addr {
	tcp, ok := nc.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	a := tcp.AddrPort().Addr().Unmap()
	if a.IsLoopback() {
		return netip.Addr{}
	}
	return secrets.Source(a)
}

// enter counts a connection; it reports false if the address has as many as it
// may.
func (s *addresses) enter(a netip.Addr) bool {
	if s.maxConns == 0 || !a.IsValid() {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns[a] >= s.maxConns {
		return false
	}
	s.conns[a]++
	return true
}

// leave ends what enter began.
func (s *addresses) leave(a netip.Addr) {
	if s.maxConns == 0 || !a.IsValid() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns[a]--; s.conns[a] == 0 {
		delete(s.conns, a)
	}
}

// barred reports whether the address has given so many wrong secrets that no
// more are looked at.
func (s *addresses) barred(a netip.Addr, now time.Time) bool {
	return a.IsValid() && s.wrong.Wait(a, now) > 0
}

// failed counts a wrong secret, and reports whether it is the one that bars
// the address.
func (s *addresses) failed(a netip.Addr, now time.Time) (bars bool) {
	return a.IsValid() && s.wrong.Add(a, now)
}
