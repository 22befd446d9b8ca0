package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// plan is what a run is made of.
type plan struct {
	nodes, clients, keys int
	sameKeys             bool // clients wait for one key twice at a time

	sync      bool
	minInSync int
	takeback  time.Duration
	keepLog   int // bytes of the stream

	latency       Time    // of a packet, on average
	late          float64 // the part of them that is later
	latest        Time    // by that much at most
	window        int     // bytes that a process may leave unread before the other end waits
	chunk         int     // length of a data frame at most
	slowBandwidth int     // bytes a second, where a fault slows a link

	wall                     Time // of the clocks at the beginning, since the first epoch
	clockSpread              Time
	fewTokens                bool // epochs begin near the end of their tokens
	slowWrites, failedWrites float64

	startSpread Time
	chaos       Time    // faults until then
	gap         Time    // between two of them
	hurry       float64 // the part of them that follows at once
	lostResets  float64
	weights     []int   // of each kind of fault
	stayDown    float64 // the chance of a dead node to stay so
}

func (s *Sim) draw() {
	p := &s.plan
	p.nodes = pick(s, 2, 2, 3, 3, 3, 3, 4, 5)
	p.sync = s.chance(0.5)
	if s.opt.Nodes > 0 {
		p.nodes = s.opt.Nodes
	}
	if s.opt.Mode != "" {
		p.sync = s.opt.Mode == "sync"
	}
	if p.sync && s.chance(0.1) {
		p.minInSync = 1
	}
	p.clients = 5 + s.rng.IntN(6)
	p.keys = 3 + s.rng.IntN(4)
	p.sameKeys = s.chance(0.25)
	p.takeback = pick(s, time.Second, time.Second, time.Second, 300*time.Millisecond, 0, 2*time.Second)
	if s.chance(0.05) {
		p.takeback = -1
	}
	p.keepLog = pick(s, 0, 0, 0, 2048, 4096)
	p.latency = pick(s, 100*time.Microsecond, 300*time.Microsecond, time.Millisecond, time.Millisecond, 5*time.Millisecond, 20*time.Millisecond)
	p.late = pick(s, 0, 0, 0.01, 0.05)
	p.latest = pick(s, 10*time.Millisecond, 50*time.Millisecond, 150*time.Millisecond)
	p.window = pick(s, 4<<10, 16<<10, 256<<10)
	p.chunk = pick(s, 512, 1024, 64<<10)
	p.slowBandwidth = pick(s, 1<<10, 3<<10, 10<<10)
	// The middle of 2026, at any part of a second.
	p.wall = 46_000_000*time.Second + s.between(0, 1000*time.Second)
	p.clockSpread = pick(s, 0, 10*time.Millisecond, 10*time.Millisecond, 500*time.Millisecond, 3*time.Second, time.Hour)
	p.fewTokens = s.chance(0.08)
	p.slowWrites = pick(s, 0, 0, 0.05, 0.3)
	p.failedWrites = pick(s, 0, 0, 0, 0.05, 0.2)
	p.startSpread = pick(s, 0, 100*time.Millisecond, 1500*time.Millisecond, 3*time.Second)
	p.chaos = s.between(6*time.Second, 14*time.Second)
	p.gap = pick(s, 300*time.Millisecond, time.Second, time.Second, 2*time.Second, 4*time.Second)
	p.hurry = pick(s, 0, 0.2, 0.5)
	p.lostResets = pick(s, 0, 0.3, 0.3, 0.8)
	p.stayDown = pick(s, 0, 0, 0.3)
	s.drawFaults()
	if s.losesDisks() {
		p.fewTokens = false // the millisecond that they begin with is what counts then
	}
}

// drawFaults draws which kinds of faults the run has: all of them in some
// runs, a few in most, so that one does not always hide the other.
func (s *Sim) drawFaults() {
	p := &s.plan
	p.weights = make([]int, len(faults))
	most := s.chance(0.2)
	for i := range faults {
		on := most || s.chance(0.3)
		w := 1 + s.rng.IntN(4)
		if len(s.opt.Faults) > 0 {
			on = slices.Contains(s.opt.Faults, faults[i].name)
		}
		if on {
			p.weights[i] = w
		}
	}
	if len(s.opt.Faults) == 0 && s.chance(0.03) {
		clear(p.weights)
	}
}

func (s *Sim) drawOffset() time.Duration {
	return s.between(-s.plan.clockSpread, s.plan.clockSpread+1)
}

func pick[T any](s *Sim, of ...T) T { return of[s.rng.IntN(len(of))] }

func (p *plan) String() string {
	var kinds []string
	for i, w := range p.weights {
		if w > 0 {
			kinds = append(kinds, fmt.Sprintf("%s %d", faults[i].name, w))
		}
	}
	return fmt.Sprintf("%d nodes, %d clients, %d keys, sync %v (min %d), takeback %v, keep %d, latency %v (%.2f later by up to %v), "+
		"window %d, chunk %d, slow %d B/s, clocks %v apart, few tokens %v, slow writes %.2f, failed writes %.2f, faults until %v every %v (%.1f at once), "+
		"lost resets %.1f: %s",
		p.nodes, p.clients, p.keys, p.sync, p.minInSync, p.takeback, p.keepLog, p.latency, p.late, p.latest,
		p.window, p.chunk, p.slowBandwidth, p.clockSpread, p.fewTokens, p.slowWrites, p.failedWrites, p.chaos, p.gap, p.hurry,
		p.lostResets, strings.Join(kinds, ", "))
}
