package deploy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
)

// expr is the expression of an alert.
func expr(t *testing.T, alert string) string {
	t.Helper()
	groups, errs := rulefmt.Parse([]byte(read(t, "prometheus/alerts.yaml")), false, model.LegacyValidation)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			if r.Alert == alert {
				return strings.Join(strings.Fields(r.Expr), " ")
			}
		}
	}
	t.Fatalf("there is no alert %s", alert)
	return ""
}

// What rules are for can be seen in an engine only: a rule that can be read may
// find nothing when it matters.
func TestRulesFire(t *testing.T) {
	for _, tt := range []struct {
		alert, name string
		load        string // one sample a minute
		at          string
		fires       []string // labels and value
	}{
		{"StileNobodyServes", "one serves",
			`up{job="stile", instance="a"} 1x10
			up{job="stile", instance="b"} 1x10
			stile_serving{job="stile", instance="a"} 1x10
			stile_serving{job="stile", instance="b"} 0x10`, "10m", nil},
		{"StileNobodyServes", "none serves",
			`up{job="stile", instance="a"} 1x10
			stile_serving{job="stile", instance="a"} 0x10`, "10m", []string{`{job="stile"} 0`}},
		{"StileNobodyServes", "all are down",
			`up{job="stile", instance="a"} 1x5 0x5
			up{job="stile", instance="b"} 1x5 0x5
			stile_serving{job="stile", instance="a"} 1x5 stale
			stile_serving{job="stile", instance="b"} 0x5 stale`, "10m", []string{`{job="stile"} 0`}},
		{"StileNobodyServes", "the one that serves is down",
			`up{job="stile", instance="a"} 1x5 0x5
			up{job="stile", instance="b"} 1x10
			stile_serving{job="stile", instance="a"} 1x5 stale
			stile_serving{job="stile", instance="b"} 0x10`, "10m", []string{`{job="stile"} 0`}},
		{"StileNobodyServes", "one of two is down",
			`up{job="stile", instance="a"} 1x10
			up{job="stile", instance="b"} 0x10
			stile_serving{job="stile", instance="a"} 1x10`, "10m", nil},
		{"StileNobodyServes", "nothing is scraped",
			`up{job="other"} 1x10`, "10m", []string{`{job="stile"} 1`}},
		{"StileNobodyServes", "another job has no node",
			`up{job="stile", instance="a"} 1x10
			up{job="other", instance="a"} 0x10
			stile_serving{job="stile", instance="a"} 1x10`, "10m", nil},

		{"StileNodeDown", "one is down",
			`up{job="stile", instance="a"} 1x10
			up{job="stile", instance="b"} 0x10`, "10m", []string{`{__name__="up", instance="b", job="stile"} 0`}},

		// A counter that begins anew at each crash shows nothing of it.
		{"StileRestartsOften", "a crash loop",
			`stile_start_time_seconds{job="stile", instance="a"} 100+90x60
			stile_start_time_seconds{job="stile", instance="b"} 100x60
			stile_promotions_total{job="stile", instance="a"} 1x60`, "60m", []string{`{instance="a", job="stile"} 59`}},
		{"StileRestartsOften", "with gaps",
			`stile_start_time_seconds{job="stile", instance="a"} 1x9 stale _x4 2x9 stale _x4 3x9 stale _x4 4x9 stale _x4 5x9`, "65m", []string{`{instance="a", job="stile"} 4`}},
		{"StileRestartsOften", "an upgrade",
			`stile_start_time_seconds{job="stile", instance="a"} 100x30 200x30
			stile_start_time_seconds{job="stile", instance="b"} 100x20 200x40`, "60m", nil},
		{"StileRoleChangesOften", "to and fro",
			`stile_promotions_total{job="stile", instance="a"} 0+0.1x120
			stile_promotions_total{job="stile", instance="b"} 0+0.1x120`, "120m", []string{`{job="stile"} 12`}},
		{"StileRoleChangesOften", "a failover",
			`stile_promotions_total{job="stile", instance="a"} 1x120
			stile_promotions_total{job="stile", instance="b"} 0x60 1x60`, "120m", nil},

		{"StileCertificateEndsSoon", "in ten days and in twenty",
			`stile_certificate_expiry_timestamp_seconds{job="stile", instance="a", certificate="node"} 864000x10
			stile_certificate_expiry_timestamp_seconds{job="stile", instance="a", certificate="authority"} 1728000x10`, "10m",
			[]string{`{certificate="node", instance="a", job="stile"} 863400`}},
		{"StileCertificateEnds", "in ten days", `stile_certificate_expiry_timestamp_seconds{certificate="node"} 864000x10`, "10m", nil},
		{"StileCertificateEnds", "it has ended", `stile_certificate_expiry_timestamp_seconds{certificate="node"} 60x10`, "10m", []string{`{certificate="node"} -540`}},
		{"StilePeerSettingsDiffer", "one of two differs",
			`stile_peer_settings_differ{instance="a", peer="1"} 0x20
			stile_peer_settings_differ{instance="a", peer="2"} 0x5 1x15`, "15m", []string{`{__name__="stile_peer_settings_differ", instance="a", peer="2"} 1`}},
		{"StileReloadFailed", "a reload fails", `stile_reload_failed{instance="a"} 0x5 2x5`, "10m", []string{`{__name__="stile_reload_failed", instance="a"} 2`}},
		{"StileReloadFailed", "and then succeeds", `stile_reload_failed{instance="a"} 0x2 2x5 0x5`, "10m", nil},
		{"StileLogLost", "lines are lost", `stile_log_lines_lost_total{instance="a"} 0x5 50x5`, "10m", []string{`{instance="a"} 50`}},
	} {
		t.Run(tt.alert+"/"+tt.name, func(t *testing.T) {
			at, err := time.ParseDuration(tt.at)
			if err != nil {
				t.Fatal(err)
			}
			if got := query(t, expr(t, tt.alert), tt.load, at); !slices.Equal(got, tt.fires) {
				t.Errorf("found %q, want %q", got, tt.fires)
			}
		})
	}
}
