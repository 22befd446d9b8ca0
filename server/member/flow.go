package member

import (
	"time"

	"github.com/stile-lock/stile/server/lockspace"
)

// flow keeps little data under way to a peer. A heartbeat overtakes what waits
// here, but not what is in the kernels and on the line: behind a slow line that
// would be seconds of data, and both ends would take each other for gone.
//
// The peer says how many frames it has taken in. A frame that took longer for
// that than the fastest one by more than `slow` waited behind others: then
// fewer and smaller ones are sent. It begins with a small one, since nothing is
// known of the line. When even the smallest ones, one at a time, stay late, the
// line itself has become longer: then theirs is the fastest.
type flow struct {
	slow   time.Duration
	best   time.Duration // the shortest time that a frame took, 0: not known
	least  time.Duration // that one of the smallest took, lately
	stuck  int           // how many of the smallest were late in a row
	frame  int           // how many bytes a frame may have
	window uint64        // how many frames may be under way

	sent, acked uint64
	at          [maxWindow]lockspace.Time // when the latest were sent
}

const (
	maxWindow = 4

	firstFrame = 4 << 10
	leastFrame = 1 << 10
	maxFlow    = 64 << 10

	// longer is how many of the smallest frames have to be late in a row for
	// the line to be a longer one.
	longer = 4
)

func newFlow(slow time.Duration) flow {
	return flow{slow: slow, frame: firstFrame, window: 1}
}

// full reports whether nothing more may be sent for now. If nothing is said
// for very long, that is not what keeps the stream from going on: whatever is
// wrong must show.
func (f *flow) full(now lockspace.Time) bool {
	return f.sent-f.acked >= f.window && time.Duration(now-f.at[f.sent%maxWindow]) < 8*f.slow
}

func (f *flow) send(now lockspace.Time) {
	f.sent++
	f.at[f.sent%maxWindow] = now
}

// ack tells that the peer has taken in so many frames of the stream.
func (f *flow) ack(frames uint64, now lockspace.Time) {
	if frames <= f.acked || frames > f.sent {
		return
	}
	f.acked = frames
	took := time.Duration(now - f.at[frames%maxWindow])
	if f.best == 0 || took < f.best {
		f.best = took
	}
	smallest := f.window == 1 && f.frame == leastFrame
	late := took - f.best
	if !smallest || late <= f.slow {
		f.stuck = 0
	} else {
		if f.stuck == 0 || took < f.least {
			f.least = took
		}
		if f.stuck++; f.stuck == longer {
			f.best, f.stuck = f.least, 0
		}
	}
	switch {
	case late > f.slow && f.window > 1:
		f.window /= 2
	case late > f.slow:
		f.frame = max(leastFrame, f.frame/2)
	case late > f.slow/4, took > 4*f.slow: // twice as much could take too long for a heartbeat
	case f.frame < maxFlow:
		f.frame = min(maxFlow, 2*f.frame)
	case f.window < maxWindow:
		f.window *= 2
	}
}
