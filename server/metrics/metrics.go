// Package metrics shows what a node counts to Prometheus. Nothing is counted
// here: a scrape adds up what the shards have counted under their own locks.
// METRICS.md describes every metric; a test keeps the two equal.
package metrics

import (
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/stile-lock/stile/protocol"
	"github.com/stile-lock/stile/server/buildinfo"
	"github.com/stile-lock/stile/server/certs"
	"github.com/stile-lock/stile/server/cluster"
	"github.com/stile-lock/stile/server/internal/hist"
	"github.com/stile-lock/stile/server/lockspace"
	"github.com/stile-lock/stile/server/member"
	"github.com/stile-lock/stile/server/node"
)

// Snapshot is a node at one moment.
type Snapshot struct {
	Status  node.Status
	Counts  *node.Counts
	Epoch   uint32
	Role    string
	Ready   bool
	Serving bool
	LogLost uint64         // lines
	Cluster *member.Status // nil: the node is alone

	Started      time.Time
	AdminRefused map[string]uint64 // by reason
	Certificates []certs.End

	FailedReloads int  // at the latest SIGHUP
	Unfit         bool // it can't store epochs
}

// New returns a registry with the metrics of the node, the process and the Go
// runtime. take is called at each scrape.
func New(take func() Snapshot) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collector{take},
	)
	return r
}

// metric is one that the collector has.
type metric struct {
	desc *prometheus.Desc
	typ  prometheus.ValueType
	row  Row
}

// Row describes a metric, as a line of METRICS.md does.
type Row struct{ Name, Type, Labels, Meaning string }

var all []*metric

// Rows describes the metrics of the node, in the order of METRICS.md.
func Rows() (rows []Row) {
	for _, m := range all {
		rows = append(rows, m.row)
	}
	return rows
}

func add(name, label, meaning string, typ prometheus.ValueType, typeName string, labels ...string) *metric {
	m := &metric{
		desc: prometheus.NewDesc(name, meaning, labels, nil),
		typ:  typ,
		row:  Row{name, typeName, label, meaning},
	}
	all = append(all, m)
	return m
}

func counter(name, meaning string) *metric {
	return add(name, "", meaning, prometheus.CounterValue, "counter")
}

func counterBy(name, label, meaning string) *metric {
	return add(name, label, meaning, prometheus.CounterValue, "counter", label)
}

func gauge(name, meaning string) *metric {
	return add(name, "", meaning, prometheus.GaugeValue, "gauge")
}

func gaugeBy(name, label, meaning string) *metric {
	return add(name, label, meaning, prometheus.GaugeValue, "gauge", label)
}

func histogram(name, meaning string) *metric {
	return add(name, "", meaning, prometheus.UntypedValue, "histogram")
}

var (
	buildInfo = add("stile_build_info", "version, commit, go", "1; the labels tell the build.",
		prometheus.GaugeValue, "gauge", "version", "commit", "go")
	role     = gaugeBy("stile_role", "role", "1 for the role that the node has, 0 for the others: joining, standby, candidate, active. A node alone is active.")
	ready    = gauge("stile_ready", "1 if /readyz says so.")
	serving  = gauge("stile_serving", "1 if the node grants; 0 also of an active that can't at the moment.")
	stopping = gauge("stile_stopping", "1 once the node was asked to end.")
	epoch    = gauge("stile_epoch", "The epoch of the node's own tokens; 0 if it never was active.")
	started  = gauge("stile_start_time_seconds", "When the process was started, in seconds since 1970.")
	unfit    = gauge("stile_unfit", "1 while the node can't store epochs: it can't become active, and serves as long as it has tokens.")
	logLost  = counter("stile_log_lines_lost_total", "Lines of the log that were lost, as who reads it was too slow, or has gone away.")

	adminRefused = counterBy("stile_admin_refusals_total", "reason", "Requests to the admin port without the right secret: missing, wrong, too-many (wrong ones came from that address, and none is looked at).")

	certificate = gaugeBy("stile_certificate_expiry_timestamp_seconds", "certificate", "When it ends, in seconds since 1970: node (its own), authority (of those in --tls-client-ca and --tls-ca the one that ends first). Missing without TLS.")

	reloadFailed = gauge("stile_reload_failed", "Settings whose files could not be used at the latest SIGHUP: what was there before is in force.")

	connections = gauge("stile_connections", "Clients that are connected.")
	accepted    = counter("stile_connections_accepted_total", "Connections accepted on the client port, those of peers too.")
	turnedAway  = counter("stile_connections_turned_away_total", "Connections over --max-connections, or over what one address may have.")
	cutOff      = counter("stile_connections_cut_off_total", "Connections that were reset: the client did not read its answers, or they could not be given any more.")

	heldKeys = gauge("stile_held_keys", "Keys that are held. Of a standby: in its copy.")
	waiters  = gauge("stile_waiters", "Acquires in line. Of a standby: in its copy, which has those with a nonce.")
	kept     = gauge("stile_kept_requests", "Requests that can't be answered at the moment and are kept: a failover or a handoff is under way.")

	grants   = counterBy("stile_grants_total", "kind", "Answers that grant: immediate (the key was free), handed_over (after a wait in line), repeated (told again to the same nonce), adopted (taken over from another active when a partition ended).")
	ended    = counterBy("stile_grants_ended_total", "how", "Grants that ended: released, cancelled, expired, broken (by an operator), undone (the answer was lost with the connection), partition (two actives had granted the key).")
	timeouts = counterBy("stile_timeouts_total", "kind", "Acquires answered with T: limit (their wait was over), at_once (they did not want to wait), cancelled.")
	keeps    = counter("stile_keeps_total", "Leases renewed.")
	cancels  = counter("stile_cancels_total", "Cancels answered, whatever they met.")
	moved    = counter("stile_redirects_total", "Requests answered with the address of the active.")
	refusals = counterBy("stile_refusals_total", "code", "Requests refused, by the code of SPEC.md 5.3.")

	wait     = histogram("stile_wait_seconds", "How long those who were granted had waited, since they asked first, on whatever node; immediate grants are in it, with 0 as a rule.")
	holdTime = histogram("stile_hold_seconds", "How long grants lasted, of those that were made and ended under the same active.")
	handOver = histogram("stile_hand_over_seconds", "From the end of a grant (of an expired one: from the end of its lease) until the kernel had the answer to the next in line.")

	promotions  = counter("stile_promotions_total", "How often the node became active.")
	handoffs    = counter("stile_handoffs_total", "How often it gave the role away in good order.")
	stepDowns   = counter("stile_step_downs_total", "How often it gave way to another active: a partition or a pause has ended.")
	conflicts   = counter("stile_conflicts_total", "Keys that were found held on both sides when two actives met.")
	complete    = gauge("stile_table_complete", "1 if the node has the table that is served from.")
	syncing     = gauge("stile_syncing", "1 while the node is sent the whole table.")
	inSync      = gauge("stile_in_sync_standbys", "The standbys that answers wait for; 0 of one that is not active. Missing in async mode.")
	minInSync   = gauge("stile_min_in_sync_standbys", "What --min-in-sync asks for. Missing in async mode.")
	differ      = gaugeBy("stile_peer_settings_differ", "peer", "1 if the peer has other settings that should be the same everywhere: what it asks of clients, --replication, --failure-timeout. 0 while it is not reached.")
	reached     = gaugeBy("stile_peer_reached", "peer", "1 if the node has a live link to the peer with that id.")
	lagChanges  = gaugeBy("stile_replication_lag_changes", "peer", "Of a node that feeds the peer: changes of the table that the peer has not applied. Missing while the peer has no complete table.")
	lagSeconds  = gaugeBy("stile_replication_lag_seconds", "peer", "Of an active: for how long the peer has not had all that there is. Missing while the peer has no complete table.")
	silentSince = gaugeBy("stile_peer_silent_seconds", "peer", "Since a heartbeat came back from the peer. Missing if none ever has.")
)

var roles = []cluster.Role{cluster.Joining, cluster.Standby, cluster.Candidate, cluster.Active}

type collector struct{ take func() Snapshot }

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range all {
		out <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	s := c.take()
	put := func(m *metric, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(m.desc, m.typ, v, labels...)
	}
	putHist := func(m *metric, h *hist.Counts) {
		below, sum := make(map[float64]uint64, len(hist.Bounds)), uint64(0)
		for i, bound := range hist.Bounds {
			sum += h.N[i]
			below[bound.Seconds()] = sum
		}
		out <- prometheus.MustNewConstHistogram(m.desc, h.Count(), h.Sum/1e9, below)
	}

	put(buildInfo, 1, buildinfo.Version(), buildinfo.Commit(), runtime.Version())
	for _, r := range roles {
		put(role, is(s.Role == r.String()), r.String())
	}
	put(ready, is(s.Ready))
	put(serving, is(s.Serving))
	put(stopping, is(s.Status.Stopping))
	put(epoch, float64(s.Epoch))
	put(started, float64(s.Started.UnixMilli())/1e3)
	put(unfit, is(s.Unfit))
	put(logLost, float64(s.LogLost))
	for reason, v := range s.AdminRefused {
		put(adminRefused, float64(v), reason)
	}
	for _, e := range s.Certificates {
		put(certificate, float64(e.At.Unix()), e.Which)
	}
	put(reloadFailed, float64(s.FailedReloads))

	n := s.Counts
	put(connections, float64(s.Status.Connections))
	put(accepted, float64(n.Accepted))
	put(turnedAway, float64(n.TurnedAway))
	put(cutOff, float64(n.CutOff))
	put(heldKeys, float64(s.Status.Held))
	put(waiters, float64(s.Status.Waiting))
	put(kept, float64(s.Status.Kept))
	for kind, v := range n.Granted {
		put(grants, float64(v), lockspace.GrantKind(kind).String())
	}
	for how, v := range n.Ended {
		put(ended, float64(v), lockspace.EndKind(how).String())
	}
	for kind, v := range n.TimedOut {
		put(timeouts, float64(v), lockspace.TimeoutKind(kind).String())
	}
	put(keeps, float64(n.Kept))
	put(cancels, float64(n.Cancelled))
	put(moved, float64(n.Moved))
	for _, code := range protocol.Codes() {
		put(refusals, float64(n.Refused[code]), code.String())
	}
	putHist(wait, &n.Wait)
	putHist(holdTime, &n.Hold)
	putHist(handOver, &n.HandOver)

	cl := s.Cluster
	if cl == nil {
		return
	}
	put(promotions, float64(cl.Promotions))
	put(handoffs, float64(cl.Handoffs))
	put(stepDowns, float64(cl.StepDowns))
	put(conflicts, float64(cl.Conflicts))
	put(complete, is(cl.Complete))
	put(syncing, is(cl.Syncing))
	if cl.Sync {
		put(inSync, float64(len(cl.InSync)))
		put(minInSync, float64(cl.MinInSync))
	}
	for _, p := range cl.PeerViews {
		id := strconv.Itoa(int(p.ID))
		put(reached, is(p.Reached), id)
		put(differ, is(len(p.Differs) > 0), id)
		if p.Lag != nil {
			put(lagChanges, float64(*p.Lag), id)
		}
		if p.LagS != nil {
			put(lagSeconds, *p.LagS, id)
		}
		if p.Silent != nil {
			put(silentSince, *p.Silent, id)
		}
	}
}

func is(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
