package admin

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stile-lock/stile/server/certs"
	"github.com/stile-lock/stile/server/cluster"
	"github.com/stile-lock/stile/server/internal/testca"
	"github.com/stile-lock/stile/server/member"
)

// Each state of a node, whether it is ready in it, and what somebody has to
// look after. What makes a node unready is a problem as well, but for what is
// marked as passing.
func TestHealth(t *testing.T) {
	now := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	ended := certs.End{Which: certs.Node, File: "/etc/node.pem", At: now.Add(-time.Hour), Shut: now.Add(-time.Hour)}
	few := "active, but 1 standby is in sync, and --min-in-sync wants 2: clients get no-active"
	for _, tc := range []struct {
		name     string
		view     cluster.View // its mode empty: the node is alone
		health   health
		said     string
		problems []string // a part of each
		passing  bool
	}{
		{name: "alone", said: "ok"},
		{name: "stops", health: health{stopping: true}, said: "stopping", passing: true},
		{name: "alone, and can't store epochs", health: health{unfit: errors.New("no space")}, said: "ok", problems: []string{"the next epoch can't be stored, and grants end when this one's tokens are used up: no space"}},
		{name: "active", view: cluster.View{Mode: "serve"}, said: "ok: active"},
		{name: "active, sync", view: cluster.View{Mode: "serve", Sync: true, PeerViews: []cluster.PeerView{{ID: 1}}, InSync: []int{1}}, said: "ok: active"},
		{name: "active, nobody in sync", view: cluster.View{Mode: "serve", Sync: true, PeerViews: []cluster.PeerView{{ID: 1}}}, said: "ok: active, and no standby is in sync: what is answered now is lost if this node dies", problems: []string{"no standby is in sync"}},
		{name: "active, nobody else listed", view: cluster.View{Mode: "serve", Sync: true}, said: "ok: active, and there is no other node in --peers to be in sync: what is answered now is lost if this node dies", problems: []string{"no other node in --peers"}},
		{name: "active and unfit", view: cluster.View{Role: "active", Mode: "serve", Unfit: true}, said: "ok: active", problems: []string{"serves no longer than its tokens last"}},
		{name: "standby and unfit", view: cluster.View{Role: "standby", Mode: "redirect", Active: 2, Complete: true, Unfit: true}, said: "not ready: it can't store epochs, so it can't become active", problems: []string{"can't become active: see"}},
		{name: "active, unfit", view: cluster.View{Mode: "serve", Unfit: true}, said: "ok: active", problems: []string{"can't store epochs"}},
		{name: "too few in sync", view: cluster.View{Mode: "refuse", InSync: []int{1}, MinInSync: 2}, said: "not ready: " + few, problems: []string{few}},
		{name: "frozen", view: cluster.View{Role: "active", Mode: "freeze"}, said: "not ready: active, clients are answered by: freeze", passing: true},
		{name: "frozen for long", view: cluster.View{Role: "active", Mode: "freeze", Idle: 3*idleFor + time.Second}, said: "not ready: active, clients are answered by: freeze", problems: []string{"freeze; so it has been for over 3m"}},
		{name: "standby", view: cluster.View{Mode: "redirect", Complete: true, Active: 2}, said: "ok: standby, node 2 is active"},
		{name: "standby, copies", view: cluster.View{Mode: "redirect", Active: 2, Idle: idleFor - 1}, said: "not ready: standby that has not got the table of node 2, which is active, yet; clients are sent there", passing: true},
		{name: "standby, copies for long", view: cluster.View{Mode: "redirect", Active: 2, Idle: idleFor}, said: "not ready: standby that has not got the table of node 2, which is active, yet; clients are sent there", problems: []string{"; so it has been for over 1m"}},
		{name: "standby, unfit", view: cluster.View{Mode: "redirect", Complete: true, Active: 2, Unfit: true}, said: "not ready: it can't store epochs, so it can't become active", problems: []string{"can't store epochs"}},
		{name: "waits", view: cluster.View{Role: "joining", Mode: "hold", Why: "the reason"}, said: "not ready: joining, clients are answered by: hold", passing: true},
		{name: "waits for long", view: cluster.View{Role: "standby", Mode: "hold", Idle: 2 * idleFor}, said: "not ready: standby, clients are answered by: hold", problems: []string{"hold; so it has been for over 2m"}},
		{name: "waits, is unfit, and stops", view: cluster.View{Role: "standby", Mode: "hold", Idle: 2 * idleFor, Unfit: true}, health: health{stopping: true}, said: "stopping", problems: []string{"can't store epochs"}, passing: true},
		{name: "a misfit", view: cluster.View{Role: "joining", Mode: "hold", Why: "the reason", PeerViews: []cluster.PeerView{{ID: 1}, {ID: 2, There: true}}},
			said: "not ready: joining, clients are answered by: hold: the reason", problems: []string{"hold: the reason"}},
		{name: "a misfit of one that serves", view: cluster.View{Mode: "serve", PeerViews: []cluster.PeerView{{ID: 2, There: true}}}, said: "ok: active"},
		{name: "other settings", view: cluster.View{Mode: "serve", PeerViews: []cluster.PeerView{{ID: 1}, {ID: 2, Addr: "c:1", Differs: []string{"one", "two"}}}}, said: "ok: active",
			problems: []string{"node 2 at c:1 has other settings: one", "node 2 at c:1 has other settings: two"}},
		{name: "a certificate that ends", health: health{certificates: []certs.End{{Which: certs.Node, File: "/etc/node.pem", At: now.Add(time.Hour), Shut: now.Add(time.Hour)}}}, said: "ok", problems: []string{"/etc/node.pem ends at"}},
		{name: "a certificate that has ended", health: health{certificates: []certs.End{ended}}, said: "not ready: a certificate has ended, and nobody can connect", problems: []string{"/etc/node.pem has ended at"}},
		{name: "an authority that has ended, of several", health: health{certificates: []certs.End{{Which: certs.Authority, File: "ca", At: now.Add(-1), Shut: now.Add(1)}}}, said: "ok", problems: []string{"an authority in ca"}},
		{name: "all authorities have ended", health: health{certificates: []certs.End{ended, {Which: certs.Authority, File: "ca", At: now.Add(-1), Shut: now.Add(-1)}}},
			said: "not ready: a certificate has ended, and nobody can connect", problems: []string{"node.pem has ended", "all authorities in --tls-client-ca"}},
		{name: "an ended authority of peers", health: health{certificates: []certs.End{{Which: certs.Authority, File: "ca", At: now.Add(-1)}}}, said: "ok", problems: []string{"an authority in ca"}},
		{name: "a reload that failed", health: health{reloads: []FailedReload{{"--secret-file", errors.New("it is empty"), now}}}, said: "ok",
			problems: []string{"SIGHUP at 2026-12-01T00:00:00Z: a new file of --secret-file can't be used, and the old one stays in force: it is empty"}},
		{name: "two reasons", view: cluster.View{Mode: "refuse", InSync: []int{1}, MinInSync: 2}, health: health{certificates: []certs.End{ended}},
			said: "not ready: " + few + "; a certificate has ended, and nobody can connect", problems: []string{few, "has ended at"}},
	} {
		h := tc.health
		if h.now = now; tc.view.Mode != "" {
			h.cluster = &member.Status{View: tc.view}
		}
		found := h.findings()
		said, ready := h.ready(found)
		if said != tc.said || ready != strings.HasPrefix(tc.said, "ok") {
			t.Errorf("%s: ready %v, %q, want %q", tc.name, ready, said, tc.said)
		}
		got := problems(found)
		ok := len(got) == len(tc.problems)
		for i := range min(len(got), len(tc.problems)) {
			ok = ok && strings.Contains(got[i], tc.problems[i])
		}
		if !ok {
			t.Errorf("%s: problems %q, want %q", tc.name, got, tc.problems)
		}
		passes := slices.ContainsFunc(found, func(f finding) bool { return f.unready != "" && f.problem == "" })
		if passes != tc.passing {
			t.Errorf("%s: is unready for a reason that is no problem: %v", tc.name, passes)
		}
		if strings.Contains(said, "/etc") {
			t.Errorf("%s: /readyz, which asks for no secret, names a file: %s", tc.name, said)
		}
	}
}

// What somebody has to look after is in the answers: a certificate that ends while
// the node runs, and a reload that failed, until one succeeds.
func TestProblemsAreSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := testca.New(t, "ours")
		cert, key := ca.Issue("node", []string{"127.0.0.1"}, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(time.Minute) })
		c, err := certs.Open(certs.Files{Cert: cert, Key: key})
		if err != nil {
			t.Fatal(err)
		}
		s := newServer(t, newNode(t), "")
		s.loopback = true
		var failed []FailedReload
		s.cfg.Certificates, s.cfg.FailedReloads = c.Ends, func() []FailedReload { return failed }
		h := s.handler()
		says := func(code int, text string, failing string, parts ...string) {
			t.Helper()
			if is, body, _ := get(h, "GET", "/readyz"); is != code || body != text+"\n" {
				t.Errorf("/readyz: %d %s", is, body)
			}
			var st struct {
				Ready    bool
				Problems []string
			}
			_, body, _ := get(h, "GET", "/status")
			if err := json.Unmarshal([]byte(body), &st); err != nil {
				t.Fatal(err)
			}
			ok := st.Ready == (code == http.StatusOK) && len(st.Problems) == len(parts)
			for i := range min(len(st.Problems), len(parts)) {
				ok = ok && strings.Contains(st.Problems[i], parts[i])
			}
			if !ok {
				t.Errorf("/status: ready %v, %q, want %q", st.Ready, st.Problems, parts)
			}
			if _, body, _ := get(h, "GET", "/metrics"); !strings.Contains(body, "\nstile_reload_failed "+failing+"\n") {
				t.Errorf("stile_reload_failed is not %s", failing)
			}
		}
		says(200, "ok", "0", "node.pem ends at")
		failed = []FailedReload{{"--secret-file", errors.New("gone"), time.Now()}}
		says(200, "ok", "1", "node.pem ends at", "--secret-file can't be used")
		failed = nil
		time.Sleep(time.Minute + time.Second)
		says(503, "not ready: a certificate has ended, and nobody can connect", "0", "node.pem has ended")
		ca.Issue("node", []string{"127.0.0.1"}, nil) // for 900 hours
		if err := c.Reload(); err != nil {
			t.Fatal(err)
		}
		says(200, "ok", "0")
	})
}
