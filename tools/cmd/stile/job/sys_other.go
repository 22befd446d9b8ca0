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

func machineClock() time.Duration { return clock(unix.CLOCK_MONOTONIC) }
