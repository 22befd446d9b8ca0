package cli

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// servers grant at most a lease, and answer late.
type servers struct {
	most   time.Duration
	late   time.Duration // from a grant or a keep to its answer
	failed error         // of keeps
	keeps  int
}

// acquire returns the lock of a grant that came after a wait in line. With a
// loss of the connection the answer is told again so much later.
func (s *servers) acquire(asked, wait, loss time.Duration) *lockOf {
	sent := time.Now()
	time.Sleep(wait)
	from := sent
	if wait > time.Second { // a ping tells each second that the wait goes on
		from = time.Now().Add(-time.Second)
	}
	ends := time.Now().Add(min(asked, s.most))
	time.Sleep(s.late)
	if loss > 0 {
		time.Sleep(loss)
		from = time.Now()
	}
	l := &lockOf{s: s, lease: time.Until(ends).Truncate(time.Millisecond)}
	l.expires = from.Add(l.lease)
	return l
}

type lockOf struct {
	s       *servers
	lease   time.Duration
	expires time.Time
}

func (l *lockOf) Lease() time.Duration { return l.lease }
func (l *lockOf) Expires() time.Time   { return l.expires }

func (l *lockOf) Keep(ctx context.Context, asked time.Duration) error {
	l.s.keeps++
	sent := time.Now()
	select {
	case <-time.After(l.s.late):
	case <-ctx.Done():
		return ctx.Err()
	}
	if l.s.failed == nil {
		l.lease = min(asked, l.s.most)
		l.expires = sent.Add(l.lease)
	}
	return l.s.failed
}

func TestCutLease(t *testing.T) {
	const day = 24 * time.Hour
	for name, test := range map[string]struct {
		s                 servers
		asked, wait, loss time.Duration
		most              time.Duration // 0: there is nothing to tell
		keeps             int
	}{
		"whole":                           {s: servers{most: day}, asked: time.Minute},
		"not in whole milliseconds":       {s: servers{most: day}, asked: time.Minute + 1},
		"shorter than a millisecond more": {s: servers{most: day, late: 1500 * time.Microsecond}, asked: time.Minute},
		"answered late":                   {s: servers{most: day, late: 1987654 * time.Microsecond}, asked: time.Minute},
		"answered late, after a wait":     {s: servers{most: day, late: time.Second}, asked: time.Minute, wait: time.Hour},
		"answered late, short lease":      {s: servers{most: day, late: time.Second}, asked: 3 * time.Second},
		"told again":                      {s: servers{most: day}, asked: time.Minute, loss: 5 * time.Second, keeps: 1},
		"told again, late":                {s: servers{most: day, late: time.Second}, asked: time.Minute, wait: time.Hour, loss: 5 * time.Second, keeps: 1},
		"cut":                             {s: servers{most: time.Minute}, asked: time.Hour, most: time.Minute, keeps: 1},
		"cut by little":                   {s: servers{most: time.Minute}, asked: time.Minute + 2*time.Millisecond, most: time.Minute, keeps: 1},
		"cut, answered late":              {s: servers{most: time.Minute, late: time.Second}, asked: 2 * time.Minute, most: time.Minute, keeps: 1},
		"cut, after a long wait":          {s: servers{most: time.Minute, late: time.Second}, asked: 2 * time.Minute, wait: time.Hour, most: time.Minute, keeps: 1},
		"cut, told again":                 {s: servers{most: time.Minute, late: time.Second}, asked: 2 * time.Minute, wait: time.Hour, loss: time.Second, most: time.Minute, keeps: 1},
		"nobody to ask again":             {s: servers{most: time.Minute, failed: errors.New("gone")}, asked: time.Hour, keeps: 1},
		"nobody answers again":            {s: servers{most: 2 * time.Hour, late: time.Hour}, asked: day, keeps: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := test.s.acquire(test.asked, test.wait, test.loss)
				came := time.Now()
				most, cut := cutLease(t.Context(), l, test.asked)
				if most != test.most || cut != (test.most > 0) || test.s.keeps != test.keeps {
					t.Errorf("%v, %v after %d keeps; want %v after %d", most, cut, test.s.keeps, test.most, test.keeps)
				}
				if took := time.Since(came); took > askAgain {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}
