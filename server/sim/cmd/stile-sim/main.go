// Stile-sim runs simulated clusters, each from one seed, and says which of
// them went wrong.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stile-lock/stile/server/sim"
)

func main() {
	seed := flag.Uint64("seed", 1, "the first seed")
	runs := flag.Int("runs", 1, "how many seeds, from the first one on")
	verbose := flag.Bool("v", false, "print all that happens in the run of the first seed")
	nodes := flag.Int("nodes", 0, "how many nodes, 2 to 5 (0: drawn from the seed)")
	mode := flag.String("mode", "", "async or sync (default: drawn from the seed)")
	faults := flag.String("faults", "", "only these kinds of faults, comma-separated, or none; known: "+strings.Join(sim.FaultKinds(), ", "))
	keepOn := flag.Bool("k", false, "go on after a failure, and print only its last line")
	flag.Parse()
	if *nodes != 0 && (*nodes < 2 || *nodes > 5) || *mode != "" && *mode != "async" && *mode != "sync" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	o := sim.Options{Seed: *seed, Nodes: *nodes, Mode: *mode}
	if *faults != "" {
		o.Faults = strings.Split(*faults, ",")
	}
	if *verbose {
		o.Log = os.Stdout
		r := sim.Run(o)
		fmt.Println(r)
		if r.Failure != "" {
			os.Exit(1)
		}
		return
	}
	os.Exit(many(o, *runs, *keepOn))
}

// many runs a range of seeds on all processors.
func many(o sim.Options, runs int, keepOn bool) (status int) {
	began := time.Now()
	var next, done, failures atomic.Int64
	var mu sync.Mutex
	counts := make(map[string]int)
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= int64(runs) {
					return
				}
				o := o
				o.Seed += uint64(i)
				r := sim.Run(o)
				done.Add(1)
				mu.Lock()
				for what, n := range r.Counts {
					counts[what] += n
				}
				if r.Failure != "" {
					failures.Add(1)
					if keepOn {
						first, _, _ := strings.Cut(r.Failure, "\n")
						fmt.Printf("seed %d at %v: %s\n", r.Seed, r.Length, first)
					} else {
						fmt.Println(r)
						next.Store(int64(runs))
					}
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	for _, c := range sim.Sorted(counts) {
		fmt.Printf("%10d  %s\n", c.N, c.What)
	}
	fmt.Printf("%d runs in %v, %d failed\n", done.Load(), time.Since(began).Round(time.Millisecond), failures.Load())
	if failures.Load() > 0 {
		return 1
	}
	return 0
}
