package node

import (
	"math"
	"time"

	"github.com/stile-lock/stile/server/cluster"
	"github.com/stile-lock/stile/server/lockspace"
	"github.com/stile-lock/stile/server/replica"
)

// Table is the node's lock table as its cluster membership sees it; see
// package member. UseTokens is missing: tokens are not the node's.
type Table struct{ n *Node }

// Table returns the table of a node of a cluster.
func (n *Node) Table() Table { return Table{n} }

// Now is the time of the table.
func (t Table) Now() lockspace.Time { return t.n.now() }

// Shards is the number of shards.
func (t Table) Shards() int { return shardCount }

// ShardOf is the shard of the keys with the hash.
func (t Table) ShardOf(keyHash uint64) int { return t.n.shardOf(keyHash) }

// With calls f under the shard's lock.
func (t Table) With(shard int, f func(*lockspace.Space)) {
	var touched touched
	sh := t.n.shards[shard]
	sh.lock(&touched)
	f(sh.space)
	sh.finish()
	touched.flush()
}

// NewSpace makes an empty Space as the shard's own was.
func (t Table) NewSpace(int) *lockspace.Space { return lockspace.New(t.n.spaceConfig) }

// SetLog names the log that changes are appended to.
//
// What was changed in reigns before is told by the first record of this one at
// the earliest: whoever has that has the table it began with.
func (t Table) SetLog(log *replica.Log) {
	for _, sh := range t.n.shards {
		sh.mu.Lock()
		sh.log, sh.pos = log, 1
		sh.mu.Unlock()
	}
}

// SetMode says how clients are answered. When it returns nobody is answered
// by the mode before it.
func (t Table) SetMode(mode cluster.Mode, active string) {
	var touched touched
	for _, sh := range t.n.shards {
		sh.setMode(mode, []byte(active), &touched)
		touched.flush()
	}
}

// Committed lets out the answers to changes up to the position.
func (t Table) Committed(pos uint64) { t.n.release(pos) }

// Abandon resets the connections whose answers have not been let out.
func (t Table) Abandon() { t.n.abandon() }

// Passed tells that the roles have looked at the time, and that what follows
// from it is done.
func (n *Node) Passed(at time.Duration) { n.passed.Store(int64(at)) }

// awaitPass returns when the roles have looked at the time just now. As a rule
// they have; if not, the process was paused, and whoever goes on with the
// table first could answer for a node that has lost its role.
func (n *Node) awaitPass() {
	c := n.cfg.Cluster
	if c == nil {
		return
	}
	for c.Clock()-time.Duration(n.passed.Load()) > c.PauseLimit && !n.stopping.Load() {
		time.Sleep(passPoll)
	}
}

// passPoll is how often awaitPass looks.
const passPoll = time.Millisecond

func (n *Node) holdFor() time.Duration {
	if n.cfg.Cluster == nil {
		return math.MaxInt64
	}
	return n.cfg.Cluster.HoldFor
}
