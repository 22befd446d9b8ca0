package rig

import (
	"sync"
	"time"
)

// Stalls watches how late this process is woken: a machine that has too much
// to do shows so in every figure.
type Stalls struct {
	stop chan struct{}
	wg   sync.WaitGroup

	mu   sync.Mutex
	seen []stall
}

type stall struct {
	at   time.Time
	late time.Duration
}

// noticeable is how late a waking is that is remembered.
const noticeable = 5 * time.Millisecond

// WatchStalls starts to watch.
func WatchStalls() *Stalls {
	s := &Stalls{stop: make(chan struct{})}
	s.wg.Go(func() {
		for {
			start := time.Now()
			select {
			case <-s.stop:
				return
			case <-time.After(time.Millisecond):
			}
			now := time.Now()
			if late := now.Sub(start) - time.Millisecond; late > noticeable {
				s.mu.Lock()
				s.seen = append(s.seen, stall{now, late})
				s.mu.Unlock()
			}
		}
	})
	return s
}

// Worst is the longest one that ended between two moments.
func (s *Stalls) Worst(from, to time.Time) (worst time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.seen {
		if !x.at.Before(from) && !x.at.After(to) {
			worst = max(worst, x.late)
		}
	}
	return worst
}

// Stop ends the watching.
func (s *Stalls) Stop() {
	close(s.stop)
	s.wg.Wait()
}
