package job

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// groupOfItsOwn has the kernel end the command itself when its parent dies.
func groupOfItsOwn() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// endWithParent is that for the thread that calls it, before it executes.
func endWithParent() { unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGTERM), 0, 0, 0) }

// becomeSubreaper makes processes that the command leaves behind children of
// this one, so that it hears of their end.
func becomeSubreaper() { unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// machineClock goes on while the machine sleeps.
func machineClock() time.Duration { return clock(unix.CLOCK_BOOTTIME) }
