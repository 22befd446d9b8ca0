// Package report writes results for people and for programs.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/stile-lock/stile/bench/load"
)

// Text writes a result for a terminal.
func Text(w io.Writer, r *load.Result) {
	p := r.Plan
	fmt.Fprintf(w, "%s at %s: %d connections, %d under way on each", r.Driver, r.Target, p.Connections, p.Depth)
	if p.Rate > 0 {
		fmt.Fprintf(w, ", %.0f pairs due in a second", p.Rate)
	}
	fmt.Fprintf(w, "\nkeys: %d of %d bytes", p.Keys, p.KeyLength)
	switch {
	case p.Skew > 0:
		fmt.Fprintf(w, ", shared, by Zipf's law with exponent %g", p.Skew)
	case p.Shared:
		fmt.Fprint(w, ", shared")
	}
	if p.Contended > 0 {
		fmt.Fprintf(w, "; %.0f %% of the pairs on %d more, shared", 100*p.Contended, p.HotKeys)
	}
	fmt.Fprintf(w, "; lease %v, held for %v", p.Lease, p.Hold)
	if r.Ended == "" {
		fmt.Fprintf(w, "\nmeasured for %v after %v of warm-up\n\n", p.Duration, p.Warmup)
	} else {
		measured := time.Duration(r.Seconds * 1e9).Round(10 * time.Millisecond)
		fmt.Fprintf(w, "\nmeasured for %v, not %v, after %v of warm-up: the run ended early\n\n", measured, p.Duration, p.Warmup)
	}

	fmt.Fprintf(w, "%12.0f pairs/s, %d in all\n\n", r.PairsPerSec, r.Pairs)
	fmt.Fprintf(w, "%-10s %10s %10s %10s %10s %10s %10s %10s %10s\n", "", "mean", "p50", "p90", "p99", "p99.9", "p99.99", "max", "count")
	row := func(name string, l load.Latency) {
		fmt.Fprintf(w, "%-10s", name)
		for _, us := range []float64{l.Mean, l.P50, l.P90, l.P99, l.P999, l.P9999, l.Max} {
			fmt.Fprintf(w, " %10s", Micros(us))
		}
		fmt.Fprintf(w, " %10d\n", l.Count)
	}
	row("acquire", r.Acquire)
	if r.Corrected != nil {
		row("corrected", *r.Corrected)
	}
	row("release", r.Release)
	if r.Late != nil {
		row("sent late", *r.Late)
	}
	if p.Rate > 0 {
		fmt.Fprintln(w, "\nacquire: from the instant at which it was due, whether it could be sent then or not")
	}
	if r.Corrected != nil {
		fmt.Fprintln(w, "\ncorrected: with the acquires that a closed loop does not send while an answer is late; --rate measures them")
	}
	for _, n := range []struct {
		count int64
		what  string
	}{
		{r.Overdue, "pairs were due and not even sent at the end: the server does not serve this many"},
		{r.Cancelled, "waits were given up"},
		{r.Retries, "acquires found the key held and were sent again"},
		{r.Lost, "leases had ended before the release"},
		{r.ConnectionsLost, "connections were lost, and others found: see the longest latency"},
		{r.Failed, "releases failed then: unconfirmed, or the grant was lost with its server"},
		{r.Doubled, "grants were of keys that another had from a server that was lost: only the token tells the two apart"},
	} {
		if n.count > 0 {
			fmt.Fprintf(w, "%d %s\n", n.count, n.what)
		}
	}
}

// Micros shows microseconds with a unit that fits.
func Micros(us float64) string {
	switch d := time.Duration(us * 1e3); {
	case d == 0:
		return "-"
	case d < 10*time.Microsecond:
		return fmt.Sprintf("%.2fµs", us)
	case d < time.Millisecond:
		return fmt.Sprintf("%.0fµs", us)
	case d < time.Second:
		return fmt.Sprintf("%.2fms", us/1e3)
	default:
		return fmt.Sprintf("%.2fs", us/1e6)
	}
}

// JSON writes results for programs: an array, as there may be several.
func JSON(w io.Writer, results ...*load.Result) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(results)
}
