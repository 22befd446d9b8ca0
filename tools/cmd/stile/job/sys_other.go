//go:build unix && !linux

package job

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func groupOfItsOwn() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func endWithParent() {}

func becomeSubreaper() {}

// uncatch is not done here: Ctrl+Z stops stile by SIGTTIN, which is all the
// same to a shell but for the status that it shows.
func uncatch(syscall.Signal) (restore func()) { return nil }

func machineClock() time.Duration { return clock(unix.CLOCK_MONOTONIC) }
