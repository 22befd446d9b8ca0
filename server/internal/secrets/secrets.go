// Package secrets compares secrets, and bounds how many wrong ones may come
// from one address. It reads no clock.
package secrets

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/netip"
	"sync"
	"time"
)

// Same takes the same time whatever the difference, in length too.
func Same(want, got []byte) bool {
	a, b := sha256.Sum256(want), sha256.Sum256(got)
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// Any is Same for who may have one of several. It looks at all of them.
func Any(want [][]byte, got []byte) bool {
	same := false
	for _, w := range want {
		same = Same(w, got) || same
	}
	return same
}

// Source is what counts as one address: of IPv6 a /64, which one machine
// usually has to itself.
func Source(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		p, _ := a.Prefix(64)
		return p.Addr()
	}
	return a
}

// CountedFor is how long wrong secrets of an address count, from the first on.
const CountedFor = time.Minute

// maxAddresses is how many addresses with wrong secrets are known at once,
// less than 2 MiB of them.
const maxAddresses = 16_384

// Wrong counts wrong secrets by address. It may be used concurrently.
type Wrong struct {
	Max int // in CountedFor; 0: any number

	mu sync.Mutex
	by map[netip.Addr]wrong
}

// wrong are those of an address since a moment.
type wrong struct {
	since time.Time
	count int
}

// Wait is how long no secret of the address is to be looked at, since too many
// were wrong.
func (w *Wrong) Wait(a netip.Addr, now time.Time) time.Duration {
	if w.Max == 0 {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.by[a]
	if e.count < w.Max {
		return 0
	}
	return max(0, CountedFor-now.Sub(e.since))
}

// Add counts a wrong secret, and reports whether it is the one from which on
// the address has to wait.
func (w *Wrong) Add(a netip.Addr, now time.Time) (bars bool) {
	if w.Max == 0 {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	e, known := w.by[a]
	switch {
	case w.by == nil:
		w.by = make(map[netip.Addr]wrong)
	case !known && len(w.by) >= maxAddresses:
		w.forget(now)
	}
	if now.Sub(e.since) >= CountedFor {
		e = wrong{since: now}
	}
	e.count++
	w.by[a] = e
	return e.count == w.Max
}

// forget drops what no longer counts, and if that is little, some at random:
// who has so many addresses is not bounded by any of them. It makes room for
// many, as it looks at all.
func (w *Wrong) forget(now time.Time) {
	for a, e := range w.by {
		if now.Sub(e.since) >= CountedFor {
			delete(w.by, a)
		}
	}
	for a := range w.by {
		if len(w.by) <= maxAddresses/2 {
			return
		}
		delete(w.by, a)
	}
}
