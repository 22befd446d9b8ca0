package node_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"testing"

	"github.com/stile-lock/stile/protocol/invariants"
	"github.com/stile-lock/stile/server/node"
)

// TestAllocsOfAWholeNode counts what the whole node allocates for an acquire
// and a release in steady state, over real connections: nothing.
func TestAllocsOfAWholeNode(t *testing.T) {
	if raceEnabled || invariants.Enabled {
		t.Skip("a checked build allocates")
	}
	next := uint64(100_000_000) // nine digits all the time
	n := node.New(node.Config{Tokens: func() (uint64, bool) { next++; return next, true }})
	defer n.Shutdown(context.Background())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go n.Serve(l)
	a, b := tcp(t, l), tcp(t, l)

	for _, tt := range []struct {
		name string
		step func()
	}{
		{"uncontended", func() {
			a.write("A some/key 0 30\n")
			a.releaseOf("some/key")
		}},
		{"hand-over", func() {
			a.write("A some/key 0 30\n")
			a.read()
			b.write("A some/key 0 30\n")
			// A pong says that b stands in line.
			b.write("P x\n")
			b.read()
			a.sendRelease("some/key")
			a.read()
			b.releaseOf("some/key")
		}},
		{"keep", func() {
			a.write("A some/key 0 30\n")
			a.read()
			a.line = append(append(append(a.line[:0], "K some/key "...), a.token...), " 30\n"...)
			a.send()
			a.read()
			a.sendRelease("some/key")
			a.read()
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range 2000 {
				tt.step()
			}
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			const rounds = 5000
			for range rounds {
				tt.step()
			}
			runtime.ReadMemStats(&after)
			// The runtime itself allocates now and then.
			if per := float64(after.Mallocs-before.Mallocs) / rounds; per > 0.02 {
				t.Errorf("%.3f allocations a round", per)
			}
		})
	}
}

// wire is a client's connection that allocates nothing.
type wire struct {
	t     *testing.T
	nc    net.Conn
	in    [4096]byte
	token []byte // of the last grant read
	line  []byte
}

func tcp(t *testing.T, l net.Listener) *wire {
	t.Helper()
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	return &wire{t: t, nc: nc}
}

func (w *wire) write(line string) {
	w.line = append(w.line[:0], line...)
	w.send()
}

func (w *wire) send() {
	if _, err := w.nc.Write(w.line); err != nil {
		w.t.Fatal(err)
	}
}

// read reads one line, and keeps the token if it is a grant.
func (w *wire) read() {
	got := 0
	for got == 0 || w.in[got-1] != '\n' {
		n, err := w.nc.Read(w.in[got:])
		if err != nil && err != io.EOF || n == 0 {
			w.t.Fatal(fmt.Errorf("reading: %w", err))
		}
		got += n
	}
	if line := w.in[:got]; line[0] == 'A' {
		line = line[len("A some/key "):]
		w.token = append(w.token[:0], line[:bytes.IndexByte(line, ' ')]...)
	} else if line[0] == 'E' {
		w.t.Fatalf("received %q", line)
	}
}

func (w *wire) sendRelease(key string) {
	w.line = append(append(append(w.line[:0], "R "...), key...), ' ')
	w.line = append(append(w.line, w.token...), '\n')
	w.send()
}

// releaseOf reads a grant and gives it back.
func (w *wire) releaseOf(key string) {
	w.read()
	w.sendRelease(key)
	w.read()
}
