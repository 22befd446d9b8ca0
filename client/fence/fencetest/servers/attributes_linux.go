package servers

import "syscall"

// attributes put the server into a group of its own, so that a Ctrl+C is for
// us alone, and have the kernel end it when we end, however we do.
func attributes(cred *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: cred, Setpgid: true, Pdeathsig: syscall.SIGQUIT}
}
