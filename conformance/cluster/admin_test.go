package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stile-lock/stile/client"
	"github.com/stile-lock/stile/conformance/cluster/rig"
)

// What operators see of a cluster, and that a lock that was broken by hand is
// broken on the node that comes next as well.
func TestOperator(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	ok(t, os.WriteFile(secret, []byte("for-admins\n"), 0o600))
	c := startCluster(t, 3, false, "--replication=sync", "--admin-secret-file="+secret)
	_, err := rig.Until(rig.Patience, "both standbys are in sync", func() (bool, error) {
		return strings.Contains(c.page(1, "/metrics"), "\nstile_in_sync_standbys 2\n"), nil
	})
	ok(t, err)

	ctx := t.Context()
	cl, err := client.Dial(ctx, c.Addrs(), client.RetryFor(rig.Patience))
	ok(t, err)
	defer cl.Close()
	lock, err := cl.Acquire(ctx, "door", client.Lease(10*time.Minute))
	ok(t, err)

	for id := 1; id <= 3; id++ {
		var page struct {
			Active bool
			Keys   []struct {
				Key    string
				Token  uint64
				Holder struct{ Addr string }
			}
		}
		ok(t, json.Unmarshal([]byte(c.page(id, "/keys")), &page))
		if page.Active != (id == 1) || len(page.Keys) != 1 || page.Keys[0].Token != lock.Token() || (page.Keys[0].Holder.Addr != "") != (id == 1) {
			t.Errorf("node %d lists %+v", id, page)
		}
		role := map[bool]string{true: "active", false: "standby"}[id == 1]
		metrics := c.page(id, "/metrics")
		for _, want := range []string{fmt.Sprintf("stile_role{role=%q} 1", role), "stile_held_keys 1", "stile_ready 1", "stile_table_complete 1"} {
			if !strings.Contains(metrics, "\n"+want+"\n") {
				t.Errorf("node %d: no %s", id, want)
			}
		}
		if behind := strings.Contains(metrics, "\nstile_replication_lag_seconds{"); behind != (id == 1) {
			t.Errorf("node %d tells how far others are behind: %v", id, behind)
		}
	}

	breakIt := func(id int) (code int, got map[string]any) {
		t.Helper()
		body := fmt.Sprintf(`{"key":"door","token":%d}`, lock.Token())
		r, err := http.NewRequest("POST", "http://"+c.Node(id).Admin+"/break", bytes.NewBufferString(body))
		ok(t, err)
		r.Header.Set("Authorization", "Bearer for-admins")
		resp, err := http.DefaultClient.Do(r)
		ok(t, err)
		defer resp.Body.Close()
		ok(t, json.NewDecoder(resp.Body).Decode(&got))
		return resp.StatusCode, got
	}
	if code, got := breakIt(2); code != 421 || got["active"] != c.Node(1).Advertise {
		t.Errorf("a standby: %d %v", code, got)
	}
	if code, got := breakIt(1); code != 200 || got["next_token"] != nil {
		t.Errorf("the active: %d %v", code, got)
	}
	c.Node(1).Kill()
	c.active(2)
	if code, got := breakIt(2); code != 404 || got["error"] != "not-held" {
		t.Errorf("the next active: %d %v", code, got)
	}
	if metrics := c.page(2, "/metrics"); !strings.Contains(metrics, "\nstile_promotions_total 1\n") {
		t.Error("node 2 does not count its promotion")
	}
	var status struct {
		Role    string
		Changes []struct{ Kind, Role, Why string }
	}
	ok(t, json.Unmarshal([]byte(c.page(2, "/status")), &status))
	if status.Role != "active" || len(status.Changes) < 3 || status.Changes[0].Role != "active" || status.Changes[0].Why == "" ||
		status.Changes[len(status.Changes)-1].Role != "joining" {
		t.Errorf("node 2 says %+v", status)
	}
}

// page is what the admin port of a node answers.
func (c *cluster) page(id int, path string) string {
	c.t.Helper()
	resp, err := http.Get("http://" + c.Node(id).Admin + path)
	ok(c.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	ok(c.t, err)
	if resp.StatusCode != http.StatusOK {
		c.t.Errorf("node %d: %s: %s: %s", id, path, resp.Status, b)
	}
	return string(b)
}

// Since when a key is held, and since when somebody waits for it, survive keeps,
// copies, and changes of who serves.
func TestSince(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, false)
	ctx := t.Context()
	cl := c.client()
	type since struct{ held, waits time.Time }
	look := func(id int) (at since, listed bool) {
		t.Helper()
		var page struct {
			Keys []struct {
				Since   time.Time
				Waiters []struct{ Since time.Time }
			}
		}
		ok(t, json.Unmarshal([]byte(c.page(id, "/keys")), &page))
		if len(page.Keys) != 1 || len(page.Keys[0].Waiters) != 1 {
			return at, false
		}
		return since{page.Keys[0].Since, page.Keys[0].Waiters[0].Since}, true
	}
	before := time.Now()
	lock, err := cl.Acquire(ctx, "door", client.Lease(time.Minute))
	ok(t, err)
	granted := time.Now()
	waiting := make(chan error, 1)
	next := c.client()
	go func() {
		_, err := next.Acquire(ctx, "door", client.Lease(time.Minute))
		waiting <- err
	}()
	for id := 1; id <= 3; id++ {
		until(t, "the node has the grant and who waits", func() bool { _, listed := look(id); return listed })
	}
	inLine := time.Now()
	// What the node's two clocks, and the JSON, may do to an instant.
	const slack = 20 * time.Millisecond
	within := func(when string, id int, what string, at, from, to time.Time) {
		t.Helper()
		if at.Before(from.Add(-slack)) || at.After(to.Add(slack)) {
			t.Errorf("%s: node %d says that %s since %v, and it was between %v and %v", when, id, what, at, from, to)
		}
	}
	check := func(when string) {
		t.Helper()
		ok(t, lock.Keep(ctx, time.Minute))
		for id := 1; id <= 3; id++ {
			at, listed := look(id)
			if !listed {
				t.Errorf("%s: node %d has no grant and a waiter", when, id)
				continue
			}
			within(when, id, "it is held", at.held, before, granted)
			within(when, id, "somebody waits", at.waits, granted, inLine)
		}
	}
	check("kept")
	time.Sleep(time.Second) // what is newer is newer by this much
	c.stop(3)
	c.start(3)
	c.settled(1)
	check("a standby is back")
	c.stop(1)
	c.active(2)
	c.start(1)
	c.settled(1)
	check("after a handoff, and back")
	c.Node(1).Kill()
	c.active(2)
	c.start(1)
	c.settled(1)
	check("after a failover, and back")

	sum := func() float64 {
		t.Helper()
		for line := range strings.Lines(c.page(1, "/metrics")) {
			if v, found := strings.CutPrefix(line, "stile_wait_seconds_sum "); found {
				n, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
				ok(t, err)
				return n
			}
		}
		t.Fatal("no stile_wait_seconds_sum")
		return 0
	}
	waited := sum()
	from := time.Now()
	ok(t, lock.Release(ctx))
	ok(t, <-waiting)
	to := time.Now()
	waited = sum() - waited
	if least, most := from.Sub(inLine)-slack, to.Sub(granted)+slack; waited < least.Seconds() || waited > most.Seconds() {
		t.Errorf("stile_wait_seconds has observed %v s, and the wait was from %v to %v", waited, least, most)
	}
}
