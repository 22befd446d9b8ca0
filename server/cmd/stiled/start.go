package main

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/stile-lock/stile/server/admin"
	"github.com/stile-lock/stile/server/cluster"
	"github.com/stile-lock/stile/server/config"
	"github.com/stile-lock/stile/server/fencing"
	"github.com/stile-lock/stile/server/history"
	"github.com/stile-lock/stile/server/host"
	"github.com/stile-lock/stile/server/member"
	"github.com/stile-lock/stile/server/node"
)

// running is a node, alone or of a cluster.
type running struct {
	node     *node.Node
	epoch    func() uint32
	cluster  func() member.Status // nil: it is alone
	unfit    func() error         // why it can't store the next epoch; nil: it is in a cluster
	history  *history.Log
	failed   <-chan error // nil: it can't
	shutdown func(context.Context) error
	close    func()

	setClusterSecret func([]byte) // nil: it is alone
	setSecrets       func([][]byte)
	setAdminSecrets  func([][]byte) // nil: it has no admin port

	failedReloads atomic.Pointer[[]admin.FailedReload] // of the latest SIGHUP; nil: there was none
}

// check returns if every shard of the lock table, and the loop of the cluster,
// can be had: a deadlock or an endless loop in one of them makes it hang.
func (r *running) check() {
	r.node.Status()
	if r.cluster != nil {
		r.cluster()
	}
}

func start(cfg *config.Config, store *fencing.Store, l net.Listener, log *slog.Logger) (*running, error) {
	idle := cfg.IdleTimeout
	if idle == 0 {
		idle = -1
	}
	nc := node.Config{
		Advertise:        cfg.Advertise,
		DefaultLease:     cfg.DefaultLease,
		MaxLease:         cfg.MaxLease,
		ReattachGrace:    cfg.ReattachGrace,
		MaxConnections:   cfg.MaxConnections,
		MaxWaiters:       cfg.MaxWaiters,
		MaxWaitersPerKey: cfg.MaxWaitersPerKey,
		MaxUnanswered:    cfg.MaxUnanswered,
		IdleTimeout:      idle,
		Secrets:          cfg.Secrets,
		HelloTimeout:     cfg.HelloTimeout,
		HandshakeTimeout: cfg.HandshakeTimeout,
		Log:              log,

		MaxConnectionsPerAddress: cmp.Or(cfg.MaxConnectionsPerAddress, (cfg.MaxConnections+1)/2),
		MaxWrongSecrets:          cfg.MaxWrongSecrets,
	}
	if cfg.TLS != nil {
		nc.TLS = cfg.TLS.Server()
	}
	if cfg.Self < 0 {
		return alone(nc, store, log)
	}
	nc.Advertise = cfg.PeerList[cfg.Self].Addr
	past := new(history.Log)
	hc := host.Config{
		Node: nc, Peers: cfg.PeerList, Self: cfg.Self,
		Secret: cfg.ClusterSecret, DialFrom: loopbackOf(l),
		Heartbeat: cfg.Heartbeat, FailureTimeout: cfg.FailureTimeout, BootGrace: cfg.BootGrace,
		StopTimeout: cfg.StopTimeout, Takeback: cfg.Takeback,
		Sync: cfg.Replication == "sync", SyncTimeout: cfg.SyncTimeout, MinInSync: cfg.MinInSync,
		Store: store, Wall: time.Now, Log: log, History: past,
	}
	if cfg.TLS != nil {
		hc.DialTLS, hc.Mutual = cfg.TLS.Dial, cfg.TLS.Mutual()
	}
	h := host.New(hc)
	return &running{
		node: h.Node(), epoch: h.Epoch, cluster: h.Status, history: past, failed: h.Failed(), shutdown: h.Shutdown, close: h.Close,
		setSecrets: h.SetClientSecrets, setClusterSecret: h.SetSecret,
	}, nil
}

// alone starts a node without peers: it is active at once, with the id 0.
func alone(nc node.Config, store *fencing.Store, log *slog.Logger) (*running, error) {
	ctx, cancel := context.WithCancel(context.Background())
	tokens, err := fencing.TakeEpoch(ctx, store, 0, time.Now, log)
	if err != nil {
		cancel()
		return nil, err
	}
	go tokens.Run(ctx)
	nc.Tokens = tokens.Next
	n := node.New(nc)
	past := new(history.Log)
	past.Add(history.Event{
		Time: time.Now(), Kind: history.Role, Role: cluster.Active.String(), Why: "it is alone", Epoch: tokens.Epoch(),
	})
	return &running{node: n, epoch: tokens.Epoch, unfit: tokens.Failing, history: past, shutdown: n.Shutdown, close: cancel, setSecrets: n.SetSecrets}, nil
}

// loopbackOf is the loopback address that the node listens on, to dial its
// peers from; not valid if it listens elsewhere.
func loopbackOf(l net.Listener) netip.Addr {
	if tcp, ok := l.Addr().(*net.TCPAddr); ok && tcp.IP.IsLoopback() {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}
