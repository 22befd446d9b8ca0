package proc

import "syscall"

// withUs has the system end the child when we end, however we do. A group of its
// own keeps an interrupt typed at us away from it: we stop it ourselves.
func withUs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
