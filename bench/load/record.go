package load

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Kind is what a latency is of.
type Kind uint8

// The kinds of latency: from the acquire to its grant, from the release to its
// answer.
const (
	Acquire Kind = iota
	Release
	kinds
)

const (
	maxLatency = int64(10 * time.Minute)
	lanes      = 4
)

// newHistogram is for latencies in nanoseconds, with three digits that count.
func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, maxLatency, 3) }

// newCoarse has two digits, an eighth of the size: there is one for each interval
// of the series.
func newCoarse() *hdrhistogram.Histogram { return hdrhistogram.New(1, maxLatency, 2) }

// recorder collects the latencies of a run by the interval they belong to.
// Everything is in nanoseconds since the begin of the run.
type recorder struct {
	begin, end, interval int64 // begin: of what is measured, after the warm-up
	lanes                [lanes]lane
}

// lane is one of several sets of histograms, so that connections seldom wait
// for each other.
type lane struct {
	mu        sync.Mutex
	whole     [kinds]*hdrhistogram.Histogram
	intervals [][kinds]*hdrhistogram.Histogram // nil: without a sample yet
}

func newRecorder(p *Plan) *recorder {
	r := &recorder{begin: int64(p.Warmup), end: int64(p.Warmup + p.Duration), interval: int64(p.Interval)}
	n := (r.end - r.begin + r.interval - 1) / r.interval
	for i := range r.lanes {
		r.lanes[i].intervals = make([][kinds]*hdrhistogram.Histogram, n)
		for kind := range r.lanes[i].whole {
			r.lanes[i].whole[kind] = newHistogram()
		}
	}
	return r
}

// batch keeps the latest samples of one connection, all of one interval, until
// they are worth taking a lock.
type batch struct {
	r        *recorder
	lane     int
	interval int
	from, to int64 // of the interval
	n        int
	samples  [256]int64 // latency<<1 | kind
}

// add takes a sample that belongs to the instant at.
func (b *batch) add(kind Kind, at, latency int64) {
	if at < b.from || at >= b.to || b.n == len(b.samples) {
		if !b.turn(at) {
			return
		}
	}
	b.samples[b.n] = max(latency, 1)<<1 | int64(kind)
	b.n++
}

func (b *batch) turn(at int64) (measured bool) {
	b.flush()
	if at < b.r.begin || at >= b.r.end {
		return false
	}
	b.interval = int((at - b.r.begin) / b.r.interval)
	b.from = b.r.begin + int64(b.interval)*b.r.interval
	b.to = min(b.from+b.r.interval, b.r.end)
	return true
}

func (b *batch) flush() {
	if b.n == 0 {
		return
	}
	l := &b.r.lanes[b.lane]
	l.mu.Lock()
	for _, s := range b.samples[:b.n] {
		h := &l.intervals[b.interval][s&1]
		if *h == nil {
			*h = newCoarse()
		}
		latency := min(s>>1, maxLatency)
		l.whole[s&1].RecordValue(latency)
		(*h).RecordValue(latency)
	}
	l.mu.Unlock()
	b.n = 0
}

// cutShort is the result of a run that ended with an error: what was measured
// until then. There is none after a wrong answer, which makes all figures
// doubtful, nor in the warm-up.
func (r *recorder) cutShort(res *Result, now int64, err error) *Result {
	if now <= r.begin || errors.Is(err, ErrWrong) {
		return nil
	}
	res.Ended = err.Error()
	if errors.Is(err, context.Canceled) {
		res.Ended = "interrupted"
	}
	r.fill(res, now)
	return res
}

// merged returns the histograms of the run, and those of each interval.
func (r *recorder) merged() (whole [kinds]*hdrhistogram.Histogram, series [][kinds]*hdrhistogram.Histogram) {
	series = make([][kinds]*hdrhistogram.Histogram, len(r.lanes[0].intervals))
	for kind := range whole {
		whole[kind] = newHistogram()
		for i := range series {
			series[i][kind] = newCoarse()
		}
		for l := range r.lanes {
			whole[kind].Merge(r.lanes[l].whole[kind])
			for i, h := range r.lanes[l].intervals {
				if h[kind] != nil {
					series[i][kind].Merge(h[kind])
				}
			}
		}
	}
	return whole, series
}
