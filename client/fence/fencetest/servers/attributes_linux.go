package servers

import "syscall"

// Child puts a child into a group of its own, so that a Ctrl+C is for us
// alone, and has the kernel send it the signal when we end, however we do.
func Child(sig syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: sig}
}
