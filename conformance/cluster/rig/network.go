package rig

import (
	"errors"
	"io"
	"maps"
	"net"
	"slices"
	"sync"
	"time"
)

// Clients is the number that stands for all clients.
const Clients = 0

// Network is the relays of a cluster. Its methods say what happens to what is
// under way from one node to another. A cut is silent: connections stay, and
// what was sent goes on when the cut is healed, as TCP would send it again.
type Network struct {
	mu      sync.Mutex
	changed chan struct{} // closed and replaced by each change
	links   map[[2]int]link
	conns   map[*relayed]struct{}
	relays  []net.Listener
	callers map[[2]int]bool
	closed  bool
}

// link is one direction.
type link struct {
	cut    bool
	refuse bool // connections that are dialed in this direction
	delay  time.Duration
	rate   int // bytes in a second; 0: any
}

// relayed is a connection through a relay.
type relayed struct {
	from, to int  // who dialed whom
	silent   bool // for good; guarded by the network
	quit     chan struct{}

	mu       sync.Mutex
	down, up net.Conn
	ended    bool
}

func newNetwork() *Network {
	return &Network{changed: make(chan struct{}), links: map[[2]int]link{}, conns: map[*relayed]struct{}{}, callers: map[[2]int]bool{}}
}

func (n *Network) change(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
	close(n.changed)
	n.changed = make(chan struct{})
}

func (n *Network) set(from, to int, f func(*link)) {
	l := n.links[[2]int{from, to}]
	f(&l)
	n.links[[2]int{from, to}] = l
}

// CutOneWay swallows what goes from one to the other.
func (n *Network) CutOneWay(from, to int) {
	n.change(func() { n.set(from, to, func(l *link) { l.cut = true }) })
}

// Cut swallows what goes between the two.
func (n *Network) Cut(a, b int) {
	n.change(func() {
		n.set(a, b, func(l *link) { l.cut = true })
		n.set(b, a, func(l *link) { l.cut = true })
	})
}

// Partition cuts every pair of which one is on each side, at once.
func (n *Network) Partition(one, other []int) {
	n.change(func() {
		for _, a := range one {
			for _, b := range other {
				n.set(a, b, func(l *link) { l.cut = true })
				n.set(b, a, func(l *link) { l.cut = true })
			}
		}
	})
}

// Heal ends all that was done, but for connections that Silence took.
func (n *Network) Heal() { n.change(func() { clear(n.links) }) }

// Delay delays what goes from one to the other.
func (n *Network) Delay(from, to int, d time.Duration) {
	n.change(func() { n.set(from, to, func(l *link) { l.delay = d }) })
}

// Throttle lets so many bytes a second go from one to the other.
func (n *Network) Throttle(from, to, rate int) {
	n.change(func() { n.set(from, to, func(l *link) { l.rate = rate }) })
}

// Refuse resets the connections between the two, and new ones until Heal.
func (n *Network) Refuse(a, b int) {
	n.change(func() {
		n.set(a, b, func(l *link) { l.refuse = true })
		n.set(b, a, func(l *link) { l.refuse = true })
	})
	n.Reset(a, b)
}

// Reset resets the connections between the two.
func (n *Network) Reset(a, b int) {
	for _, c := range n.between(a, b) {
		c.reset()
	}
}

// Silence makes the present connections of a node with its peers silent for
// good, as if the news of its death were lost; new ones work.
func (n *Network) Silence(node int) {
	n.change(func() {
		for c := range n.conns {
			if c.from == node && c.to != Clients || c.to == node && c.from != Clients {
				c.silent = true
			}
		}
	})
}

// Callers tells who has dialed whom until now.
func (n *Network) Callers() (pairs [][2]int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Collect(maps.Keys(n.callers))
}

func (n *Network) between(a, b int) (cs []*relayed) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		if c.from == a && c.to == b || c.from == b && c.to == a {
			cs = append(cs, c)
		}
	}
	return cs
}

// relay starts a relay in front of the node that listens on to.
func (n *Network) relay(l net.Listener, node int, to string) {
	n.relays = append(n.relays, l)
	go func() {
		for {
			down, err := l.Accept()
			if err != nil {
				return
			}
			c := &relayed{from: caller(down), to: node, down: down, quit: make(chan struct{})}
			n.mu.Lock()
			n.callers[[2]int{c.from, node}] = true
			refuse := n.closed || n.links[[2]int{c.from, node}].refuse
			if !refuse {
				n.conns[c] = struct{}{}
			}
			n.mu.Unlock()
			if refuse {
				c.reset()
				continue
			}
			go n.carry(c, to)
		}
	}()
}

// caller tells who dialed by the address it dialed from.
func caller(c net.Conn) int {
	if ip := c.RemoteAddr().(*net.TCPAddr).IP.To4(); ip != nil && ip[1] == 0 && ip[2] == 1 {
		return int(ip[3])
	}
	return Clients
}

func (n *Network) carry(c *relayed, to string) {
	defer func() {
		c.end(false)
		n.mu.Lock()
		delete(n.conns, c)
		n.mu.Unlock()
	}()
	ahead := newQueue()
	go c.read(c.down, ahead)
	defer ahead.close()
	first, ok := ahead.pop()
	if !ok {
		return
	}
	arrived := time.Now()
	if !n.pass(c, c.from, c.to, time.Time{}) {
		return
	}
	if time.Since(arrived) > 10*time.Millisecond && ahead.ended() {
		return // it gave up while the cut lasted, and was never heard of
	}
	up, err := net.Dial("tcp", to)
	if err != nil {
		n.pass(c, c.to, c.from, time.Time{}) // the refusal has its way to go, too
		c.reset()
		return
	}
	if !c.connected(up) {
		return
	}
	back := newQueue()
	go c.read(up, back)
	defer back.close()
	var both sync.WaitGroup
	both.Go(func() {
		if n.write(c, c.from, c.to, first, up) {
			n.forward(c, c.from, c.to, ahead, up)
		}
	})
	both.Go(func() { n.forward(c, c.to, c.from, back, c.down) })
	both.Wait()
}

// chunk is some bytes, or the end.
type chunk struct {
	data []byte
	at   time.Time
	err  error
}

// queueMax is how many bytes are on their way at most, beside those in the
// buffers of the connections.
const queueMax = 256 << 10

// queue is what is on its way.
type queue struct {
	mu     sync.Mutex
	change sync.Cond
	chunks []chunk
	bytes  int
	closed bool
}

func newQueue() *queue {
	q := new(queue)
	q.change.L = &q.mu
	return q
}

// push waits for room. It reports false when the queue is closed.
func (q *queue) push(c chunk) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.bytes > queueMax && !q.closed {
		q.change.Wait()
	}
	q.chunks = append(q.chunks, c)
	q.bytes += len(c.data)
	q.change.Broadcast()
	return !q.closed
}

func (q *queue) pop() (c chunk, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.chunks) == 0 && !q.closed {
		q.change.Wait()
	}
	if q.closed {
		return c, false
	}
	c, q.chunks = q.chunks[0], q.chunks[1:]
	q.bytes -= len(c.data)
	q.change.Broadcast()
	return c, true
}

// ended reports whether the end is in the queue.
func (q *queue) ended() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed || len(q.chunks) > 0 && q.chunks[len(q.chunks)-1].err != nil
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.change.Broadcast()
}

func (c *relayed) read(from net.Conn, to *queue) {
	// Whoever takes from the queue must not wait for a connection that is gone.
	go func() {
		<-c.quit
		to.close()
	}()
	buf := make([]byte, 16<<10)
	for {
		k, err := from.Read(buf)
		if k > 0 && !to.push(chunk{data: append([]byte(nil), buf[:k]...), at: time.Now()}) {
			return
		}
		if err != nil {
			to.push(chunk{at: time.Now(), err: err})
			return
		}
	}
}

func (n *Network) forward(c *relayed, from, to int, q *queue, conn net.Conn) {
	for {
		next, ok := q.pop()
		if !ok || !n.write(c, from, to, next, conn) {
			return
		}
	}
}

// write lets a chunk go on when it may. It reports false if it was the last.
func (n *Network) write(c *relayed, from, to int, next chunk, conn net.Conn) bool {
	if !n.pass(c, from, to, next.at) {
		return false
	}
	switch {
	case errors.Is(next.err, io.EOF):
		conn.(*net.TCPConn).CloseWrite()
		return false
	case next.err != nil:
		c.reset()
		return false
	}
	if _, err := conn.Write(next.data); err != nil {
		c.reset()
		return false
	}
	n.mu.Lock()
	rate := n.links[[2]int{from, to}].rate
	n.mu.Unlock()
	if rate > 0 {
		time.Sleep(time.Duration(len(next.data)) * time.Second / time.Duration(rate))
	}
	return true
}

// pass waits until what was sent at a time may go on. It reports false if the
// connection has ended.
func (n *Network) pass(c *relayed, from, to int, sent time.Time) bool {
	for {
		n.mu.Lock()
		l, changed, silent := n.links[[2]int{from, to}], n.changed, c.silent
		n.mu.Unlock()
		var due <-chan time.Time
		if !l.cut && !silent {
			left := time.Until(sent.Add(l.delay))
			if left <= 0 {
				return true
			}
			due = time.After(left)
		}
		select {
		case <-c.quit:
			return false
		case <-changed:
		case <-due:
		}
	}
}

// connected notes the far end. It reports false if the connection has ended.
func (c *relayed) connected(up net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		up.Close()
		return false
	}
	c.up = up
	return true
}

func (c *relayed) reset() { c.end(true) }

// end closes both ends, with a reset if need be: then nothing that is still
// under way arrives.
func (c *relayed) end(reset bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.ended = true
	close(c.quit)
	for _, conn := range []net.Conn{c.down, c.up} {
		if conn == nil {
			continue
		}
		if reset {
			conn.(*net.TCPConn).SetLinger(0)
		}
		conn.Close()
	}
}

func (n *Network) close() {
	var cs []*relayed
	n.change(func() {
		n.closed = true
		for c := range n.conns {
			cs = append(cs, c)
		}
	})
	for _, l := range n.relays {
		l.Close()
	}
	for _, c := range cs {
		c.reset()
	}
}
