//go:build !linux

package rig

import (
	"os"
	"syscall"
	"time"
)

func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func killGroup(p *os.Process) { syscall.Kill(-p.Pid, syscall.SIGKILL) }

// stopped gives a process that was sent SIGSTOP the time to stop.
func stopped(*os.Process) bool {
	time.Sleep(20 * time.Millisecond)
	return true
}
