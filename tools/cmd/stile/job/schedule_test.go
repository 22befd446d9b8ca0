package job

import (
	"testing"
	"time"
)

// Whatever lease and grace: SIGTERM first, the guard's later, SIGKILL after
// both, and all before the lease ends.
func TestScheduleOrder(t *testing.T) {
	expires := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, lease := range []time.Duration{10 * time.Millisecond, time.Second, 30 * time.Second, time.Hour} {
		for _, grace := range []time.Duration{DefaultGrace(lease), MaxGrace(lease), lease / 10} {
			s := scheduleOf(expires, grace)
			if !s.term.Before(s.guard) || !s.guard.Before(s.kill) || !s.kill.Before(expires) {
				t.Errorf("lease %v, grace %v: %v before the end SIGTERM, %v the guard, %v SIGKILL", lease, grace,
					expires.Sub(s.term), expires.Sub(s.guard), expires.Sub(s.kill))
			}
			if before := expires.Sub(s.term); before > lease/2 {
				t.Errorf("lease %v, grace %v: SIGTERM comes %v before the end, no time is left to renew", lease, grace, before)
			}
			if every := lookEvery(lease); every > lease/4 && every > 5*time.Millisecond {
				t.Errorf("lease %v: looked at every %v", lease, every)
			}
		}
	}
}

func TestKillAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, test := range []struct{ left, grace, want time.Duration }{
		{time.Minute, 10 * time.Second, 10 * time.Second},                        // the whole grace
		{5 * time.Second, 10 * time.Second, 4800 * time.Millisecond},             // not beyond the lease
		{400 * time.Millisecond, 400 * time.Millisecond, 300 * time.Millisecond}, // a quarter before its end
		{100 * time.Millisecond, 10 * time.Second, -100 * time.Millisecond},      // at once
	} {
		if got := killAfter(now, now.Add(test.left), test.grace).Sub(now); got != test.want {
			t.Errorf("%v left, grace %v: %v, want %v", test.left, test.grace, got, test.want)
		}
	}
}
