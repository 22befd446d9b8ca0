package main

import (
	"log/slog"
	"time"

	"github.com/stile-lock/stile/server/admin"
	"github.com/stile-lock/stile/server/config"
)

// tlsMode says, for the log, what clients have to speak.
func tlsMode(cfg *config.Config) string {
	switch {
	case cfg.TLS == nil:
		return "none"
	case cfg.TLS.Mutual():
		return "mutual"
	}
	return "server"
}

// reload reads secrets and certificates anew. Connections that are there go
// on.
func (n *running) reload(cfg *config.Config, log *slog.Logger) {
	all := cfg.Reload()
	if len(all) == 0 {
		log.Info("SIGHUP: there are no secrets and no certificates to read anew")
	}
	var failed []admin.FailedReload
	for _, r := range all {
		if r.Err != nil {
			failed = append(failed, admin.FailedReload{Setting: r.What, Err: r.Err, At: time.Now()})
			log.Error("SIGHUP: a new file can't be used, the old one stays in force", slog.String("setting", r.What), slog.Any("error", r.Err))
			continue
		}
		attrs := []any{slog.String("setting", r.What)}
		if r.Secrets != nil {
			n.setSecrets(r.Secrets)
		}
		if r.AdminSecrets != nil && n.setAdminSecrets != nil {
			n.setAdminSecrets(r.AdminSecrets)
		}
		if count := max(len(r.Secrets), len(r.AdminSecrets)); count > 0 {
			attrs = append(attrs, slog.Int("accepted", count))
		}
		if r.ClusterSecret != nil && n.setClusterSecret != nil {
			n.setClusterSecret(r.ClusterSecret)
		}
		if r.Certificate {
			leaf := cfg.TLS.Leaf()
			attrs = append(attrs, slog.String("serial", leaf.SerialNumber.Text(16)), slog.Time("ends", leaf.NotAfter))
		}
		for _, w := range r.Warnings {
			log.Warn(w)
		}
		log.Info("SIGHUP: read anew", attrs...)
	}
	n.failedReloads.Store(&failed)
}

// lastReload is what of the latest reload has failed. Each reads all files, so
// one that succeeds leaves nothing of those before.
func (n *running) lastReload() []admin.FailedReload {
	if failed := n.failedReloads.Load(); failed != nil {
		return *failed
	}
	return nil
}
