//go:build !linux

package proc

import "syscall"

func withUs() *syscall.SysProcAttr { return nil }
