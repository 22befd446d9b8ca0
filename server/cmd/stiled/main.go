// Stiled is the node of Stile, a lock server.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/stile-lock/stile/server/admin"
	"github.com/stile-lock/stile/server/buildinfo"
	"github.com/stile-lock/stile/server/config"
	"github.com/stile-lock/stile/server/fencing"
	"github.com/stile-lock/stile/server/internal/logqueue"
)

// Exit statuses.
const (
	exitOK      = 0
	exitFailure = 1 // it could not start, or did not stop in time
	exitUsage   = 2 // the settings are wrong
)

// sameSignal is how soon after the first a second signal still counts as the
// same: some tools signal a process and then its whole group.
const sameSignal = 100 * time.Millisecond

const (
	// maxLogQueue is how many bytes of the log may wait for who reads it.
	maxLogQueue = 4 << 20
	// logAtExit is how long the end of the process waits for that.
	logAtExit = time.Second
)

// gcPercent is for a program that allocates only while its table grows: memory
// counts there, and collections are rare.
const gcPercent = 50

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	cfg, err := config.Parse(args, stdout)
	if errors.Is(err, config.ErrHelp) {
		return exitOK
	}
	if err != nil {
		fmt.Fprintf(stderr, "stiled: %v\n", err)
		return exitUsage
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	// Whoever reads the log may go away, as tee does at Ctrl+C: that must not
	// end the node, whose handoff then has yet to come.
	signal.Ignore(syscall.SIGPIPE)
	lines := logqueue.New(stderr, maxLogQueue, func(to io.Writer, lost int) {
		newLogger(cfg, to).Log(context.Background(), max(slog.LevelWarn, level(cfg)),
			"lines of the log were lost: who reads it was too slow", slog.Int("lost", lost))
	})
	defer lines.Close(logAtExit)
	log := newLogger(cfg, lines)
	if err := serve(cfg, log, lines); err != nil {
		log.Error("stiled ends", slog.Any("error", err))
		return exitFailure
	}
	return exitOK
}

func serve(cfg *config.Config, log *slog.Logger, lines *logqueue.Queue) error {
	// Before anything that takes time: a signal during the start is a stop.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)

	store, err := fencing.OpenStore(cfg.StateDir)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := fencing.CheckClock(store.Known().N, time.Now(), buildinfo.Built()); err != nil {
		return err
	}
	// The ports first: a start that fails for them uses up no epoch.
	l, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("can't listen on --listen %s: %w; give an address of this machine that is free", cfg.Listen, err)
	}
	defer l.Close()
	var adminListener net.Listener
	if cfg.Admin != "" {
		if adminListener, err = net.Listen("tcp", cfg.Admin); err != nil {
			return fmt.Errorf("can't listen on --admin %s: %w; give another address, or --admin= for none", cfg.Admin, err)
		}
		defer adminListener.Close()
	}
	fitDescriptors(cfg)
	n, err := start(cfg, store, l, log)
	if err != nil {
		return err
	}
	defer n.close()
	addr := l.Addr().String()
	if cfg.Advertise != "" {
		addr = cfg.Advertise
	}
	failed := make(chan error, 3)
	go func() { failed <- n.node.Serve(l) }()
	go func() { failed <- <-n.failed }()
	attrs := []any{
		slog.String("version", buildinfo.Version()), slog.String("commit", buildinfo.Commit()),
		slog.String("listen", l.Addr().String()), slog.String("state_dir", cfg.StateDir),
		slog.Bool("secret", len(cfg.Secrets) > 0), slog.String("tls", tlsMode(cfg)),
	}
	up := "stiled serves"
	if cfg.Self >= 0 {
		up = "stiled listens" // and may be a standby
		attrs = append(attrs, slog.String("peers", cfg.PeerList.String()), slog.Int("id", int(cfg.PeerList[cfg.Self].ID)),
			slog.String("replication", cfg.Replication))
	} else {
		attrs = append(attrs, slog.Uint64("epoch", uint64(n.epoch())))
	}
	if cfg.Advertise != "" {
		attrs = append(attrs, slog.String("advertise", cfg.Advertise))
	}
	if adminListener != nil {
		attrs = append(attrs, slog.String("admin", adminListener.Addr().String()))
		ac := admin.Config{
			Node: n.node, Addr: addr, StateDir: cfg.StateDir, Started: time.Now(), Epoch: n.epoch, Cluster: n.cluster,
			History: n.history, Secrets: cfg.AdminSecrets, Log: log, LogLost: lines.Lost,
			FailedReloads: n.lastReload, Unfit: n.unfit,
		}
		if cfg.TLS != nil {
			ac.Certificates = cfg.TLS.Ends
		}
		srv := admin.New(ac)
		defer srv.Close()
		n.setAdminSecrets = srv.SetSecrets
		var https *tls.Config
		if cfg.TLS != nil {
			https = cfg.TLS.Admin()
		}
		go func() { failed <- srv.Serve(adminListener, https) }()
	}
	if len(cfg.Environment) > 0 {
		log.Info("settings are from the environment", slog.String("variables", strings.Join(cfg.Environment, " ")))
	}
	for _, w := range cfg.Warnings {
		log.Warn(w)
	}
	log.Info(up, attrs...)
	// A standby is ready too: it listens, and sends clients to the active.
	notify(log, daemon.SdNotifyReady)
	alive, over := context.WithCancel(context.Background())
	defer over()
	go watch(alive, log, n.check)

	if cfg.TLS != nil {
		go cfg.TLS.Watch(alive, log)
	}
	for running := true; running; {
		select {
		case err := <-failed:
			return fmt.Errorf("can't go on: %w", err)
		case s := <-signals:
			log.Info("stiled stops", slog.String("signal", s.String()))
			running = false
		case <-hangups:
			n.reload(cfg, log)
		}
	}
	notifyStopping(log, cfg.StopTimeout)
	first := time.Now()
	go func() {
		s := <-signals
		for time.Since(first) < sameSignal {
			s = <-signals
		}
		log.Warn("stiled exits at once", slog.String("signal", s.String()))
		lines.Close(logAtExit)
		os.Exit(exitFailure)
	}()
	stop, cancelStop := context.WithTimeout(context.Background(), cfg.StopTimeout)
	defer cancelStop()
	if err := n.shutdown(stop); err != nil {
		log.Warn("connections were cut: they had not taken their answers within --stop-timeout",
			slog.Duration("stop_timeout", cfg.StopTimeout))
	}
	log.Info("stiled has stopped")
	return nil
}

func level(cfg *config.Config) (l slog.Level) {
	l.UnmarshalText([]byte(cfg.LogLevel)) // one of four, says config
	return l
}

func newLogger(cfg *config.Config, w io.Writer) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level(cfg)}
	if cfg.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}
