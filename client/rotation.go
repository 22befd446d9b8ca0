package client

// inRotation visits the slots in rotation order, starting at the cursor,
// until visit returns false.
func (c *Client) inRotation(visit func(s *slot) bool) {
	for i := range c.slots {
		if !visit(c.slots[(c.cursor+i)%len(c.slots)]) {
			return
		}
	}
}

// fit says how well a connection suits an acquire; the greatest wins, the
// earliest in rotation order among equals.
type fit int8

const (
	fitNot    fit = iota // tried already, not live, or full
	fitClash             // its nonce has to be given up here (see clashes)
	fitBehind            // an older acquire of the key may hold its answer back
	fitWell              // nothing in the way
)

// pickAcquire chooses the connection for an acquire: the next in the rotation
// that is live, not yet tried by this acquire, and no spare. Spares serve
// when nothing else is left. crowded tells that only a full connection stands
// in the way.
//
// An acquire whose limit ends before that of an older one of its key would
// get its answer late behind it, and so prefers a connection without any. A
// moved one prefers a connection where its nonce can stay.
func (c *Client) pickAcquire(a *acquire) (best *conn, crowded bool) {
	for _, spares := range [2]bool{false, true} {
		var bestFit fit
		for i := range c.slots {
			s := c.slots[(c.cursor+i)%len(c.slots)]
			n := s.conn
			if n == nil || !n.live || s.spare != spares || a.tried.has(n.id) {
				continue
			}
			if n.pend.count >= acquiresTop {
				crowded = true
				continue
			}
			f := fitWell
			if q := n.pend.queue(opA, a.key); q != nil {
				switch {
				case a.clashes(q):
					f = fitClash
				case a.endsBefore(q):
					f = fitBehind
				}
			}
			if f > bestFit {
				best, bestFit = n, f
			}
			if f == fitWell {
				break
			}
		}
		if best != nil {
			return best, false
		}
	}
	return nil, crowded
}

// passCursor moves the cursor behind the slot that an acquire was sent to.
func (c *Client) passCursor(s *slot) {
	for i, t := range c.slots {
		if t == s {
			c.cursor = (i + 1) % len(c.slots)
			return
		}
	}
}

// pickOther chooses the connection for a request that is no acquire: the one
// its grant came from while that is live, else the next along the rotation,
// without moving the cursor. can says what the peer must speak. avoid is a
// connection that just declined and is taken only if there is no other.
func (c *Client) pickOther(origin *conn, avoid uint64, can func(n *conn) bool) *conn {
	suits := func(n *conn) bool {
		return n != nil && n.live && n.pend.count < unansweredTop && can(n)
	}
	if suits(origin) && origin.id != avoid {
		return origin
	}
	var spare, declined *conn
	for i := range c.slots {
		s := c.slots[(c.cursor+i)%len(c.slots)]
		n := s.conn
		switch {
		case !suits(n):
		case n.id == avoid:
			declined = n
		case !s.spare:
			return n
		case spare == nil:
			spare = n
		}
	}
	if spare != nil {
		return spare
	}
	return declined
}

func anyPeer(*conn) bool      { return true }
func keepPeer(n *conn) bool   { return n.keep }
func resumePeer(n *conn) bool { return n.resume }
