package node

import (
	"bufio"
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stile-lock/stile/server/cluster"
)

// A shard whose leases are due may wait for its turn while the process is
// paused. It ends none before the roles have looked at the time.
func TestPausedBeforeItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, last := time.Now(), uint64(0)
		clock := func() time.Duration { return time.Since(start) }
		n := New(Config{
			Tokens: func() (uint64, bool) { last++; return last, true },
			Cluster: &Cluster{
				HoldFor: time.Second, Kick: func() {}, Peer: func(nc net.Conn, _ []byte) { nc.Close() },
				Clock: clock, PauseLimit: 200 * time.Millisecond,
			},
		})
		defer n.Shutdown(context.Background())
		n.Table().SetMode(cluster.Serve, "")
		n.Passed(clock())
		ours, theirs := net.Pipe()
		n.ServeConn(theirs)
		defer ours.Close()
		ours.Write([]byte("A k 0 1\n"))
		if line, err := bufio.NewReader(ours).ReadString('\n'); line != "A k 1 1\n" {
			t.Fatalf("received %q, %v", line, err)
		}

		for range cap(n.advancing) {
			n.advancing <- struct{}{} // other shards are at it
		}
		time.Sleep(900 * time.Millisecond)
		n.Passed(clock()) // the lease ends within the limit from now
		time.Sleep(10 * time.Second)
		for range cap(n.advancing) {
			<-n.advancing
		}
		time.Sleep(100 * time.Millisecond)
		if held := n.Status().Held; held != 1 {
			t.Fatalf("%d keys are held, though the roles have not looked at the time", held)
		}
		n.Passed(clock())
		time.Sleep(100 * time.Millisecond)
		if held := n.Status().Held; held != 0 {
			t.Errorf("%d keys are held after their leases", held)
		}
	})
}
