// Package scripted has servers that do what a scenario says, in order to judge
// the client on the other side: they grant, redirect, refuse, say nothing,
// answer late, twice or in another order, reset connections before an answer,
// accept and never speak, or refuse to be connected to.
//
// A Network is the servers of one scenario. Each is on a port of its own on
// 127.0.0.1. Everything they see and do is in one log, in the order in which it
// happened, with times of the scenario's monotonic clock: what a client does
// wrong shows there even if it told its user the right thing.
//
// By default a server serves: it welcomes each hello, returns each ping, grants
// each acquire at once, and answers each R, K and C well. Rules change that, op
// by op.
package scripted
