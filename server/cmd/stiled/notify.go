package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// notify tells the service manager, if one asked to be told, what has become of
// the process (sd_notify(3)). A manager that can't be told is no reason to stop.
func notify(log *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("the service manager can't be told", slog.String("state", state), slog.Any("error", err))
	}
}

// notifyStopping announces a stop that may take until the limit, and a second
// for the end of the process itself.
func notifyStopping(log *slog.Logger, limit time.Duration) {
	notify(log, fmt.Sprintf("%s\nEXTEND_TIMEOUT_USEC=%d", daemon.SdNotifyStopping, (limit+time.Second).Microseconds()))
}

// watch keeps the service manager's watchdog quiet, if it has one, while check
// returns. A check that hangs is how a deadlock shows: the manager then ends the
// process, and a standby takes over.
func watch(ctx context.Context, log *slog.Logger, check func()) {
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("the service manager's watchdog is not understood, and not served", slog.Any("error", err))
		return
	}
	if limit == 0 {
		return
	}
	tick := time.NewTicker(limit / 3)
	defer tick.Stop()
	for {
		check()
		notify(log, daemon.SdNotifyWatchdog)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
