package suite

import "time"

// Allowances of the cluster half. How long a failover may take is not here:
// whoever runs the suite says so.
const (
	// Joined lets the standbys of a cluster that has just begun to serve get
	// the lock table, before the scenario takes the active away. They redirect
	// already, but nothing that a client sees tells that they have all of it.
	Joined = 500 * time.Millisecond

	// Replicated is how long nothing happens before a node is taken away, where
	// nothing may be lost then: far longer than a change takes to a standby.
	Replicated = time.Second

	// PollEvery is the pause between two requests to one node, where all nodes
	// are asked the whole time who grants.
	PollEvery = 50 * time.Millisecond

	// ProbeEvery is the pause where one waits for a node to serve: it adds as
	// much to the time that a failover seems to take.
	ProbeEvery = 10 * time.Millisecond

	// HeldInHandoff is how long a successor may keep a request that a redirect
	// of the node before it has brought: the time of a handoff, with a message
	// on its way.
	HeldInHandoff = time.Second

	// Held is how long a node may keep a request while it does not know who is
	// active: the 2 s of SPEC.md 12.3, and what a busy machine adds.
	Held = 2*time.Second + Late

	// HeldLeast is how long it keeps one at least before it says that it knows
	// nobody: a node that has only just started says so too early.
	HeldLeast = 300 * time.Millisecond

	// Settled is how soon one node serves alone, when a partition is over or
	// nodes have started. SPEC.md gives no time; CLUSTER.md says a failure
	// timeout, and links come first.
	Settled = 5 * time.Second

	// Alone is for how long one node is watched that must go on serving alone.
	Alone = 1500 * time.Millisecond

	// Partitioned is how long a part of the network is cut, where it must not
	// make a second active: three times the second in which a standby usually
	// takes a silent active for dead.
	Partitioned = 3 * time.Second

	// TakenBack is how soon the node of highest priority serves again after its
	// return: a second to be in sync, and its start.
	TakenBack = 10 * time.Second

	// Stopped is how long a node may take that was asked to stop.
	Stopped = 15 * time.Second
)
