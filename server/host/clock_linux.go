package host

import (
	"time"

	"golang.org/x/sys/unix"
)

// clock also runs while the machine sleeps.
func clock() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic("no boot-time clock: " + err.Error())
	}
	return time.Duration(t.Nano()) + time.Hour // above 0 on a machine just booted
}
