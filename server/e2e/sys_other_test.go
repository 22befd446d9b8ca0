//go:build !linux

package e2e

import (
	"os/exec"
	"syscall"
)

func endWithUs(*exec.Cmd) {}

func (p *process) descriptors() (int, bool) { return 0, false }

func (p *process) residentKiB() (int, bool) { return 0, false }

func (p *process) proc(string) (string, bool) { return "", false }

func (p *process) limitDescriptors(int) bool { return false }

func smallReceiveBuffer(_, _ string, _ syscall.RawConn) error { return nil }

func sendBufferMax() int { return 4 << 20 }

func unsent(*client) int { return 0 }
