//go:build unix

package main

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/stile-lock/stile/server/config"
)

// kept is how many descriptors clients leave to peers, to the admin server, to
// the state directory, and to those who are told that there is no room.
const kept = 256

// fitDescriptors lowers the limit on connections to what the system lets this
// process have: who comes too late is told so then, and the peers get through.
func fitDescriptors(cfg *config.Config) {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return
	}
	// The types of its fields differ between systems.
	files := uint64(limit.Cur)
	most := files - min(kept, files/2)
	if uint64(cfg.MaxConnections) > most {
		cfg.Warnings = append(cfg.Warnings, fmt.Sprintf("--max-connections %d is more than this process may have: it can open %d files (ulimit -n), so it takes %d connections",
			cfg.MaxConnections, files, most))
		cfg.MaxConnections = int(max(most, 1))
	}
}
