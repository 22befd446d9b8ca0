// Package cluster decides what a node of a cluster is: joining, standby,
// candidate or active. It is a pure state machine: events and the time come
// in, actions go out; it does no I/O, starts nothing and reads no clock.
//
// The rules are those of CLUSTER.md in the server module, and each has its
// file:
//
//   - link.go: who is reachable, and who is gone (section 2)
//   - decide.go: who promotes when nobody is active (section 1)
//   - guard.go: what a node does that finds it was paused (section 3)
//   - epoch.go: which epochs are known, stored and taken (section 4)
//   - mode.go: whether clients may be answered now (section 5)
//   - handoff.go: giving the role away, at a stop or to a node of higher
//     priority (section 6)
//   - meet.go: two actives that meet (section 7)
//   - insync.go: who must have applied a change before it is answered
//     (section 8)
//   - message.go, codec.go: what nodes tell each other
//   - machine.go: the state, the events, the actions
//
// The machine is level-triggered: an event only notes what it tells, and then
// everything that could follow is looked at anew. So no event is lost because
// it came in an unexpected state.
package cluster
