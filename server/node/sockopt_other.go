//go:build !linux

package node

import "time"

// setTCPUserTimeout does nothing where there is no such limit: keepalive
// finds a silent peer once nothing is under way.
func setTCPUserTimeout(uintptr, time.Duration) {}
