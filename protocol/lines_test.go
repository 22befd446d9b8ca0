package protocol

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stile-lock/stile/protocol/invariants"
)

// A line that is too long is refused while it arrives: the buffer never holds
// more than it did for lines that fit, however much comes.
func TestTooLongIsSeenAtOnce(t *testing.T) {
	var l Lines
	for i := range MaxLine {
		free := l.Free()
		free[0] = 'x'
		l.Fed(1)
		_, ok, err := l.Next()
		if ok || (err != nil) != (i == MaxLine-1) {
			t.Fatalf("after %d bytes: %v, %v", i+1, ok, err)
		}
	}
	if len(l.buf) > firstBuffer {
		t.Errorf("buffer of %d bytes", len(l.buf))
	}
}

func TestBufferGrowsOnlyWhileReadsFillIt(t *testing.T) {
	var l Lines
	drain := func() {
		for {
			if _, ok, err := l.Next(); err != nil {
				t.Fatal(err)
			} else if !ok {
				return
			}
		}
	}
	fill := func(n int) {
		free := l.Free()
		n = min(n, len(free))
		for i := range n {
			free[i] = '\n'
		}
		l.Fed(n)
		drain()
	}
	for range 100 {
		fill(firstBuffer - 1)
	}
	if len(l.buf) != firstBuffer {
		t.Errorf("buffer of %d bytes after reads that left room, want %d", len(l.buf), firstBuffer)
	}
	for range 20 {
		fill(1 << 20)
	}
	if len(l.buf) != lastBuffer {
		t.Errorf("buffer of %d bytes after reads that filled it, want %d", len(l.buf), lastBuffer)
	}
	// There is always room for the rest of a line.
	for n := range MaxLine - 1 {
		var l Lines
		copy(l.Free(), bytes.Repeat([]byte("x"), n))
		l.Fed(n)
		if _, ok, err := l.Next(); ok || err != nil {
			t.Fatal(n, ok, err)
		}
		if free := len(l.Free()); free < MaxLine {
			t.Fatalf("%d bytes pending: only %d free", n, free)
		}
	}
}

func TestFedPanics(t *testing.T) {
	for _, n := range []int{-1, firstBuffer + 1} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			var l Lines
			l.Free()
			l.Fed(n)
		})
	}
}

// In test builds a line that is kept beyond its time is overwritten, so that
// whoever keeps one fails at once.
func TestKeptLinesAreScribbledOver(t *testing.T) {
	if !invariants.Enabled {
		t.Skip("needs -tags invariants")
	}
	var l Lines
	feed := func(s string) {
		l.Fed(copy(l.Free(), s))
	}
	next := func() []byte {
		line, ok, err := l.Next()
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		return line
	}
	feed("P first\nP second\n")
	first := next()
	if string(first) != "P first" {
		t.Fatalf("%q", first)
	}
	second := next()
	if string(first) == "P first" {
		t.Error("a line outlives the next call of Next")
	}
	if string(second) != "P second" {
		t.Fatalf("%q", second)
	}
	l.Free()
	if string(second) == "P second" {
		t.Error("a line outlives the next call of Free")
	}
}
