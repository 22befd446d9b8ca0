// Package cluster holds tests of clusters of real stiled processes, on
// loopback, with relays between them: how they start, who serves, and what
// their clients see when processes and networks break. See package rig for
// how that is done, and package history for how it is judged.
package cluster
