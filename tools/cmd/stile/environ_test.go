//go:build unix

package main

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stile-lock/stile/tools/cmd/stile/cli"
)

// A variable that means nothing is refused, and what others set is not.
func TestEnvironment(t *testing.T) {
	addrs := []string{"STILE_ADMIN_ADDRS=127.0.0.1:1"} // where nobody is
	for _, test := range []struct{ set, say string }{
		{"STILE_ADRS=x", "STILE_ADRS, but there is no such setting: did you mean STILE_ADDRS?"},
		{"STILE_ADMIN_ADDR=x", "did you mean STILE_ADMIN_ADDRS?"},
		{"STILE_SECRET=hunter2", "STILE_SECRET, but there is no such setting"},
		{"STILE_=", "STILE_, but"},
		{"STILE_WAIT=4s", "STILE_WAIT, but there is no variable for --wait: unset it, and give the flag"},
		{"STILE_NO_WAIT=1", "no variable for --no-wait"},
	} {
		for _, args := range [][]string{{"status"}, {"lock", "k", "true"}} {
			r := run(t, append(addrs, test.set), args...)
			if r.want(t, 125, test.say); strings.Contains(r.stderr, "hunter2") {
				t.Errorf("%s", r.stderr)
			}
		}
		run(t, []string{test.set}, "man").want(t, 0, ".TH")
		run(t, []string{test.set}, "completion", "bash").want(t, 0, "_stile")
		run(t, []string{test.set}, "--version").want(t, 0, "stile")
	}
	// What others set for their purposes.
	for _, set := range []string{
		"STILE_KEY=k", "STILE_TOKEN=7", "STILE_SERVICE_HOST=10.0.0.1", "STILE_PORT_5625_TCP_ADDR=10.0.0.1", "STILE_ADMIN_SERVICE_PORT_HTTP=5626",
		"STILED_X=1", "MY_STILE_X=1", "stile_x=1",
	} {
		run(t, append(addrs, set), "status").want(t, 122, "127.0.0.1:1")
	}

	// All of stiled's, as it names them itself, and nothing else.
	cmd := exec.Command(stiled, "--help")
	cmd.Env = cleanEnv()
	help, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	theirs := regexp.MustCompile(`\$(STILE_[A-Z_]+)`).FindAllStringSubmatch(string(help), -1)
	var names []string
	for _, m := range theirs {
		names = append(names, m[1])
		if !slices.Contains(cli.OfServers, m[1]) {
			t.Errorf("%s of stiled would be refused: add it to OfServers", m[1])
		}
	}
	for _, name := range cli.OfServers {
		if !slices.Contains(names, name) {
			t.Errorf("stiled knows no %s: take it out of OfServers", name)
		}
	}
	if len(names) < 30 {
		t.Errorf("only %d names in\n%s", len(names), help)
	}
	run(t, append(addrs, "STILE_LISTEN=0.0.0.0:1", "STILE_MAX_LEASE=1h"), "status").want(t, 122, "127.0.0.1:1")
}
