//go:build linux || darwin

package proc

import "syscall"

// MaxFiles is how many files a process may have open here, and is false if that
// is not known. Go programs raise their own limit to it.
func MaxFiles() (int, bool) {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return 0, false
	}
	return int(min(r.Max, 1<<31-1)), true
}
