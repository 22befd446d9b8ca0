// Package loadflags has the flags that describe a load, and say where its result
// goes, for every program that puts one on a server.
package loadflags

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/stile-lock/stile/bench/load"
	"github.com/stile-lock/stile/bench/report"
)

// Flags are for kong, to be embedded in a command.
type Flags struct {
	Connections int           `short:"c" default:"64" help:"Connections (${default}). The Go client makes its own; it gets as many goroutines as requests could be under way."`
	Depth       int           `short:"d" default:"1" help:"Requests under way on each connection (${default})."`
	Duration    time.Duration `default:"10s" help:"How long to measure (${default})."`
	Warmup      time.Duration `default:"2s" help:"How long to load before (${default})."`
	Rate        float64       `placeholder:"N" help:"Open loop: this many pairs are due in a second. Default: closed loop, each pair begins when another has ended."`
	Poisson     bool          `help:"Open loop: due at random instants, not evenly."`

	Keys      int     `placeholder:"N" help:"How many keys (100000)."`
	KeyLength int     `default:"24" help:"Bytes of a key (${default})."`
	Skew      float64 `placeholder:"N" help:"Exponent of Zipf's law by which keys are chosen; they are shared then. 0: all alike."`
	Shared    bool    `help:"Any request may take any key. Default: each has keys of its own, and nobody waits."`
	Contended float64 `placeholder:"N" help:"Share of the pairs, 0 to 1, that take one of --hot-keys further keys, which are shared."`
	HotKeys   int     `default:"16" help:"How many keys those are (${default})."`

	Lease       time.Duration `default:"30s" help:"Lease asked for (${default})."`
	Hold        time.Duration `help:"How long a key is held (0s)."`
	Cancel      float64       `placeholder:"N" help:"Share, 0 to 1, of the acquires of shared keys that are given up if they wait for longer than --cancel-after."`
	CancelAfter time.Duration `default:"1ms" help:"How long such an acquire waits before (${default})."`
	Drain       time.Duration `default:"10s" help:"How long to wait at the end for what is under way; an answer that is missing then is a wrong one (${default}). With --driver client, a server that was lost may have taken a release with it: then it is --lease more."`
	Seed        uint64        `default:"1" help:"Of everything that is drawn (${default})."`

	JSON string `type:"path" placeholder:"FILE" help:"Write the result as JSON, too; - is the standard output, instead of the text."`
	HTML string `type:"path" placeholder:"FILE" help:"Write a page with a plot of throughput and latency, too."`
	SVG  string `type:"path" placeholder:"FILE" help:"Write just the plot, too."`
}

// Plan is the load that the flags describe.
func (f *Flags) Plan() load.Plan {
	return load.Plan{
		Connections: f.Connections, Depth: f.Depth, Duration: f.Duration, Warmup: f.Warmup,
		Rate: f.Rate, Poisson: f.Poisson,
		Keys: f.Keys, KeyLength: f.KeyLength, Skew: f.Skew, Shared: f.Shared, Contended: f.Contended, HotKeys: f.HotKeys,
		Lease: f.Lease, Hold: f.Hold, Cancel: f.Cancel, CancelAfter: f.CancelAfter, Drain: f.Drain, Seed: f.Seed,
	}
}

// Write writes the result to where the flags say.
func (f *Flags) Write(stdout io.Writer, res *load.Result) error {
	if f.JSON != "-" {
		report.Text(stdout, res)
	}
	to := func(file string, content func(io.Writer) error) error {
		switch file {
		case "":
			return nil
		case "-":
			return content(stdout)
		}
		out, err := os.Create(file)
		if err != nil {
			return err
		}
		return errors.Join(content(out), out.Close())
	}
	return errors.Join(
		to(f.JSON, func(w io.Writer) error { return report.JSON(w, res) }),
		to(f.HTML, func(w io.Writer) error { return report.HTML(w, res) }),
		to(f.SVG, func(w io.Writer) error { return report.SVG(w, res) }))
}
