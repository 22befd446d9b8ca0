// Package admin is the HTTP server for operators. It only reads.
package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/stile-lock/stile/server/buildinfo"
	"github.com/stile-lock/stile/server/cluster"
	"github.com/stile-lock/stile/server/member"
	"github.com/stile-lock/stile/server/node"
)

// Info is what never changes while the node runs.
type Info struct {
	Addr     string // that clients use
	StateDir string
	Started  time.Time
	Epoch    func() uint32
	Cluster  func() member.Status // nil: the node is alone
}

type status struct {
	node.Status
	Version  string         `json:"version"`
	Commit   string         `json:"commit"`
	Addr     string         `json:"addr"`
	StateDir string         `json:"state_dir"`
	Started  time.Time      `json:"started"`
	Epoch    uint32         `json:"epoch"` // of this node's own tokens
	Cluster  *member.Status `json:"cluster,omitempty"`
}

// readiness says whether clients get an answer: from the active, or where it
// is.
func readiness(s member.Status) (said string, ready bool) {
	switch {
	case s.Mode == cluster.Serve.String() && s.Sync && len(s.InSync) == 0:
		return "ok: active, and no standby is in sync: what is answered now is lost if this node dies", true
	case s.Mode == cluster.Serve.String():
		return "ok: active", true
	case s.Mode == cluster.Redirect.String() && !s.Complete:
		return fmt.Sprintf("not ready: standby that has not got the table of node %d, which is active, yet; clients are sent there", s.Active), false
	case s.Mode == cluster.Redirect.String():
		return fmt.Sprintf("ok: standby, node %d is active", s.Active), true
	}
	if s.Mode == cluster.Refuse.String() {
		return fmt.Sprintf("not ready: active, but %d standbys are in sync, and --min-in-sync wants %d: clients get no-active", len(s.InSync), s.MinInSync), false
	}
	return "not ready: " + s.Role + ", clients are answered by: " + s.Mode, false
}

// Handler serves /healthz (the process answers), /readyz (clients get an
// answer, and the node has the table; 503 while it stops, knows of no active, or
// would begin empty if it became active) and /status (JSON).
func Handler(n *node.Node, info Info) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte("ok\n"))
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if n.Status().Stopping {
			http.Error(w, "stopping", http.StatusServiceUnavailable)
			return
		}
		if info.Cluster != nil {
			said, ready := readiness(info.Cluster())
			if !ready {
				http.Error(w, said, http.StatusServiceUnavailable)
				return
			}
			w.Write([]byte(said + "\n"))
			return
		}
		w.Write([]byte("ok\n"))
	})
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		s := status{
			Status:   n.Status(),
			Version:  buildinfo.Version(),
			Commit:   buildinfo.Commit(),
			Addr:     info.Addr,
			StateDir: info.StateDir,
			Started:  info.Started,
			Epoch:    info.Epoch(),
		}
		if info.Cluster != nil {
			c := info.Cluster()
			s.Cluster = &c
		}
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		enc.Encode(s)
	})
	return mux
}
