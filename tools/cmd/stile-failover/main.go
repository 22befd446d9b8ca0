// Stile-failover measures, on clusters of three real nodes on this machine,
// how long nobody is granted a lock when the active one is killed, cut off or
// stopped, and what is lost by that. It prints tables, with the aim beside
// each figure.
package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"
)

type flags struct {
	Stiled  string   `default:"bin/stiled" type:"existingfile" help:"The node to start."`
	Rounds  int      `default:"20" help:"How often each is done."`
	Seed    uint64   `help:"Of the moments at which things are done; the default is another one each time."`
	Only    []string `enum:"kill,partition,stop,lost,sync,split" default:"kill,partition,stop,lost,sync,split" help:"What to do (${enum})."`
	Logs    string   `type:"path" help:"Directory for the log of every round."`
	NoJudge bool     `help:"Exit with status 0 although an aim was missed."`
}

func main() {
	var f flags
	kong.Parse(&f, kong.Name("stile-failover"),
		kong.Description("Measures failovers of real clusters on this machine, and what they lose."))
	if f.Seed == 0 {
		f.Seed = rand.Uint64()
	}
	dir, err := os.MkdirTemp("", "stile-failover-")
	if err != nil {
		fatal(err)
	}
	r := &report{flags: f, dir: dir, random: rand.New(rand.NewPCG(f.Seed, 0))}
	if r.Stiled, err = filepath.Abs(f.Stiled); err != nil {
		fatal(err)
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, syscall.SIGINT, syscall.SIGTERM)
	done := make(chan error, 1)
	go func() { done <- r.run() }()
	select {
	case err = <-done:
	case <-interrupted:
		err = fmt.Errorf("interrupted")
	}
	r.close()
	os.RemoveAll(dir)
	if err != nil {
		fatal(err)
	}
	r.print(os.Stdout)
	if r.missed > 0 && !f.NoJudge {
		fmt.Fprintf(os.Stderr, "stile-failover: %d aims were missed\n", r.missed)
		os.Exit(1)
	}
}

func fatal(err error) {
	fmt.Fprintf(os.Stderr, "stile-failover: %v\n", err)
	os.Exit(2)
}

// aim is what a figure should be below; 0 is none.
type aim struct{ median, worst time.Duration }

func (a aim) String() string {
	var s []string
	if a.median > 0 {
		s = append(s, "median < "+show(a.median))
	}
	if a.worst > 0 {
		s = append(s, "worst < "+show(a.worst))
	}
	return strings.Join(s, ", ")
}

func show(d time.Duration) string {
	if d < 10*time.Millisecond {
		return fmt.Sprintf("%.1f ms", d.Seconds()*1000)
	}
	return fmt.Sprintf("%.0f ms", d.Seconds()*1000)
}

// span is the figures of one kind of round.
type span struct {
	name        string
	probe       []time.Duration // as the prober sees it
	client      []time.Duration // as the Go client sees it
	failed      int             // acquires of the Go client
	aim         aim
	noneMayFail bool
	acquires    int           // of the Go client
	stall       time.Duration // by which this process itself was late, at worst
}

func median(ds []time.Duration) time.Duration {
	s := slices.Sorted(slices.Values(ds))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// print prints all tables, and counts the aims that were missed.
func (r *report) print(out *os.File) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "Three nodes, %d rounds each, heartbeat %v, failure timeout %v, seed %d\n", r.Rounds, heartbeat, failureTimeout, r.Seed)
	if len(r.spans) > 0 {
		fmt.Fprintf(w, "\nTime without a grant\tmedian\tworst\taim\t\tGo client: median\tworst\tfailed acquires\taim\t\tthis machine stood still\n")
		for _, s := range r.spans {
			m, worst := median(s.probe), slices.Max(s.probe)
			met := (s.aim.median == 0 || m < s.aim.median) && (s.aim.worst == 0 || worst < s.aim.worst)
			verdict := "-"
			if s.aim != (aim{}) {
				verdict = r.verdict(met)
			}
			failAim, failVerdict := "", ""
			if s.noneMayFail {
				failAim, failVerdict = "0", r.verdict(s.failed == 0)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%v\t%s\t%s\t%s\t%d of %d\t%s\t%s\t%s\n", s.name, show(m), show(worst), s.aim, verdict,
				show(median(s.client)), show(slices.Max(s.client)), s.failed, s.acquires, failAim, failVerdict, show(s.stall))
		}
	}
	if len(r.lost) > 0 {
		fmt.Fprintf(w, "\nAnswered, then lost at kill -9\tgrants\tlost\tworst round\treleases\tlost\tworst round\taim\t\n")
		for _, l := range r.lost {
			verdict := "-"
			a := "counted"
			if l.sync {
				a, verdict = "0", r.verdict(l.LostGrants == 0 && l.LostReleases == 0)
			}
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\n", l.name, l.Grants, l.LostGrants, l.worstGrants, l.Releases, l.LostReleases, l.worstReleases, a, verdict)
		}
	}
	if s := r.split; s != nil {
		fmt.Fprintf(w, "\nTwo actives for %v, clients on both sides\t\taim\t\n", splitFor)
		fmt.Fprintf(w, "grants on both sides\t%d\t\t-\n", s.grants)
		fmt.Fprintf(w, "tokens given twice\t%d\t0\t%s\n", s.twice, r.verdict(s.twice == 0))
		fmt.Fprintf(w, "holders that came while there was another one\t%d\tcounted\t-\n", s.Overlaps)
		fmt.Fprintf(w, "time that they overlapped, in all\t%s\tcounted\t-\n", show(s.Overlapped))
		fmt.Fprintf(w, "writes accepted\t%d\t\t-\n", s.Writes)
		fmt.Fprintf(w, "stale writes refused\t%d\tcounted\t-\n", s.Stale)
		fmt.Fprintf(w, "stale writes accepted\t%d\t0\t%s\n", s.Backwards, r.verdict(s.Backwards == 0))
	}
	w.Flush()
}

func (r *report) verdict(met bool) string {
	if met {
		return "met"
	}
	r.missed++
	return "MISSED"
}
