//go:build unix

package testee

import (
	"os"
	"os/exec"
	"syscall"
)

func shell(command string) *exec.Cmd {
	cmd := exec.Command("/bin/sh", "-c", command)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// signalGroup signals all processes of the child's group.
func signalGroup(p *os.Process, quit bool) {
	sig := syscall.SIGKILL
	if quit {
		sig = syscall.SIGQUIT
	}
	syscall.Kill(-p.Pid, sig)
}
