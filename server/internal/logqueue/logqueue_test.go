package logqueue

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// reader takes one write for each token, as a pipe does whose reader is slow.
type reader struct {
	tokens chan struct{}
	got    bytes.Buffer
}

func (r *reader) Write(b []byte) (int, error) {
	<-r.tokens
	return r.got.Write(b)
}

func tell(to io.Writer, lost int) { fmt.Fprintf(to, "%d lost\n", lost) }

func write(q *Queue, lines ...string) {
	for _, line := range lines {
		fmt.Fprintf(q, "%s\n", line)
	}
}

func TestAllIsWrittenInOrder(t *testing.T) {
	var out bytes.Buffer
	q := New(&out, 1<<20, tell)
	var want strings.Builder
	for i := range 10_000 {
		write(q, fmt.Sprint(i))
		fmt.Fprintln(&want, i)
	}
	q.Close(time.Minute)
	if out.String() != want.String() || q.Lost() != 0 {
		t.Errorf("%d bytes of %d, %d lines lost", out.Len(), want.Len(), q.Lost())
	}
}

func TestWhoDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{tokens: make(chan struct{}, 100)}
		q := New(r, 10, tell)
		write(q, "a") // is being written
		synctest.Wait()
		write(q, "bbbb", "cccc", "too much", "e") // the last would fit, after a gap
		if lost := q.Lost(); lost != 2 {
			t.Errorf("%d lines lost, want 2", lost)
		}
		synctest.Wait()
		if r.got.Len() != 0 {
			t.Fatalf("written: %q", r.got.String())
		}
		for range 4 {
			r.tokens <- struct{}{}
		}
		synctest.Wait()
		// It flows again, and what comes now is behind the gap.
		write(q, "f")
		r.tokens <- struct{}{}
		synctest.Wait()
		if got, want := r.got.String(), "a\nbbbb\ncccc\n2 lost\nf\n"; got != want {
			t.Errorf("written: %q, want %q", got, want)
		}
		q.Close(0)
	})
}

func TestCloseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{tokens: make(chan struct{}, 100)}
		q := New(r, 100, tell)
		write(q, "a", "b")
		start := time.Now()
		q.Close(time.Second)
		if took := time.Since(start); took != time.Second {
			t.Errorf("it took %v", took)
		}
		write(q, "late")
		r.tokens <- struct{}{}
		r.tokens <- struct{}{}
		q.Close(time.Second)
		if took := time.Since(start); took != time.Second || r.got.String() != "a\nb\n" {
			t.Errorf("after %v: %q", took, r.got.String())
		}
	})
}
