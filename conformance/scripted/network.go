package scripted

import (
	"context"
	"sync"
	"time"

	"github.com/stile-lock/stile/conformance/suite"
)

// Network is the servers of one scenario.
type Network struct {
	W       *suite.World
	Servers []*Server

	mu      sync.Mutex
	log     []*Entry
	changed chan struct{} // closed and made anew at each entry
	token   uint64        // the last one granted, by any server
}

// Kind is what an entry of the log tells.
type Kind string

const (
	Accept Kind = "accept" // a connection was opened
	Line   Kind = "line"   // a line was read
	End    Kind = "end"    // the client's side of a connection ended
	Cut    Kind = "cut"    // the server ended the connection
	Answer Kind = "answer" // a line was written
)

// Entry is one thing that happened.
type Entry struct {
	At   time.Duration
	Kind Kind
	Conn *Conn
	Text string // the line, or how the connection ended

	// A Line has its fields, and what became of it.
	Fields   []string
	answered bool
	Reset    bool // an End that was a reset
}

// Op is the op of a line, as text.
func (e *Entry) Op() string { return e.Field(0) }

// Key is its second field.
func (e *Entry) Key() string { return e.Field(1) }

// Field is the nth field of a line, "" if there is none.
func (e *Entry) Field(n int) string {
	if n < len(e.Fields) {
		return e.Fields[n]
	}
	return ""
}

// New makes a network without servers, which ends with the scenario.
func New(w *suite.World) *Network {
	n := &Network{W: w, changed: make(chan struct{}), token: 100}
	w.Cleanup(func(context.Context) {
		for _, s := range n.Servers {
			s.close()
		}
	})
	return n
}

func (n *Network) add(e *Entry) {
	n.mu.Lock()
	defer n.mu.Unlock()
	e.At = n.W.Now()
	n.log = append(n.log, e)
	close(n.changed)
	n.changed = make(chan struct{})
}

// Log is what happened until now, and a channel that is closed when there is
// more.
func (n *Network) Log() ([]*Entry, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.log[:len(n.log):len(n.log)], n.changed
}

// Lines are the lines read until now that pass.
func (n *Network) Lines(pass func(*Entry) bool) (list []*Entry) {
	return n.Entries(func(e *Entry) bool { return e.Kind == Line && pass(e) })
}

// Entries are the entries of the log that pass.
func (n *Network) Entries(pass func(*Entry) bool) (list []*Entry) {
	log, _ := n.Log()
	for _, e := range log {
		if pass(e) {
			list = append(list, e)
		}
	}
	return list
}

// Wait waits until ok, which is asked after each entry, or for d. The error is
// that of a scenario that has to stop.
func (n *Network) Wait(d time.Duration, ok func() bool) (bool, error) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		_, changed := n.Log()
		if ok() {
			return true, nil
		}
		select {
		case <-changed:
		case <-timer.C:
			return ok(), nil
		case <-n.W.Context().Done():
			return false, n.W.Stopped()
		}
	}
}

// NextToken is the token of the next grant; all servers of a network share
// them.
func (n *Network) NextToken() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.token++
	return n.token
}
