// Package rig runs clusters of real stiled processes on loopback, breaks them
// in the ways that processes and networks break, and measures what clients
// see of it.
//
// Nodes are counted from 1, the one of highest priority first; 0 stands for
// the clients. Node i has the address 127.0.1.i, and dials its peers from it.
// With relays, what a node advertises is a relay in front of it: the relay
// knows who is calling by the source address, so each direction between each
// two of them can be cut or delayed by itself, while the lists of peers stay
// the same everywhere.
//
// Nothing here knows package testing: the report uses the rig as well.
package rig
