package node

import (
	"bufio"
	"bytes"
	"context"
	"net"
	"testing"
	"time"
)

// Who was slow once, and then caught up, is served on: the limit on one write
// does not end a later one.
func TestServedOnAfterASlowRead(t *testing.T) {
	last := uint64(0)
	n := New(Config{Tokens: func() (uint64, bool) { last++; return last, true }, WriteTimeout: 200 * time.Millisecond, MaxOutbound: 64 << 20})
	defer n.Shutdown(context.Background())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go n.Serve(l)
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	// More pongs than the kernel takes at once.
	const pings = 60_000
	word := bytes.Repeat([]byte("x"), 250)
	line := append(append([]byte("P "), word...), '\n')
	go nc.Write(bytes.Repeat(line, pings))
	time.Sleep(100 * time.Millisecond)
	nc.SetReadDeadline(time.Now().Add(20 * time.Second))
	r := bufio.NewReader(nc)
	for i := range pings {
		if got, err := r.ReadSlice('\n'); err != nil || !bytes.Equal(got, line) {
			t.Fatalf("answer %d of %d: %.20q, %v", i, pings, got, err)
		}
	}
	time.Sleep(400 * time.Millisecond)
	nc.Write([]byte("P later\n"))
	if got, err := r.ReadString('\n'); got != "P later\n" {
		t.Errorf("got %q, %v", got, err)
	}
}
