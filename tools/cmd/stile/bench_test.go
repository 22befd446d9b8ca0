//go:build unix

package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// measured is what bench prints as JSON.
type measured struct {
	Pairs           int
	Seconds         float64
	Ended           string `json:"ended_early"`
	ConnectionsLost int    `json:"connections_lost"`
}

func (r result) measured(t *testing.T) (m measured) {
	t.Helper()
	var all []measured
	if err := json.Unmarshal([]byte(r.stdout), &all); err != nil || len(all) != 1 {
		t.Fatalf("%v\nstdout: %s\nstderr: %s", err, r.stdout, r.stderr)
	}
	return all[0]
}

// loaded waits until a node has granted some more keys.
func (n *node) loaded(t *testing.T) {
	t.Helper()
	grants := func() int {
		resp, err := http.Get("http://" + n.admin + "/status")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var s struct {
			Counts struct{ Grants map[string]int }
		}
		if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
			t.Fatal(err)
		}
		return s.Counts.Grants["immediate"]
	}
	before := grants()
	within(t, 30*time.Second, "the node is loaded", func() bool { return grants() > before+200 })
}

// A failover costs a run some time, and nothing else. When no server is left,
// it ends after --retry-for, with what it has.
func TestBenchFailover(t *testing.T) {
	c := startCluster(t)
	p := begin(t, c.env(), "bench", "--retry-for", "20s", "--lease", "5s", "-c", "4", "--warmup", "0s", "--duration", "5s", "--json", "-")
	c.nodes[0].loaded(t)
	c.nodes[0].kill()
	r := p.end(t, 60*time.Second).result()
	r.want(t, 0)
	if m := r.measured(t); m.Pairs == 0 || m.Seconds != 5 || m.ConnectionsLost == 0 || m.Ended != "" {
		t.Errorf("%+v", m)
	}

	p = begin(t, c.env(), "bench", "--retry-for", "1s", "-c", "4", "--warmup", "0s", "--duration", "60s")
	c.nodes[1].loaded(t)
	c.nodes[1].kill()
	c.nodes[2].kill()
	p.end(t, 40*time.Second).result().want(t, 122, "pairs/s", "not 1m0s", "connections were lost", "no connection to any server")
}

// SIGINT and SIGTERM end a run with what was measured, and leave no key held.
func TestBenchInterrupted(t *testing.T) {
	n := startNode(t)
	for _, driver := range []string{"client", "raw", "nonce"} {
		for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
			p := begin(t, n.env(), "bench", "--driver", driver, "-c", "2", "--depth", "8", "--warmup", "0s", "--duration", "60s", "--json", "-")
			n.loaded(t)
			signalTo(t, p.cmd.Process.Pid, s)
			r := p.end(t, 20*time.Second).result()
			r.want(t, 125, "stile: interrupted")
			if m := r.measured(t); m.Pairs == 0 || m.Seconds == 0 || m.Seconds > 30 || m.Ended != "interrupted" {
				t.Errorf("%s, %v: %+v", driver, s, m)
			}
			if held, _, _ := n.count(t); held != 0 {
				t.Errorf("%s, %v: %d keys are held", driver, s, held)
			}
			if strings.Contains(r.stderr, "context canceled") {
				t.Errorf("%s, %v: %s", driver, s, r.stderr)
			}
		}
	}
}
