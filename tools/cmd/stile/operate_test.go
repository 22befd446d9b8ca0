//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stile-lock/stile/client"
	"github.com/stile-lock/stile/conformance/testca"
	"github.com/stile-lock/stile/tools/cmd/stile/adminapi"
)

// secretFile writes a secret as users do.
func secretFile(t *testing.T, secret string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func (r result) json(t *testing.T, to any) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.stdout), to); err != nil {
		t.Fatalf("%v:\n%s\n%s", err, r.stdout, r.stderr)
	}
}

// The way of a lock through a script: taken, kept, given back, by its token.
func TestScripts(t *testing.T) {
	n := startNode(t)
	type grant struct {
		Key       string
		Token     uint64
		TokenText string  `json:"token_text"`
		Lease     float64 `json:"lease_s"`
		Expires   time.Time
	}
	var g grant
	run(t, n.env(), "acquire", "k", "--lease", "5s", "--json").json(t, &g)
	if left := time.Until(g.Expires); g.Key != "k" || g.TokenText != strconv.FormatUint(g.Token, 10) || g.Lease > 5 || g.Lease < 4 || left > 5*time.Second || left < 2*time.Second {
		t.Errorf("%+v", g)
	}
	token := g.TokenText
	var kept grant
	run(t, n.env(), "keep", "k", "--token", token, "--lease", "1m", "--json").json(t, &kept)
	if kept.Token != g.Token || kept.Lease < 50 {
		t.Errorf("%+v", kept)
	}
	run(t, n.env(), "keep", "k", "--token", "7").want(t, 123, "not held")
	run(t, n.env(), "release", "k", "--token", "7").want(t, 123, "not held under this token")
	run(t, n.env(), "release", "k").want(t, 125, "--token")
	run(t, n.env(), "release", "k", "--token", "007").want(t, 123, "not held")
	for _, none := range []string{"0", "0x10", "1_0", "1.5", "-1", "", "18446744073709551616"} {
		run(t, n.env(), "release", "k", "--token="+none).want(t, 125, "no token", none)
		run(t, append(n.env(), "STILE_TOKEN="+none), "keep", "k").want(t, 125, "oken")
	}
	r := run(t, append(n.env(), "STILE_TOKEN="+token), "release", "k", "--json")
	r.want(t, 0, `"token": `+token)
	again := run(t, n.env(), "release", "k", "--token", token)
	again.want(t, 123, `release "k": not held under this token (any more): the lease has ended`)
	if strings.Contains(again.stderr, "may have happened") {
		t.Errorf("the only try did nothing, whatever: %s", again.stderr)
	}
	run(t, n.env(), "keep", "k", "--token", token).want(t, 123, "not held under this token")

	// A token that nobody can read is given back.
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("there is no /dev/full here")
	}
	defer full.Close()
	cmd := exec.Command(stile, "acquire", "k")
	cmd.Env, cmd.Stdout = append(cleanEnv(), n.env()...), full
	if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != 125 {
		t.Errorf("%v", err)
	}
	if held, _, _ := n.count(t); held != 0 {
		t.Errorf("%d held", held)
	}
}

// A lease that the servers cut is told of, and what is printed is what counts.
func TestLeaseIsCut(t *testing.T) {
	n := startNode(t, "--max-lease", "1m", "--default-lease", "30s")
	const say = "a lease of 1m0s at most, not the 1h0m0s of --lease"
	r := run(t, n.env(), "acquire", "k", "--lease", "1h", "--json")
	r.want(t, 0)
	var g struct {
		TokenText string  `json:"token_text"`
		Lease     float64 `json:"lease_s"`
	}
	if r.json(t, &g); g.Lease > 60 || !strings.Contains(r.stderr, say) {
		t.Errorf("%+v, %q", g, r.stderr)
	}
	r = run(t, n.env(), "keep", "k", "--token", g.TokenText, "--lease", "1h")
	if r.want(t, 0); !strings.Contains(r.stderr, say) {
		t.Errorf("%q", r.stderr)
	}
	run(t, n.env(), "release", "k", "--token", g.TokenText).want(t, 0)
	r = run(t, n.env(), "lock", "k", "--lease", "1h", "--", "true")
	if r.want(t, 0); !strings.Contains(r.stderr, say) {
		t.Errorf("%q", r.stderr)
	}
	r = run(t, n.env(), "lock", "k", "--lease", "1m", "--", "true")
	if r.want(t, 0); r.stderr != "" {
		t.Errorf("%q", r.stderr)
	}
}

// What an answer waits for the standbys is missing of its lease, and no reason
// for a word. A limit is, also behind a wait in line.
func TestLeaseInSyncMode(t *testing.T) {
	c := startCluster(t, "--replication", "sync", "--max-lease", "1m")
	within(t, 20*time.Second, "answers wait for standbys", func() bool {
		var s struct {
			Nodes []struct {
				Status struct {
					Cluster struct {
						InSync []int `json:"in_sync"`
					}
				}
			}
		}
		run(t, c.env(), "status", "--json").json(t, &s)
		return len(s.Nodes[0].Status.Cluster.InSync) == 2
	})
	run(t, c.env(), "status").want(t, 0, "IN SYNC\n", "yes\n")
	quiet := func(args ...string) string {
		t.Helper()
		r := run(t, c.env(), args...)
		if r.want(t, 0); r.stderr != "" {
			t.Errorf("%q: %s", args, r.stderr)
		}
		return strings.TrimSpace(r.stdout)
	}
	for range 5 {
		quiet("lock", "k", "--lease", "1m", "--", "true")
	}
	token := quiet("acquire", "k", "--lease", "10s")
	quiet("keep", "k", "--token", token, "--lease", "3s")

	// Behind that, the first with all of its lease, the next with less.
	quiet("lock", "k", "--lease", "1m", "--", "sleep", "2")
	holder := begin(t, c.env(), "lock", "k", "--", "sleep", "2")
	within(t, 10*time.Second, "it is held", func() bool { held, _, _ := c.nodes[0].count(t); return held == 1 })
	run(t, c.env(), "acquire", "k", "--lease", "62s").want(t, 0, "a lease of 1m0s at most, not the 1m2s of --lease")
	holder.end(t, 10*time.Second)
}

// Clients that reach nodes which do not serve are not sent to look for nodes.
func TestNobodyInSync(t *testing.T) {
	c := startCluster(t, "--replication", "sync", "--min-in-sync", "1")
	token := strings.TrimSpace(run(t, c.env(), "acquire", "k", "--lease", "10m").stdout)
	c.nodes[1].kill()
	c.nodes[2].kill()
	within(t, 20*time.Second, "clients are refused", func() bool {
		return strings.Contains(run(t, c.env(), "status").stdout, "is active, but clients are refused")
	})
	for _, args := range [][]string{
		{"acquire", "other", "--no-wait"}, {"acquire", "other", "--wait", "1s"},
		{"keep", "k", "--token", token, "--lease", "3s"}, {"release", "k", "--token", token},
	} {
		r := run(t, c.env(), args...)
		if r.want(t, 122, "`stile status` tells what the nodes wait for"); strings.Contains(r.stderr, "Is a node running") {
			t.Errorf("%q: %s", args, r.stderr)
		}
	}
	if r := run(t, c.env(), "keys"); !strings.Contains(r.stderr, "this is the table of "+c.nodes[0].addr+", which is active") {
		t.Errorf("%s", r.stderr)
	}
}

func TestKeysAndBreak(t *testing.T) {
	n := startNode(t, "--secret-file", secretFile(t, "clients"), "--admin-secret-file", secretFile(t, "operators"))
	env := append(n.env(), "STILE_SECRET_FILE="+secretFile(t, "clients"))
	operator := append(env, "STILE_ADMIN_SECRET_FILE="+secretFile(t, "operators"))

	run(t, n.env(), "keys").want(t, 0, "No key is held")
	token := strings.TrimSpace(run(t, env, "acquire", "door/1", "--lease", "1m", "--name", "ann").stdout)
	run(t, env, "acquire", "other", "--lease", "1m").want(t, 0)
	next := begin(t, env, "lock", "door/1", "--name", "bob", "--wait", "30s", "-c", "echo $STILE_TOKEN; exec sleep 100")
	within(t, 10*time.Second, "it waits", func() bool { _, w, _ := n.count(t); return w == 1 })

	r := run(t, n.env(), "keys", "door/")
	r.want(t, 0, "door/1", token, "ann", ", gone", "bob", "waits")
	if strings.Contains(r.stdout, "other") || strings.Contains(r.stdout, "\x1b") {
		t.Errorf("%q", r.stdout)
	}
	var keys struct {
		Active        bool
		Held, Waiting int
		More          bool
		Keys          []struct {
			Key     string
			Token   uint64
			Waiting int
			Holder  struct {
				Client, Addr string
				Gone         bool
			}
			Waiters []struct{ Client, Addr string }
		}
	}
	run(t, n.env(), "keys", "--json").json(t, &keys)
	if !keys.Active || keys.Held != 2 || keys.Waiting != 1 || len(keys.Keys) != 2 || keys.Keys[0].Waiters[0].Client != "bob" || keys.Keys[0].Waiters[0].Addr == "" {
		t.Errorf("%+v", keys)
	}
	if h := keys.Keys[0].Holder; h.Client != "ann" || h.Addr == "" || !h.Gone {
		t.Errorf("%+v, though ann acquired it and ended", h)
	}
	run(t, n.env(), "keys", "--limit", "1").want(t, 0, "there are more keys")

	// Not without the secret of operators, nor without somebody who says yes.
	run(t, n.env(), "break", "door/1", "--token", token, "--yes").want(t, 125, "--admin-secret-file")
	run(t, env, "break", "door/1", "--token", token, "--yes").want(t, 125, "--admin-secret-file")
	run(t, operator, "break", "door/1", "--token", token).want(t, 125, "--yes")
	run(t, operator, "break", "door/1", "--yes").want(t, 125, "--token")
	run(t, operator, "break", "door/2", "--token", token, "--yes").want(t, 123, "not held")
	run(t, operator, "break", "door/1", "--token", "7", "--yes").want(t, 123, "another token", token, "stile keys door/1")
	if held, waiting, _ := n.count(t); held != 2 || waiting != 1 {
		t.Fatalf("%d held, %d waiting", held, waiting)
	}
	var broken struct {
		Key   string
		Token uint64
		Next  uint64 `json:"next_token"`
	}
	run(t, operator, "break", "door/1", "--token", token, "--yes", "--json").json(t, &broken)
	within(t, 5*time.Second, "the next in line has it", func() bool { return strings.Contains(next.stdout(), "\n") })
	if got := strings.TrimSpace(next.stdout()); broken.Key != "door/1" || strconv.FormatUint(broken.Token, 10) != token || got != strconv.FormatUint(broken.Next, 10) {
		t.Errorf("%+v, and the next in line has %s", broken, got)
	}
	run(t, operator, "break", "door/1", "--token", strconv.FormatUint(broken.Next, 10), "--yes").want(t, 0, "nobody waited")

	run(t, append(n.env(), "STILE_SECRET_FILE="+secretFile(t, "wrong")), "acquire", "k").want(t, 125, "unauthorized", "--secret-file")
	for _, args := range [][]string{{"acquire", "k"}, {"keys"}} {
		run(t, append(n.env(), "STILE_SECRET_FILE=/does/not/exist"), args...).want(t, 125, "--secret-file", "/does/not/exist")
	}
}

// Wrong admin secrets count also from this machine, one for each command, and
// keep out the right one: which the operator is told.
func TestWrongAdminSecrets(t *testing.T) {
	right, wrong := secretFile(t, "operators"), secretFile(t, "guess")
	for _, admin := range []string{"127.0.0.1:0", "0.0.0.0:0"} {
		n := startNode(t, "--admin-secret-file", right, "--admin", admin)
		_, port, err := net.SplitHostPort(n.admin)
		if err != nil {
			t.Fatal(err)
		}
		env := []string{"STILE_ADMIN_ADDRS=127.0.0.1:" + port}
		give := func(secret string) result {
			return run(t, env, "break", "k", "--token", "7", "--yes", "--admin-secret-file", secret)
		}
		for range 9 {
			give(wrong).want(t, 125, "for another one")
		}
		give(right).want(t, 123, "not held")
		give(wrong).want(t, 125, "for another one")
		give(right).want(t, 125, "too many wrong secrets", "The right one is not looked at either")
	}
}

// A node that tells its operator that the standbys do not know yet.
func TestBreakUncertain(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, `{"error": "uncertain", "message": "…"}`)
	}))
	defer s.Close()
	env := []string{"STILE_ADMIN_ADDRS=" + s.Listener.Addr().String()}
	run(t, env, "break", "k", "--token", "7", "--yes").want(t, 1, "was broken", "standbys", "stile keys k")
	r := run(t, env, "break", "k", "--token", "7", "--yes", "--json")
	r.want(t, 1, "standbys")
	var j struct{ Uncertain bool }
	if r.json(t, &j); !j.Uncertain {
		t.Errorf("%s", r.stdout)
	}
}

func TestStatus(t *testing.T) {
	c := startCluster(t)
	run(t, c.env(), "status").want(t, 0, "active", "standby", c.nodes[0].addr, c.nodes[2].admin)

	// One that is not asked is named; one that does not answer is a problem.
	r := run(t, []string{"STILE_ADMIN_ADDRS=" + c.nodes[0].admin}, "status")
	r.want(t, 0)
	r = run(t, []string{"STILE_ADMIN_ADDRS=" + c.nodes[2].admin}, "status")
	r.want(t, 1, "the active is the node at "+c.nodes[0].addr)
	// What a standby knows of the keys is told as such.
	run(t, c.env(), "acquire", "k", "--lease", "1m").want(t, 0)
	within(t, 10*time.Second, "the standby knows", func() bool {
		r = run(t, []string{"STILE_ADMIN_ADDRS=" + c.nodes[2].admin}, "keys")
		return strings.Contains(r.stdout, "k ")
	})
	r.want(t, 0, "the copy of "+c.nodes[2].addr+", which is standby", "the active is the node at "+c.nodes[0].addr+", which was not asked", "--admin")
	r = run(t, []string{"STILE_ADMIN_ADDRS=127.0.0.1:1,127.0.0.1:1," + c.nodes[2].admin}, "keys")
	if r.want(t, 0, "the active is the node at "+c.nodes[0].addr+", which could not be asked", "127.0.0.1:1: "); strings.Contains(r.stderr, "--admin") {
		t.Errorf("the silent one is it: %s", r.stderr)
	}
	if r = run(t, c.env(), "keys"); r.stderr != "" {
		t.Errorf("%s", r.stderr)
	}
	c.nodes[1].kill()
	within(t, 10*time.Second, "the active sees it", func() bool {
		return strings.Contains(run(t, c.env(), "status").stdout, "\n! "+c.nodes[1].addr+": ")
	})
	r = run(t, c.env(), "status", "--json")
	r.want(t, 1)
	var s struct {
		Nodes []struct {
			Admin, Error string
			Status       *struct{ Addr string }
		}
		Problems []string
	}
	r.json(t, &s)
	if len(s.Nodes) != 3 || s.Nodes[1].Error == "" || s.Nodes[1].Status != nil || s.Nodes[0].Status.Addr != c.nodes[0].addr || len(s.Problems) == 0 {
		t.Errorf("%s", r.stdout)
	}

	// A break finds the active by itself, or says where it is.
	standby := []string{"STILE_ADMIN_ADDRS=" + c.nodes[2].admin}
	run(t, standby, "break", "k", "--token", "7", "--yes").want(t, 125, "secret")
	run(t, []string{"STILE_ADMIN_ADDRS=127.0.0.1:1"}, "status").want(t, 122, "127.0.0.1:1", "STILE_ADMIN_ADDRS")
	run(t, []string{"STILE_ADMIN_ADDRS=127.0.0.1:1"}, "keys").want(t, 122, "127.0.0.1:1", "STILE_ADMIN_ADDRS")
}

// A node that is stopped is there, and does not answer: nobody says that it was
// not asked, or that none is active.
func TestSilentNodes(t *testing.T) {
	secret := secretFile(t, "operators")
	c := startCluster(t, "--admin-secret-file", secret)
	env := append(c.env(), "STILE_ADMIN_SECRET_FILE="+secret)
	run(t, env, "acquire", "k", "--lease", "1m").want(t, 0)
	c.nodes[0].stop(t)
	c.nodes[1].stop(t)
	for _, args := range [][]string{{"keys"}, {"status"}, {"break", "k", "--token", "7", "--yes"}} {
		r := run(t, env, args...)
		text := r.stdout + r.stderr
		for _, wrong := range []string{"asked:", "no node is active", "not asked", "unreachable"} {
			if strings.Contains(text, wrong) {
				t.Errorf("%q says %q:\n%s", args, wrong, text)
			}
		}
		switch args[0] {
		case "status":
			r.want(t, 1, c.nodes[0].admin+": no answer within 3s", c.nodes[1].admin+": no answer within 3s", "no answer\n")
			head, row := "", ""
			for line := range strings.Lines(r.stdout) {
				if strings.HasPrefix(line, "ADMIN") {
					head = line
				} else if strings.HasPrefix(line, c.nodes[2].admin) {
					row = line
				}
			}
			if at := strings.Index(head, "ROLE"); at < 0 || strings.Index(row, "active") != at {
				t.Errorf("the columns do not stand:\n%s", r.stdout)
			}
		case "keys":
			if r.want(t, 0, "k "); r.stderr != "" { // it was a standby still
				r.want(t, 0, "this is the copy of "+c.nodes[2].addr, c.nodes[0].admin+": no answer within 3s")
			}
		case "break": // the third node is active by now
			if r.want(t, 123, "another token"); r.took > 8*time.Second {
				t.Errorf("it took %v, as if the silent ones were asked first", r.took)
			}
		}
	}

	// Nobody is left who could be active, and the one that is asked is silent.
	env = append(env, "STILE_ADMIN_ADDRS="+c.nodes[0].admin)
	run(t, env, "keys").want(t, 122, c.nodes[0].admin+": no answer within 3s", "stand still")
	run(t, env, "break", "k", "--token", "7", "--yes").want(t, 122, c.nodes[0].admin+": no answer within 9s", "may break it yet", "no active node could be asked in 1")
}

func TestBreakFindsTheActive(t *testing.T) {
	secret := secretFile(t, "operators")
	c := startCluster(t, "--admin-secret-file", secret)
	env := append(c.env(), "STILE_ADMIN_SECRET_FILE="+secret)
	token := strings.TrimSpace(run(t, env, "acquire", "k", "--lease", "1m").stdout)
	// A standby alone can only say who is active.
	run(t, append(env, "STILE_ADMIN_ADDRS="+c.nodes[2].admin), "break", "k", "--token", token, "--yes").want(t, 122, c.nodes[0].addr, "--admin")
	run(t, append(env, "STILE_ADMIN_ADDRS="+c.nodes[2].admin+","+c.nodes[0].admin), "break", "k", "--token", token, "--yes").want(t, 0, "k is broken")
}

// The busiest keys are in the view however many others come before them in the
// order of the keys, and each key is there once.
func TestTopKeys(t *testing.T) {
	n := startNode(t)
	c, err := client.Dial(t.Context(), n.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const others = adminapi.MaxTop + 50
	for i := range others {
		if _, err := c.Acquire(t.Context(), fmt.Sprintf("a%03d", i), client.Lease(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Acquire(t.Context(), "z", client.Lease(time.Minute)); err != nil {
		t.Fatal(err)
	}
	go c.Acquire(t.Context(), "z")
	api := &adminapi.Client{Addrs: []string{n.admin}}
	within(t, 10*time.Second, "somebody waits", func() bool { _, w, _ := n.count(t); return w == 1 })
	p, err := api.Top(t.Context(), n.admin)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[adminapi.Key]bool{}
	for _, h := range p.Keys {
		if seen[h.Key] {
			t.Errorf("%s is there twice", h.Key)
		}
		seen[h.Key] = true
	}
	if p.Held != others+1 || len(p.Keys) != adminapi.MaxTop+1 || p.Keys[0].Key != "z" || p.Keys[0].Waiting != 1 || !seen["a000"] {
		t.Errorf("%d of %d, %+v first", len(p.Keys), p.Held, p.Keys[0])
	}
}

func TestBench(t *testing.T) {
	secret := secretFile(t, "clients")
	n := startNode(t, "--secret-file", secret)
	for _, driver := range []string{"client", "raw", "nonce"} {
		file := filepath.Join(t.TempDir(), "result.json")
		run(t, n.env(), "bench", "--driver", driver, "--secret-file", secret, "--duration", "200ms", "--warmup", "10ms", "-c", "2", "--json", file).want(t, 0, "pairs/s", "p99")
		if b, err := os.ReadFile(file); err != nil || !strings.Contains(string(b), "airs") {
			t.Errorf("%v: %s", err, b)
		}
	}
	run(t, n.env(), "bench", "--addrs", "a:1,b:2", "--driver", "raw").want(t, 125, "active node")
	run(t, []string{"STILE_ADDRS=127.0.0.1:1"}, "bench", "--warmup", "0s").want(t, 122, "127.0.0.1:1")
	run(t, n.env(), "bench", "--duration", "1s").want(t, 125, "--secret-file")
}

// TLS and certificates for both ports of a node.
func TestTLS(t *testing.T) {
	secret := secretFile(t, "clients")
	ca, stranger := testca.New(t, "ours"), testca.New(t, "other")
	cert, key := ca.Issue("node", "127.0.0.1")
	mine, mineKey := ca.Issue("me")
	n := startNode(t, "--secret-file", secret, "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", ca.File, "--admin", "0.0.0.0:0")
	_, port, err := net.SplitHostPort(n.admin)
	if err != nil {
		t.Fatal(err)
	}

	base := []string{"STILE_ADDRS=" + n.addr, "STILE_ADMIN_ADDRS=https://127.0.0.1:" + port, "STILE_SECRET_FILE=" + secret, "STILE_RETRY_FOR=200ms"}
	me := append(base, "STILE_TLS_CA="+ca.File, "STILE_TLS_CERT="+mine, "STILE_TLS_KEY="+mineKey)
	run(t, me, "lock", "k", "--", "sh", "-c", "echo under; exit 4").want(t, 4, "under")
	token := strings.TrimSpace(run(t, me, "acquire", "k", "--lease", "1m").stdout)
	run(t, me, "status").want(t, 0, n.addr)
	run(t, me, "keys").want(t, 0, "k", token)
	run(t, me, "break", "k", "--token", token, "--yes").want(t, 0, "broken")
	run(t, me, "bench", "--duration", "100ms", "--warmup", "0s", "-c", "2").want(t, 0, "pairs/s")

	for _, test := range []struct {
		name   string
		flags  []string
		say    string
		status int // of status: operators need no certificate
	}{
		{"wrong authority", []string{"--tls-ca", stranger.File, "--tls-cert", mine, "--tls-key", mineKey}, "--tls-ca", 125},
		{"the system's authorities", []string{"--tls"}, "--tls-ca", 125},
		{"no certificate", []string{"--tls-ca", ca.File}, "--tls-cert", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, wait := range [][]string{nil, {"--no-wait"}, {"--wait", "300ms"}} {
				args := slices.Concat([]string{"lock", "k"}, wait, test.flags, []string{"--", "echo", "started"})
				r := run(t, base, args...)
				r.want(t, 125, test.say)
				if strings.Contains(r.stdout, "started") {
					t.Error("the command was started without the lock")
				}
				if strings.Contains(r.stderr, "end of the wait") || strings.Contains(r.stderr, "limit on waiting") {
					t.Errorf("it is no matter of waiting: %s", r.stderr)
				}
			}
			run(t, base, append([]string{"status"}, test.flags...)...).want(t, test.status)
		})
	}
	run(t, base, "status", "--tls-cert", mine).want(t, 125, "--tls-key")
	run(t, base, "acquire", "k", "--tls-ca", mineKey).want(t, 125, "no certificate is in it")
	run(t, base, "acquire", "k", "--tls-ca", "/does/not/exist").want(t, 125, "/does/not/exist")
	// TLS to a port without it, and none to one with it.
	plain := startNode(t, "--secret-file", secret)
	run(t, append(me, "STILE_ADDRS="+plain.addr), "acquire", "k").want(t, 125, "do not speak TLS")
	run(t, base, "acquire", "k").want(t, 125, "this node speaks TLS", "--tls-ca")
	run(t, base, "acquire", "k", "--no-wait").want(t, 125, "this node speaks TLS", "--tls-ca")
	run(t, append(base, "STILE_ADMIN_ADDRS=http://127.0.0.1:"+port), "status").want(t, 125, "HTTPS", "--tls-ca")
	for _, args := range [][]string{{"status"}, {"keys"}, {"break", "k", "--token", "7", "--yes"}} {
		r := run(t, base, args...)
		r.want(t, 125, "https://127.0.0.1:"+port, "Is --tls-ca the authority")
		if strings.Contains(r.stderr, "STILE_ADMIN_ADDRS right") {
			t.Errorf("%q: the address is right: %s", args, r.stderr)
		}
		run(t, append(base, "STILE_ADMIN_ADDRS=https://"+plain.admin), args...).want(t, 125, "http://")
	}
}

// What everybody can read is told of, and no secret is ever shown.
func TestSecretsAreNotShown(t *testing.T) {
	n := startNode(t, "--secret-file", secretFile(t, "hunter2"))
	file := secretFile(t, "hunter2")
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	r := run(t, n.env(), "acquire", "k", "-v", "--secret-file", file)
	r.want(t, 0, "chmod 600")
	if strings.Contains(r.stdout+r.stderr, "hunter2") {
		t.Errorf("%s\n%s", r.stdout, r.stderr)
	}
	bad := secretFile(t, "hunter2 hunter3")
	r = run(t, n.env(), "acquire", "k", "--secret-file", bad)
	r.want(t, 125, bad)
	if strings.Contains(r.stderr, "hunter") {
		t.Errorf("%s", r.stderr)
	}
}

func TestUsage(t *testing.T) {
	for _, test := range []struct {
		args   []string
		status int
		say    string
	}{
		{nil, 125, "stile --help"},
		{[]string{"nonsense"}, 125, "stile --help"},
		{[]string{"break", "k"}, 125, "stile break --help"},
		{[]string{"--version"}, 0, "stile "},
		{[]string{"--help"}, 0, "Usage: stile"},
		{[]string{"lock", "--help"}, 0, "Exit status"},
		{[]string{"completion", "tcsh"}, 125, "bash"},
		{[]string{"completion", "bash"}, 0, "complete -F _stile stile"},
		{[]string{"top"}, 125, "needs a terminal"},
		{[]string{"acquire", "k", "--lease", "0s"}, 125, "--lease"},
		{[]string{"acquire", "k", "--wait", "0s"}, 125, "--no-wait to obtain KEY at once or fail, or leave --wait out"},
		{[]string{"lock", "k", "-w", "0", "--", "true"}, 125, "--wait"},
		{[]string{"acquire", "k", "--wait=-1s"}, 125, "--no-wait"},
		{[]string{"acquire", "k", "--wait", "-1s"}, 125, "--wait: -1s is below 0: give a duration like 10s"},
		{[]string{"acquire", "k", "-w", "-1s"}, 125, "-1s is below 0: give a duration like 10s"},
		{[]string{"acquire", "k", "--wait", "--no-wait"}, 125, "--wait: expected duration value"},
		{[]string{"acquire", "k", "--wait", "1s", "--no-wait"}, 125, "exclude"},
		{[]string{"lock", "--lease", "10", "k", "true"}, 125, `--lease: "10" has no unit: write 10s for seconds`},
		{[]string{"lock", "-w", "5", "k", "true"}, 125, `--wait: "5" has no unit: write 5s for seconds`},
		{[]string{"acquire", "k", "--retry-for", "soon"}, 125, `--retry-for: "soon" is no duration: that is a number with a unit, like 500ms, 10s`},
		{[]string{"bench", "--hold="}, 125, `"" is no duration`},
		{[]string{"top", "--every", "1.5"}, 125, `"1.5" is no duration`},
		{[]string{"keys", "--limit", "0"}, 125, "--limit"},
		{[]string{"__start", "3", "4", "/bin/true", "true"}, 1, ""},
		{[]string{"__start"}, 125, "stile lock"},
	} {
		t.Run(fmt.Sprint(test.args), func(t *testing.T) { run(t, nil, test.args...).want(t, test.status, test.say) })
	}
}

// Whoever restarts nodes one after the other must not go on while one of them has
// not got the table: nothing else tells it from a standby that has.
func TestStatusWaitsForReady(t *testing.T) {
	var ready atomic.Bool
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"addr": "b", "ready": %v, "cluster": {"id": 1, "role": "standby", "mode": "redirect", "complete": %[1]v, "active": 0, "peers": [{"id": 0, "addr": "a", "role": "active", "reached": true}]}}`, ready.Load())
	}))
	defer s.Close()
	active := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"addr": "a", "ready": true, "cluster": {"id": 0, "role": "active", "mode": "serve", "complete": true, "active": 0, "peers": [{"id": 1, "addr": "b", "role": "standby", "reached": true}]}}`)
	}))
	defer active.Close()
	env := []string{"STILE_ADMIN_ADDRS=" + s.Listener.Addr().String() + "," + active.Listener.Addr().String()}
	run(t, env, "status").want(t, 1, "READY", "redirected   no", "served       yes", "! b is not ready: it has not got the whole table")
	ready.Store(true)
	run(t, env, "status").want(t, 0, "redirected   yes", "served       yes")
}
