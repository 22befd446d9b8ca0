package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/stile-lock/stile/bench/workload"
)

// Table writes the figures beside their aims, and then everything that was
// measured.
func Table(w io.Writer, t *workload.Table) {
	for _, a := range t.About {
		fmt.Fprintln(w, a)
	}
	fmt.Fprintf(w, "Rounds: %d. Measured is their median. The aims are for full size on a quiet machine.\n\n", t.Rounds)
	rows := [][]string{{"figure", "aim", "measured", "min..max", "reached"}}
	figure, of := "", ""
	for _, f := range t.Figures {
		if f.Workload != of {
			of = f.Workload
			rows = append(rows, []string{of + ":"})
		}
		if f.Figure != figure {
			figure = f.Figure
			rows = append(rows, []string{"  " + figure})
		}
		rows = append(rows, cells(f))
	}
	table(w, rows)
	fmt.Fprintln(w, "\nWhat they are made of (latency: of acquires, medians):")
	values(w, t.Values)
	for _, a := range t.Absent {
		fmt.Fprintf(w, "\nNot measured: %s", a)
	}
	if len(t.Absent) > 0 {
		fmt.Fprintln(w)
	}
}

func cells(f workload.Figure) []string {
	row := []string{"    " + f.Way, "-", "not measured", "", ""}
	if f.Aim != nil {
		row[1] = "≥ " + Number(*f.Aim, f.Unit)
		if f.AtMost {
			row[1] = "≤ " + Number(*f.Aim, f.Unit)
		}
	}
	if f.Spread != nil {
		row[2] = Number(f.Spread.Median, f.Unit)
		row[3] = spread(*f.Spread)
	}
	if f.Reached != nil {
		row[4] = map[bool]string{true: "yes", false: "no"}[*f.Reached]
	}
	return row
}

func spread(s workload.Spread) string { return Number(s.Min, "") + ".." + Number(s.Max, "") }

// values writes one line for each load, with its latencies behind it, and one for
// each other value.
func values(w io.Writer, all []workload.Measured) {
	medians := map[string]string{}
	for _, v := range all {
		medians[v.Workload+"/"+v.Name] = Number(v.Median, v.Unit)
	}
	rows := [][]string{{"", "median", "min..max", "p50", "p99", "p99.99"}}
	of := ""
	for _, v := range all {
		name := v.Workload + "/" + v.Name
		if latencyOfLoad(medians, name) {
			continue
		}
		if v.Workload != of {
			of = v.Workload
			rows = append(rows, []string{of + ":"})
		}
		rows = append(rows, []string{"  " + v.Name, medians[name], spread(v.Spread),
			medians[name+workload.P50], medians[name+workload.P99], medians[name+workload.P9999]})
	}
	table(w, rows)
}

// latencyOfLoad reports whether a value is a latency that stands in the line of
// another value.
func latencyOfLoad(medians map[string]string, name string) bool {
	for _, suffix := range []string{workload.P50, workload.P99, workload.P9999} {
		if load, is := strings.CutSuffix(name, suffix); is && medians[load] != "" {
			return true
		}
	}
	return false
}

// TableJSON writes the same for programs.
func TableJSON(w io.Writer, t *workload.Table) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(t)
}

// Number shows a number with three digits that count.
func Number(x float64, unit string) string {
	digits := 0
	if a := math.Abs(x); a > 0 && a < 100 {
		digits = max(0, 2-int(math.Floor(math.Log10(a))))
	}
	s := fmt.Sprintf("%.*f", min(digits, 4), x)
	if unit == "" {
		return s
	}
	return s + " " + unit
}

// table writes rows, the first cells to the left and all others to the right. A
// row of one cell is a heading, and may be as long as it likes.
func table(w io.Writer, rows [][]string) {
	widths := map[int]int{}
	for _, row := range rows {
		for i, cell := range row {
			if len(row) > 1 {
				widths[i] = max(widths[i], utf8.RuneCountInString(cell))
			}
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(cell)))
			if i == 0 {
				line.WriteString(cell + pad)
			} else {
				line.WriteString("  " + pad + cell)
			}
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}
