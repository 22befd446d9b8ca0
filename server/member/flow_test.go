package member

import (
	"testing"
	"time"

	"github.com/stile-lock/stile/server/lockspace"
)

// line is a way to a peer: it takes so many bytes a second, and is so long.
type line struct {
	rate int
	trip time.Duration
}

// run sends frames over the line for a while, and returns how long the last
// frame waited in it, and how many bytes arrived in a second.
func (l line) run(f *flow, d time.Duration) (wait time.Duration, rate int) {
	type under struct {
		frame uint64
		acked lockspace.Time
	}
	var now, free lockspace.Time
	var acks []under
	bytes := 0
	for now < lockspace.Time(d) {
		if !f.full(now) {
			f.send(now)
			free = max(free, now) + lockspace.Time(f.frame)*lockspace.Time(time.Second)/lockspace.Time(l.rate)
			wait = time.Duration(free - now)
			acks = append(acks, under{f.sent, free + lockspace.Time(l.trip)})
			bytes += f.frame
			continue
		}
		now = acks[0].acked
		f.ack(acks[0].frame, now)
		acks = acks[1:]
	}
	return wait, int(float64(bytes) / d.Seconds())
}

// What waits in a line delays heartbeats: it stays short on slow lines, and
// fast and long ones are used.
func TestFlow(t *testing.T) {
	const slow = 125 * time.Millisecond
	for _, tt := range []struct {
		name string
		line line
		wait time.Duration // at most
		rate int           // at least
	}{
		{"fast", line{1 << 30, 200 * time.Microsecond}, 5 * time.Millisecond, 100 << 20},
		{"far", line{1 << 30, 200 * time.Millisecond}, 5 * time.Millisecond, 1 << 20},
		{"slow", line{100 << 10, time.Millisecond}, 400 * time.Millisecond, 90 << 10},
		{"slow and far", line{100 << 10, 200 * time.Millisecond}, 600 * time.Millisecond, 25 << 10},
		{"very slow", line{10 << 10, time.Millisecond}, 900 * time.Millisecond, 9 << 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFlow(slow)
			wait, rate := tt.line.run(&f, 60*time.Second)
			if wait > tt.wait || rate < tt.rate {
				t.Errorf("a frame waits %v, %d bytes a second: want %v at most, %d at least; frames of %d, %d under way",
					wait, rate, tt.wait, tt.rate, f.frame, f.window)
			}
		})
	}
}

func TestFlowOfLies(t *testing.T) {
	f := newFlow(time.Second)
	f.send(0)
	f.ack(2, 1) // more than were sent
	if f.acked != 0 {
		t.Error("an ack of what was not sent counts")
	}
	f.ack(1, 1)
	f.ack(1, 2)
	f.ack(0, 2)
	if f.acked != 1 || f.full(2) {
		t.Errorf("%+v", f)
	}
}

// A line that has become longer is used as well as one that was so from the
// beginning; what it took before is no measure any more.
func TestFlowOfALineThatBecomesLonger(t *testing.T) {
	f := newFlow(125 * time.Millisecond)
	line{1 << 30, 200 * time.Microsecond}.run(&f, time.Second)
	f.sent, f.acked = 0, 0 // run counts anew
	if _, rate := (line{1 << 30, 200 * time.Millisecond}).run(&f, 20*time.Second); rate < 500<<10 {
		t.Errorf("%d bytes a second, in frames of %d, %d under way", rate, f.frame, f.window)
	}
}
