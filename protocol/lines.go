package protocol

import (
	"bytes"
	"errors"

	"github.com/stile-lock/stile/protocol/invariants"
)

// ErrLineTooLong is returned by [Lines.Next] once 1,024 bytes have arrived
// without an LF. A server answers `E ? ? bad-request` and closes; a client
// resets the connection (SPEC.md 5.1 and 13.13).
var ErrLineTooLong = errors.New("protocol: line longer than 1024 bytes")

const (
	firstBuffer = 2 * MaxLine
	lastBuffer  = 64 << 10
)

// Lines cuts a stream of bytes into lines (SPEC.md 2.2). Read into the slice that
// [Lines.Free] returns, tell [Lines.Fed] how many bytes came, then call
// [Lines.Next] until it has no more. The zero value is ready to use.
//
// The buffer starts at 2 KiB and doubles up to 64 KiB while reads fill it, so
// an idle connection stays small and a busy one needs few system calls.
type Lines struct {
	buf  []byte
	r, w int  // buf[r:w] is not yet cut
	full bool // the last read filled all the space there was
}

// Free returns the space to read into, at least one line's worth. It makes
// every line that Next returned before invalid.
func (l *Lines) Free() []byte {
	if l.r == l.w {
		l.r, l.w = 0, 0
	} else if l.r > 0 {
		l.w = copy(l.buf, l.buf[l.r:l.w])
		l.r = 0
	}
	if invariants.Enabled {
		invariants.Scribble(l.buf[l.w:])
	}
	if size := len(l.buf); size == 0 {
		l.buf = make([]byte, firstBuffer)
	} else if l.full && size < lastBuffer {
		grown := make([]byte, 2*size)
		copy(grown, l.buf[:l.w])
		if invariants.Enabled {
			invariants.Scribble(l.buf)
		}
		l.buf = grown
	}
	l.full = false
	return l.buf[l.w:]
}

// Fed says that n bytes were read into the slice of the last Free.
func (l *Lines) Fed(n int) {
	if n < 0 || n > len(l.buf)-l.w {
		panic("protocol: Lines.Fed with more bytes than were free")
	}
	l.full = n > 0 && n == len(l.buf)-l.w
	l.w += n
}

// Rest returns the bytes that are not yet cut, valid until the next call of
// Next or Free.
func (l *Lines) Rest() []byte { return l.buf[l.r:l.w] }

// Next returns the next line without its LF and without one CR before it.
// Empty lines are passed over. ok is false when no whole line is left.
// The error is [ErrLineTooLong] or nil; after an error the stream cannot be
// cut any further, and every later call returns the same error.
//
// The line is valid until the next call of Next or Free.
func (l *Lines) Next() (line []byte, ok bool, err error) {
	for {
		rest := l.buf[l.r:l.w]
		i := bytes.IndexByte(rest[:min(len(rest), MaxLine)], '\n')
		if i < 0 {
			if len(rest) >= MaxLine {
				return nil, false, ErrLineTooLong
			}
			return nil, false, nil
		}
		// A line that a caller kept beyond its time would change under it
		// sooner or later; test builds make it sooner.
		if invariants.Enabled {
			invariants.Scribble(l.buf[max(0, l.r-MaxLine):l.r])
		}
		l.r += i + 1
		line = rest[:i]
		if i > 0 && line[i-1] == '\r' {
			line = line[:i-1]
		}
		if len(line) > 0 {
			return line, true, nil
		}
	}
}

// Pending is the number of bytes that were fed and belong to no line yet. At
// the end of the stream they are dropped, never executed.
func (l *Lines) Pending() int { return l.w - l.r }
