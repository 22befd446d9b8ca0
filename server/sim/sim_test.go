package sim

import (
	"bytes"
	"flag"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stile-lock/stile/server/internal/broken"
)

var (
	firstSeed = flag.Uint64("seed", 1, "the first seed")
	runs      = flag.Int("runs", 2000, "how many seeds are run")
)

// TestSeeds runs many clusters. See cmd/stile-sim for more of them, and for
// one alone.
func TestSeeds(t *testing.T) {
	n := *runs
	if testing.Short() {
		n = 200
	}
	counts, failed := runMany(Options{Seed: *firstSeed}, n)
	for i, r := range failed {
		if i == 3 {
			t.Errorf("and %d more", len(failed)-i)
			break
		}
		t.Error(r)
	}
	if t.Failed() || n < 2000 {
		return
	}
	// What the runs are for must happen in them.
	for _, what := range []string{
		"this node is active: nobody else is active, and it is this node's turn",
		"this node is active: it was handed the role",
		"this node is no longer active: a node of higher priority is back",
		"this node is no longer active: it is stopping",
		"this node is no longer active: it can't store an epoch",
		"this node is no longer active: another active has higher priority",
		"this node is no longer active: another active went on from where this one was",
		"this node does not become active: another node is active",
		"this node does not become active: another node has a link to an active",
		"this node does not become active: its epoch can't be stored",
		"this node does not become active: a peer is there that it has no link with, and that may be active",
		"this node was paused",
		"took an epoch: a higher one was known",
		"took an epoch: to have one ahead of need",
		"took an epoch: a node came without an epoch file",
		"took over the other active's table",
		"streams, from the base", "streams, tail", "streams, snapshot",
		"another node has more of the table: this node gets that first",
		"a standby is no longer in sync: answers do not wait for it",
		"a standby is in sync: answers wait for it",
		"grants undone whose answer was held",
		"sessions reset with answers held",
		"answers: superseded", "answers: spent", "answers: no-active", "answers: stopping",
		"stale writes refused", "tables compared", "locks broken",
		"ages checked", "ages checked that are from an earlier reign",
	} {
		if counts[what] == 0 {
			t.Errorf("in %d runs it never happens: %s", n, what)
		}
	}
}

func runMany(o Options, n int) (counts map[string]int, failed []*Result) {
	counts = make(map[string]int)
	var next atomic.Int64
	var mu sync.Mutex
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= int64(n) {
					return
				}
				o := o
				o.Seed += uint64(i)
				r := Run(o)
				mu.Lock()
				for what, n := range r.Counts {
					counts[what] += n
				}
				if r.Failure != "" {
					failed = append(failed, r)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return counts, failed
}

// TestDeterminism runs the same seeds twice: all that happens must be the
// same.
func TestDeterminism(t *testing.T) {
	for seed := uint64(1); seed <= 30; seed++ {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			var first, second bytes.Buffer
			a := Run(Options{Seed: seed, Log: &first})
			b := Run(Options{Seed: seed, Log: &second})
			if a.Hash != b.Hash || !bytes.Equal(first.Bytes(), second.Bytes()) {
				t.Fatalf("two runs of seed %d differ", seed)
			}
			// Without a log it is the same run.
			if c := Run(Options{Seed: seed}); c.Events != b.Events || c.Length != b.Length || c.Failure != b.Failure {
				t.Fatalf("seed %d runs otherwise with its log: %v, %v", seed, c, b)
			}
		})
	}
}

// mostMutantRuns is how often a mutant may go unnoticed. Most are noticed in
// the first 25 runs.
const mostMutantRuns = 1000

// focus has the faults that a mutant takes, where it takes special ones, so
// that few runs notice it.
var focus = map[string]Options{
	"priority-alone":     {Faults: []string{"quick-restart", "crash"}},
	"buffered-guard":     {Faults: []string{"pause"}, Mode: "sync"},
	"pause-unnoticed":    {Faults: []string{"pause"}, Mode: "sync"},
	"woken-promotes":     {Faults: []string{"pause"}, Mode: "sync"},
	"stopping-successor": {Faults: []string{"stop", "rolling"}},
	"misfits-are-gone":   {Faults: []string{"misfit"}},
}

// TestMutants breaks one rule after the other. Each must be noticed. It is not
// run in parallel: a rule that is broken from within is broken for all.
func TestMutants(t *testing.T) {
	for _, name := range Mutants() {
		t.Run(name, func(t *testing.T) {
			broken.Break(name)
			defer broken.Break("")
			noticed := func(from uint64, n int) bool {
				o := focus[name]
				o.Seed, o.Mutant = from, name
				_, failed := runMany(o, n)
				if len(failed) == 0 {
					return false
				}
				first, _, _ := strings.Cut(failed[0].Failure, "\n")
				t.Logf("seed %d: %s", failed[0].Seed, first)
				return true
			}
			for from := uint64(1); from <= mostMutantRuns; from += 25 {
				if noticed(from, 25) {
					return
				}
			}
			t.Errorf("not noticed in %d runs", mostMutantRuns)
		})
	}
}
