package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stile-lock/stile/conformance/report"
)

// The page of the conformance suite fits a phone, whatever the target says.
func TestReport(t *testing.T) {
	long := func(letter string) string { return strings.Repeat(letter, 120) }
	run := &report.Run{
		Suite: "1.0.0", Half: "server", Title: "a live server", Digest: "sha256:" + long("4d"), Selected: "@" + long("t"),
		Target:   report.Target{Name: long("host") + ":5625", Software: long("v"), Hello: "H 1 " + long("core,"), Note: long("note")},
		Profiles: []string{"core"}, LeftOut: map[string]string{"S-1.1-" + long("a"): long("because")}, NotTried: map[string]int{"limits": 7},
		Ledger: []string{long("ledger")}, Started: time.Now(),
	}
	for i, o := range []report.Outcome{report.Failed, report.NotJudged, report.Passed, report.KnownFailure} {
		s := &report.Scenario{
			ID: fmt.Sprintf("S-1.%d-%s", i, long("x")), Name: long("n"), Feature: long("f"), Rule: long("r"), Story: long("s"), File: long("f"), Profile: "core",
			Must: true, Outcome: o, Prefix: long("p"), Attempts: []string{long("again")},
			Steps: []report.Step{
				{Keyword: "Given", Text: long("t"), Argument: long("argument"), Outcome: "passed", Took: time.Second},
				{Keyword: "Then", Text: long("u"), Outcome: "failed"},
			},
			Events: []report.Event{{Conn: "a", Kind: report.Sent, Text: long("A ")}, {Conn: "a", Kind: report.Received, Text: long("E")}},
		}
		switch o {
		case report.Failed, report.KnownFailure:
			s.Failure = &report.Failure{Expected: long("e"), Seen: long("z")}
		case report.NotJudged:
			s.Reason = long("y")
		}
		run.Scenarios = append(run.Scenarios, s)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		if err := report.HTML(w, run); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	p := open(t, newBrowser(t), server.Listener.Addr().String(), view(390, 844))
	p.shows("h1", "not conformant")
	eval[bool](p, `document.querySelectorAll('details').forEach(d => d.open = true), true`)
	wide := eval[[]string](p, `document.documentElement.scrollWidth <= 390 ? [] : [...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > 390 && !e.closest('pre')).map(e => e.outerHTML.slice(0, 100))`)
	if len(wide) > 0 || eval[int](p, `document.documentElement.scrollWidth`) > 390 {
		t.Errorf("wider than the screen: %s", strings.Join(wide, "\n"))
	}
	p.picture("report-phone")
}
