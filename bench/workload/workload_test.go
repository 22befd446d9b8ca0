package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stile-lock/stile/bench/load"
)

func TestRoundsAlternate(t *testing.T) {
	var order string
	w := Workload{}
	for _, name := range []string{"a", "b", "c"} {
		w.Tasks = append(w.Tasks, Task{name, func(context.Context) (Values, error) {
			order += name
			return Values{name: {1, ""}}, nil
		}})
	}
	for round := range 3 {
		if v, absent, err := w.round(t.Context(), round); err != nil || len(v) != 3 || absent != nil {
			t.Errorf("%v, %v, %v", v, absent, err)
		}
	}
	if order != "abccbaabc" {
		t.Errorf("the order is %s", order)
	}
}

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		xs   []float64
		want Spread
	}{
		{[]float64{7}, Spread{7, 7, 7, 1}},
		{[]float64{9, 1}, Spread{5, 1, 9, 2}},
		{[]float64{5, 1, 100}, Spread{5, 1, 100, 3}},
	} {
		if got := spreadOf(c.xs); got != c.want {
			t.Errorf("%v: %+v", c.xs, got)
		}
	}
}

// failing is a workload with a task that fails in the second round, and one that
// does not.
func failing(err error) Workload {
	round := 0
	return Workload{
		Name: "w",
		Tasks: []Task{
			{"good", func(context.Context) (Values, error) { return Values{"good": {10, "B"}}, nil }},
			{"bad", func(context.Context) (Values, error) {
				if round++; round == 2 {
					return nil, err
				}
				return Values{"bad": {2, "B"}}, nil
			}},
		},
		Rows: []Row{{Figure: "good against bad", Way: "core", Aim: 4, Of: ratio("good", "bad")}},
	}
}

// TestMeasureFails is about a round that ends everything: there are no figures
// then.
func TestMeasureFails(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	for _, wrong := range []error{
		fmt.Errorf("key 7: %w", load.ErrWrong),
		fmt.Errorf("%w: %w", load.ErrWrong, errTooSlow),
		errors.New("the node has ended by itself"),
	} {
		table, err := Measure(ctx, &Env{Log: t.Logf}, []Workload{failing(wrong)}, 3)
		if table != nil || !errors.Is(err, wrong) || !strings.Contains(err.Error(), "w: bad: ") {
			t.Errorf("%v, %v", table, err)
		}
	}
	stop(errors.New("interrupted"))
	if table, err := Measure(ctx, &Env{Log: t.Logf}, []Workload{failing(nil)}, 3); table != nil || err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("%v, %v", table, err)
	}
}

// TestMeasureGoesOn is about what cannot be measured on this machine: the rest is.
func TestMeasureGoesOn(t *testing.T) {
	for _, excuse := range []error{load.ErrRefused, errTooSlow, errors.ErrUnsupported, notOurs(errors.New("etcd: no leader"))} {
		table, err := Measure(t.Context(), &Env{Log: t.Logf}, []Workload{failing(fmt.Errorf("now: %w", excuse))}, 4)
		if err != nil {
			t.Fatal(err)
		}
		aim, reached := 4.0, true
		want := &Table{
			Rounds: 4,
			Figures: []Figure{{Workload: "w", Figure: "good against bad", Way: "core", Aim: &aim,
				Spread: &Spread{5, 5, 5, 3}, Reached: &reached}},
			Values: []Measured{{"w", "bad", "B", Spread{2, 2, 2, 3}}, {"w", "good", "B", Spread{10, 10, 10, 4}}},
			Absent: []string{"w: bad: now: " + excuse.Error()},
		}
		if diff := cmp.Diff(want, table); diff != "" {
			t.Error(diff)
		}
	}
}

func TestReached(t *testing.T) {
	for _, c := range []struct {
		aim    float64
		atMost bool
		want   string
	}{{1.9, false, "yes"}, {2.1, false, "no"}, {1.9, true, "no"}, {2.1, true, "yes"}, {0, false, "no aim"}} {
		row := Row{Aim: c.aim, AtMost: c.atMost, Of: value("x")}
		f := row.over("w", []Values{{"x": {2, ""}}, {}})
		got := "no aim"
		if f.Reached != nil {
			got = map[bool]string{true: "yes", false: "no"}[*f.Reached]
		}
		if got != c.want || (f.Aim == nil) != (c.aim == 0) {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// TestRowsHaveTheirValues sees to it that each row is computed from values that
// tasks have the names of.
func TestRowsHaveTheirValues(t *testing.T) {
	env := &Env{Size: Full, Redis: "redis", Etcd: "etcd", EtcdLoad: "load"}
	for _, w := range All(env) {
		v := Values{}
		for _, task := range w.Tasks {
			if _, twice := v[task.Name]; twice {
				t.Errorf("%s: two tasks are %q", w.Name, task.Name)
			}
			for _, of := range []string{"", P50, P99, P9999, ", processor time of the node for a pair"} {
				v[task.Name+of] = Value{1, ""}
			}
		}
		for _, way := range ways {
			for _, of := range []string{"memory per idle connection", "waiters woken by a release", "processor time of the node for a release"} {
				v[way.of(of)] = Value{1, ""}
			}
		}
		for _, row := range w.Rows {
			if _, ok := row.Of(v); !ok {
				t.Errorf("%s: no value for %s, %s", w.Name, row.Figure, row.Way)
			}
		}
	}
}

// TestAims is the list of what the project aims at.
func TestAims(t *testing.T) {
	var got []string
	for _, w := range All(&Env{Size: Full}) {
		for _, row := range w.Rows {
			if row.Aim == 0 {
				continue
			}
			sign := ">="
			if row.AtMost {
				sign = "<="
			}
			line := fmt.Sprintf("%s: %s %s %g%s", w.Name, row.Figure, sign, row.Aim, row.Unit)
			if !slices.Contains(got, line) {
				got = append(got, line)
			}
		}
	}
	want := []string{
		"uncontended: depth 1, against the echo server >= 0.93",
		"uncontended: depth 1, against Redis with a script >= 1.3×",
		"uncontended: depth 64, against the echo server >= 0.5",
		"uncontended: depth 64, against Redis with a script >= 5×",
		"uncontended: 64 workers, against etcd's Mutex >= 15×",
		"hand-over: median time from release to next grant, against a round trip of the echo server <= 1.25×",
		"herd: 100,000 waiters for one key: waiters woken by a release <= 1",
		"leases: p99 of others while 1,000,000 leases end within 1s <= 10ms",
		"leases: p99 with 1,000,000 held leases, against an empty table, depth 1 <= 1.1×",
		"connections: memory per idle connection, of 10,000 <= 12288B",
		"connections: memory per held key with a 24-byte key, of 1,000,000 <= 200B",
		"connections: memory per waiter, of 500,000 <= 250B",
		"growth: processor time of the node for a pair with 1,000,000 keys, against 1,000 <= 1.3×",
		"standbys: one async standby, against a node alone, depth 64 >= 0.6",
		"client: the Go client, 64 goroutines, against the raw driver on 64 connections >= 0.8",
		"client: the Go client, 64 goroutines, against the raw driver on 2 connections, as the client has >= 0.8",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestChoose(t *testing.T) {
	env := &Env{Size: Smoke}
	if all, err := Choose(env, nil); err != nil || len(all) != len(All(env)) {
		t.Errorf("%d workloads, %v", len(all), err)
	}
	if two, err := Choose(env, []string{"herd", "growth"}); err != nil || len(two) != 2 || two[1].Name != "growth" {
		t.Errorf("%v, %v", two, err)
	}
	if _, err := Choose(env, []string{"nothing"}); err == nil || !strings.Contains(err.Error(), "growth") {
		t.Errorf("the error is %v", err)
	}
}
