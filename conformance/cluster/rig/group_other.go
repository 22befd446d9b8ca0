//go:build unix && !linux

package rig

import (
	"os"
	"syscall"
	"time"
)

func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// stopped gives a process that was sent SIGSTOP the time to stop.
func stopped(*os.Process) bool {
	time.Sleep(20 * time.Millisecond)
	return true
}
