//go:build !linux

package rig

import (
	"os"
	"syscall"
	"time"
)

func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func killGroup(p *os.Process) { signalGroup(p, syscall.SIGKILL) }

func signalGroup(p *os.Process, s syscall.Signal) { syscall.Kill(-p.Pid, s) }

// stopped gives a process that was sent SIGSTOP the time to stop.
func stopped(*os.Process) bool {
	time.Sleep(20 * time.Millisecond)
	return true
}
