package rig

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Grant is a grant that a client has read.
type Grant struct {
	Node  int // that gave it; Clients if it is not known
	Key   string
	Token uint64
	Sent  time.Time // the request
	At    time.Time // the answer
}

// Prober asks every node without a pause whether it grants, over raw
// connections: it knows of a new active as soon as there is one.
type Prober struct {
	stop chan struct{}
	wg   sync.WaitGroup

	mu     sync.Mutex
	grants []Grant
}

// every is the pause between two requests to one node.
const every = time.Millisecond

// Probe starts a prober.
func (c *Cluster) Probe() *Prober { return c.ProbeEvery(every) }

// ProbeEvery starts one that pauses between two requests.
func (c *Cluster) ProbeEvery(pause time.Duration) *Prober {
	p := &Prober{stop: make(chan struct{})}
	for _, n := range c.nodes {
		p.wg.Go(func() { p.probe(n, pause) })
	}
	return p
}

func (p *Prober) probe(n *Node, pause time.Duration) {
	var conn *Conn
	defer func() {
		if conn != nil {
			conn.Close()
		}
	}()
	for i := 0; ; i++ {
		key := fmt.Sprintf("probe/%d/%d", n.ID, i) // a lost release must not matter
		select {
		case <-p.stop:
			return
		case <-time.After(pause):
		}
		if conn == nil {
			var err error
			if conn, err = Dial(n.Advertise); err != nil {
				conn = nil
				continue
			}
			go func(c *Conn) {
				<-p.stop
				c.Close()
			}(conn)
		}
		sent := time.Now()
		answer, err := conn.Ask(Patience, "A %s -1 1", key)
		at := time.Now()
		if err != nil {
			conn.Close()
			conn = nil
			continue
		}
		_, token, ok := Granted(answer)
		if !ok {
			continue
		}
		p.mu.Lock()
		p.grants = append(p.grants, Grant{n.ID, key, token, sent, at})
		p.mu.Unlock()
		if _, err := conn.Ask(Patience, "R %s %d", key, token); err != nil {
			conn.Close()
			conn = nil
		}
	}
}

// Stop ends the probing.
func (p *Prober) Stop() {
	close(p.stop)
	p.wg.Wait()
}

// Grants returns the grants until now, in the order of their answers.
func (p *Prober) Grants() []Grant {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := slices.Clone(p.grants)
	slices.SortFunc(g, func(a, b Grant) int { return a.At.Compare(b.At) })
	return g
}

// Gap returns the longest time without a grant that ended, or still went on,
// between two moments.
func Gap(grants []Grant, from, to time.Time) (gap time.Duration) {
	last := from
	for _, g := range grants {
		if g.At.After(to) {
			break
		}
		if !g.At.Before(from) {
			gap = max(gap, g.At.Sub(last))
		}
		last = g.At
	}
	return max(gap, to.Sub(last))
}

// Givers returns which nodes gave grants that were asked for after a moment.
func Givers(grants []Grant, after time.Time) (nodes []int) {
	for _, g := range grants {
		if g.Sent.After(after) && !slices.Contains(nodes, g.Node) {
			nodes = append(nodes, g.Node)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// CheckTokens reports a token that was given twice, and, if rising, a grant
// without a greater token than another one whose answer was there before this
// one was asked for, of whatever key. Two actives can't keep the latter.
func CheckTokens(grants []Grant, rising bool) error {
	seen := map[uint64]Grant{}
	for _, g := range grants {
		if other, twice := seen[g.Token]; twice {
			return fmt.Errorf("token %d was given twice: to %s by node %d, and to %s by node %d", g.Token, other.Key, other.Node, g.Key, g.Node)
		}
		seen[g.Token] = g
	}
	if !rising {
		return nil
	}
	answered := slices.SortedFunc(slices.Values(grants), func(a, b Grant) int { return a.At.Compare(b.At) })
	sent := slices.SortedFunc(slices.Values(grants), func(a, b Grant) int { return a.Sent.Compare(b.Sent) })
	var highest Grant
	for _, g := range sent {
		for len(answered) > 0 && answered[0].At.Before(g.Sent) {
			if answered[0].Token > highest.Token {
				highest = answered[0]
			}
			answered = answered[1:]
		}
		if highest.Token >= g.Token {
			return fmt.Errorf("node %d gave token %d of %s for a request sent %v after the answer with token %d of %s by node %d",
				g.Node, g.Token, g.Key, g.Sent.Sub(highest.At), highest.Token, highest.Key, highest.Node)
		}
	}
	return nil
}

// Highest is the greatest token of the grants answered until a moment.
func Highest(grants []Grant, until time.Time) (token uint64) {
	for _, g := range grants {
		if !g.At.After(until) {
			token = max(token, g.Token)
		}
	}
	return token
}
