package node

import (
	"time"

	"github.com/stile-lock/stile/protocol"
	"github.com/stile-lock/stile/server/lockspace"
)

// late is the answers of a connection that wait, in sync mode, until the
// standbys have applied what they tell of. They leave in the order in which
// they were made. It is guarded by outbound.mu.
type late struct {
	buf     []byte
	answers []lateAnswer
	listed  bool // on Node.late: Committed will come by

	isOpen bool // between open and closeLate
	next   lateAnswer
}

// lateAnswer is a line, buf[start:end].
type lateAnswer struct {
	pos        uint64
	start, end int

	// Of a grant: what its line is made anew from, when it leaves.
	granted bool
	repeat  bool
	token   uint64
	place   lockspace.Place
	ends    lockspace.Time
	freed   lockspace.Time
}

func (l *late) open(pos uint64) []byte {
	l.isOpen, l.next = true, lateAnswer{pos: pos, start: len(l.buf)}
	return l.buf
}

func (l *late) grant(e *lockspace.Effect, now lockspace.Time) {
	a := &l.next
	a.granted, a.repeat, a.token, a.place, a.freed = true, e.Repeat, e.Token, e.Place, e.Freed
	a.ends = now + lockspace.Time(e.Lease)
}

// closeLate is close for a line that waits. It unlocks o.mu.
func (o *outbound) closeLate(buf []byte, t *touched) bool {
	l, n := &o.late, o.c.n
	l.isOpen = false
	if o.closed {
		o.mu.Unlock()
		return false
	}
	l.buf, l.next.end = buf, len(buf)
	l.answers = append(l.answers, l.next)
	pos := l.answers[0].pos
	if len(buf) > n.cfg.MaxOutbound {
		o.closed = true
		go o.c.cutOff("too many of its answers wait for the standbys")
	}
	if !l.listed {
		l.listed = true
		n.lateMu.Lock()
		n.late = append(n.late, o.c)
		n.lateMu.Unlock()
	}
	// Committed may have gone by before the connection was listed.
	if pos <= n.committed.Load() {
		o.release(n.committed.Load(), t)
	}
	o.mu.Unlock()
	return true
}

// release moves the answers to changes up to the position to those that are
// written, and counts the leases in them from now: a client counts from the
// sending of a request that may have been answered while they waited
// (SPEC.md 3.3). It reports whether others wait on. Called with o.mu held.
func (o *outbound) release(committed uint64, t *touched) (more bool) {
	l, now := &o.late, o.c.n.now()
	i := 0
	for ; i < len(l.answers) && l.answers[i].pos <= committed; i++ {
		a := &l.answers[i]
		line := l.buf[a.start:a.end]
		if !a.granted {
			o.buf = append(o.buf, line...)
			continue
		}
		start := len(o.buf)
		left := max(0, time.Duration(a.ends-now)).Truncate(time.Millisecond)
		o.buf = protocol.AppendGrant(o.buf, keyOfGrant(line), a.token, left)
		if !a.repeat {
			o.grants = append(o.grants, pendingGrant{start, len(o.buf), a.token, a.place, a.freed})
		}
	}
	if i > 0 && !o.closed {
		o.list(t)
	}
	if i == len(l.answers) {
		l.buf, l.answers = l.buf[:0], l.answers[:0]
		return false
	}
	shift := l.answers[i].start
	l.buf = l.buf[:copy(l.buf, l.buf[shift:])]
	l.answers = l.answers[:copy(l.answers, l.answers[i:])]
	for k := range l.answers {
		l.answers[k].start -= shift
		l.answers[k].end -= shift
	}
	return true
}

// undoLate takes back the grants that wait. The connection takes no answers
// any more.
func (o *outbound) undoLate(t *touched) {
	o.mu.Lock()
	buf, answers := o.late.buf, o.late.answers
	o.late.buf, o.late.answers = nil, nil
	o.mu.Unlock()
	for i := range answers {
		if a := &answers[i]; a.granted && !a.repeat {
			key := keyOfGrant(buf[a.start:a.end])
			g := pendingGrant{token: a.token, place: a.place}
			o.c.n.shardOfKey(key).undoUndelivered(o.c.session, &g, key, t)
		}
	}
}

// takeLate returns the connections with answers that wait.
func (n *Node) takeLate() []*conn {
	n.lateMu.Lock()
	defer n.lateMu.Unlock()
	conns := n.late
	n.late = nil
	return conns
}

// release lets out the answers to changes up to the position.
func (n *Node) release(pos uint64) {
	n.committed.Store(pos)
	var t touched
	for _, c := range n.takeLate() {
		o := &c.out
		o.mu.Lock()
		o.late.listed = o.release(pos, &t)
		if o.late.listed {
			n.lateMu.Lock()
			n.late = append(n.late, c)
			n.lateMu.Unlock()
		}
		o.mu.Unlock()
	}
	t.flush()
}

// abandon resets the connections with answers that wait: what they tell of is
// no longer this node's to say.
func (n *Node) abandon() {
	for _, c := range n.takeLate() {
		o := &c.out
		o.mu.Lock()
		waits := len(o.late.answers) > 0
		o.late = late{}
		o.closed = o.closed || waits
		o.mu.Unlock()
		if waits {
			c.cutOff("its answers can't be given: this node is no longer active")
		}
	}
}
