//go:build unix

package cli

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// isClosed reports whether the program was started with this file closed. Go's
// runtime has opened /dev/null in its place then, for reading and writing; a
// shell's >/dev/null is for writing only. Programs that start others may open it
// for both, too: nobody reads what is written there either way.
func isClosed(f *os.File) bool {
	is, err1 := f.Stat()
	null, err2 := os.Stat(os.DevNull)
	flags, err3 := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err1 != nil || err2 != nil || err3 != nil || is.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	a, ok1 := is.Sys().(*syscall.Stat_t)
	b, ok2 := null.Sys().(*syscall.Stat_t)
	return ok1 && ok2 && a.Rdev == b.Rdev && flags&unix.O_ACCMODE == unix.O_RDWR
}
