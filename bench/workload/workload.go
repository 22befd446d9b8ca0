package workload

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/stile-lock/stile/bench/load"
)

// Env is what workloads work with.
type Env struct {
	Stiled     string // the node
	StileBench string // for its echo server
	Redis      string // redis-server; empty if there is none
	Etcd       string // etcd; empty if there is none
	EtcdLoad   string // the program that loads it; empty if there is none
	Size       Size
	Log        func(format string, args ...any)
}

// Size is how long and how large everything is.
type Size struct {
	Warmup, Duration time.Duration // of each load
	Rate             float64       // pairs a second, where the load is an open loop
	HandOver         int           // waiters whose key goes round
	Herd             int           // waiters for one key
	Releases         int           // of that key
	Held             int           // leases in a full table, and leases that end together
	Within           time.Duration // those end
	Idle             int           // connections
	Waiters          int           // for the memory of one
	Few, Many        int           // keys between which the growth of cost is measured
}

// Full is the size that the aims are for.
var Full = Size{
	Warmup: time.Second, Duration: 4 * time.Second, Rate: 5000,
	HandOver: 64, Herd: 100_000, Releases: 2000,
	Held: 1_000_000, Within: time.Second, Idle: 10_000, Waiters: 500_000,
	Few: 1000, Many: 1_000_000,
}

// Smoke is enough to see wrong answers, and to see that everything runs.
var Smoke = Size{
	Warmup: 50 * time.Millisecond, Duration: 150 * time.Millisecond, Rate: 1000,
	HandOver: 16, Herd: 2000, Releases: 100,
	Held: 20_000, Within: 200 * time.Millisecond, Idle: 200, Waiters: 10_000,
	Few: 1000, Many: 20_000,
}

// Workload is one situation.
type Workload struct {
	Name  string
	Help  string
	Tasks []Task
	Rows  []Row
}

// Task is one measurement.
type Task struct {
	Name string
	Run  func(ctx context.Context) (Values, error)
}

// Values are what a task has measured, by name.
type Values map[string]Value

// Value is one of them.
type Value struct {
	Number float64
	Unit   string
}

// Row is a figure, taken in one way.
type Row struct {
	Figure string
	Way    string // in which it is taken
	Unit   string
	Aim    float64 // 0: there is none
	AtMost bool    // the aim is an upper bound
	// Of computes the figure from the values of a round, and is false where one
	// that it needs is missing.
	Of func(Values) (float64, bool)
}

func ratio(a, b string) func(Values) (float64, bool) {
	return func(v Values) (float64, bool) {
		x, okX := v[a]
		y, okY := v[b]
		return x.Number / y.Number, okX && okY && y.Number != 0
	}
}

func value(name string) func(Values) (float64, bool) {
	return func(v Values) (float64, bool) {
		x, ok := v[name]
		return x.Number, ok
	}
}

// All are all workloads.
func All(env *Env) []Workload {
	return []Workload{
		uncontended(env),
		handOver(env),
		herd(env),
		leases(env),
		connections(env),
		growth(env),
		standbys(env),
		goClient(env),
	}
}

// Choose returns the workloads of the given names, all if there are none.
func Choose(env *Env, names []string) ([]Workload, error) {
	all := All(env)
	if len(names) == 0 {
		return all, nil
	}
	var chosen []Workload
	for _, name := range names {
		i := slices.IndexFunc(all, func(w Workload) bool { return w.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no workload %q, but %s", name, Names())
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// Names are those of all workloads, for people.
func Names() string {
	var all []string
	for _, w := range All(&Env{}) {
		all = append(all, w.Name)
	}
	return strings.Join(all, ", ")
}

var (
	// errTooSlow is wrapped by the errors that say that the machine was too slow,
	// or too busy, to set up what was to be measured.
	errTooSlow = errors.New("this machine is too slow for it at the moment")
	// errOther is wrapped by the errors of servers of other kinds, other than wrong
	// answers: it is not ours to say whether they are broken.
	errOther = errors.New("it could not be measured")
)

// notOurs makes an error of a server of another kind an excuse.
func notOurs(err error) error {
	if err == nil || errors.Is(err, load.ErrWrong) {
		return err
	}
	return fmt.Errorf("%w: %w", errOther, err)
}

// excused reports whether an error says that something could not be measured
// here and now, rather than that it is broken.
func excused(err error) bool {
	if errors.Is(err, load.ErrWrong) {
		return false
	}
	for _, excuse := range []error{errTooSlow, errOther, load.ErrRefused, errors.ErrUnsupported, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, excuse) {
			return true
		}
	}
	return false
}

// Measure takes the workloads in turn, in each of several rounds. It fails at a
// wrong answer, and where something is broken. What could not be measured on this
// machine is left out, and the table says why.
func Measure(ctx context.Context, env *Env, workloads []Workload, rounds int) (*Table, error) {
	t := &Table{Rounds: rounds}
	all := make([][]Values, len(workloads))
	for round := range rounds {
		for i, w := range workloads {
			begin := time.Now()
			v, absent, err := w.round(ctx, round)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", w.Name, err)
			}
			all[i] = append(all[i], v)
			for _, a := range absent {
				if a = w.Name + ": " + a; !slices.Contains(t.Absent, a) {
					t.Absent = append(t.Absent, a)
				}
			}
			env.Log("round %d of %d: %s, %v", round+1, rounds, w.Name, time.Since(begin).Round(100*time.Millisecond))
		}
	}
	for i, w := range workloads {
		t.add(w, all[i])
	}
	return t, nil
}

// round carries out the tasks from the first to the last, and in the next round
// from the last to the first, so that none is always the one that comes after
// another.
func (w *Workload) round(ctx context.Context, round int) (all Values, absent []string, err error) {
	tasks := slices.Clone(w.Tasks)
	if round%2 == 1 {
		slices.Reverse(tasks)
	}
	all = Values{}
	for _, t := range tasks {
		v, err := t.Run(ctx)
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		if err = because(t.Name, err); err != nil && !excused(err) {
			return nil, nil, err
		}
		if err != nil {
			absent = append(absent, err.Error())
		}
		for name, x := range v {
			all[name] = x
		}
	}
	return all, absent, nil
}

func because(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Table is the outcome of several rounds of several workloads. Its JSON form is
// stable: fields are only ever added.
type Table struct {
	Rounds  int        `json:"rounds"`
	About   []string   `json:"about"` // the machine, and what was measured
	Figures []Figure   `json:"figures"`
	Values  []Measured `json:"values"`
	Absent  []string   `json:"not_measured,omitempty"` // what, and why
}

// Figure is what came out for a row.
type Figure struct {
	Workload string   `json:"workload"`
	Figure   string   `json:"figure"`
	Way      string   `json:"way"`
	Unit     string   `json:"unit,omitempty"`
	Aim      *float64 `json:"aim,omitempty"`
	AtMost   bool     `json:"at_most,omitempty"`
	Spread   *Spread  `json:"spread,omitempty"` // nil: it could not be measured
	Reached  *bool    `json:"reached,omitempty"`
}

// Measured is a value over all rounds.
type Measured struct {
	Workload string `json:"workload"`
	Name     string `json:"name"`
	Unit     string `json:"unit"`
	Spread
}

// Spread is the median of several rounds, and the least and the greatest.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Rounds int     `json:"rounds"`
}

func spreadOf(xs []float64) Spread {
	xs = slices.Sorted(slices.Values(xs))
	n := len(xs)
	return Spread{Median: (xs[(n-1)/2] + xs[n/2]) / 2, Min: xs[0], Max: xs[n-1], Rounds: n}
}

func (t *Table) add(w Workload, rounds []Values) {
	for _, row := range w.Rows {
		t.Figures = append(t.Figures, row.over(w.Name, rounds))
	}
	byName := map[string][]float64{}
	units := map[string]string{}
	for _, v := range rounds {
		for name, x := range v {
			byName[name] = append(byName[name], x.Number)
			units[name] = x.Unit
		}
	}
	names := make([]string, 0, len(byName))
	for name := range byName {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		t.Values = append(t.Values, Measured{Workload: w.Name, Name: name, Unit: units[name], Spread: spreadOf(byName[name])})
	}
}

func (row Row) over(workload string, rounds []Values) Figure {
	f := Figure{Workload: workload, Figure: row.Figure, Way: row.Way, Unit: row.Unit, AtMost: row.AtMost}
	if row.Aim != 0 {
		f.Aim = &row.Aim
	}
	var xs []float64
	for _, v := range rounds {
		if x, ok := row.Of(v); ok && !math.IsNaN(x) {
			xs = append(xs, x)
		}
	}
	if len(xs) == 0 {
		return f
	}
	s := spreadOf(xs)
	f.Spread = &s
	if row.Aim != 0 {
		reached := s.Median >= row.Aim
		if row.AtMost {
			reached = s.Median <= row.Aim
		}
		f.Reached = &reached
	}
	return f
}
