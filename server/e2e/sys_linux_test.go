package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// endWithUs makes the child end when the tests are killed.
func endWithUs(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}

// descriptors counts the open files of the process.
func (p *process) descriptors() (int, bool) {
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
	return len(fds), err == nil
}

// residentKiB is the memory of the process that is in use.
func (p *process) residentKiB() (int, bool) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, false
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	var kib int
	_, err = fmt.Sscan(rest, &kib)
	return kib, err == nil
}

// proc is a file of the process in /proc.
func (p *process) proc(file string) (string, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.cmd.Process.Pid, file))
	return string(text), err == nil
}

// limitDescriptors sets how many files the process may have open from now on.
func (p *process) limitDescriptors(most int) bool {
	var limit unix.Rlimit
	if err := unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_NOFILE, nil, &limit); err != nil {
		return false
	}
	limit.Cur = uint64(most)
	return unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_NOFILE, &limit, nil) == nil
}

// smallReceiveBuffer makes a connection's receive buffer as small as the
// kernel allows, so that little is enough to be somebody who does not read.
func smallReceiveBuffer(_, _ string, raw syscall.RawConn) error {
	return raw.Control(func(fd uintptr) {
		syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096)
	})
}

// sendBufferMax is how much the kernel may hold of what one side sends.
func sendBufferMax() int {
	limits, err := os.ReadFile("/proc/sys/net/ipv4/tcp_wmem")
	var least, usual, most int
	if _, scanErr := fmt.Sscan(string(limits), &least, &usual, &most); err != nil || scanErr != nil {
		return 4 << 20
	}
	return most
}

// unsent is how much of what a client sent the other side has not taken yet.
func unsent(c *client) (bytes int) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	raw.Control(func(fd uintptr) { bytes, _ = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) })
	return bytes
}
