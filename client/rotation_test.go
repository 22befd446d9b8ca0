package client

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRotationIsAnExactCycle(t *testing.T) {
	virtual(t, func(w *world) {
		var servers []*server
		for i := range 3 {
			servers = append(servers, w.server(fmt.Sprintf("n%d:5625", i), obliging))
		}
		c := w.client("n0:5625,n1:5625,n2:5625")
		time.Sleep(time.Second)
		var locks []*Lock
		for i := range 9 {
			l := w.must(c, fmt.Sprintf("k%d", i))
			locks = append(locks, l)
			if i%2 == 1 { // other requests do not move the cursor
				if err := l.Keep(bg, time.Second); err != nil {
					t.Fatal(err)
				}
				if err := locks[i-1].Release(bg); err != nil {
					t.Fatal(err)
				}
			}
		}
		first := servers[0]
		for i := range 9 {
			s := servers[i%3]
			got := s.seen("A")[i/3].text
			if want := fmt.Sprintf("A k%d 0 0", i); got[:len(want)] != want {
				t.Errorf("acquire %d of %s is %q; want %q", i/3, s.addr, got, want)
			}
		}
		if n := len(first.seen("A")); n != 3 {
			t.Errorf("%d acquires at the first server; want 3", n)
		}
		for _, s := range servers {
			if n := s.live(); n != 1 {
				t.Errorf("%d connections to %s; want 1", n, s.addr)
			}
		}
	})
}

func TestSingleAddressHasTwoConnectionsInTurns(t *testing.T) {
	virtual(t, func(w *world) {
		s := w.server("n0:5625", obliging)
		c := w.client("n0:5625,n0:5625") // twice the same counts once
		time.Sleep(time.Second)
		for i := range 6 {
			w.must(c, fmt.Sprintf("k%d", i))
		}
		var conns []int
		for _, l := range s.seen("A") {
			conns = append(conns, l.conn)
		}
		first := conns[0]
		want := []int{first, 3 - first, first, 3 - first, first, 3 - first}
		if d := cmp.Diff(want, conns); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff([]int64{0, 0}, s.openings()); d != "" {
			t.Error(d)
		}
	})
}
