// Package logqueue writes a log without ever holding up who logs: a reader that
// stops reading would stop the whole node otherwise, and with it every lock.
package logqueue

import (
	"io"
	"sync"
	"time"
)

// Queue is an io.Writer that never blocks. Each Write is a line; lines leave
// whole and in order, by one goroutine. What does not fit is lost, and told of
// at its place among the others.
type Queue struct {
	to   io.Writer
	max  int
	tell func(to io.Writer, lost int)

	mu     sync.Mutex
	lines  [][]byte
	size   int    // of lines, in bytes
	gap    int    // how many lines are lost after these
	lost   uint64 // in all
	closed bool

	more  chan struct{} // has one when there is something to do
	ended chan struct{} // closed when all is written after Close
}

// New returns a queue of at most so many bytes. tell writes a line that says how
// many are missing.
func New(to io.Writer, most int, tell func(to io.Writer, lost int)) *Queue {
	q := &Queue{to: to, max: most, tell: tell, more: make(chan struct{}, 1), ended: make(chan struct{})}
	go q.run()
	return q
}

// Write implements io.Writer.
func (q *Queue) Write(line []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return len(line), nil
	case q.gap > 0 || q.size+len(line) > q.max:
		// A short one that fits would stand before the gap.
		q.gap++
		q.lost++
	default:
		q.lines = append(q.lines, append([]byte(nil), line...))
		q.size += len(line)
	}
	q.wake()
	return len(line), nil
}

// Lost is how many lines were lost so far.
func (q *Queue) Lost() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lost
}

// Close takes no more lines, and returns when those that there are have been
// written, or the limit is over. It may be called more than once.
func (q *Queue) Close(limit time.Duration) {
	q.mu.Lock()
	q.closed = true
	q.wake()
	q.mu.Unlock()
	over := time.NewTimer(limit)
	defer over.Stop()
	select {
	case <-q.ended:
	case <-over.C:
	}
}

func (q *Queue) wake() {
	select {
	case q.more <- struct{}{}:
	default:
	}
}

func (q *Queue) run() {
	defer close(q.ended)
	for range q.more {
		q.mu.Lock()
		lines, gap, closed := q.lines, q.gap, q.closed
		q.lines, q.size, q.gap = nil, 0, 0
		q.mu.Unlock()
		// One by one: others may write to the same pipe or terminal.
		for _, line := range lines {
			if _, err := q.to.Write(line); err != nil {
				q.mu.Lock()
				q.lost++
				q.mu.Unlock()
			}
		}
		if gap > 0 {
			q.tell(q.to, gap)
		}
		if closed {
			return
		}
	}
}
