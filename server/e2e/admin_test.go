package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func secretFile(t *testing.T, secret string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(name, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// ask sends a request to the admin port at an address.
func ask(t *testing.T, admin, method, path, secret, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(method, "http://"+admin+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if secret != "" {
		r.Header.Set("Authorization", "Bearer "+secret)
	}
	resp, err := statusClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// An operator sees who holds a key, takes it from him, and sees that in the
// metrics; the log says it.
func TestOperator(t *testing.T) {
	t.Parallel()
	n := start(t, "--admin-secret-file="+secretFile(t, "for-admins"))
	holder, waiter := n.dial(), n.dial()
	holder.send("H 1 hung/3")
	holder.line()
	holder.send("A door 0 600")
	var token uint64
	if _, err := fmt.Sscanf(holder.line(), "A door %d 600", &token); err != nil {
		t.Fatal(err)
	}
	waiter.send("A door 0 600")
	n.waiting(1)

	_, body := ask(t, n.admin, "GET", "/keys", "", "")
	var page struct {
		Keys []struct {
			Key    string
			Token  uint64
			Holder struct{ Client, Addr string }
		}
	}
	if err := json.Unmarshal([]byte(body), &page); err != nil || len(page.Keys) != 1 {
		t.Fatal(err, body)
	}
	if k := page.Keys[0]; k.Key != "door" || k.Token != token || k.Holder.Client != "hung/3" || k.Holder.Addr != holder.LocalAddr().String() {
		t.Errorf("%+v", k)
	}

	what := fmt.Sprintf(`{"key":"door","token":%d}`, token)
	for _, secret := range []string{"", "for-clients"} {
		if code, body := ask(t, n.admin, "POST", "/break", secret, what); code != 401 {
			t.Errorf("break with the secret %q: %d %s", secret, code, body)
		}
	}
	if code, body := ask(t, n.admin, "POST", "/break", "for-admins", what); code != 200 {
		t.Fatalf("break: %d %s", code, body)
	}
	var next uint64
	if _, err := fmt.Sscanf(waiter.line(), "A door %d 600", &next); err != nil || next <= token {
		t.Errorf("the next in line has token %d after %d, %v", next, token, err)
	}
	holder.send("K door %d 60", token)
	holder.want("E K door not-held")
	line := n.waitFor("a lock was broken by an operator")
	for _, part := range []string{`"level":"WARN"`, `"key":"door"`, fmt.Sprintf(`"token":%d`, token), `"holder":"hung/3"`, `"asked_by":"127.0.0.1:`} {
		if !strings.Contains(line, part) {
			t.Errorf("no %s in %s", part, line)
		}
	}
	if strings.Contains(n.stderr(), "for-admins") {
		t.Error("the log shows the secret")
	}
	code, scrape := ask(t, n.admin, "GET", "/metrics", "", "")
	for _, metric := range []string{
		`stile_grants_total{kind="immediate"} 1`, `stile_grants_total{kind="handed_over"} 1`, `stile_grants_ended_total{how="broken"} 1`,
		`stile_refusals_total{code="not-held"} 1`, `stile_hand_over_seconds_count 1`, `stile_held_keys 1`, `stile_waiters 0`,
		`stile_connections 2`, `stile_role{role="active"} 1`, `stile_ready 1`, "go_goroutines ", "process_open_fds ",
	} {
		if !strings.Contains(scrape, "\n"+metric) {
			t.Errorf("%d: no %s in the metrics", code, metric)
		}
	}

	resp, err := statusClient.Get("http://" + n.admin + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	event, err := bufio.NewReader(resp.Body).ReadString('\n')
	if err != nil || !strings.HasPrefix(event, "data: {") || !strings.Contains(event, fmt.Sprintf(`"token":"%d"`, next)) {
		t.Errorf("%v: %s", err, event)
	}
}

// Beyond loopback everything but the probes needs the secret, whatever the
// address by which it is asked.
func TestAdminBeyondLoopback(t *testing.T) {
	t.Parallel()
	n := start(t, "--admin=0.0.0.0:0", "--secret-file="+secretFile(t, "for-both"))
	_, port, err := net.SplitHostPort(n.admin)
	if err != nil {
		t.Fatal(err)
	}
	admin := "127.0.0.1:" + port
	for _, path := range []string{"/status", "/keys", "/metrics", "/events"} {
		if code, body := ask(t, admin, "GET", path, "", ""); code != 401 {
			t.Errorf("GET %s: %d %s", path, code, body)
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/", "/page.js"} { // the page asks for the secret itself
		if code, body := ask(t, admin, "GET", path, "", ""); code != 200 {
			t.Errorf("GET %s: %d %s", path, code, body)
		}
	}
	if code, body := ask(t, admin, "GET", "/status", "for-both", ""); code != 200 {
		t.Errorf("with the secret: %d %s", code, body)
	}
}
