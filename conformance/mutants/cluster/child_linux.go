package cluster

import "syscall"

// withParent ends the child when we end, however we do.
func withParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
