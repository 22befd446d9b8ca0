// Package history keeps the last things that an operator should know of: the
// changes of a node's role, which other nodes it saw become active, and the locks
// that were broken by hand.
package history

import (
	"sync"
	"time"
)

// Kinds of events.
const (
	Role   = "role"
	Active = "active"
	Break  = "break"
)

// Event is one of them.
type Event struct {
	Time time.Time
	Kind string

	// Of a change of role: what the node is from then on, why, and the number
	// of the highest epoch that it knows.
	Role, Why string
	Epoch     uint32

	// Of another node that became active: its address. Epoch is the one that its
	// reign began with.
	Active string

	// Of a lock that was broken: whose it was, the token of who has it next (0:
	// nobody), and the address of who asked for it.
	Key              []byte
	Token, NextToken uint64
	Client, Addr     string
	By               string
}

// Keep is how many events are kept. The oldest ones go.
const Keep = 100

// Log is the last events. The zero value is empty, and ready.
type Log struct {
	mu      sync.Mutex
	events  []Event       // oldest first
	changed chan struct{} // closed at the next Add; nil: nobody waits
}

// Add notes an event.
func (l *Log) Add(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.events) == Keep {
		l.events = append(l.events[:0], l.events[1:]...)
	}
	l.events = append(l.events, e)
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// Last returns the events, the newest first.
func (l *Log) Last() []Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := make([]Event, 0, len(l.events))
	for i := len(l.events) - 1; i >= 0; i-- {
		last = append(last, l.events[i])
	}
	return last
}

// Changed is closed at the next Add.
func (l *Log) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.changed
}
