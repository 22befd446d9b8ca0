package node

import (
	"github.com/stile-lock/stile/protocol"
	"github.com/stile-lock/stile/server/gate"
	"github.com/stile-lock/stile/server/internal/hist"
	"github.com/stile-lock/stile/server/lockspace"
)

// maxCodes is above every protocol.Code, CodeUnknown too.
const maxCodes = 256

// counts is what a shard has answered. Like all of a shard it is guarded by the
// shard's lock: counting costs no further one.
type counts struct {
	kept, cancelled, moved uint64
	refused                [maxCodes]uint64
}

func (c *counts) effect(e *lockspace.Effect) {
	switch e.Kind {
	case lockspace.Refused:
		c.refused[e.Code]++
	case lockspace.Moved:
		c.moved++
	}
}

// answer counts the answer to a release, keep or cancel. The table counts
// releases itself.
func (c *counts) answer(op protocol.Op, v gate.Verdict, code protocol.Code) {
	switch {
	case v == gate.Refused:
		c.refused[code]++
	case v == gate.Moved:
		c.moved++
	case op == protocol.OpKeep:
		c.kept++
	case op == protocol.OpCancel:
		c.cancelled++
	}
}

// Counts is what a node has done since it was started. Numbers only rise.
type Counts struct {
	lockspace.Stats

	Kept      uint64 // leases renewed
	Cancelled uint64 // cancels answered, whatever they met
	Moved     uint64 // requests sent to the active
	Refused   map[protocol.Code]uint64

	// HandOver is how long it took from the end of a grant to the moment when
	// the kernel had the answer to the next in line.
	HandOver hist.Counts

	Accepted   uint64 // connections, those of peers too
	TurnedAway uint64 // over the limit
	CutOff     uint64 // since they did not read, or their answers can't be given
}

// Counts adds up. It takes the lock of one shard after the other.
func (n *Node) Counts() *Counts {
	c := &Counts{Refused: make(map[protocol.Code]uint64)}
	for _, sh := range n.shards {
		sh.mu.Lock()
		c.Stats.Add(sh.space.Stats())
		c.Kept += sh.counts.kept
		c.Cancelled += sh.counts.cancelled
		c.Moved += sh.counts.moved
		for _, code := range protocol.Codes() {
			c.Refused[code] += sh.counts.refused[code]
		}
		sh.mu.Unlock()
	}
	for _, code := range protocol.Codes() {
		c.Refused[code] += n.refused[code].Load()
	}
	for i := range n.handOvers {
		n.handOvers[i].AddTo(&c.HandOver)
	}
	c.Accepted = n.generation.Load()
	c.TurnedAway = n.turnedAway.Load()
	c.CutOff = n.cutOffs.Load()
	return c
}
