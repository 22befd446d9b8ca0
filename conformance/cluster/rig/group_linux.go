package rig

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// ownGroup also has the kernel end the child when we end, however we do.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// stopped reports whether a process that was sent SIGSTOP has stopped with all
// its threads. Until then those on other cores go on.
func stopped(p *os.Process) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.Pid))
	for _, file := range threads {
		stat, err := os.ReadFile(file)
		if i := bytes.LastIndexByte(stat, ')'); err == nil && (i < 0 || !bytes.HasPrefix(stat[i:], []byte(") T"))) {
			return false
		}
	}
	return true
}
