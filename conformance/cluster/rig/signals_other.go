//go:build !unix

package rig

import (
	"errors"
	"os"
	"syscall"
)

// Supported says why clusters can't be run here, if they can't.
func Supported() error {
	return errors.New("nodes are paused and stopped by signals, which this system does not have: run this on Linux, macOS or another Unix")
}

// New makes no cluster where these would be sent.
const (
	pause     = syscall.SIGTERM
	resume    = syscall.SIGTERM
	terminate = syscall.SIGTERM
)

func ownGroup() *syscall.SysProcAttr { return nil }

func killGroup(p *os.Process) { p.Kill() }

func signalGroup(*os.Process, syscall.Signal) {}

func stopped(*os.Process) bool { return true }
