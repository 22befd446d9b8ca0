package node

import (
	"sync"

	"github.com/stile-lock/stile/server/lockspace"
)

// maxDeparted is how many connections that have ended are remembered.
const maxDeparted = 16_384

// departed remembers who was at the other end of connections that have ended
// and had been told of a grant: the grant may live on, and an operator asks
// whose it is. The oldest are forgotten, so that it is bounded however many
// come and go.
type departed struct {
	mu   sync.Mutex
	who  map[lockspace.Session]Client
	ring []lockspace.Session // in the order of their ends, from next on
	next int
}

func (d *departed) add(s lockspace.Session, who Client) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.who == nil {
		d.who = make(map[lockspace.Session]Client)
	}
	if len(d.ring) < maxDeparted {
		d.ring = append(d.ring, s)
	} else {
		delete(d.who, d.ring[d.next])
		d.ring[d.next] = s
		d.next = (d.next + 1) % maxDeparted
	}
	who.Gone = true
	d.who[s] = who
}

func (d *departed) of(s lockspace.Session) Client {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.who[s]
}
