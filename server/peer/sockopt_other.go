//go:build !linux

package peer

import "time"

// setTCPUserTimeout does nothing where there is no such limit: keepalive
// finds a silent peer once nothing is under way.
func setTCPUserTimeout(uintptr, time.Duration) {}

// setTCPUnsent does nothing where there is no such limit: a control frame
// waits for what the kernel has taken already.
func setTCPUnsent(uintptr, int) {}
