package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/stile-lock/stile/server/node"
)

const (
	// maxListeners is how many listen to /events at once.
	maxListeners = 32
	// backlog is how many events a listener may be behind before it is dropped.
	backlog = 4

	eventEvery = time.Second
	// eventPause is the least time between two events, however much changes.
	eventPause = 100 * time.Millisecond

	topKeys    = 20
	topWaiters = 10 // of each line
	// topShare is how much of the time goes into looking for the top keys, at
	// most: one part of so many. A very large table is looked at less often than
	// once a second.
	topShare = 20
)

// event is what /events says.
type event struct {
	state
	Time    time.Time    `json:"time"`
	Node    string       `json:"node"`
	Changes []textChange `json:"changes"` // the newest first
	// Busiest are the keys that most wait for, Longest those that have been held
	// for longest, as of TopTime.
	Busiest []topKey  `json:"busiest"`
	Longest []topKey  `json:"longest"`
	TopTime time.Time `json:"top_time"`
}

// textChange has its tokens as text.
type textChange struct {
	change
	Token     textToken `json:"token,omitempty"`
	NextToken textToken `json:"next_token,omitempty"`
}

// topKey has its token as text.
type topKey struct {
	entry
	Token textToken `json:"token"`
}

// events makes the events, while somebody listens, and the same for all.
type events struct {
	s  *Server
	mu sync.Mutex // guards what follows

	listeners map[chan []byte]struct{}
	stop      context.CancelFunc // of the loop; nil: there is none
	joined    chan struct{}      // somebody is new
}

// serve is GET /events: server-sent events.
func (e *events) serve(w http.ResponseWriter, r *http.Request) {
	ch, ok := e.join()
	if !ok {
		w.Header().Set("Retry-After", "5")
		fail(w, http.StatusServiceUnavailable, "too-many-listeners", "as many listen to /events as this node has room for: try again later")
		return
	}
	defer e.leave(ch)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy would wait for more
	rc := http.NewResponseController(w)
	for {
		select {
		case <-r.Context().Done():
			return
		case data, ok := <-ch:
			if !ok {
				return // it was too slow
			}
			rc.SetWriteDeadline(time.Now().Add(backlog * eventEvery))
			if _, err := w.Write(data); err != nil || rc.Flush() != nil {
				return
			}
		}
	}
}

// join adds a listener. The first one starts the loop.
func (e *events) join() (chan []byte, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.listeners) >= maxListeners {
		return nil, false
	}
	if e.stop == nil {
		e.listeners = make(map[chan []byte]struct{})
		e.joined = make(chan struct{}, 1)
		ctx, stop := context.WithCancel(context.Background())
		e.stop = stop
		go e.loop(ctx, e.joined)
	}
	ch := make(chan []byte, backlog)
	e.listeners[ch] = struct{}{}
	select {
	case e.joined <- struct{}{}:
	default:
	}
	return ch, true
}

// leave takes a listener away. The last one ends the loop.
func (e *events) leave(ch chan []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.listeners, ch)
	if len(e.listeners) == 0 && e.stop != nil {
		e.stop()
		e.stop = nil
	}
}

// send gives an event to all, and drops those that have not read the last few.
func (e *events) send(ctx context.Context, data []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if ctx.Err() != nil {
		return // others listen by now, to another loop
	}
	for ch := range e.listeners {
		select {
		case ch <- data:
		default:
			delete(e.listeners, ch)
			close(ch)
		}
	}
}

// loop makes an event once a second, and when something has changed or
// somebody has joined.
func (e *events) loop(ctx context.Context, joined <-chan struct{}) {
	var top top
	tick := time.NewTicker(eventEvery)
	defer tick.Stop()
	for {
		changed := e.s.cfg.History.Changed()
		e.send(ctx, e.make(ctx, &top))
		select {
		case <-ctx.Done():
			return
		case <-time.After(eventPause):
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-joined:
		case <-tick.C:
		}
	}
}

// top is the top keys when somebody last looked.
type top struct {
	busiest, longest []node.Key
	at               time.Time
	took             time.Duration
}

// look looks again, unless that would take too much of the time.
func (t *top) look(ctx context.Context, n *node.Node) {
	start := time.Now()
	if start.Sub(t.at) < topShare*t.took {
		return
	}
	if busiest, longest, err := n.Top(ctx, node.TopQuery{Most: topKeys, Waiters: topWaiters}); err == nil {
		t.busiest, t.longest = busiest, longest
	}
	t.at, t.took = time.Now(), time.Since(start)
}

// make makes an event.
func (e *events) make(ctx context.Context, t *top) []byte {
	t.look(ctx, e.s.cfg.Node)
	ev := event{
		state: e.s.state(), Time: instant(time.Now()), Node: e.s.cfg.Addr,
		Changes: []textChange{}, Busiest: topOf(t.busiest), Longest: topOf(t.longest), TopTime: instant(t.at),
	}
	for _, h := range e.s.cfg.History.Last() {
		c := changeOf(&h)
		ev.Changes = append(ev.Changes, textChange{c, textToken(c.Token), textToken(c.NextToken)})
	}
	var b bytes.Buffer
	b.WriteString("data: ")
	json.NewEncoder(&b).Encode(ev) // one line, with its end
	b.WriteByte('\n')
	return b.Bytes()
}

func topOf(keys []node.Key) []topKey {
	list := make([]topKey, 0, len(keys))
	for i := range keys {
		list = append(list, topKey{entryOf(&keys[i]), textToken(keys[i].Token)})
	}
	return list
}
