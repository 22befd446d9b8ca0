//go:build unix

package node

import "syscall"

// tryWrite is a write that does not block. It lives in the connection, so
// that a write allocates nothing; one goroutine at a time uses it.
type tryWrite struct {
	f   func(fd uintptr) bool
	buf []byte
	n   int
	err error
}

// do writes what the kernel takes at once. n < len(b) with a nil error: it is
// full, or raw is nil.
func (w *tryWrite) do(raw syscall.RawConn, b []byte) (n int, err error) {
	if raw == nil {
		return 0, nil
	}
	if w.f == nil {
		w.f = w.write
	}
	w.buf, w.n, w.err = b, 0, nil
	err = raw.Write(w.f)
	w.buf = nil
	if err == nil {
		err = w.err
	}
	return w.n, err
}

func (w *tryWrite) write(fd uintptr) bool {
	for w.n < len(w.buf) {
		n, err := syscall.Write(int(fd), w.buf[w.n:])
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			return true
		case err != nil:
			w.err = err
			return true
		}
		w.n += n
	}
	return true // never wait here: another will, who holds up nobody
}
