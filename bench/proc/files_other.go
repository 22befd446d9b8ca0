//go:build !linux && !darwin

package proc

// MaxFiles is how many files a process may have open here, and is false if that
// is not known.
func MaxFiles() (int, bool) { return 0, false }
