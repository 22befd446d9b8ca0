package client

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stile-lock/stile/protocol"
)

// The times of the protocol's client rules.
const (
	beatEvery    = 3 * time.Second        // reconnecting in the background
	demandLimit  = time.Second            // one dial on demand
	pingAfter    = time.Second            // without a byte, with anything unanswered
	resetAfter   = 2 * time.Second        // more, after that ping
	idlePing     = 15 * time.Second       // with nothing unanswered
	answerWay    = 200 * time.Millisecond // added to a limit, for the answer's way
	resendEvery  = 200 * time.Millisecond // an undelivered release
	resendFor    = 5 * time.Second        // from the call
	redirectMin  = 50 * time.Millisecond  // before the second redirect of a call
	redirectMax  = time.Second
	redirectsTop = 10
	placeTakes   = 200 * time.Millisecond // before a place in a queue counts
	keptTop      = 3 * time.Second        // longer than a node keeps a request by default
	redirectRest = 3 * time.Second        // before a redirect's address that did not answer is dialled again
	refusedRest  = 250 * time.Millisecond // the same for one that refused: a node that restarts is soon back
	unlistedKeep = 30 * time.Second       // after an unlisted address ceased to serve
	leastMaximum = 60 * time.Second       // every server's maximum lease is at least this

	closeFlush = 250 * time.Millisecond // for the last lines of a Close
	closeBound = 900 * time.Millisecond // for all of a Close
	dialWait   = time.Second            // Dial's wait for a first connection
)

// unansweredTop bounds what one connection owes: a server may close one with
// more than 1,024 unanswered requests. Acquires stop earlier, so that a
// release always finds room behind those that wait for it.
const (
	unansweredTop = 1000
	acquiresTop   = 800
)

// Client is a client of one group of Stile servers. See the package's
// documentation.
type Client struct {
	cfg    config
	ctx    context.Context // ended by Close: stops every dial
	cancel context.CancelFunc
	wg     sync.WaitGroup // slots and flushers

	// mu is the only lock of this package (a *Lock has none of its own), so
	// there is no order of locks to keep. It guards every field below and
	// the whole state of slots, connections, pending tables, acquires,
	// deliveries, keeps and locks. Nothing blocks while it is held: lines are
	// appended to buffers and written by each connection's flusher, and
	// whoever waits is told through a channel with room for one value.
	mu sync.Mutex

	slots   []*slot // the rotation: listed in the caller's order, then unlisted
	cursor  int     // index in slots where the next acquire starts to look
	nextID  uint64  // of connections
	nonces  nonces
	active  acquireList // every acquire that is not finished
	parked  acquireFIFO // acquires that wait for a dial, oldest first
	crowded acquireFIFO // acquires that wait for room, oldest first
	due     deliveries  // unfinished releases and cancels, next due first
	keeps   map[*keep]struct{}
	held    map[grantID]*Lock
	sweepAt int // size of held at which it is swept next
	past    pastGrants
	free    freeList

	ready     chan struct{} // closed at the first live connection, or when all first tries have failed
	readyDone bool
	untried   int // listed slots whose first try has not ended
	closed    bool
	closeDone chan struct{} // closed when every goroutine has ended
}

// grantID is what ownership belongs to.
type grantID struct {
	key   string
	token uint64
}

// Dial makes a client for the servers at addrs: one or more host:port,
// separated by commas. It opens all connections in the background and returns
// as soon as one of them is live or all have failed, after a second at the
// latest. That no server answers is no error: the client goes on trying every
// three seconds, and a call that finds none reports [ErrNoConnection] with
// the reasons.
//
// The error is an [*Error] that wraps [ErrInvalid] for an address or an
// option that cannot be used, or the context's error if ctx ends first.
func Dial(ctx context.Context, addrs string, opts ...Option) (*Client, error) {
	fail := func(err error) (*Client, error) {
		return nil, &Error{Op: "dial", Outcome: DidNotHappen, Err: err}
	}
	cfg := newConfig(opts)
	if cfg.err != nil {
		return fail(cfg.err)
	}
	list, err := parseAddresses(addrs)
	if err != nil {
		return fail(err)
	}
	if ctx.Err() != nil {
		return fail(contextError(ctx))
	}
	c := newClient(cfg, list)
	timer := time.NewTimer(dialWait)
	defer timer.Stop()
	select {
	case <-c.ready:
	case <-timer.C:
	case <-ctx.Done():
		c.Close()
		return fail(contextError(ctx))
	}
	return c, nil
}

func newClient(cfg config, list []address) *Client {
	c := &Client{
		cfg:       cfg,
		nonces:    newNonces(),
		keeps:     make(map[*keep]struct{}),
		held:      make(map[grantID]*Lock),
		ready:     make(chan struct{}),
		closeDone: make(chan struct{}),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.due.init(c)
	if len(list) == 1 {
		list = append(list, list[0]) // two connections to a single address
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.untried = len(list)
	for _, a := range list {
		c.addSlot(a, true)
	}
	return c
}

// markReady ends Dial's waiting.
func (c *Client) markReady() {
	if !c.readyDone {
		c.readyDone = true
		close(c.ready)
	}
}

// Acquire waits until the caller holds key and returns the lock. See [Wait]
// and [Lease] for its options; ctx ends the call at once. Keys are any 1 to
// 255 bytes, each above 0x20 and not 0x7F, except the single byte "?"; they
// are compared byte by byte.
//
// The errors: [ErrTimeout] when the limit on waiting ended, [ErrNoConnection]
// and [ErrNoActive] when no server could be reached or none serves, a
// [*ServerError], [ErrClosed], [ErrBadKey], [ErrInvalid], or the context's
// error. Whatever the error, the caller does not hold the lock: a call that
// was given up is cancelled at the server, and a grant that comes too late is
// given back. The outcome is [DidNotHappen] when a server said so or nothing
// was sent, else [MayHaveHappened]: the key may have been taken for a moment.
func (c *Client) Acquire(ctx context.Context, key string, opts ...AcquireOption) (*Lock, error) {
	var wait, lease time.Duration
	for _, o := range opts {
		switch o.kind {
		case optWait:
			wait = o.d
		case optLease:
			lease = o.d
		}
	}
	return c.acquire(ctx, key, wait, lease)
}

// TryAcquire is an Acquire that does not wait: the caller holds the lock, or
// the error is [ErrTimeout] or another of Acquire's. It returns within 200 ms,
// whatever happens on the way: that is also all the time it has to find a
// server that serves, whatever [RetryFor] says. If nobody answers within it,
// the error is ErrTimeout with [Error.Unserved] set, which says nothing about
// who holds the key. Where that is too short, as during a failover, use Acquire
// with a short [Wait]. Wait among the options of TryAcquire has no effect.
func (c *Client) TryAcquire(ctx context.Context, key string, opts ...AcquireOption) (*Lock, error) {
	var lease time.Duration
	for _, o := range opts {
		if o.kind == optLease {
			lease = o.d
		}
	}
	return c.acquire(ctx, key, protocol.NoQueue, lease)
}

func (c *Client) acquire(ctx context.Context, key string, wait, lease time.Duration) (*Lock, error) {
	refuse := func(err error) (*Lock, error) {
		return nil, &Error{Op: "acquire", Key: key, Outcome: DidNotHappen, Err: err}
	}
	if !protocol.ValidKey([]byte(key)) {
		return refuse(ErrBadKey)
	}
	if err := checkSeconds("Lease", lease); err != nil {
		return refuse(err)
	}
	if err := checkSeconds("Wait", max(wait, 0)); err != nil {
		return refuse(err)
	}
	if ctx.Err() != nil {
		return refuse(contextError(ctx))
	}
	now := time.Now()
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return refuse(ErrClosed)
	}
	a := c.free.acquire(c)
	a.key, a.wait, a.lease, a.unserved = key, wait, wholeLease(lease), now
	limit := c.begin(a, now)
	c.mu.Unlock()

	if limit >= 0 {
		a.timer.Reset(limit)
	}
	for {
		select {
		case <-a.done:
		case <-ctx.Done():
			c.mu.Lock()
			a.giveUp(contextError(ctx))
			c.mu.Unlock()
			<-a.done
		case <-a.timer.C:
			c.mu.Lock()
			more := a.limitReached(time.Now())
			c.mu.Unlock()
			if more > 0 {
				a.timer.Reset(more)
				continue
			}
			<-a.done
		}
		if limit >= 0 {
			a.timer.Stop()
		}
		lock, err := a.lock, a.err
		c.mu.Lock()
		c.free.putAcquire(a)
		c.mu.Unlock()
		if err != nil {
			return nil, err
		}
		return lock, nil
	}
}

// Close ends every pending call with [ErrClosed], closes every connection and
// returns within a second. It cancels what waits in a queue, as far as the
// last lines can still be delivered. It releases no held lock, whose work may
// still be going on: their contexts end, and their leases run out. Closing
// again, also at the same time, only waits for the first. The error is always
// nil.
func (c *Client) Close() error {
	c.mu.Lock()
	if !c.closed {
		c.shutDown()
	}
	c.mu.Unlock()
	timer := time.NewTimer(closeBound)
	defer timer.Stop()
	select {
	case <-c.closeDone:
	case <-timer.C: // a Dialer that does not return
	}
	return nil
}

func (c *Client) shutDown() {
	now := time.Now()
	for a := c.active.head; a != nil; a = c.active.head {
		a.giveUp(ErrClosed) // leaves its C behind, if there is a way for it
	}
	c.closed = true
	c.due.closeAll()
	for k := range c.keeps {
		k.finish(ErrClosed, MayHaveHappened)
	}
	for _, l := range c.held {
		l.end(ErrClosed)
	}
	c.cancel()
	c.markReady()
	for _, s := range c.slots {
		s.stopTimers()
		s.kick()
		if n := s.conn; n != nil {
			n.closeSoon(now)
		}
	}
	last := time.AfterFunc(closeFlush+50*time.Millisecond, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, s := range c.slots {
			if n := s.conn; n != nil {
				n.fail(ErrClosed)
			}
		}
	})
	go func() {
		c.wg.Wait()
		last.Stop()
		close(c.closeDone)
	}()
}

// addrErrors lists what is known about every address, the acquire's own
// experience first.
func (c *Client) addrErrors(own []AddrError) []AddrError {
	all := append([]AddrError(nil), own...)
next:
	for _, s := range c.slots {
		for _, e := range all {
			if e.Addr == s.addr.text {
				continue next
			}
		}
		a := AddrError{Addr: s.addr.text, Reason: s.reason()}
		if s.conn == nil || !s.conn.live {
			a.Err = s.lastErr
		}
		all = append(all, a)
	}
	return all
}

// String names the client by its addresses.
func (c *Client) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []string
	for i, s := range c.slots {
		if s.listed && (i == 0 || !s.addr.same(c.slots[0].addr)) {
			list = append(list, s.addr.text)
		}
	}
	return fmt.Sprintf("stile client of %v", list)
}
