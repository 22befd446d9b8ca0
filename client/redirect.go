package client

import (
	"errors"
	"fmt"
	"time"
)

// unlistedTop bounds how many addresses redirects can make a client dial.
const unlistedTop = 16

// follow finds the slot that a redirect names, or says why it is refused; a
// refused one counts as an answer that no active server is known. n is the
// connection that the redirect came on. It becomes a spare.
func (c *Client) follow(n *conn, addr []byte, now time.Time) (*slot, error) {
	n.slot.spare = true
	n.slot.ceases(now)
	s, err := c.redirectSlot(n, string(addr))
	if err != nil {
		c.cfg.log.Warn("stile: redirect refused", "from", n.slot.addr.text, "to", string(addr), "reason", err)
		return nil, err
	}
	return s, nil
}

func (c *Client) redirectSlot(n *conn, text string) (*slot, error) {
	a, err := parseAddress(text)
	switch {
	case err != nil:
		return nil, err
	case a.unspecified():
		return nil, errors.New("it names no host, but the unspecified address")
	case a.same(n.slot.addr) || n.peerOK && a.same(n.peer):
		return nil, errors.New("it points back to the server that sent it")
	case a.loopback() && !(n.peerOK && n.peer.loopback()):
		return nil, errors.New("it points to a loopback address, but the server is elsewhere")
	}
	var found *slot
	for _, s := range c.slots {
		if s.addr.same(a) {
			s.spare = false
			if found == nil || found.conn == nil {
				found = s
			}
		}
	}
	if found != nil {
		if found.conn != nil && found.conn.live {
			found.ceased = time.Time{}
		}
		return found, nil
	}
	if c.cfg.onlyListed {
		return nil, errors.New("it names an address that was not given to Dial")
	}
	if !c.roomForUnlisted() {
		return nil, fmt.Errorf("%d addresses that were not given to Dial are in use already", unlistedTop)
	}
	s := c.addSlot(a, false)
	s.ceases(time.Now())
	return s, nil
}

// roomForUnlisted makes room for one more unlisted address, if need be by
// dropping the one that has not served for longest.
func (c *Client) roomForUnlisted() bool {
	var count int
	var oldest *slot
	for _, s := range c.slots {
		if s.listed {
			continue
		}
		count++
		if !s.ceased.IsZero() && !s.trying && (oldest == nil || s.ceased.Before(oldest.ceased)) {
			oldest = s
		}
	}
	if count < unlistedTop {
		return true
	}
	if oldest == nil {
		return false
	}
	oldest.remove()
	return true
}

// ceases takes note that an unlisted address does not serve any more, and
// drops it in a while unless it serves again.
func (s *slot) ceases(now time.Time) {
	if s.listed || !s.ceased.IsZero() || s.c.closed {
		return
	}
	s.ceased = now
	if s.retire != nil {
		s.retire.Reset(unlistedKeep)
		return
	}
	s.retire = time.AfterFunc(unlistedKeep, func() {
		s.c.mu.Lock()
		defer s.c.mu.Unlock()
		if s.removed || s.c.closed || s.ceased.IsZero() {
			return
		}
		if left := unlistedKeep - time.Since(s.ceased); left > 0 || s.trying {
			s.retire.Reset(max(left, demandLimit))
			return
		}
		s.remove()
	})
}

// remove takes an unlisted slot out of the rotation for good.
func (s *slot) remove() {
	c := s.c
	s.removed = true
	s.retire.Stop()
	for i, t := range c.slots {
		if t == s {
			c.slots = append(c.slots[:i], c.slots[i+1:]...)
			if c.cursor > i {
				c.cursor--
			}
			c.cursor %= len(c.slots)
			break
		}
	}
	if n := s.conn; n != nil {
		n.fail(errors.New("dropped: it has not served for 30 seconds"))
	}
	s.kick()
}

// redirectPause is the pause before the nth redirect of one call is followed.
func redirectPause(nth int) time.Duration {
	if nth <= 1 {
		return 0
	}
	d := redirectMin
	for range nth - 2 {
		if d *= 2; d >= redirectMax {
			return redirectMax
		}
	}
	return d
}
