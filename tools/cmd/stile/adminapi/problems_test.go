package adminapi

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

func TestProblems(t *testing.T) {
	type answer = Answer[Status]
	alone := func(addr string) answer {
		return answer{Addr: "admin-" + addr, Got: &Status{Addr: addr}}
	}
	member := func(addr, mode string, peers ...Peer) answer {
		return answer{Addr: "admin-" + addr, Got: &Status{Addr: addr, Cluster: &Cluster{Mode: mode, Active: -1, Peers: peers}}}
	}
	// c of the cluster a, b, c.
	standby := func(active int) answer {
		n := member("c", "redirect", Peer{ID: 0, Addr: "a", Reached: true}, Peer{ID: 1, Addr: "b", Reached: true})
		n.Got.Cluster.ID, n.Got.Cluster.Active = 2, active
		return n
	}
	ready := func(n answer, is bool) answer { n.Got.Ready = &is; return n }
	ofA := Peer{ID: 0, Addr: "a", Reached: true}
	dead := answer{Addr: "admin-z", Err: errors.New("admin-z: refused")}
	silent := answer{Addr: "admin-y", Err: &SilentError{"admin-y", 3 * time.Second}}
	for name, test := range map[string]struct {
		nodes []answer
		want  []string // in the problems, in this order
		lack  string   // in none of them
	}{
		"one alone": {nodes: []answer{alone("a")}},
		"two alone": {nodes: []answer{alone("a"), alone("b")}, want: []string{"know nothing of each other"}},
		"all well":  {nodes: []answer{member("a", "serve", Peer{Addr: "b", Reached: true}), member("b", "redirect", Peer{Addr: "a", Reached: true})}},
		"two serve": {
			nodes: []answer{member("a", "serve", Peer{Addr: "b", Reached: true}), member("b", "serve", Peer{Addr: "a", Reached: true})},
			want:  []string{"a and b serve clients at the same time: the network between them is cut"},
		},
		"two clusters": {
			nodes: []answer{member("a", "serve", Peer{Addr: "b", Reached: true}), member("b", "redirect", Peer{Addr: "a", Reached: true}), member("c", "serve")},
			want:  []string{"a and c know nothing of each other"}, lack: "cut",
		},
		"one alone beside a cluster": {nodes: []answer{alone("z"), member("a", "serve", Peer{Addr: "b", Reached: true})}, want: []string{"z and a know nothing of each other"}, lack: "cut"},
		"one alone beside a cluster that is cut": {
			nodes: []answer{alone("z"), member("a", "serve", Peer{Addr: "b", Reached: true}), member("b", "serve", Peer{Addr: "a", Reached: true})},
			want:  []string{"a and b serve clients at the same time: the network between them is cut", "z and a know nothing of each other"},
		},
		"one alone that others list": {
			nodes: []answer{alone("a"), member("b", "serve", Peer{Addr: "a", Reached: true})},
			want:  []string{"a and b serve clients at the same time, and b is not in the list of a: stop the wrong one"}, lack: "cut",
		},
		"two serve, one is a misfit": {
			nodes: []answer{member("a", "serve", Peer{Addr: "b", There: true, Problem: "no TLS"}), member("b", "serve")},
			want:  []string{"there can be no link between them", "b: no TLS (says a)"},
		},
		"none serves": {nodes: []answer{member("a", "refuse"), member("b", "hold")}, want: []string{"no node serves clients"}},
		"the active does not serve": {
			nodes: []answer{{Addr: "admin-a", Got: &Status{Addr: "a", Cluster: &Cluster{Role: "active", Mode: "refuse", Peers: []Peer{{Addr: "b", Reached: true}}}}}, silent},
			want:  []string{"no node serves clients: a is active, but clients are refused", "admin-y"}, lack: "asked",
		},
		"the active ends": {
			nodes: []answer{{Addr: "admin-a", Got: &Status{Addr: "a", Stopping: true, Cluster: &Cluster{Role: "active", Mode: "serve"}}}},
			want:  []string{"no node serves clients: a is active, and about to end"},
		},
		"one is dead": {nodes: []answer{member("a", "serve", Peer{Addr: "z"}), dead}, want: []string{"admin-z: refused", "z: not reached (says a)"}},
		"a problem":   {nodes: []answer{member("a", "serve", Peer{Addr: "z", Problem: "other\x1bversion"})}, want: []string{`z: "other\x1bversion" (says a)`}},
		"problems that name the peer": {
			nodes: []answer{member("a", "serve", Peer{Addr: "z", Problem: "node 1 at z: no answer"}, Peer{Addr: "y", Problem: "node 12: dial tcp [::1]:0->[::2]:5625: connect: connection refused"},
				Peer{Addr: "x", Problem: "dial tcp 10.0.0.1:1: i/o timeout"}, Peer{Addr: "w", Problem: "node 2: dial tcp: lookup w: no such host"}, Peer{Addr: "v", Problem: "another node dial tcp 1: x"})},
			want: []string{"z: no answer (says a)", "y: connect: connection refused (says a)", "x: i/o timeout (says a)", "w: dial tcp: lookup w: no such host (says a)", "v: another node dial tcp 1: x (says a)"},
		},
		"two say the same of one, and a third says more": {
			nodes: []answer{member("a", "serve", Peer{Addr: "z"}), member("b", "redirect", Peer{Addr: "z"}), member("c", "redirect", Peer{Addr: "z", Problem: "refused"})},
			want:  []string{"z: not reached (say a and b)", "z: refused (says c)"},
		},
		"problems of nodes": {
			nodes: []answer{{Addr: "admin-a", Got: &Status{Addr: "a", Role: "active", Problems: []string{"one", "two\x1b"}}}},
			want:  []string{"a: one", `a: "two\x1b"`},
		},
		"a standby in its copy": {
			nodes: []answer{ready(member("a", "serve"), true), ready(member("b", "redirect", ofA), false)},
			want:  []string{"b is not ready: it has not got the whole table of the active yet"},
		},
		"a standby that is ready": {nodes: []answer{ready(member("a", "serve"), true), ready(member("b", "redirect", ofA), true)}},
		"an active that is not ready": {
			nodes: []answer{ready(answer{Addr: "admin-a", Got: &Status{Addr: "a", Problems: []string{"a certificate has ended"}}}, false)},
			want:  []string{"a is not ready: its /readyz says why", "a: a certificate has ended"},
		},
		"one that ends": {
			nodes: []answer{member("a", "serve"), ready(answer{Addr: "admin-b", Got: &Status{Addr: "b", Stopping: true}}, false)},
			want:  []string{"b is not ready: it is about to end"},
		},
		"none is ready as none serves": {nodes: []answer{ready(member("b", "hold", ofA), false)}, want: []string{"a was not asked"}, lack: "ready"},
		"active alone asked":           {nodes: []answer{member("a", "serve", Peer{Addr: "b", Reached: true})}},
		"one standby asked":            {nodes: []answer{standby(0)}, want: []string{"the active is the node at a, which was not asked: give its admin address"}},
		"none knows one":               {nodes: []answer{standby(-1)}, want: []string{"none knows one that does; a and b were not asked: give their admin addresses"}},
		// Which of the others it is that did not answer nobody can say.
		"one of two is silent": {nodes: []answer{standby(0), silent}, want: []string{"the active is the node at a, which did not answer, or was not asked", "admin-y: no answer within 3s"}},
		"both are silent":      {nodes: []answer{standby(0), silent, silent}, want: []string{"the active is the node at a, which did not answer within 3s", "admin-y", "admin-y"}, lack: "asked"},
		"both are silent, and none knows one": {
			nodes: []answer{standby(-1), silent, silent},
			want:  []string{"none knows one that does; a and b did not answer within 3s", "admin-y", "admin-y"}, lack: "asked",
		},
		"silent and dead": {nodes: []answer{standby(0), silent, dead}, want: []string{"which could not be asked", "admin-y", "admin-z"}, lack: "--admin"},
		"nobody told":     {nodes: []answer{silent, dead}, want: []string{"admin-y: no answer within 3s", "admin-z: refused"}},
	} {
		got := ProblemsOf(test.nodes).All()
		if len(got) != len(test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
			continue
		}
		for i, w := range test.want {
			if !strings.Contains(got[i], w) || test.lack != "" && strings.Contains(got[i], test.lack) {
				t.Errorf("%s: %q, want %q, and no %q", name, got, test.want, test.lack)
			}
		}
	}
}

// A server that takes a connection and says nothing is told apart from one that
// is not there.
func TestSilence(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := &Client{Within: 50 * time.Millisecond}
	if _, err := c.Status(t.Context(), l.Addr().String()); !Silent(err) || !strings.Contains(err.Error(), "no answer within 50ms") {
		t.Errorf("%v", err)
	}
	l.Close()
	if _, err := c.Status(t.Context(), l.Addr().String()); err == nil || Silent(err) {
		t.Errorf("%v", err)
	}
}
