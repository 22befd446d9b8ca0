//go:build !linux

package cluster

import "syscall"

func withParent() *syscall.SysProcAttr { return nil }
