package load

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

const none = int32(-1)

// conn is one connection under load. Its reader takes what has arrived, answers
// each answer with the next request, and writes them all at once. Where
// something happens at a time of its own, a pacer writes too.
type conn struct {
	r    *run
	id   int
	nc   net.Conn
	wire Wire

	mu       sync.Mutex // of all below
	slots    []Slot
	free     []int32
	out      []byte
	serial   uint64
	choose   chooser
	rng      *rand.Rand
	batch    batch
	busy     int
	stopping bool // begins nothing any more
	hurried  bool // measures nothing any more, and holds no key longer than it must

	// Which slot an answer belongs to. Unordered: slots that await something,
	// by key, each chain in the order of the requests.
	buckets []chain
	// Ordered: what was asked, oldest first.
	asked []asked
	head  int

	// Open loop: when the next pair is due, and whether a pacer will see to it.
	due   float64
	armed bool

	cancelled, retries, lost int64
}

type chain struct{ first, last int32 }

type asked struct {
	slot int32
	what awaited
}

func newConn(r *run, id int, nc net.Conn, wire Wire) *conn {
	p := &r.plan
	rng := rand.New(rand.NewPCG(p.Seed, uint64(id)+1))
	c := &conn{
		r: r, id: id, nc: nc, wire: wire,
		slots:  make([]Slot, p.Depth),
		free:   make([]int32, 0, p.Depth),
		serial: uint64(id) << 40,
		choose: newChooser(p, id, rng),
		rng:    rng,
		batch:  batch{r: r.rec, lane: id % lanes},
	}
	for i := p.Depth - 1; i >= 0; i-- {
		c.free = append(c.free, int32(i))
	}
	if r.traits.Ordered {
		c.asked = make([]asked, 0, 4*p.Depth)
	} else {
		n := 1
		for n < 2*p.Depth {
			n *= 2
		}
		c.buckets = make([]chain, n)
		for i := range c.buckets {
			c.buckets[i] = chain{none, none}
		}
	}
	if p.Rate > 0 {
		c.due = float64(id) / p.Rate * 1e9
	}
	return c
}

// period is the mean time between two pairs of this connection, in an open loop.
func (c *conn) period() float64 { return float64(c.r.plan.Connections) / c.r.plan.Rate * 1e9 }

func (c *conn) nextDue() {
	if c.r.plan.Poisson {
		c.due += c.rng.ExpFloat64() * c.period()
	} else {
		c.due += c.period()
	}
}

// begin starts what can be started at once.
func (c *conn) begin(now int64) error {
	if c.stopping { // before it began: the machine is very busy
		return nil
	}
	if c.r.plan.Rate > 0 {
		c.startDue(now, nil)
	} else {
		for len(c.free) > 0 {
			c.start(now, now)
		}
	}
	return c.flush()
}

// startDue starts the pairs that are due, as far as there is room, and sees to
// it that the next one is started when it is.
func (c *conn) startDue(now int64, late *Distribution) {
	if now >= c.r.rec.end || c.stopping {
		return
	}
	for len(c.free) > 0 && int64(c.due) <= now {
		if late != nil && int64(c.due) >= c.r.rec.begin {
			late.Add(time.Duration(now - int64(c.due)))
		}
		c.start(now, int64(c.due))
		c.nextDue()
	}
	if len(c.free) > 0 && !c.armed && int64(c.due) < c.r.rec.end {
		c.armed = true
		c.r.pacer(c).push(event{at: int64(c.due), c: c, slot: none})
	}
}

func (c *conn) start(now, due int64) {
	slot := c.free[len(c.free)-1]
	c.free = c.free[:len(c.free)-1]
	s := &c.slots[slot]
	key, contended := c.choose.next(int(slot))
	c.serial++
	*s = Slot{Key: key, Serial: c.serial, due: due, sent: now, busy: true}
	if c.r.plan.Cancel > 0 {
		// Only then is it looked at, and the ledger is large: each look at it costs
		// as much as all else that is done for a request.
		s.floor = c.r.ledger.Floor(key)
	}
	c.busy++
	c.out = c.wire.Acquire(c.out, s)
	c.await(slot, awaitsAcquire)
	if p := &c.r.plan; contended && p.Cancel > 0 && c.rng.Float64() < p.Cancel {
		c.r.pacer(c).push(event{at: now + int64(p.CancelAfter), c: c, slot: slot, serial: s.Serial, do: giveUp})
	}
}

// await enters that a slot awaits an answer.
func (c *conn) await(slot int32, what awaited) {
	s := &c.slots[slot]
	if c.r.traits.Ordered {
		s.awaits |= what
		if c.head > 0 && len(c.asked) == cap(c.asked) {
			c.asked = c.asked[:copy(c.asked, c.asked[c.head:])]
			c.head = 0
		}
		c.asked = append(c.asked, asked{slot, what})
		return
	}
	if s.awaits == 0 {
		b := &c.buckets[s.Key&(len(c.buckets)-1)]
		s.next = none
		if b.last == none {
			b.first = slot
		} else {
			c.slots[b.last].next = slot
		}
		b.last = slot
	}
	s.awaits |= what
}

// answered finds the slot that an answer belongs to: the oldest request of the
// same kind and the same key. It then no longer awaits it.
func (c *conn) answered(a *Answer) (int32, error) {
	what := a.What.answers()
	if c.r.traits.Ordered {
		if c.head == len(c.asked) {
			return none, fmt.Errorf("%w: nothing was asked", ErrWrong)
		}
		q := c.asked[c.head]
		c.head++
		if c.head == len(c.asked) {
			c.asked, c.head = c.asked[:0], 0
		}
		s := &c.slots[q.slot]
		if q.what != what || a.Key >= 0 && a.Key != s.Key {
			return none, fmt.Errorf("%w: the oldest request is another one, of the key %s", ErrWrong, c.r.space.Key(s.Key))
		}
		s.awaits &^= what
		return q.slot, nil
	}
	if a.Key < 0 {
		return none, fmt.Errorf("%w: it names no key of ours", ErrWrong)
	}
	b := &c.buckets[a.Key&(len(c.buckets)-1)]
	before := none
	for slot := b.first; slot != none; slot = c.slots[slot].next {
		s := &c.slots[slot]
		if s.Key != a.Key || s.awaits&what == 0 || what == awaitsCancel && s.Serial != a.Serial {
			before = slot
			continue
		}
		if s.awaits &^= what; s.awaits == 0 {
			if before == none {
				b.first = s.next
			} else {
				c.slots[before].next = s.next
			}
			if b.last == slot {
				b.last = before
			}
		}
		return slot, nil
	}
	return none, fmt.Errorf("%w: no request that it could answer is under way on this connection", ErrWrong)
}

// answer takes one answer and does what follows from it.
func (c *conn) answer(a *Answer, now int64) error {
	slot, err := c.answered(a)
	if err != nil {
		return err
	}
	s := &c.slots[slot]
	switch a.What {
	case Granted:
		return c.grant(slot, s, a, now)
	case TimedOut:
		if !s.givenUp {
			return fmt.Errorf("%w: the acquire had no limit on waiting", ErrWrong)
		}
	case Busy:
		if !c.r.paced() {
			return fmt.Errorf("%w: the key is held, although nobody else uses it", ErrWrong)
		}
		if !s.givenUp {
			c.retries++
			c.r.pacer(c).push(event{at: now + int64(c.r.plan.Retry), c: c, slot: slot, serial: s.Serial, do: retry})
			return nil
		}
	case Released:
		if a.Token != 0 && a.Token != s.Token {
			return fmt.Errorf("%w: the release was of token %d", ErrWrong, s.Token)
		}
		c.measure(Release, now, now-s.due)
	case NotHeld:
		if now < s.until {
			return fmt.Errorf("%w: the lease of %v cannot have ended, the acquire was sent %v ago",
				ErrWrong, time.Duration(s.until-s.sent), time.Duration(now-s.sent))
		}
		c.lost++
	}
	if s.awaits == 0 {
		c.finish(slot, s, now)
	}
	return nil
}

func (c *conn) grant(slot int32, s *Slot, a *Answer, now int64) error {
	s.granted = true
	s.Token = a.Token
	if !c.r.traits.Fenced {
		s.Token = s.Serial
	}
	if a.Lease > c.r.plan.Lease {
		return fmt.Errorf("%w: the lease is %v, and %v was asked for", ErrWrong, a.Lease, c.r.plan.Lease)
	}
	// The lease began after the acquire was sent, and the answer has what is left
	// of it.
	s.until = s.sent + int64(a.Lease)
	if err := c.enter(s, now); err != nil {
		return err
	}
	if s.givenUp && c.r.traits.Cancels {
		// The cancel, which is on its way, gives it back.
		if s.awaits == 0 {
			c.finish(slot, s, now)
		}
		return nil
	}
	if !s.givenUp {
		if at := c.sampleAt(s, now); at >= 0 {
			c.measure(Acquire, at, now-s.due)
		}
		if hold := int64(c.r.plan.Hold); hold > 0 && !c.hurried {
			c.r.pacer(c).push(event{at: now + hold, c: c, slot: slot, serial: s.Serial, do: giveBack})
			return nil
		}
	}
	c.release(slot, s, now)
	return nil
}

// enter has the ledger look at a grant.
func (c *conn) enter(s *Slot, now int64) error {
	if s.givenUp && c.r.traits.Cancels || now >= s.until {
		if !c.r.traits.Fenced {
			return nil
		}
		return c.r.ledger.Passing(s.Key, s.Token, s.floor)
	}
	s.entered = true
	var err error
	if c.r.traits.Fenced {
		err = c.r.ledger.Granted(s.Key, s.Token, now, s.until)
	} else {
		err = c.r.ledger.Held(s.Key, now, s.until)
	}
	if err != nil && c.r.now() >= s.until {
		// The lease has ended since the answer was read: who has the key now may
		// have been entered before.
		return nil
	}
	return err
}

// sampleAt is the instant an acquire's latency belongs to. In an open loop it is
// when it was due: a stall shows where it began.
func (c *conn) sampleAt(s *Slot, now int64) int64 {
	if c.r.plan.Rate > 0 {
		return s.due
	}
	return now
}

func (c *conn) release(slot int32, s *Slot, now int64) {
	s.due = now
	if s.entered {
		c.r.ledger.Returned(s.Key, s.until)
	}
	c.out = c.wire.Release(c.out, s)
	c.await(slot, awaitsRelease)
}

func (c *conn) finish(slot int32, s *Slot, now int64) {
	s.busy = false
	c.busy--
	c.free = append(c.free, slot)
	switch {
	case c.stopping || now >= c.r.rec.end:
	case c.r.plan.Rate > 0:
		c.startDue(now, nil)
	default:
		c.start(now, now)
	}
}

// What a pacer does with a slot when it is time.
type deed uint8

const (
	giveBack deed = iota
	giveUp
	retry
)

// fire is called by a pacer when an event has come.
func (c *conn) fire(e *event, now int64, late *Distribution) {
	if e.slot == none {
		c.armed = false
		c.startDue(now, late)
		return
	}
	s := &c.slots[e.slot]
	if !s.busy || s.Serial != e.serial {
		return
	}
	switch {
	case e.do == giveBack && s.awaits != 0: // hurry was there before
	case e.do == giveBack:
		c.release(e.slot, s, now)
	case e.do == retry:
		// What came after the end still has to come to an end itself.
		if s.givenUp || c.stopping {
			c.finish(e.slot, s, now)
			if c.stopping && c.busy == 0 {
				c.nc.Close() // the reader waits for nothing
			}
			return
		}
		s.sent = now
		c.out = c.wire.Acquire(c.out, s)
		c.await(e.slot, awaitsAcquire)
	case e.do == giveUp && !s.granted:
		s.givenUp = true
		c.cancelled++
		if c.r.traits.Cancels {
			c.out = c.wire.Cancel(c.out, s)
			c.await(e.slot, awaitsCancel)
		}
	}
}

// stop has the connection begin nothing any more, and its reader end when all is
// answered, or after so long.
func (c *conn) stop(patience time.Duration) {
	c.stopping = true
	if c.busy == 0 {
		c.nc.Close()
	} else {
		c.nc.SetReadDeadline(time.Now().Add(patience))
	}
}

// hurry is stop for a run that is to end now: what is held is given back at once.
func (c *conn) hurry(now int64) {
	c.hurried = true
	for i := range c.slots {
		if s := &c.slots[i]; s.busy && s.granted && s.awaits == 0 {
			c.release(int32(i), s, now)
		}
	}
	c.nc.SetWriteDeadline(time.Now().Add(stopPatience))
	c.flush() // the reader finds out if it fails
	c.stop(stopPatience)
}

// measure takes a sample.
func (c *conn) measure(kind Kind, at, latency int64) {
	if !c.hurried {
		c.batch.add(kind, at, latency)
	}
}

func (c *conn) flush() error {
	if len(c.out) == 0 {
		return nil
	}
	_, err := c.nc.Write(c.out)
	c.out = c.out[:0]
	return err
}

// read is the connection's reader. It returns when all is answered after the
// end, or with an error.
func (c *conn) read() error {
	// Room for an answer to everything that can be under way, more or less.
	buf := make([]byte, min(max(c.r.plan.Depth*128, 4<<10), 64<<10))
	filled := 0
	var a Answer
	for {
		n, err := c.nc.Read(buf[filled:])
		if err != nil {
			return c.readError(err)
		}
		filled += n
		now := c.r.now()
		c.mu.Lock()
		used := 0
		for {
			n, err := c.wire.Next(buf[used:filled], &a)
			if n == 0 && err == nil {
				break
			}
			if err == nil {
				err = c.answer(&a, now)
			}
			if err != nil {
				line := buf[used:filled]
				if n > 0 {
					line = line[:n]
				}
				c.mu.Unlock()
				return fmt.Errorf("connection %d, the answer %.200q: %w", c.id, line, err)
			}
			used += n
		}
		err = c.flush()
		done := c.busy == 0 && (c.stopping || now >= c.r.rec.end)
		c.mu.Unlock()
		if err != nil {
			return c.readError(err)
		}
		if done {
			return nil
		}
		filled = copy(buf, buf[used:filled])
		if filled == len(buf) {
			return fmt.Errorf("connection %d: %w: %d bytes without an end of an answer", c.id, ErrWrong, filled)
		}
	}
}

func (c *conn) readError(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.stopping && c.busy == 0, c.hurried: // which counts what had no answer
		return nil
	case c.stopping:
		return fmt.Errorf("connection %d: %w: %d requests had no answer %v after the end: %w", c.id, ErrWrong, c.busy, c.r.plan.Drain, err)
	case errors.Is(err, io.EOF):
		return fmt.Errorf("connection %d: the server closed it with %d requests under way", c.id, c.busy)
	}
	return fmt.Errorf("connection %d: %w", c.id, err)
}

// close enters what never came to be, and gives back what the run needs.
func (c *conn) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.r.plan.Rate > 0 && int64(c.due) < c.r.rec.end {
		at := int64(c.due)
		c.batch.add(Acquire, at, c.r.rec.end-at)
		c.r.overdue.Add(1)
		c.nextDue()
	}
	c.batch.flush()
	c.nc.Close()
}
