package sim

import "time"

// network is who reaches whom. Hosts are the nodes, then the clients.
type network struct {
	s       *Sim
	hosts   int
	blocked []int     // by from*hosts+to: how many faults cut the direction
	pipes   [][]*pipe // by from*hosts+to
	shaken  []Time    // by from*hosts+to: when the direction last changed
}

func newNetwork(s *Sim, hosts int) *network {
	return &network{
		s: s, hosts: hosts, blocked: make([]int, hosts*hosts), pipes: make([][]*pipe, hosts*hosts),
		shaken: make([]Time, hosts*hosts),
	}
}

func (n *network) isBlocked(from, to int) bool { return n.blocked[from*n.hosts+to] > 0 }

// block cuts a direction: nothing arrives, and nobody is told.
func (n *network) block(from, to int) {
	n.blocked[from*n.hosts+to]++
	n.shaken[from*n.hosts+to] = n.s.now
}

// unblock ends one cut. What was on its way arrives when it is sent again.
func (n *network) unblock(from, to int) {
	i := from*n.hosts + to
	n.blocked[i]--
	n.shaken[i] = n.s.now
	if n.blocked[i] > 0 {
		return
	}
	left := n.pipes[i][:0]
	for _, p := range n.pipes[i] {
		if p.closed && len(p.queue) == 0 {
			continue
		}
		left = append(left, p)
		if p.stalled {
			p.stalled = false
			n.s.after(n.s.between(0, 300*time.Millisecond), p.arrive)
		}
	}
	n.pipes[i] = left
}

// pipe is one direction of a connection: what is sent arrives in order,
// unless the direction is cut; then it waits.
type pipe struct {
	net      *network
	from, to int
	queue    []parcel
	last     Time
	stalled  bool
	closed   bool // nothing more is sent
	told     bool // by a reset
}

type parcel struct {
	at Time
	f  func()
}

func (n *network) pipe(from, to int) *pipe {
	p := &pipe{net: n, from: from, to: to}
	i := from*n.hosts + to
	if len(n.pipes[i]) > 32 {
		left := n.pipes[i][:0]
		for _, q := range n.pipes[i] {
			if !q.closed || len(q.queue) > 0 {
				left = append(left, q)
			}
		}
		n.pipes[i] = left
	}
	n.pipes[i] = append(n.pipes[i], p)
	return p
}

// send makes f happen at the other end.
func (p *pipe) send(f func()) {
	s := p.net.s
	p.last = max(p.last, s.now+s.latency(p.from, p.to))
	p.queue = append(p.queue, parcel{p.last, f})
	if len(p.queue) == 1 && !p.stalled {
		s.at(p.last, p.arrive)
	}
}

// reset is the last that is sent: f happens at the other end, unless it is
// lost. Then it may be sent again: whatever comes to an end that is closed is
// answered with one.
func (p *pipe) reset(lost bool, f func()) {
	p.closed = true
	if !lost && !p.told && !p.net.isBlocked(p.from, p.to) {
		p.told = true
		p.send(f)
	}
}

func (p *pipe) arrive() {
	if p.stalled || len(p.queue) == 0 {
		return
	}
	if p.net.isBlocked(p.from, p.to) {
		p.stalled = true
		return
	}
	f := p.queue[0].f
	p.queue[0].f = nil
	p.queue = p.queue[1:]
	f()
	if len(p.queue) > 0 && !p.stalled {
		p.net.s.at(max(p.net.s.now, p.queue[0].at), p.arrive)
	}
}
