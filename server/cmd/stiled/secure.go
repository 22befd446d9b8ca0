package main

import (
	"log/slog"

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
	for _, r := range all {
		if r.Err != nil {
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
}
