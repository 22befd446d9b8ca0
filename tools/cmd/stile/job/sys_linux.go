package job

import (
	"syscall"
	"time"
	"unsafe"

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

// uncatch has a signal do what it does by default until restore is called,
// which is nil if that can't be. Go itself has no way to do so for a signal
// that was caught once.
func uncatch(s syscall.Signal) (restore func()) {
	// More than the kernel's struct sigaction needs, on every architecture. All
	// of it zero is the default action.
	var byDefault, before [8]uintptr
	set := func(to, old *[8]uintptr) bool {
		const setSize = 8 // of a sigset_t there; a kernel with another refuses
		_, _, e := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(to)), uintptr(unsafe.Pointer(old)), setSize, 0, 0)
		return e == 0
	}
	if !set(&byDefault, &before) {
		return nil
	}
	return func() { set(&before, nil) }
}

// machineClock goes on while the machine sleeps.
func machineClock() time.Duration { return clock(unix.CLOCK_BOOTTIME) }
