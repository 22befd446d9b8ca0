package node

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

const (
	// wrongFor is how long wrong secrets of an address count.
	wrongFor = time.Minute

	// maxWrongAddresses is how many addresses with wrong secrets are known at
	// once, less than 2 MiB of them.
	maxWrongAddresses = 16_384
)

// addresses keeps what one address may have in bounds. Only the beginning and
// the end of a connection, and a hello with a secret, come by here.
type addresses struct {
	maxConns int // 0: any number
	maxWrong int // in wrongFor; 0: any number

	mu    sync.Mutex
	conns map[netip.Addr]int // open ones, so as many as connections at most
	wrong map[netip.Addr]wrongSecrets
}

// wrongSecrets are those of an address since a moment.
type wrongSecrets struct {
	since time.Time
	count int
}

func newAddresses(maxConns, maxWrong int) *addresses {
	return &addresses{
		maxConns: maxConns, maxWrong: maxWrong,
		conns: map[netip.Addr]int{}, wrong: map[netip.Addr]wrongSecrets{},
	}
}

// addressOf is what counts as one address: of IPv6 a /64, which one machine
// usually has to itself. It is not valid for what is not bounded: loopback,
// where proxies and load generators are, and what is no network.
func addressOf(nc net.Conn) netip.Addr {
	tcp, ok := nc.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	a := tcp.AddrPort().Addr().Unmap()
	switch {
	case a.IsLoopback():
		return netip.Addr{}
	case a.Is6():
		p, _ := a.WithZone("").Prefix(64)
		return p.Addr()
	}
	return a
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
	if s.maxWrong == 0 || !a.IsValid() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.wrong[a]
	return w.count >= s.maxWrong && now.Sub(w.since) < wrongFor
}

// failed counts a wrong secret, and reports whether it is the one that bars
// the address.
func (s *addresses) failed(a netip.Addr, now time.Time) (bars bool) {
	if s.maxWrong == 0 || !a.IsValid() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w, known := s.wrong[a]
	if !known && len(s.wrong) >= maxWrongAddresses {
		s.forget(now)
	}
	if now.Sub(w.since) >= wrongFor {
		w = wrongSecrets{since: now}
	}
	w.count++
	s.wrong[a] = w
	return w.count == s.maxWrong
}

// forget drops what no longer counts, and if that is little, some at random:
// who has so many addresses is not bounded by any of them. It makes room for
// many, as it looks at all.
func (s *addresses) forget(now time.Time) {
	for a, w := range s.wrong {
		if now.Sub(w.since) >= wrongFor {
			delete(s.wrong, a)
		}
	}
	for a := range s.wrong {
		if len(s.wrong) <= maxWrongAddresses/2 {
			return
		}
		delete(s.wrong, a)
	}
}
