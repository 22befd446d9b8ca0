package cli

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/stile-lock/stile/tools/cmd/stile/shown"
)

// OfServers are the variables of stiled that one environment may have for
// both programs.
var OfServers = []string{
	"STILE_CONFIG", "STILE_LISTEN", "STILE_ADVERTISE", "STILE_ADMIN", "STILE_STATE_DIR",
	"STILE_DEFAULT_LEASE", "STILE_MAX_LEASE", "STILE_REATTACH_GRACE", "STILE_STOP_TIMEOUT", "STILE_HELLO_TIMEOUT", "STILE_IDLE_TIMEOUT",
	"STILE_PEERS", "STILE_REPLICATION", "STILE_SYNC_TIMEOUT", "STILE_MIN_IN_SYNC", "STILE_TAKEBACK", "STILE_HEARTBEAT", "STILE_FAILURE_TIMEOUT", "STILE_BOOT_GRACE",
	"STILE_MAX_CONNECTIONS", "STILE_MAX_WAITERS", "STILE_MAX_WAITERS_PER_KEY", "STILE_MAX_UNANSWERED", "STILE_MAX_CONNECTIONS_PER_ADDRESS", "STILE_MAX_WRONG_SECRETS",
	"STILE_SECRET_FILE", "STILE_INSECURE", "STILE_TLS_CERT", "STILE_TLS_KEY", "STILE_TLS_CLIENT_CA", "STILE_TLS_CA", "STILE_HANDSHAKE_TIMEOUT",
	"STILE_ADMIN_SECRET_FILE", "STILE_CLUSTER_SECRET_FILE",
	"STILE_LOG_LEVEL", "STILE_LOG_FORMAT",
}

// ofKubernetes matches what a cluster sets in every pod beside a service with
// the name stile.
var ofKubernetes = regexp.MustCompile(`^STILE(_[A-Z0-9_]+)?_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// checkEnviron refuses STILE_… variables that set nothing: with a typo in one
// a command would ask other servers than those that are meant.
func checkEnviron(app *kong.Application, environ []string) error {
	mine := []string{"STILE_KEY", "STILE_TOKEN"} // of lock, for its command
	for _, n := range append([]*kong.Node{app.Node}, app.Children...) {
		for _, f := range n.Flags {
			mine = append(mine, f.Envs...)
		}
	}
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, "STILE_") || slices.Contains(mine, name) ||
			slices.Contains(OfServers, name) || ofKubernetes.MatchString(name) {
			continue
		}
		for _, n := range append([]*kong.Node{app.Node}, app.Children...) {
			for _, f := range n.Flags {
				if "STILE_"+strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_")) == name {
					return fmt.Errorf("the environment has %s, but there is no variable for --%s: unset it, and give the flag", name, f.Name)
				}
			}
		}
		return fmt.Errorf("the environment has %s, but there is no such setting%s", shown.Text(name), didYouMean(name, mine))
	}
	return nil
}

// didYouMean names the closest known name, if one is close.
func didYouMean(name string, known []string) string {
	best, at := "", 4
	for _, k := range known {
		if d := distance(name, k); d < at {
			best, at = k, d
		}
	}
	if best == "" {
		return ": unset it; stile --help and stiled --help name those there are"
	}
	return fmt.Sprintf(": did you mean %s?", best)
}

// distance is the number of single-byte edits between a and b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
