package load

import (
	"sync"
	"time"
)

// longestNap bounds how much later than due an event is seen that was pushed
// while its pacer slept.
const longestNap = 250 * time.Microsecond

// clock is how something waits for an instant.
type clock struct {
	precise func() // called once, by the goroutine that sleeps
	sleep   func(time.Duration)
}

func clockOf(virtual bool) clock {
	if virtual {
		return clock{precise: func() {}, sleep: time.Sleep}
	}
	return clock{precise: preciseSleep, sleep: sleep}
}

// event is something that happens on a connection at a time of its own: a slot
// has held its key for long enough, has waited for long enough, or is to ask
// again; or, without a slot, a pair is due.
type event struct {
	at     int64
	c      *conn
	slot   int32
	serial uint64
	do     deed
}

// pacer carries out the events of some connections. Its heap is written out:
// that of the standard library allocates for each event.
type pacer struct {
	r    *run
	mu   sync.Mutex
	heap []event
	late *Distribution
}

func (p *pacer) push(e event) {
	p.mu.Lock()
	p.heap = append(p.heap, e)
	i := len(p.heap) - 1
	for i > 0 {
		up := (i - 1) / 2
		if p.heap[up].at <= e.at {
			break
		}
		p.heap[i] = p.heap[up]
		i = up
	}
	p.heap[i] = e
	p.mu.Unlock()
}

// pop moves the events that have come to due, and returns how long there is
// nothing to do.
func (p *pacer) pop(due []event, now int64) ([]event, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.heap) > 0 && p.heap[0].at <= now {
		due = append(due, p.heap[0])
		last := p.heap[len(p.heap)-1]
		p.heap[len(p.heap)-1] = event{}
		p.heap = p.heap[:len(p.heap)-1]
		if len(p.heap) > 0 {
			p.sink(last)
		}
	}
	if len(p.heap) == 0 {
		return due, longestNap
	}
	return due, min(time.Duration(p.heap[0].at-now), longestNap)
}

func (p *pacer) sink(e event) {
	i := 0
	for {
		down := 2*i + 1
		if down+1 < len(p.heap) && p.heap[down+1].at < p.heap[down].at {
			down++
		}
		if down >= len(p.heap) || p.heap[down].at >= e.at {
			break
		}
		p.heap[i] = p.heap[down]
		i = down
	}
	p.heap[i] = e
}

// run is the pacer's goroutine, until stop is closed.
func (p *pacer) run(stop <-chan struct{}) {
	p.r.clock.precise()
	var due []event
	for {
		select {
		case <-stop:
			return
		default:
		}
		now := p.r.now()
		var idle time.Duration
		due, idle = p.pop(due[:0], now)
		for i := range due {
			e := &due[i]
			e.c.mu.Lock()
			e.c.fire(e, now, p.late)
			// Several events of one connection that come together make one write.
			if i+1 == len(due) || due[i+1].c != e.c {
				if err := e.c.flush(); err != nil && !e.c.stopping {
					p.r.fail(err)
				}
			}
			e.c.mu.Unlock()
		}
		if len(due) == 0 {
			p.r.clock.sleep(idle)
		}
	}
}
