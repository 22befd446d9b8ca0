package node

import (
	"bufio"
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// A client counts its lease from the sending of a request that was answered
// before the grant (SPEC.md 13.11). A reader that was held up since it took
// the time may grant after a request that came later was answered: the lease
// in the line must be what is left since that request (SPEC.md 3.3).
func TestGrantOfAReaderThatWasHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := uint64(0)
		n := New(Config{Tokens: func() (uint64, bool) { next++; return next, true }})
		defer n.Shutdown(context.Background())
		dial := func() (net.Conn, func() string) {
			ours, theirs := net.Pipe()
			n.ServeConn(theirs)
			in := bufio.NewReader(ours)
			return ours, func() string {
				line, err := in.ReadString('\n')
				if err != nil {
					t.Fatal(err)
				}
				return line
			}
		}
		holder, heldLine := dial()
		defer holder.Close()
		holder.Write([]byte("A k 0 60\n"))
		heldLine()
		waiter, waiterLine := dial()
		defer waiter.Close()
		waiter.Write([]byte("A k 0 30\n"))
		time.Sleep(time.Second)
		release := n.now() // and here the holder's reader is held up
		time.Sleep(2500 * time.Millisecond)
		waiter.Write([]byte("P ping\n"))
		if got := waiterLine(); got != "P ping\n" {
			t.Fatalf("received %q", got)
		}
		var tc touched
		sh := n.shardOfKey([]byte("k"))
		sh.lock(&tc)
		sh.space.Release(release, []byte("k"), 1)
		sh.finish()
		tc.flush()
		if got, want := waiterLine(), "A k 2 27.5\n"; got != want {
			t.Errorf("received %q, want %q: the client counts 30 s from its ping, and the server's lease ends sooner", got, want)
		}
	})
}
