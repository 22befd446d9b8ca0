package rig

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// Bulk takes keys as fast as a node gives them, each its own, and releases
// every second one, to find out afterwards what became of them elsewhere.
type Bulk struct {
	prefix string
	conns  []*bulkConn
	wg     sync.WaitGroup
}

type bulkConn struct {
	*Conn
	window chan struct{}
	keys   map[string]*bulkKey
}

type bulkKey struct {
	token    uint64
	released bool // and that was answered
	asked    bool // to be released
}

// bulkLease is longer than anybody looks.
const bulkLease = 5 * time.Minute

// StartBulk starts on some connections to the node, each with as many
// requests unanswered as the window says.
func StartBulk(n *Node, prefix string, conns, window int) (*Bulk, error) {
	b := &Bulk{prefix: prefix}
	for i := range conns {
		conn, err := Dial(n.Advertise)
		if err != nil {
			b.Stop()
			return nil, err
		}
		c := &bulkConn{conn, make(chan struct{}, window), map[string]*bulkKey{}}
		b.conns = append(b.conns, c)
		b.wg.Go(func() { c.ask(fmt.Sprintf("%s/%d", prefix, i)) })
		b.wg.Go(c.read)
	}
	return b, nil
}

func (c *bulkConn) ask(prefix string) {
	for i := 0; ; i++ {
		c.window <- struct{}{}
		if c.Send("A %s/%d -1 %g", prefix, i, bulkLease.Seconds()) != nil {
			return
		}
	}
}

// read is the only one that looks at the keys, until it has ended.
func (c *bulkConn) read() {
	defer c.Close()
	granted := 0
	for {
		line, err := c.Read(Patience)
		if err != nil {
			break
		}
		if key, token, ok := Granted(line); ok {
			k := &bulkKey{token: token}
			c.keys[key] = k
			if granted++; granted%2 == 0 {
				k.asked = true
				if c.Send("R %s %d", key, token) != nil {
					break
				}
				continue
			}
		} else if f := strings.Fields(line); f[0] == "R" {
			c.keys[f[1]].released = true
		}
		<-c.window
	}
	// Whoever asks must not wait for ever.
	go func() {
		for range c.window {
		}
	}()
}

// Stop ends the asking, and waits until all answers were read.
func (b *Bulk) Stop() {
	for _, c := range b.conns {
		c.Close()
	}
	b.wg.Wait()
	for _, c := range b.conns {
		close(c.window)
	}
}

// Wait waits for the node's end.
func (b *Bulk) Wait() {
	b.wg.Wait()
	for _, c := range b.conns {
		close(c.window)
	}
}

// Lost is what a node does not know of what another one had answered.
type Lost struct {
	Grants, Releases         int // that were answered
	LostGrants, LostReleases int
}

// Lost asks the node for all of it, and gives back what is held.
func (b *Bulk) Lost(n *Node) (l Lost, err error) {
	conn, err := Dial(n.Advertise)
	if err != nil {
		return l, err
	}
	defer conn.Close()
	const batch = 500
	var lines []string
	flush := func() error {
		for _, line := range lines {
			if err := conn.Send("%s", line); err != nil {
				return err
			}
		}
		for range lines {
			answer, err := conn.Read(Patience)
			if err != nil {
				return err
			}
			switch {
			case len(answer) > 4 && answer[:4] == "E R ":
				l.LostGrants++
			case answer[0] == 'T':
				l.LostReleases++
			case answer[0] == 'M' || answer[0] == 'E':
				return fmt.Errorf("node %d answered %q", n.ID, answer)
			}
		}
		lines = lines[:0]
		return nil
	}
	for _, c := range b.conns {
		for key, k := range c.keys {
			switch {
			case k.released:
				l.Grants++
				l.Releases++
				lines = append(lines, fmt.Sprintf("A %s -1 0.01", key))
			case !k.asked:
				l.Grants++
				lines = append(lines, fmt.Sprintf("R %s %d", key, k.token))
			}
			if len(lines) == batch {
				if err := flush(); err != nil {
					return l, err
				}
			}
		}
	}
	return l, flush()
}

// Add adds up.
func (l *Lost) Add(o Lost) {
	l.Grants += o.Grants
	l.Releases += o.Releases
	l.LostGrants += o.LostGrants
	l.LostReleases += o.LostReleases
}
