// Package fencing makes the tokens that every grant carries: numbers that no
// node ever gives twice, and that only rise.
//
//	token = 0 | epoch 31 bits | node 4 bits | sequence 28 bits
//
// An epoch is taken when a node becomes active and is on the disk before the
// first token under it is given (SPEC.md promises clients no more than that a
// greater token is a later grant; the layout is the server's own affair).
//
//   - token.go: the layout, and the allocator on the path of every grant
//   - epoch.go: which epoch to take, from what is known and the clock
//   - store.go: the epoch file
package fencing

import "sync/atomic"

const (
	nodeBits = 4
	seqBits  = 28

	maxSeq   = 1<<seqBits - 1
	maxEpoch = 1<<31 - 1

	// MaxNodes is how many node ids the layout holds.
	MaxNodes = 1 << nodeBits

	// aheadAt is the sequence from which the next epoch is wanted: 7/8.
	aheadAt = maxSeq / 8 * 7
)

// Token returns the token of its parts.
func Token(epoch uint32, node uint8, seq uint32) uint64 {
	return uint64(epoch)<<(nodeBits+seqBits) | uint64(node)<<seqBits | uint64(seq)
}

// Epoch returns the epoch a token was given under.
func Epoch(token uint64) uint32 { return uint32(token >> (nodeBits + seqBits)) }

// Node returns the id of the node that gave a token.
func Node(token uint64) uint8 { return uint8(token >> seqBits & (MaxNodes - 1)) }

// Allocator gives tokens. It is safe for concurrent use and takes no lock.
//
// All its state is the last token given: the sequence can't run into the node
// bits, and an epoch can't be changed between a check and an increment.
type Allocator struct {
	last  atomic.Uint64
	ahead atomic.Uint64 // the state to go on from when the sequence is used up; 0: none
	want  chan struct{}
}

// NewAllocator returns an allocator that gives the token after (epoch, node,
// start) first. The epoch must be stored by then.
func NewAllocator(epoch uint32, node uint8, start uint32) *Allocator {
	a := &Allocator{want: make(chan struct{}, 1)}
	a.last.Store(Token(epoch, node, start))
	if start >= aheadAt {
		a.wake()
	}
	return a
}

// Next returns a token greater than every one before it. It returns false
// when the sequence is used up and no epoch was reserved.
func (a *Allocator) Next() (uint64, bool) {
	for {
		last := a.last.Load()
		next := last + 1
		if seq := last & maxSeq; seq >= aheadAt {
			if seq == maxSeq {
				ahead := a.ahead.Load()
				if ahead <= last {
					a.wake()
					return 0, false
				}
				next = ahead + 1
			} else if seq&0xFFFF == aheadAt&0xFFFF && a.ahead.Load() <= last {
				a.wake()
			}
		}
		if a.last.CompareAndSwap(last, next) {
			return next, true
		}
	}
}

// Epoch is the epoch of the last token given.
func (a *Allocator) Epoch() uint32 { return Epoch(a.last.Load()) }

// Left is how many tokens the epoch has left.
func (a *Allocator) Left() uint64 { return maxSeq - a.last.Load()&maxSeq }

// Want delivers when a further epoch should be taken ahead of need: at 7/8
// of the sequence, and again now and then until Reserve is called.
func (a *Allocator) Want() <-chan struct{} { return a.want }

func (a *Allocator) wake() {
	select {
	case a.want <- struct{}{}:
	default:
	}
}

// Reserve gives the allocator the epoch to go on with when the sequence is
// used up. The epoch must be stored by then, and be above the current one.
func (a *Allocator) Reserve(epoch uint32, node uint8, start uint32) {
	if Token(epoch, node, start) <= a.last.Load() {
		panic("fencing: Reserve with an epoch that is not above the current one")
	}
	a.ahead.Store(Token(epoch, node, start))
}
