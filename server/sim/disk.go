package sim

import (
	"errors"
	"time"

	"github.com/stile-lock/stile/server/replica"
)

// disk has the epoch file of a node.
type disk struct {
	s     *Sim
	epoch replica.Epoch

	badUntil  Time // writes fail until then
	slowUntil Time // and are slow until then
	free      Time // when the writes before are through
	pending   []*diskWrite
}

type diskWrite struct {
	epoch   replica.Epoch
	landing bool // the content will be on the disk in the end
	over    bool
}

// attempt is how long the process waits for a write.
const attempt = time.Second

var errDisk = errors.New("input/output error")

// write puts an epoch into the file, and says how that went.
func (d *disk) write(e replica.Epoch, done func(error)) {
	s := d.s
	var took Time
	switch {
	case s.now < d.slowUntil:
		took = s.between(100*time.Millisecond, 1500*time.Millisecond)
	case s.chance(s.plan.slowWrites):
		took = s.between(20*time.Millisecond, 1300*time.Millisecond)
	default:
		took = s.between(200*time.Microsecond, 6*time.Millisecond)
	}
	end := max(s.now, d.free) + took
	d.free = end
	fails := s.now < d.badUntil || s.chance(s.plan.failedWrites)
	w := &diskWrite{epoch: e, landing: !fails || s.chance(0.5)}
	d.pending = append(d.pending, w)
	s.at(end, func() {
		if w.over {
			return
		}
		d.land(w)
	})
	switch {
	case end-s.now > attempt:
		s.count("disk: a write took too long")
		s.after(attempt, func() { done(errDisk) })
	case fails:
		s.count("disk: a write failed")
		s.at(end, func() { done(errDisk) })
	default:
		s.at(end, func() { done(nil) })
	}
}

func (d *disk) land(w *diskWrite) {
	w.over = true
	d.pending = d.pending[1:]
	if w.landing {
		d.epoch = w.epoch
	}
}

// crash decides what became of the writes under way.
func (d *disk) crash() {
	for len(d.pending) > 0 {
		w := d.pending[0]
		w.landing = w.landing && d.s.chance(0.5)
		d.land(w)
	}
	d.free = 0
}

// loseDisk empties it. From here on the clock is all that keeps the node above
// the epochs that it took, so it must have passed the beginning of the latest.
func (n *node) loseDisk() {
	n.disk.epoch = replica.Epoch{}
	if behind := time.Duration(n.taken)*time.Second + time.Millisecond - n.s.plan.wall - n.s.now - n.clockOffset; behind > 0 {
		n.clockOffset += behind
	}
}
