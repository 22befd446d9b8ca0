// Package workload measures Stile in the situations that a lock server gets
// into, and beside what it is compared with.
//
// A Workload is one situation. It has tasks, which start servers, load them and
// return values, and rows: figures that are computed from the values of one round
// of tasks, so that what is compared was measured within minutes of each other.
// A table has the median and the spread of each figure over several rounds,
// beside the aim for it.
//
// Each figure is taken in three ways: as a core client speaks, with nonces as the
// Go client does, and with nonces while one in ten of the waits is cancelled.
package workload
