// Package admin is the HTTP server for operators: what the node is and does,
// for people, supervisors and Prometheus, and the one thing that they can do to
// it, which is to break a lock.
package admin

import (
	"crypto/tls"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/stile-lock/stile/server/admin/page"
	"github.com/stile-lock/stile/server/buildinfo"
	"github.com/stile-lock/stile/server/certs"
	"github.com/stile-lock/stile/server/cluster"
	"github.com/stile-lock/stile/server/history"
	"github.com/stile-lock/stile/server/internal/rarely"
	"github.com/stile-lock/stile/server/internal/secrets"
	"github.com/stile-lock/stile/server/member"
	"github.com/stile-lock/stile/server/metrics"
	"github.com/stile-lock/stile/server/node"
)

// Config is what a Server is made with. All is required, but for what is said.
type Config struct {
	Node     *node.Node
	Addr     string // that clients use
	StateDir string
	Started  time.Time
	Epoch    func() uint32
	Cluster  func() member.Status // nil: the node is alone
	History  *history.Log

	// Secrets, one of which requests must have, see SetSecrets; empty: nobody can
	// break a lock, and whoever reaches the port can read.
	Secrets [][]byte
	Log     *slog.Logger

	// LogLost is how many lines of the log were lost so far; nil: none ever.
	LogLost func() uint64
	// Certificates are the ends of those that the node needs; nil: it needs none.
	Certificates func() []certs.End
	// FailedReloads are those of the latest SIGHUP; nil: there is nothing to read
	// anew.
	FailedReloads func() []FailedReload
	// Unfit is, of a node alone, why it can't store its next epoch; nil: the node
	// is in a cluster, whose status has it.
	Unfit func() error
}

const (
	// maxScrapes is how many scrapes are served at once.
	maxScrapes = 4
	// answerWithin is how long a client may take to read an answer.
	answerWithin = 30 * time.Second
	// maxConnections is how many connections the port has at once.
	maxConnections = 256
)

// Server is the HTTP server of a node.
type Server struct {
	cfg      Config
	secrets  atomic.Pointer[[][]byte]
	loopback bool // it listens on a loopback address
	wrong    secrets.Wrong
	refused  [refusalKinds]atomic.Uint64
	sayWrong rarely.Line
	events   events
	listings chan struct{} // has one for each listing that goes on
	http     *http.Server
}

// New returns a server that serves nobody yet.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, wrong: secrets.Wrong{Max: maxWrong}, sayWrong: rarely.Line{Every: time.Minute}, listings: make(chan struct{}, maxListings)}
	s.SetSecrets(cfg.Secrets)
	s.events.s = s
	s.http = &http.Server{
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(cfg.Log.Handler(), slog.LevelDebug),
	}
	return s
}

// Serve serves the listener until it fails, or Close is called: then it returns
// http.ErrServerClosed. Beyond loopback it speaks HTTPS if there is a tlsConfig.
func (s *Server) Serve(l net.Listener, tlsConfig *tls.Config) error {
	s.loopback = onLoopback(l.Addr())
	s.http.Handler = s.handler()
	limited := limit(l, maxConnections)
	s.http.ConnState = limited.state
	if tlsConfig == nil || s.loopback {
		return s.http.Serve(limited)
	}
	s.http.TLSConfig = tlsConfig
	return s.http.ServeTLS(limited, "", "")
}

// SetSecrets changes what requests must have from now on, one of these.
func (s *Server) SetSecrets(set [][]byte) { s.secrets.Store(&set) }

// Close ends the server and all that it answers.
func (s *Server) Close() error { return s.http.Close() }

func onLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// handler has the pages. What each needs of a secret is said here.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /healthz", http.HandlerFunc(s.healthz))
	mux.Handle("GET /readyz", http.HandlerFunc(s.readyz))
	mux.Handle("GET /status", s.reader(s.status))
	mux.Handle("GET /keys", s.reader(s.keys))
	mux.Handle("GET /events", s.reader(s.events.serve))
	scrape := promhttp.HandlerFor(metrics.New(func() metrics.Snapshot { snap, _ := s.snapshot(); return snap }), promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes})
	mux.Handle("GET /metrics", s.reader(scrape.ServeHTTP))
	mux.Handle("POST /break", s.changer(s.breakLock))
	page.Mount(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerWithin))
		mux.ServeHTTP(w, r)
	})
}

func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("ok\n")) }

func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	h := s.health()
	said, ready := h.ready(h.findings())
	if !ready {
		http.Error(w, said, http.StatusServiceUnavailable)
		return
	}
	w.Write([]byte(said + "\n"))
}

// cluster is nil for a node that is alone.
func (s *Server) cluster() *member.Status {
	if s.cfg.Cluster == nil {
		return nil
	}
	c := s.cfg.Cluster()
	return &c
}

func role(c *member.Status) string {
	if c == nil {
		return cluster.Active.String()
	}
	return c.Role
}

// health is what the readiness and the problems of the node come from.
func (s *Server) health() health {
	h := health{now: time.Now(), stopping: s.cfg.Node.Stopping(), cluster: s.cluster()}
	if s.cfg.Unfit != nil {
		h.unfit = s.cfg.Unfit()
	}
	if s.cfg.Certificates != nil {
		h.certificates = s.cfg.Certificates()
	}
	if s.cfg.FailedReloads != nil {
		h.reloads = s.cfg.FailedReloads()
	}
	return h
}

// snapshot is the node as a scrape sees it, and its problems.
func (s *Server) snapshot() (metrics.Snapshot, []string) {
	h := s.health()
	found := h.findings()
	_, ready := h.ready(found)
	serving, _ := s.cfg.Node.Serving()
	var logLost uint64
	if s.cfg.LogLost != nil {
		logLost = s.cfg.LogLost()
	}
	refused := map[string]uint64{}
	for kind, name := range refusalNames {
		refused[name] = s.refused[kind].Load()
	}
	return metrics.Snapshot{
		AdminRefused: refused,
		Started:      s.cfg.Started, LogLost: logLost, Certificates: h.certificates, FailedReloads: len(h.reloads),
		Status: s.cfg.Node.Status(), Counts: s.cfg.Node.Counts(), Epoch: s.cfg.Epoch(),
		Role: role(h.cluster), Ready: ready, Serving: serving, Cluster: h.cluster, Unfit: h.unfit != nil || h.cluster != nil && h.cluster.Unfit,
	}, problems(found)
}

// state is what /status and /events have in common.
type state struct {
	node.Status
	Role   string `json:"role"`
	Ready  bool   `json:"ready"`
	Epoch  uint32 `json:"epoch"` // of this node's own tokens
	Counts counts `json:"counts"`
	// Problems are those of this node itself, which somebody has to look after.
	Problems []string       `json:"problems"`
	Cluster  *member.Status `json:"cluster,omitempty"`
}

func (s *Server) state() state {
	snap, problems := s.snapshot()
	return state{
		Problems: problems,
		Status:   snap.Status, Role: snap.Role, Ready: snap.Ready, Epoch: snap.Epoch,
		Counts: countsOf(snap.Counts), Cluster: snap.Cluster,
	}
}

type status struct {
	state
	Version  string    `json:"version"`
	Commit   string    `json:"commit"`
	Addr     string    `json:"addr"`
	StateDir string    `json:"state_dir"`
	Started  time.Time `json:"started"`
	Now      time.Time `json:"now"`
	Changes  []change  `json:"changes"` // the newest first
}

func (s *Server) status(w http.ResponseWriter, _ *http.Request) {
	st := status{
		state:    s.state(),
		Version:  buildinfo.Version(),
		Commit:   buildinfo.Commit(),
		Addr:     s.cfg.Addr,
		StateDir: s.cfg.StateDir,
		Started:  s.cfg.Started.UTC(),
		Now:      instant(time.Now()),
		Changes:  []change{},
	}
	for _, e := range s.cfg.History.Last() {
		st.Changes = append(st.Changes, changeOf(&e))
	}
	writeJSON(w, http.StatusOK, st)
}

// writeJSON answers with a value, for people too.
func writeJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	enc.Encode(v)
}

// failure is the answer to a request that came to nothing.
type failure struct {
	Error   string `json:"error"` // for programs
	Message string `json:"message"`
}

func fail(w http.ResponseWriter, code int, name, message string) {
	writeJSON(w, code, failure{name, message})
}
