// Package sim runs whole clusters in one process from one seed: the real
// members ([member.Member]) with real lock tables, in virtual time, on a
// network and disks that fail, with clients that do what clients do at their
// worst. After every step it checks what must hold, and in the end that a
// cluster that is left alone comes to rest. The same seed gives the same run,
// event by event.
//
//   - sim.go: a run from its first event to its last
//   - plan.go: what a run is made of, drawn from its seed
//   - queue.go, journal.go: virtual time, and what is written down
//   - net.go, link.go: hosts, pipes and cuts; connections between nodes
//   - node.go, disk.go: a node, its processes, and what survives them
//   - table.go, session.go: the lock table, and clients as a node sees them
//   - client.go: clients
//   - faults.go: what goes wrong
//   - check.go, order.go, ages.go: what must hold all the time
//   - settle.go: what must hold in the end
//   - mutant.go: rules broken on purpose, to prove that the checks notice
package sim
