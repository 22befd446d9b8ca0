package load

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Result is what a run measured. Its JSON form is stable: fields are only ever
// added.
type Result struct {
	Driver  string    `json:"driver"`
	Target  string    `json:"target"`
	Plan    Plan      `json:"plan"`
	Started time.Time `json:"started"`

	// Pairs ended within the measured time, which is Seconds long.
	Pairs   int64   `json:"pairs"`
	Seconds float64 `json:"seconds"`
	// Ended is why the run ended before its time; Seconds are until then.
	Ended       string  `json:"ended_early,omitempty"`
	PairsPerSec float64 `json:"pairs_per_s"`

	Acquire Latency `json:"acquire"`
	Release Latency `json:"release"`
	// Corrected is of the closed loop: the acquires, and those that were not sent
	// because an earlier one had no answer yet. It supposes that each request under
	// way would be followed by the next one at the mean interval of the run. In the
	// open loop Acquire is exact, and there is no Corrected.
	Corrected *Latency `json:"acquire_corrected,omitempty"`
	Series    []Point  `json:"series"`

	// Of the whole run, the warm-up too.
	Cancelled int64 `json:"cancelled"` // waits given up
	Retries   int64 `json:"retries"`   // acquires repeated where the server has no line
	Lost      int64 `json:"lost"`      // leases that had ended before the release
	// Of failovers, and of servers that could not be reached for a while.
	ConnectionsLost int64 `json:"connections_lost,omitempty"`
	Failed          int64 `json:"failed,omitempty"`  // releases of which nobody knows, or whose grant was lost
	Doubled         int64 `json:"doubled,omitempty"` // grants of a key whose holder had it from a server that was lost
	// Overdue requests were due (open loop) but still not sent at the end. Each
	// is among the acquires with the time it had waited until then.
	Overdue int64 `json:"overdue"`
	// Late is how much later than due requests were sent although the
	// connection had room for them: the load generator's own fault. Latency has
	// it in it.
	Late *Latency `json:"late,omitempty"`
}

// Latency is a distribution, in microseconds.
type Latency struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean_us"`
	Min   float64 `json:"min_us"`
	P50   float64 `json:"p50_us"`
	P75   float64 `json:"p75_us"`
	P90   float64 `json:"p90_us"`
	P99   float64 `json:"p99_us"`
	P999  float64 `json:"p99_9_us"`
	P9999 float64 `json:"p99_99_us"`
	Max   float64 `json:"max_us"`
}

// Point is one interval of the series.
type Point struct {
	Second      float64 `json:"second"` // its end, since the end of the warm-up
	PairsPerSec float64 `json:"pairs_per_s"`
	AcquireP50  float64 `json:"acquire_p50_us"`
	AcquireP99  float64 `json:"acquire_p99_us"`
	AcquireMax  float64 `json:"acquire_max_us"`
	ReleaseP99  float64 `json:"release_p99_us"`
}

func latencyOf(h *hdrhistogram.Histogram) Latency {
	if h.TotalCount() == 0 {
		return Latency{}
	}
	p := h.ValueAtPercentilesSlice([]float64{50, 75, 90, 99, 99.9, 99.99, 100})
	micros := func(ns int64) float64 { return float64(ns) / 1e3 }
	return Latency{
		Count: h.TotalCount(), Mean: h.Mean() / 1e3, Min: micros(h.Min()),
		P50: micros(p[0]), P75: micros(p[1]), P90: micros(p[2]), P99: micros(p[3]), P999: micros(p[4]), P9999: micros(p[5]),
		Max: micros(p[6]),
	}
}

// Distribution collects latencies of which there is no run, and no interval.
// It is not safe for use by several goroutines.
type Distribution struct{ h *hdrhistogram.Histogram }

// NewDistribution returns an empty one.
func NewDistribution() *Distribution { return &Distribution{newHistogram()} }

// Add adds one latency.
func (d *Distribution) Add(latency time.Duration) {
	d.h.RecordValue(min(max(int64(latency), 1), maxLatency))
}

// Latency returns what was collected.
func (d *Distribution) Latency() Latency { return latencyOf(d.h) }

// corrected is the latency of the acquires and, for each answer that came late,
// of those that would have been sent every interval until it came: what
// RecordCorrectedValue does, for what is recorded already. A late answer to a
// release keeps acquires from being sent, too.
func corrected(whole [kinds]*hdrhistogram.Histogram, interval int64) *hdrhistogram.Histogram {
	interval = max(interval, 1)
	c := newHistogram()
	c.Merge(whole[Acquire])
	for _, h := range whole {
		for _, bar := range h.Distribution() {
			if bar.Count == 0 {
				continue
			}
			for missing := bar.To - interval; missing >= interval; missing -= interval {
				c.RecordValues(min(missing, maxLatency), bar.Count)
			}
		}
	}
	return c
}

// fill fills in what was measured until an instant, or the end of the run.
func (r *recorder) fill(res *Result, until int64) {
	whole, series := r.merged()
	end := min(r.end, until)
	res.Seconds = float64(end-r.begin) / 1e9
	res.Pairs = whole[Release].TotalCount()
	res.PairsPerSec = float64(res.Pairs) / res.Seconds
	res.Acquire, res.Release = latencyOf(whole[Acquire]), latencyOf(whole[Release])
	if res.Plan.Rate == 0 && res.Pairs > 0 {
		interval := (end - r.begin) * int64(res.Plan.Slots()) / res.Pairs
		c := latencyOf(corrected(whole, interval))
		res.Corrected = &c
	}
	for i, h := range series {
		from := r.begin + int64(i)*r.interval
		to := min(from+r.interval, end)
		if from >= to {
			break
		}
		acquire, release := latencyOf(h[Acquire]), latencyOf(h[Release])
		res.Series = append(res.Series, Point{
			Second:      float64(to-r.begin) / 1e9,
			PairsPerSec: float64(release.Count) / (float64(to-from) / 1e9),
			AcquireP50:  acquire.P50, AcquireP99: acquire.P99, AcquireMax: acquire.Max,
			ReleaseP99: release.P99,
		})
	}
}
