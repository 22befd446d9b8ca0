package sim

import (
	"strings"
	"time"

	"github.com/stile-lock/stile/server/cluster"
)

// settle ends the faults. From here on the cluster must come to rest.
func (s *Sim) settle() {
	s.quiet = true
	s.logf("the faults are over")
	for i, n := range s.net.blocked {
		for range n {
			s.net.unblock(i/s.net.hosts, i%s.net.hosts)
		}
	}
	for i, n := range s.cuts {
		if n > 0 {
			s.disturb(1<<(i/s.plan.nodes)|1<<(i%s.plan.nodes), true)
		}
	}
	clear(s.cuts)
	for i := range s.net.blocked {
		s.net.blocked[i] = -1 << 30 // cuts that end later change nothing
	}
	clear(s.slow)
	s.plan.slowWrites, s.plan.failedWrites = 0, 0
	s.plan.late = min(s.plan.late, 0.01)
	alive := 0
	for _, n := range s.nodes {
		n.disk.badUntil, n.disk.slowUntil = 0, 0
		if n.misfit = false; n.proc != nil && n.proc.misfit {
			s.crash(n)
		}
		if n.proc != nil {
			n.proc.wake()
			alive++
		}
	}
	for _, n := range s.nodes {
		if n.proc == nil && alive > s.plan.minInSync && s.chance(s.plan.stayDown) {
			n.wantUp, n.restarting = false, false
			s.logf("n%d stays down", n.id)
		} else if n.proc == nil {
			n.restarting = true
			s.after(s.between(0, 500*time.Millisecond), func() {
				if n.proc == nil {
					n.start()
				}
			})
		}
	}
	begun := s.now
	s.after(time.Second, func() { s.awaitRest(begun) })
}

const (
	// settleSoon is how long a cluster may take to have one active that all
	// follow: processes that were told to stop end, lost links show, decisions
	// are made, epochs taken, tables sent.
	settleSoon = 12 * time.Second
	// settleLate is the same where a standby was too slow several times, or
	// the highest node failed right after it got the role back: both wait up
	// to a minute then.
	settleLate = 90 * time.Second
)

// awaitRest waits until one node is active and all others follow it.
func (s *Sim) awaitRest(begun Time) {
	problem, late := s.unrest()
	limit := settleSoon
	if late {
		limit = settleLate
	}
	switch {
	case problem == "":
		s.logf("at rest after %v", s.now-begun)
		s.restTook(s.now - begun)
		s.drain()
		return
	case s.now-begun > limit:
		s.fail("after %v without faults: %s", s.now-begun, problem)
	}
	s.after(50*time.Millisecond, func() { s.awaitRest(begun) })
}

func (s *Sim) restTook(d Time) {
	switch {
	case d < 2*time.Second:
		s.count("at rest within 2 s")
	case d < 5*time.Second:
		s.count("at rest within 5 s")
	case d < settleSoon:
		s.count("at rest within 12 s")
	default:
		s.count("at rest later")
	}
}

// unrest says what keeps the cluster from being at rest; late, that this may
// take long.
func (s *Sim) unrest() (problem string, late bool) {
	var active *process
	var first *node
	for _, n := range s.nodes {
		if n.proc == nil {
			if n.wantUp {
				return address(n.id) + " is down", false
			}
			continue
		}
		if n.proc.stopping {
			return address(n.id) + " is stopping", false
		}
		if first == nil {
			first = n
		}
		if n.proc.member.Active() {
			if active != nil {
				return "two are active", false
			}
			active = n.proc
		}
	}
	switch {
	case active == nil:
		return "nobody is active", false
	case active.mode != cluster.Serve && !(active.mode == cluster.Refuse && s.plan.minInSync > 0):
		return address(active.n.id) + " is in mode " + active.mode.String(), active.mode == cluster.Freeze
	}
	for _, n := range s.nodes {
		p := n.proc
		if p == nil || p == active {
			continue
		}
		if p.member.Place().Reign != active.log.Reign() {
			return address(n.id) + " does not follow " + address(active.n.id), true
		}
		if p.mode != cluster.Redirect || p.redirect != address(active.n.id) {
			return address(n.id) + " does not redirect to " + address(active.n.id), false
		}
	}
	if active.n != first && s.plan.takeback >= 0 {
		return address(first.id) + " is not active", true
	}
	if active.mode != cluster.Serve {
		if len(s.alive()) == 1 {
			return "", false
		}
		return address(active.n.id) + " refuses", true
	}
	return "", false
}

func (s *Sim) alive() (out []*node) {
	for _, n := range s.nodes {
		if n.proc != nil {
			out = append(out, n)
		}
	}
	return out
}

// drain lets the clients finish, then takes every key once.
func (s *Sim) drain() {
	s.draining = true
	began := s.now
	var look func()
	look = func() {
		problem := s.undrained()
		if problem == "" {
			s.probeAll()
			return
		}
		if s.now-began > 20*time.Second {
			s.fail("%s, 20 s after the last acquire", problem)
		}
		s.after(100*time.Millisecond, look)
	}
	look()
}

func (s *Sim) undrained() string {
	for _, c := range s.clients {
		if c.paused {
			return "a client is paused"
		}
		for _, k := range c.calls {
			if k.state != ended || len(k.open) > 0 {
				return "c" + strings.TrimPrefix(address(c.id), "n") + " still waits for " + k.key
			}
		}
		if len(c.frees) > 0 {
			return "a release is not answered"
		}
	}
	return ""
}

// probeAll acquires every key once more.
func (s *Sim) probeAll() {
	if a := s.active(); a == nil || a.proc.mode != cluster.Serve {
		s.finish() // alone, with a minimum of standbys
		return
	}
	s.logf("every key is acquired once more")
	c := s.clients[len(s.clients)-1]
	s.probes = s.plan.keys
	began := s.now
	for i := range s.plan.keys {
		k := c.begin("k" + string(rune('0'+i)))
		k.probe, k.wait, k.style = true, 0, quick
		k.patience = s.now + s.longest + 3*time.Second
	}
	var look func()
	look = func() {
		if s.probes == 0 && len(c.calls) == 0 && len(c.frees) == 0 {
			// Whatever is held by the dead ends now.
			s.after(s.longest+4*time.Second, s.finish)
			return
		}
		if s.now-began > s.longest+20*time.Second {
			s.fail("%d keys could not be acquired in the end", s.probes)
		}
		s.after(100*time.Millisecond, look)
	}
	look()
}

// finish looks at what is left in the end: nothing.
func (s *Sim) finish() {
	s.finished = true
	active := s.active()
	for _, n := range s.alive() {
		p := n.proc
		for _, sh := range p.shards {
			if w := sh.gate.Space.Waiting(); w != 0 {
				s.fail("n%d: %d wait in the end", n.id, w)
			}
			if h := sh.gate.Space.Held(); h != 0 {
				s.fail("n%d: %d keys are held in the end:\n%s", n.id, h, p.digest())
			}
			if h := sh.gate.Held(); h != 0 {
				s.fail("n%d: %d requests are kept in the end", n.id, h)
			}
		}
		if len(p.held) != 0 {
			s.fail("n%d: %d answers are held in the end", n.id, len(p.held))
		}
		for _, x := range p.sessionList {
			if x.nodeOpen && len(x.pending) > 0 {
				s.fail("n%d: #%d of c%d was never answered", n.id, x.pending[0].id, x.c.id)
			}
		}
		if active != nil && p != active.proc && p.member.Place() != active.proc.log.Place() {
			s.fail("n%d is at %v in the end, and its active at %v", n.id, p.member.Place(), active.proc.log.Place())
		}
	}
	for _, c := range s.clients {
		for _, x := range c.sessions {
			if x != nil && len(x.unanswered) > 0 && x.unanswered[0].sent < s.now-4*time.Second {
				s.fail("c%d: #%d was never answered", c.id, x.unanswered[0].id)
			}
		}
	}
}
