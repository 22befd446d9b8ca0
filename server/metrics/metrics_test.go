package metrics

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/stile-lock/stile/protocol"
	"github.com/stile-lock/stile/server/certs"
	"github.com/stile-lock/stile/server/cluster"
	"github.com/stile-lock/stile/server/lockspace"
	"github.com/stile-lock/stile/server/member"
	"github.com/stile-lock/stile/server/node"
)

// document is where the metrics are described. After a change on purpose:
//
//	go test ./metrics -run TestDocument -rewrite
const document = "../METRICS.md"

var rewrite = flag.Bool("rewrite", false, "write the table of METRICS.md")

const (
	tableBegins = "<!-- metrics: begin, written by go test ./metrics -run TestDocument -rewrite -->\n"
	tableEnds   = "<!-- metrics: end -->\n"
)

// full is a node that has a value for every metric.
func full() Snapshot {
	lag, lagS, silent := uint64(7), 0.25, 1.5
	s := Snapshot{
		Status: node.Status{Connections: 3, Held: 2, Waiting: 1, Kept: 4},
		Counts: &node.Counts{Refused: map[protocol.Code]uint64{protocol.CodeNotHeld: 9}, Kept: 5, Moved: 6},
		Epoch:  60, Role: "active", Ready: true, Serving: true,
		FailedReloads: 2, Unfit: true,
		AdminRefused: map[string]uint64{"wrong": 3},
		Certificates: []certs.End{{Which: certs.Node, At: time.Unix(2e9, 0)}, {Which: certs.Authority, At: time.Unix(3e9, 0)}},
		Cluster: &member.Status{View: cluster.View{
			Role: "active", Promotions: 2, Sync: true, InSync: []int{1}, MinInSync: 1,
			PeerViews: []cluster.PeerView{{ID: 1, Reached: true, Lag: &lag, LagS: &lagS, Silent: &silent}, {ID: 2, Differs: []string{"--replication"}}},
		}},
	}
	s.Counts.Granted[lockspace.HandedOver] = 8
	s.Counts.Hold.Observe(time.Millisecond)
	s.Counts.Hold.Observe(2 * time.Hour)
	return s
}

func gather(t *testing.T, s Snapshot) map[string]*dto.MetricFamily {
	t.Helper()
	families, err := New(func() Snapshot { return s }).Gather()
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*dto.MetricFamily{}
	for _, f := range families {
		byName[f.GetName()] = f
	}
	return byName
}

func TestLint(t *testing.T) {
	problems, err := testutil.GatherAndLint(New(full))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// What the registry gives is what the rows say, and that is what the document
// says.
func TestDocument(t *testing.T) {
	families := gather(t, full())
	var table strings.Builder
	fmt.Fprint(&table, "| name | type | labels | meaning |\n| --- | --- | --- | --- |\n")
	known := map[string]bool{}
	for _, row := range Rows() {
		known[row.Name] = true
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", row.Name, row.Type, row.Labels, row.Meaning)
		f := families[row.Name]
		if f == nil {
			t.Errorf("%s is described, and no scrape has it", row.Name)
			continue
		}
		var labels []string
		for _, l := range f.Metric[0].Label {
			labels = append(labels, l.GetName())
		}
		want := strings.FieldsFunc(row.Labels, func(r rune) bool { return r == ',' || r == ' ' })
		slices.Sort(want)
		if !slices.Equal(labels, want) || strings.ToLower(f.GetType().String()) != row.Type || f.GetHelp() != row.Meaning {
			t.Errorf("%s: %v with labels %v, %q; the row is %+v", row.Name, f.GetType(), labels, f.GetHelp(), row)
		}
	}
	for name := range families {
		if !known[name] && !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
			t.Errorf("%s is not described", name)
		}
	}

	raw, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(raw), tableBegins)
	has, after, ok2 := strings.Cut(rest, tableEnds)
	if !ok || !ok2 {
		t.Fatalf("%s has no table between its marks", document)
	}
	if *rewrite {
		if err := os.WriteFile(document, []byte(before+tableBegins+table.String()+tableEnds+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(table.String(), has); diff != "" {
		t.Errorf("the table of %s (-want +got); see the top of this file:\n%s", document, diff)
	}
}

func TestValues(t *testing.T) {
	families := gather(t, full())
	value := func(name string, labels ...string) float64 {
		t.Helper()
		for _, m := range families[name].GetMetric() {
			var has []string
			for _, l := range m.Label {
				has = append(has, l.GetValue())
			}
			if slices.Equal(has, labels) {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
		t.Errorf("no %s %v", name, labels)
		return -1
	}
	for _, tc := range []struct {
		want   float64
		name   string
		labels []string
	}{
		{1, "stile_role", []string{"active"}},
		{0, "stile_role", []string{"standby"}},
		{60, "stile_epoch", nil},
		{3, "stile_connections", nil},
		{2, "stile_held_keys", nil},
		{1, "stile_waiters", nil},
		{4, "stile_kept_requests", nil},
		{8, "stile_grants_total", []string{"handed_over"}},
		{0, "stile_grants_total", []string{"immediate"}},
		{9, "stile_refusals_total", []string{"not-held"}},
		{5, "stile_keeps_total", nil},
		{6, "stile_redirects_total", nil},
		{2, "stile_promotions_total", nil},
		{1, "stile_in_sync_standbys", nil},
		{1, "stile_peer_reached", []string{"1"}},
		{0, "stile_peer_reached", []string{"2"}},
		{0, "stile_peer_settings_differ", []string{"1"}},
		{1, "stile_peer_settings_differ", []string{"2"}},
		{2, "stile_reload_failed", nil},
		{1, "stile_unfit", nil},
		{7, "stile_replication_lag_changes", []string{"1"}},
		{0.25, "stile_replication_lag_seconds", []string{"1"}},
	} {
		if got := value(tc.name, tc.labels...); got != tc.want {
			t.Errorf("%s %v is %v, want %v", tc.name, tc.labels, got, tc.want)
		}
	}
	if n := len(families["stile_replication_lag_seconds"].Metric); n != 1 {
		t.Errorf("%d peers have a lag, want 1", n)
	}
	h := families["stile_hold_seconds"].Metric[0].Histogram
	if h.GetSampleCount() != 2 || h.GetSampleSum() != 7200.001 {
		t.Errorf("held %d times, %v s", h.GetSampleCount(), h.GetSampleSum())
	}
	for _, b := range h.Bucket {
		if want := map[bool]uint64{true: 1}[b.GetUpperBound() >= 0.001]; b.GetCumulativeCount() != want {
			t.Errorf("%d held for at most %v s, want %d", b.GetCumulativeCount(), b.GetUpperBound(), want)
		}
	}
}

// A node alone has no peers, and a node whose loop has ended says nothing of
// them: a scrape works all the same.
func TestAlone(t *testing.T) {
	s := full()
	s.Cluster = nil
	families := gather(t, s)
	if families["stile_role"] == nil || families["stile_promotions_total"] != nil {
		t.Error("a node alone has metrics of a cluster, or none")
	}
	s.Cluster = new(member.Status)
	gather(t, s)
}
