package node

import (
	"bytes"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/stile-lock/stile/protocol"
	"github.com/stile-lock/stile/server/lockspace"
)

// outbound is a connection's answers on their way to the kernel.
//
// Whoever appends an answer puts the connection on its list of touched ones,
// unless it is on somebody's already, and flushes that list when its burst
// is over. A flush writes without blocking. What the kernel does not take is
// left to a goroutine that lives until all is written, so that a peer that
// does not read holds up nobody, and an idle connection has no writer.
type outbound struct {
	c  *conn
	mu sync.Mutex // guards all below

	buf    []byte
	grants []pendingGrant // the grants in buf

	listed  bool // somebody will flush
	writing bool // somebody writes; he goes on until buf is empty
	closed  bool // no further answers
	told    bool // of a grant, at some time

	drained chan struct{} // closed when writing ends, if somebody waits for it

	spareBuf    []byte // of the last write, to be used again
	spareGrants []pendingGrant

	late late // sync mode
}

// pendingGrant is a grant whose line, buf[start:end], is not yet handed to
// the kernel. If the connection drops before, the grant is undone.
type pendingGrant struct {
	start, end int
	token      uint64
	place      lockspace.Place
	freed      lockspace.Time // see lockspace.Effect
}

// maxSpare is the largest buffer that is kept for later.
const maxSpare = 64 << 10

// touched lists connections that have answers to flush.
type touched struct {
	conns []*conn
	grown *Node // its log has grown
}

func (t *touched) flush() {
	if n := t.grown; n != nil {
		// The standbys first: what the client learns, they should know.
		t.grown = nil
		n.cfg.Cluster.Kick()
	}
	for i, c := range t.conns {
		c.out.flush()
		t.conns[i] = nil
	}
	t.conns = t.conns[:0]
}

// open returns the buffer to append a whole line to, and close takes it back;
// nothing may be called in between. The lock is held meanwhile.
func (o *outbound) open() []byte {
	o.mu.Lock()
	return o.buf
}

// openAt is open for a line that tells of the table at a position of the log:
// in sync mode it may have to wait for the standbys.
func (o *outbound) openAt(pos uint64) []byte {
	o.mu.Lock()
	if o.c.n.sync() && (len(o.late.answers) > 0 || pos > o.c.n.committed.Load()) {
		return o.late.open(pos)
	}
	return o.buf
}

// close reports false if the connection takes no answers any more; the line
// is dropped then.
func (o *outbound) close(buf []byte, t *touched) bool {
	if o.late.isOpen {
		return o.closeLate(buf, t)
	}
	defer o.mu.Unlock()
	if o.closed {
		return false
	}
	o.buf = buf
	if len(buf) > o.c.n.cfg.MaxOutbound {
		o.closed = true
		go o.c.cutOff("it does not read its answers")
	}
	o.list(t)
	return true
}

// list has the connection flushed with the others of t. Called with o.mu held.
func (o *outbound) list(t *touched) {
	if !o.listed {
		o.listed = true
		t.conns = append(t.conns, o.c)
	}
}

// wasTold reports whether the connection was told of a grant.
func (o *outbound) wasTold() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.told
}

// effect appends the answer to an acquire; see close for the result. Called
// with the shard's lock held.
func (o *outbound) effect(sh *shard, e *lockspace.Effect) bool {
	pos := sh.pos
	if e.Kind == lockspace.Moved || e.Kind == lockspace.Refused && tellsNothing(e.Code) {
		pos = 0
	}
	buf := o.openAt(pos)
	start := len(buf)
	switch e.Kind {
	case lockspace.Granted:
		o.told = true
		buf = protocol.AppendGrant(buf, e.Key, e.Token, e.Lease)
		switch {
		case o.late.isOpen:
			o.late.grant(e, o.c.n.now())
		case !e.Repeat && !o.closed:
			o.grants = append(o.grants, pendingGrant{start, len(buf), e.Token, e.Place, e.Freed})
		}
	case lockspace.TimedOut:
		buf = protocol.AppendTimeout(buf, e.Key)
	case lockspace.Refused:
		buf = protocol.AppendError(buf, protocol.OpAcquire, e.Key, e.Code, "")
	case lockspace.Moved:
		buf = protocol.AppendMoved(buf, protocol.OpAcquire, e.Key, sh.active)
	}
	return o.close(buf, sh.t)
}

// tellsNothing reports whether a refusal tells nothing of the table: it waits
// for no standby.
func tellsNothing(code protocol.Code) bool {
	switch code {
	case protocol.CodeNotHeld, protocol.CodeSpent, protocol.CodeSuperseded:
		return false
	}
	return true
}

// flush writes what there is, unless somebody is writing already: he will
// write this too.
func (o *outbound) flush() {
	o.mu.Lock()
	o.listed = false
	if o.writing {
		o.mu.Unlock()
		return
	}
	for {
		buf, grants, ok := o.take()
		if !ok {
			return
		}
		n, err := o.c.tryWrite(buf)
		if n < len(buf) {
			// The kernel is full, or the write can't be tried, or has failed.
			go o.writeOut(buf, grants, n, err)
			return
		}
		o.written(grants)
		o.mu.Lock()
		o.reuse(buf, grants)
	}
}

// take takes what is to be written, with o.mu held, and unlocks it. If there
// is nothing, writing is over.
func (o *outbound) take() (buf []byte, grants []pendingGrant, ok bool) {
	defer o.mu.Unlock()
	if len(o.buf) == 0 {
		o.writing = false
		if o.drained != nil {
			close(o.drained)
			o.drained = nil
		}
		return nil, nil, false
	}
	o.writing = true
	buf, grants = o.buf, o.grants
	o.buf, o.grants = o.spareBuf[:0], o.spareGrants[:0]
	o.spareBuf, o.spareGrants = nil, nil
	return buf, grants, true
}

// written counts how long it took to hand keys over, now that the kernel has
// the answers.
func (o *outbound) written(grants []pendingGrant) {
	now := lockspace.Never
	for i := range grants {
		if freed := grants[i].freed; freed != lockspace.Never {
			if now == lockspace.Never {
				now = o.c.n.now()
			}
			o.c.n.handOvers[o.c.session%64].Observe(time.Duration(now - freed))
		}
	}
}

func (o *outbound) reuse(buf []byte, grants []pendingGrant) {
	if cap(buf) <= maxSpare {
		o.spareBuf, o.spareGrants = buf, grants
	}
}

// writeOut goes on with a write that was not finished, and all that comes
// meanwhile, by writes that block. err is of the attempt before.
func (o *outbound) writeOut(buf []byte, grants []pendingGrant, written int, err error) {
	for {
		for err == nil && written < len(buf) {
			var n int
			n, err = o.c.write(buf[written:])
			written += n
			if n > 0 && errors.Is(err, os.ErrDeadlineExceeded) {
				err = nil // slow, but it reads
			}
		}
		if err != nil {
			o.fail(buf, grants, written, err)
			return
		}
		o.written(grants)
		o.mu.Lock()
		o.reuse(buf, grants)
		var ok bool
		if buf, grants, ok = o.take(); !ok {
			return
		}
		written = 0
	}
}

// fail ends the connection after a failed write, and undoes the grants that
// the kernel did not take.
func (o *outbound) fail(buf []byte, grants []pendingGrant, written int, err error) {
	o.mu.Lock()
	o.closed = true
	rest, restGrants := o.buf, o.grants
	o.buf, o.grants = nil, nil
	o.take() // there is nothing left: this ends the writing
	reason := "writing to it failed"
	if errors.Is(err, os.ErrDeadlineExceeded) {
		reason = "it does not read its answers"
	}
	var t touched
	o.undo(buf, grants, written, &t)
	o.undo(rest, restGrants, 0, &t)
	o.undoLate(&t)
	t.flush()
	o.c.cutOff(reason)
}

func (o *outbound) undo(buf []byte, grants []pendingGrant, written int, t *touched) {
	for i := range grants {
		if g := &grants[i]; g.end > written {
			key := keyOfGrant(buf[g.start:g.end])
			o.c.n.shardOfKey(key).undoUndelivered(o.c.session, g, key, t)
		}
	}
}

// keyOfGrant returns the key in a line `A key token lease`.
func keyOfGrant(line []byte) []byte {
	key, _, _ := bytes.Cut(line[len("A "):], []byte(" "))
	return key
}

// stop takes no further answers, and undoes the grants that nobody has begun
// to write: their lines are taken out. The other answers are still due.
func (o *outbound) stop(t *touched) {
	o.mu.Lock()
	o.closed = true
	grants := o.grants
	var lines, rest []byte
	if len(grants) > 0 {
		lines = o.buf
		at := 0
		for i := range grants {
			rest = append(rest, lines[at:grants[i].start]...)
			at = grants[i].end
		}
		o.buf, o.grants = append(rest, lines[at:]...), nil
	}
	o.mu.Unlock()
	o.undo(lines, grants, 0, t)
	o.undoLate(t)
}

// drain writes what is due and waits until the kernel has it or the
// connection has failed; a writer gives up by itself, see WriteTimeout.
func (o *outbound) drain() {
	o.flush()
	o.mu.Lock()
	if !o.writing {
		o.mu.Unlock()
		return
	}
	if o.drained == nil {
		o.drained = make(chan struct{})
	}
	drained := o.drained
	o.mu.Unlock()
	<-drained
}
