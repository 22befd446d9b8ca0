package deploy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// metric is a line of METRICS.md, whose table a test of the server compares
// with what a scrape gives.
type metric struct{ typ, labels, meaning string }

func read(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.FromSlash(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func metrics(t *testing.T) map[string]metric {
	t.Helper()
	known := map[string]metric{}
	for line := range strings.Lines(read(t, "../server/METRICS.md")) {
		cells := strings.Split(line, "|")
		if len(cells) == 6 && strings.HasPrefix(cells[1], " `stile_") {
			known[strings.Trim(cells[1], " `")] = metric{strings.TrimSpace(cells[2]), cells[3], cells[4]}
		}
	}
	if len(known) < 20 {
		t.Fatalf("METRICS.md describes only %d metrics", len(known))
	}
	return known
}

// codes are the error codes of the protocol.
func codes(t *testing.T) string { return read(t, "../protocol/codes.json") }

// foreign are metrics that are not the node's own, as far as they are used
// here.
var foreign = []string{
	"up", "process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds", "process_max_fds", "go_gc_duration_seconds",
}

// checkExpr checks that an expression can be read and names only what there is:
// metrics, their labels, and the values of these.
func checkExpr(t *testing.T, where, text string) (names []string) {
	t.Helper()
	expr, err := parser.ParseExpr(text)
	if err != nil {
		t.Errorf("%s: %v: %s", where, err, text)
		return nil
	}
	known, errorCodes := metrics(t), codes(t)
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		s, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		names = append(names, s.Name)
		if slices.Contains(foreign, s.Name) {
			return nil
		}
		name := s.Name
		m, ok := known[name]
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base, found := strings.CutSuffix(s.Name, suffix); found && !ok && known[base].typ == "histogram" {
				m, ok = known[base], true
			}
		}
		if !ok {
			t.Errorf("%s: there is no metric %s", where, s.Name)
			return nil
		}
		for _, l := range s.LabelMatchers {
			switch {
			case l.Name == labels.MetricName, l.Name == "job", l.Name == "instance":
			case !strings.Contains(m.labels, l.Name):
				t.Errorf("%s: %s has no label %s", where, s.Name, l.Name)
			case l.Name == "code":
				if !strings.Contains(errorCodes, `"`+l.Value+`"`) {
					t.Errorf("%s: there is no code %s", where, l.Value)
				}
			case !strings.Contains(m.meaning, l.Value):
				t.Errorf("%s: nothing is known of %s=%q of %s", where, l.Name, l.Value, s.Name)
			}
		}
		return nil
	})
	// A counter is of use only by how it rises.
	parser.Inspect(expr, func(n parser.Node, path []parser.Node) error {
		if s, ok := n.(*parser.VectorSelector); ok && (known[s.Name].typ == "counter" || strings.HasSuffix(s.Name, "_bucket")) {
			if _, ranged := path[len(path)-1].(*parser.MatrixSelector); !ranged {
				t.Errorf("%s: the counter %s without rate or increase", where, s.Name)
			}
		}
		return nil
	})
	return names
}

var lookAt = regexp.MustCompile("`stile (status|top|keys|break)\\b")

func TestAlerts(t *testing.T) {
	groups, errs := rulefmt.Parse([]byte(read(t, "prometheus/alerts.yaml")), false, model.LegacyValidation)
	for _, err := range errs {
		t.Error(err)
	}
	if t.Failed() {
		return
	}
	seen := map[string]bool{}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			if r.Alert == "" || seen[r.Alert] || !strings.HasPrefix(r.Alert, "Stile") {
				t.Errorf("%q: want a name of its own, with Stile in front", r.Alert)
			}
			seen[r.Alert] = true
			if len(checkExpr(t, r.Alert, r.Expr)) == 0 {
				t.Errorf("%s looks at no metric", r.Alert)
			}
			if !slices.Contains([]string{"page", "ticket", "info"}, r.Labels["severity"]) {
				t.Errorf("%s has the severity %q", r.Alert, r.Labels["severity"])
			}
			// Whoever is woken up by it has a terminal, and no idea where to look.
			if !lookAt.MatchString(r.Annotations["runbook"]) {
				t.Errorf("%s: its runbook names no command of stile: %q", r.Alert, r.Annotations["runbook"])
			}
			for _, name := range []string{"summary", "runbook"} {
				if text := r.Annotations[name]; text == "" || strings.Contains(text, "\n") {
					t.Errorf("%s: its %s is %q, want a line", r.Alert, name, text)
				}
			}
		}
	}
	if len(seen) == 0 {
		t.Error("there are no alerts")
	}
}

type dashboard struct {
	Title      string
	UID        string
	Templating struct {
		List []struct {
			Name, Type string
			Definition string
		}
	}
	Annotations struct {
		List []struct{ Expr string }
	}
	Panels []panel
}

type panel struct {
	ID           int
	Type, Title  string
	Description  string
	GridPos      struct{ H, W, X, Y int }
	Datasource   struct{ UID string }
	Targets      []struct{ RefID, Expr, LegendFormat string }
	FieldConfig  struct{ Defaults struct{ Unit string } }
	LibraryPanel any
	Panels       []panel
}

func TestDashboard(t *testing.T) {
	var d dashboard
	if err := json.Unmarshal([]byte(read(t, "grafana/stile.json")), &d); err != nil {
		t.Fatal(err)
	}
	if d.Title != "Stile" || d.UID == "" {
		t.Errorf("title %q, uid %q", d.Title, d.UID)
	}
	var variables []string
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
	}
	if !slices.Equal(variables, []string{"datasource", "job"}) {
		t.Errorf("the variables are %v", variables)
	}
	check := func(where, expr string) []string {
		// What Grafana puts in place of its own names.
		expr = strings.ReplaceAll(expr, "$__rate_interval", "5m")
		if left := strings.ReplaceAll(expr, `"$job"`, ""); strings.Contains(left, "$") {
			t.Errorf("%s: an unknown variable: %s", where, expr)
		}
		return checkExpr(t, where, expr)
	}
	for _, a := range d.Annotations.List {
		check("an annotation", a.Expr)
	}
	ids, used := map[int]bool{}, map[string]bool{}
	for i, p := range d.Panels {
		if p.Title == "" || p.ID == 0 || ids[p.ID] {
			t.Errorf("panel %d: title %q, id %d", i, p.Title, p.ID)
		}
		ids[p.ID] = true
		if p.GridPos.X < 0 || p.GridPos.W < 1 || p.GridPos.H < 1 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("%s is off the grid: %+v", p.Title, p.GridPos)
		}
		for _, o := range d.Panels[:i] {
			if a, b := p.GridPos, o.GridPos; a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("%s lies over %s", p.Title, o.Title)
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Description == "" || p.FieldConfig.Defaults.Unit == "" || p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 {
			t.Errorf("%s lacks a description, a unit, the data source or a target", p.Title)
		}
		refs := map[string]bool{}
		for _, target := range p.Targets {
			if target.RefID == "" || refs[target.RefID] || target.LegendFormat == "" {
				t.Errorf("%s: target %q, legend %q", p.Title, target.RefID, target.LegendFormat)
			}
			refs[target.RefID] = true
			for _, name := range check(p.Title, target.Expr) {
				for _, suffix := range []string{"_bucket", "_sum", "_count"} {
					name = strings.TrimSuffix(name, suffix)
				}
				used[name] = true
			}
		}
	}
	// What is measured of the locks is shown.
	for name := range metrics(t) {
		if strings.HasSuffix(name, "_total") && !used[name] && name != "stile_connections_accepted_total" && name != "stile_conflicts_total" {
			t.Errorf("no panel shows %s", name)
		}
	}
}
