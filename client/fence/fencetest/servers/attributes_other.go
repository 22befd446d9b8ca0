//go:build !linux

package servers

import "syscall"

// Child puts a child into a group of its own, so that a Ctrl+C is for us
// alone.
func Child(syscall.Signal) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
