package peer

import (
	"time"

	"golang.org/x/sys/unix"
)

// setTCPUserTimeout limits how long sent data may stay unacknowledged. A
// failure leaves the kernel's default, which is right but slower.
func setTCPUserTimeout(fd uintptr, d time.Duration) {
	unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
}

// setTCPUnsent limits the bytes that the kernel takes beyond those under way,
// because a control frame can't overtake them any more.
func setTCPUnsent(fd uintptr, bytes int) {
	unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, bytes)
}
