//go:build unix

package rig

import (
	"os"
	"syscall"
)

// Supported says why clusters can't be run here, if they can't.
func Supported() error { return nil }

const (
	pause     = syscall.SIGSTOP
	resume    = syscall.SIGCONT
	terminate = syscall.SIGTERM
)

func killGroup(p *os.Process) { signalGroup(p, syscall.SIGKILL) }

func signalGroup(p *os.Process, s syscall.Signal) { syscall.Kill(-p.Pid, s) }
