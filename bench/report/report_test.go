package report_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stile-lock/stile/bench/load"
	"github.com/stile-lock/stile/bench/report"
	"github.com/stile-lock/stile/bench/workload"
)

func result() *load.Result {
	r := &load.Result{
		Driver: "stile, <core> & more", Target: "127.0.0.1:5625", Started: time.Unix(1_790_000_000, 0),
		Plan:  load.Plan{Connections: 64, Depth: 8, Rate: 1000, Duration: 5 * time.Second, Lease: 30 * time.Second},
		Pairs: 5000, Seconds: 5, PairsPerSec: 1000,
		Acquire: load.Latency{Count: 5000, Mean: 40, Min: 9, P50: 35, P75: 50, P90: 90, P99: 400, P999: 2300, P9999: 12_000, Max: 15_000},
		Release: load.Latency{Count: 5000, Mean: 40, Min: 9, P50: 35, P75: 50, P90: 90, P99: 400, P999: 2300, P9999: 12_000, Max: 15_000},
		Late:    &load.Latency{Count: 5000, P50: 3}, Overdue: 7, Cancelled: 8, Lost: 9, Retries: 10,
	}
	for i := range 50 {
		p := load.Point{Second: float64(i+1) / 10, PairsPerSec: float64(900 + 5*i), AcquireP50: 35, AcquireP99: 400, AcquireMax: float64(500 + i*i), ReleaseP99: 380}
		if i == 20 { // nothing ended in this interval
			p = load.Point{Second: p.Second}
		}
		r.Series = append(r.Series, p)
	}
	return r
}

// elements counts the elements of a document, which must be well-formed.
func elements(t *testing.T, doc string) map[string]int {
	t.Helper()
	seen := map[string]int{}
	d := xml.NewDecoder(strings.NewReader(doc))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return seen
		}
		if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
		if e, ok := token.(xml.StartElement); ok {
			seen[e.Name.Local]++
			for _, a := range e.Attr {
				if strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") {
					t.Errorf("<%s %s=%q>", e.Name.Local, a.Name.Local, a.Value)
				}
			}
		}
	}
}

// closed is a result of the closed loop, which has corrected latencies.
func closed() *load.Result {
	r := result()
	r.Plan.Rate, r.Late = 0, nil
	r.Corrected = &load.Latency{Count: 6000, Mean: 50, Min: 9, P50: 35, P75: 60, P90: 99, P99: 5000, P999: 13_000, P9999: 14_000, Max: 15_000}
	return r
}

func TestPlot(t *testing.T) {
	one := result()
	one.Series = one.Series[:1]
	for name, r := range map[string]*load.Result{"open loop": result(), "closed loop": closed(), "one interval": one, "nothing measured": {}} {
		t.Run(name, func(t *testing.T) {
			curves := 1 + 4 + 2
			if r.Corrected != nil {
				curves++
			}
			var svg, page bytes.Buffer
			if err := errors.Join(report.SVG(&svg, r), report.HTML(&page, r)); err != nil {
				t.Fatal(err)
			}
			if n := elements(t, svg.String())["polyline"]; n != curves {
				t.Errorf("%d curves", n)
			}
			seen := elements(t, strings.TrimPrefix(page.String(), "<!DOCTYPE html>"))
			if seen["svg"] != 1 || seen["pre"] != 1 {
				t.Errorf("%v", seen)
			}
			for _, outside := range []string{"<script", "<link", "src=", "@import", "href="} {
				if strings.Contains(page.String(), outside) {
					t.Errorf("the page has %s", outside)
				}
			}
		})
	}
}

func TestJSON(t *testing.T) {
	var b bytes.Buffer
	r := result()
	r.Corrected = &r.Acquire
	if err := report.JSON(&b, r); err != nil {
		t.Fatal(err)
	}
	var got []map[string]any
	if err := json.Unmarshal(b.Bytes(), &got); err != nil || len(got) != 1 {
		t.Fatalf("%v, %d results", err, len(got))
	}
	fields := func(v any) []string {
		var names []string
		for name := range v.(map[string]any) {
			names = append(names, name)
		}
		slices.Sort(names)
		return names
	}
	for _, c := range []struct {
		what string
		of   any
		want string
	}{
		{"result", got[0], "acquire acquire_corrected cancelled driver late lost overdue pairs pairs_per_s plan release retries seconds series started target"},
		{"plan", got[0]["plan"], "cancel cancel_after_ns connections contended depth drain_ns duration_ns hold_ns hot_keys interval_ns key_length keys lease_ns poisson rate retry_ns seed shared skew warmup_ns"},
		{"latency", got[0]["acquire"], "count max_us mean_us min_us p50_us p75_us p90_us p99_99_us p99_9_us p99_us"},
		{"point", got[0]["series"].([]any)[0], "acquire_max_us acquire_p50_us acquire_p99_us pairs_per_s release_p99_us second"},
	} {
		if names := strings.Join(fields(c.of), " "); names != c.want {
			t.Errorf("a %s has the fields\n%s, want\n%s", c.what, names, c.want)
		}
	}
	if p := got[0]["acquire"].(map[string]any)["p99_99_us"]; p != 12_000.0 {
		t.Errorf("p99.99 is %v", p)
	}
}

func TestText(t *testing.T) {
	var b bytes.Buffer
	report.Text(&b, result())
	for _, want := range []string{"1000 pairs/s", "p99.99", "12.00ms", "sent late", "7 pairs were due", "8 waits", "9 leases", "10 acquires"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "corrected") {
		t.Errorf("an open loop is corrected in\n%s", b.String())
	}
	b.Reset()
	report.Text(&b, closed())
	for _, want := range []string{"\ncorrected ", "--rate measures them"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func figure(name, way, unit string, aim float64, atMost, reached bool, s *workload.Spread) workload.Figure {
	f := workload.Figure{Workload: "load", Figure: name, Way: way, Unit: unit, AtMost: atMost, Spread: s}
	if aim != 0 {
		f.Aim = &aim
	}
	if aim != 0 && s != nil {
		f.Reached = &reached
	}
	return f
}

func TestTable(t *testing.T) {
	table := &workload.Table{
		Rounds: 3,
		About:  []string{"a machine"},
		Figures: []workload.Figure{
			figure("a against b", "core", "", 1.5, false, true, &workload.Spread{Median: 2, Min: 1, Max: 3, Rounds: 3}),
			figure("a against b", "nonces", "", 0, false, false, &workload.Spread{Median: 2, Min: 1, Max: 3, Rounds: 3}),
			figure("memory", "core", "B", 12288, true, false, &workload.Spread{Median: 20000, Min: 0.001234, Max: 30000, Rounds: 3}),
			figure("absent", "core", "×", 3, false, false, nil),
		},
		Values: []workload.Measured{
			measured("a", "pairs/s", 200), measured("a"+workload.P50, "µs", 3), measured("a"+workload.P99, "µs", 7), measured("a"+workload.P9999, "µs", 9),
			measured("alone"+workload.P99, "ms", 5),
		},
		Absent: []string{"c: it is not here"},
	}
	var b bytes.Buffer
	report.Table(&b, table)
	want := `a machine
Rounds: 3. Measured is their median. The aims are for full size on a quiet machine.

figure            aim      measured       min..max  reached
load:
  a against b
    core       ≥ 1.50          2.00     1.00..3.00      yes
    nonces          -          2.00     1.00..3.00
  memory
    core    ≤ 12288 B       20000 B  0.0012..30000       no
  absent
    core     ≥ 3.00 ×  not measured

What they are made of (latency: of acquires, medians):
                   median    min..max      p50      p99   p99.99
load:
  a           200 pairs/s    100..300  3.00 µs  7.00 µs  9.00 µs
  alone, p99      5.00 ms  2.50..7.50

Not measured: c: it is not here
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
	b.Reset()
	if err := report.TableJSON(&b, table); err != nil {
		t.Fatal(err)
	}
	var back workload.Table
	if err := json.Unmarshal(b.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(table, &back); diff != "" {
		t.Error(diff)
	}
}

func measured(name, unit string, median float64) workload.Measured {
	return workload.Measured{Workload: "load", Name: name, Unit: unit,
		Spread: workload.Spread{Median: median, Min: median / 2, Max: median * 1.5, Rounds: 3}}
}
