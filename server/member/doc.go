// Package member makes a lock table a member of a cluster: it carries out what
// the roles (package cluster) decide, with the table (package lockspace) and
// the stream (package replica). It does no I/O and reads no clock either; the
// sockets, the disk and the timers are its owner's, who gives it a World, and
// the shards of the table with their locks are behind a Table. So the real
// node and the simulator run the very same member.
//
//   - member.go: the member, its events
//   - carry.go: carrying out the actions of the roles
//   - feed.go: what is sent to each peer beside messages: streams and offers
//   - follow.go: taking in a stream, and offers
//   - status.go: what an operator sees
package member
