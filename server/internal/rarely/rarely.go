// Package rarely logs what strangers can provoke, without letting them fill
// the disk.
package rarely

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"
)

// Every is how often a [Line] is logged at most, unless it says otherwise.
const Every = 10 * time.Second

// Line is a log line that is not repeated too often. The zero value is ready.
type Line struct {
	Every time.Duration // 0: the constant

	mu      sync.Mutex
	last    time.Time
	skipped int
}

// Log logs the line, with the number of those before it that were left out;
// or it leaves this one out.
func (w *Line) Log(l *slog.Logger, level slog.Level, text string, attrs ...any) {
	w.mu.Lock()
	now := time.Now()
	if !w.last.IsZero() && now.Sub(w.last) < cmp.Or(w.Every, Every) {
		w.skipped++
		w.mu.Unlock()
		return
	}
	skipped := w.skipped
	w.last, w.skipped = now, 0
	w.mu.Unlock()
	if skipped > 0 {
		attrs = append(attrs, slog.Int("not_logged_before", skipped))
	}
	l.Log(context.Background(), level, text, attrs...)
}
