package sim

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// Options say what to run. What is left at its zero value is drawn from the
// seed.
type Options struct {
	Seed   uint64
	Nodes  int
	Mode   string   // "async", "sync"
	Faults []string // only these kinds; ["none"] for none
	Log    io.Writer
	Mutant string // a rule to break, see mutant.go

	logged bool
}

// Result is what came of a run.
type Result struct {
	Seed    uint64
	Failure string   // empty if all is well
	Log     []string // the last lines before the failure
	Plan    string
	Counts  map[string]int
	Events  int
	Hash    uint64 // of all that happened
	Length  Time

	options Options
}

// Replay is the command that shows the run again.
func (r *Result) Replay() string {
	cmd := fmt.Sprintf("stile-sim -seed %d -v", r.Seed)
	if o := &r.options; o.Nodes > 0 {
		cmd += fmt.Sprintf(" -nodes %d", o.Nodes)
	}
	if r.options.Mode != "" {
		cmd += " -mode " + r.options.Mode
	}
	if len(r.options.Faults) > 0 {
		cmd += " -faults " + strings.Join(r.options.Faults, ",")
	}
	return cmd
}

func (r *Result) String() string {
	if r.Failure == "" {
		return fmt.Sprintf("seed %d: all is well after %v, %d events", r.Seed, r.Length, r.Events)
	}
	return fmt.Sprintf("%s\n\nseed %d failed at %v: %s\nplan: %s\nagain, with the whole log: %s\n",
		strings.Join(r.Log, "\n"), r.Seed, r.Length, r.Failure, r.Plan, r.Replay())
}

// Run runs a cluster. A run that fails is run again, for its log.
func Run(o Options) *Result {
	o.logged = o.Log != nil
	r := run(o)
	if r.Failure != "" && !o.logged {
		o.logged = true
		again := run(o)
		if again.Failure != r.Failure {
			again.Failure = fmt.Sprintf("%s, and the second time: %s", r.Failure, again.Failure)
		}
		r = again
	}
	return r
}

// Sim is a run.
type Sim struct {
	opt    Options
	rng    *rand.Rand
	now    Time
	queue  queue
	events int
	log    journal
	counts map[string]int

	plan     plan
	net      *network
	nodes    []*node
	clients  []*client
	requests []*request
	slow     []Time // by from*nodes+to: until when the direction is slow

	quiet    bool // the faults are over
	draining bool // clients begin nothing
	finished bool

	checks
}

// failed is what a check panics with.
type failed struct{ text string }

func (s *Sim) fail(format string, args ...any) {
	panic(failed{fmt.Sprintf(format, args...)})
}

func run(o Options) (r *Result) {
	s := &Sim{opt: o, rng: rand.New(rand.NewPCG(o.Seed, 0x5711e)), counts: make(map[string]int)}
	s.log.on, s.log.out = o.logged, o.Log
	r = &Result{Seed: o.Seed, Counts: s.counts, options: o}
	defer func() {
		if e := recover(); e != nil {
			if f, ok := e.(failed); ok {
				r.Failure = f.text
			} else {
				r.Failure = fmt.Sprintf("panic: %v\n%s", e, debug.Stack())
			}
			s.logf("FAILED: %s", r.Failure)
		}
		r.Log = s.log.tail()
		r.Events, r.Length, r.Plan = s.events, s.now, s.plan.String()
		r.Hash = s.log.sum ^ s.rng.Uint64() ^ uint64(s.events)
	}()
	s.draw()
	s.logf("plan: %v", &s.plan)
	s.begin()
	for !s.finished {
		if len(s.queue.heap) == 0 {
			s.fail("nothing is to happen any more")
		}
		e := s.queue.pop()
		s.now = e.at
		s.events++
		if s.events > 4_000_000 {
			s.fail("the run does not end")
		}
		e.f()
	}
	return r
}

func (s *Sim) begin() {
	s.net = newNetwork(s, s.plan.nodes+s.plan.clients+1)
	s.slow = make([]Time, s.plan.nodes*s.plan.nodes)
	s.initChecks()
	for i := range s.plan.nodes {
		n := &node{s: s, id: i, wantUp: true}
		n.disk.s = s
		n.clockOffset = s.drawOffset()
		s.nodes = append(s.nodes, n)
	}
	for _, n := range s.nodes {
		s.after(s.between(0, s.plan.startSpread), func() {
			if n.proc == nil {
				n.start()
			}
		})
	}
	for i := range s.plan.clients + 1 {
		s.clients = append(s.clients, s.newClient(i, i == s.plan.clients))
	}
	s.after(s.plan.startSpread+s.between(0, 2*time.Second), s.nextFault)
	s.at(s.plan.chaos, s.settle)
	s.after(monitorEvery, s.monitor)
}

func (s *Sim) at(t Time, f func()) { s.queue.push(t, f) }

func (s *Sim) after(d Time, f func()) { s.queue.push(s.now+d, f) }

func (s *Sim) logf(format string, args ...any) {
	if s.log.on {
		s.log.write(s.now, fmt.Sprintf(format, args...))
	}
}

func (s *Sim) count(what string) { s.counts[what]++ }

// between draws a time.
func (s *Sim) between(a, b Time) Time {
	if b <= a {
		return a
	}
	return a + Time(s.rng.Int64N(int64(b-a)))
}

func (s *Sim) chance(p float64) bool { return p > 0 && s.rng.Float64() < p }

// latency draws the time of a packet on its way.
func (s *Sim) latency(from, to int) Time {
	d := s.between(s.plan.latency/2, s.plan.latency*3/2)
	if s.chance(s.plan.late) {
		d += s.between(0, s.plan.latest)
	}
	return d
}

// bandwidth is that of data between two nodes, in bytes a second.
func (s *Sim) bandwidth(from, to int) int {
	if s.now < s.slow[from*s.plan.nodes+to] {
		return s.plan.slowBandwidth
	}
	return 10 << 20
}

// Count is one line of what runs have exercised.
type Count struct {
	What string
	N    int
}

// Sorted returns counts in order of their names.
func Sorted(counts map[string]int) []Count {
	var out []Count
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, Count{what, counts[what]})
	}
	return out
}
