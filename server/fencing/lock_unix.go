//go:build unix

package fencing

import (
	"os"
	"syscall"
)

// lockExclusive takes a lock that ends with the process, however it ends.
func lockExclusive(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
