package cli

import (
	"errors"
	"io"
	"os"
	"runtime"
	"syscall"
)

// output is the standard output. It remembers the first write that failed, so
// that no command can be taken for one that has said what it had to say.
type output struct {
	to  io.Writer
	err error
}

func (o *output) Write(b []byte) (int, error) {
	n, err := o.to.Write(b)
	if err != nil && o.err == nil {
		o.err = err
	}
	return n, err
}

// fileOf is the file that something writes to, nil if that is none.
func fileOf(w io.Writer) *os.File {
	if o, ok := w.(*output); ok {
		w = o.to
	}
	f, _ := w.(*os.File)
	return f
}

// nobodyReads reports whether a write failed because the reader of a pipe has
// seen enough.
func nobodyReads(err error) bool {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return false
	}
	const brokenPipe, noData = 109, 232 // of Windows
	return errno == syscall.EPIPE || runtime.GOOS == "windows" && (errno == brokenPipe || errno == noData)
}
