package suite

import (
	"context"
	"sync"
	"time"
)

// watch sleeps in small steps and notes how late it wakes up: how well this
// machine keeps time while a scenario runs.
type watch struct {
	mu   sync.Mutex
	open map[*lateness]struct{}
}

// lateness is the worst that was seen since it was opened.
type lateness struct {
	worst time.Duration
}

const watchStep = 5 * time.Millisecond

func startWatch(ctx context.Context) *watch {
	w := &watch{open: map[*lateness]struct{}{}}
	go func() {
		for ctx.Err() == nil {
			before := time.Now()
			time.Sleep(watchStep)
			w.saw(time.Since(before) - watchStep)
		}
	}()
	return w
}

func (w *watch) saw(late time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for l := range w.open {
		l.worst = max(l.worst, late)
	}
}

func (w *watch) begin() *lateness {
	l := &lateness{}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open[l] = struct{}{}
	return l
}

// end returns the worst lateness since begin.
func (w *watch) end(l *lateness) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, l)
	return l.worst
}
