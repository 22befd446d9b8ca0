package load

import (
	"runtime"
	"syscall"
	"time"
)

const prSetTimerSlack = 29

// preciseSleep makes sleeps of the calling goroutine end within some
// microseconds: those of the runtime are a millisecond late where nothing else
// goes on, and so would be every request of an open loop. The goroutine stays on
// its thread, which ends with it: nobody else gets its setting.
func preciseSleep() {
	runtime.LockOSThread()
	syscall.RawSyscall(syscall.SYS_PRCTL, prSetTimerSlack, 1, 0)
}

func sleep(d time.Duration) {
	t := syscall.NsecToTimespec(int64(d))
	syscall.Nanosleep(&t, nil)
}
